"""What one conversation takes from others and from what the user wants remembered. Used by AgentSession."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from core.agent.tools.past import NAME
from core.errors import ConfigurationError, StoreError
from core.events import (
    Action,
    ErrorObservation,
    MCPAction,
    MCPObservation,
    NullObservation,
    Observation,
    RecallObservation,
    RecallType,
)
from core.memory.past import Past
from core.memory.pins import Pins, told
from core.ports import Executor, FrameSink
from core.secrets import Masker

log = logging.getLogger(__name__)

FAILED = "MEMORY$FAILED"


class Recalling:
    """Actions carried out by those who can: a look into other conversations by the past, all else by a runtime.

    Implements core.ports.Executor.
    """

    def __init__(self, runtime: Executor, past: Past) -> None:
        self._runtime, self._past = runtime, past

    async def execute(self, action: Action, action_id: int, on_frame: FrameSink) -> Observation:
        """As whoever carries it out. Raises RuntimeUnavailableError."""
        if not is_recall(action):
            return await self._runtime.execute(action, action_id, on_frame)
        assert isinstance(action, MCPAction)
        try:
            text = await self._past.recall(str(action.arguments.get("query", "")))
        except StoreError as error:
            return ErrorObservation(content=str(error), error_id=FAILED)
        return MCPObservation(name=action.name, arguments=action.arguments, content=text)


def is_recall(action: object) -> bool:
    """Whether an action is a look into other conversations, which needs no sandbox."""
    return isinstance(action, MCPAction) and action.name == NAME


async def with_pins(
    found: RecallObservation | NullObservation, home: Path, workspace: str, masker: Masker
) -> RecallObservation | NullObservation:
    """What memory answered, with what the user wants remembered where that is the beginning of a conversation."""
    if not isinstance(found, RecallObservation) or found.recall_type is not RecallType.WORKSPACE_CONTEXT:
        return found
    try:
        text = told(await asyncio.to_thread(Pins(home).of, workspace))
    except ConfigurationError as error:
        log.warning("nothing is remembered: %s", error)
        return found
    if not text:
        return found
    said = "\n".join(filter(None, [found.conversation_instructions, masker.mask_text(text)]))
    return found.model_copy(update={"conversation_instructions": said})
