"""What a conversation forgets and recalls: who sums up for it, and which other conversations it may look at.

The model of the settings sums up, else the conversation's own. A scripted model plays its turns and sums up nothing, so
it is asked only where the settings name it. Used by the conversation manager.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from core.llm.absent import AGAIN
from core.llm.models import LLMRegistry, model_for
from core.llm.registry import DEMO
from core.memory.condensers.making import make, room_of
from core.memory.condensing import Condensing
from core.memory.past import Past
from core.memory.settings import MemorySettings
from core.ports import LLM
from core.settings.config import Settings
from core.store.event_store import EventStore
from core.store.listing import ConversationInfo


def condensing_of(llms: LLMRegistry, settings: Settings, workspace: str) -> Callable[[LLM], Condensing]:
    """What shortens the history of a conversation in a folder, to be made for the agent's own model."""
    name = model_for("summary", "", settings.llm)
    condenser, room = make(settings.condenser), room_of(settings.condenser)

    async def make_llm() -> LLM:
        return await asyncio.to_thread(llms.alone, name, workspace, settings.llm, settings.models)

    def made(llm: LLM) -> Condensing:
        if name and name != llm.name:
            return Condensing(condenser, room, make_llm=make_llm)
        named = settings.models.get(llm.name)
        plays = (named.model if named is not None else llm.name).startswith((DEMO, AGAIN, "scripted:"))
        return Condensing(condenser, room, own=None if plays and not name else llm)

    return made


def past_of(store: EventStore, info: ConversationInfo, settings: MemorySettings) -> Past | None:
    """The other conversations that this one may look at; None for none, and for one that has no model to ask."""
    if settings.recall == "off" or info.model in (DEMO, AGAIN):
        return None
    return Past(store, info.id, info.workspace if settings.recall == "project" else "")
