"""The agent system: one durable event stream for each conversation, and everything that reads and writes it.

Knows no screen and no sandbox. The workspace and the command line use this facade; its names are loaded when they are
first used (PEP 562), so that importing `core` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from core.conversations.conversation_manager import ConversationManager
    from core.session.agent_session import AgentSession
    from core.store.conversations import ConversationInfo
    from core.store.event_store import EventStore
    from core.store.reader import EventFilter
    from core.stream import EventStream, EventStreamSubscriber

_PLACES = {
    "AgentSession": "core.session.agent_session",
    "ConversationInfo": "core.store.event_store",
    "ConversationManager": "core.conversations.conversation_manager",
    "EventFilter": "core.store.event_store",
    "EventStore": "core.store.event_store",
    "EventStream": "core.stream",
    "EventStreamSubscriber": "core.stream",
}

__all__ = [
    "AgentSession",
    "ConversationInfo",
    "ConversationManager",
    "EventFilter",
    "EventStore",
    "EventStream",
    "EventStreamSubscriber",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"core has no {name!r}")
    return getattr(import_module(_PLACES[name]), name)
