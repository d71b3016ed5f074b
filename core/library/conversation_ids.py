"""Conversations that can be changed: ours, and not the sessions of other agents."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from core.errors import UsageError
from core.import_export.agents.names import AGENTS

if TYPE_CHECKING:
    from pathlib import Path

    from core.store.reader import EventReader


async def own_id(store: EventReader, text: str) -> str:
    """The id of the conversation of ours whose id begins with `text`, or the newest one for `last`.

    Raises UsageError if there is none, or several; the message for a session of another agent says whose it is.
    """
    try:
        return await store.listing.resolve(text)
    except UsageError:
        if not (title := await asyncio.to_thread(_agent_of, store.home, text)):
            raise
    raise UsageError(
        f"{text} is a session of {title}, which Handloom only reads. To continue it here, fork it in the list of "
        "conversations."
    )


def _agent_of(home: Path, text: str) -> str:
    """The title of the agent whose session has an id that begins with `text`; empty if there is none."""
    from core.library.records import records_of

    found = (record.session.agent for id, record in records_of(home).items() if len(text) >= 4 and id.startswith(text))
    agent = next(found, "")
    return AGENTS[agent].title if agent in AGENTS else agent
