"""Lending: an executor that gives each command and cell the secrets that it names, and no other action any.

Implements core.protocols.Executor with another one. A value is known to the masker before it is lent. Where the secrets
cannot be read, the command goes without, and says so below its output.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from core.errors import ConfigurationError
from core.events import Action, CmdOutputObservation, CmdRunAction, IPythonRunCellAction, Observation
from core.protocols import Executor, FrameSink
from core.secrets import Masker
from core.secrets.command_secrets import checked, lending
from core.secrets.vault import Vault

NOT_LENT = "\n[Its secrets could not be had: {why}]"


class Lending:
    """Of one conversation, which works in `workspace`."""

    def __init__(self, executor: Executor, vault: Vault, masker: Masker, workspace: str, conversation_id: str) -> None:
        self._executor = executor
        self._vault = vault
        self._masker = masker
        self._workspace = workspace
        self._conversation_id = conversation_id

    async def execute(self, action: Action, action_id: int, on_frame: FrameSink) -> Observation:
        """As whoever carries it out. Raises RuntimeUnavailableError."""
        values, why = await self._named_in(_text_of(action))
        self._masker.add(values.values())
        with lending(values):
            observation = await self._executor.execute(action, action_id, on_frame)
        return _noted(observation, NOT_LENT.format(why=why)) if why else observation

    async def _named_in(self, text: str) -> tuple[Mapping[str, str], str]:
        """What the text names, and why it cannot be had where that is so."""
        if "$" not in text and "env" not in text.lower():
            return {}, ""
        try:
            found = self._vault.named_in
            return checked(await asyncio.to_thread(found, text, self._workspace, self._conversation_id)), ""
        except (ConfigurationError, ValueError) as error:
            return {}, str(error)


def _text_of(action: Action) -> str:
    match action:
        case CmdRunAction(is_input=False):
            return action.command
        case IPythonRunCellAction():
            return action.code
    return ""


def _noted(observation: Observation, note: str) -> Observation:
    if isinstance(observation, CmdOutputObservation):
        metadata = observation.metadata.model_copy(update={"suffix": observation.metadata.suffix + note})
        return observation.model_copy(update={"metadata": metadata})
    return observation.model_copy(update={"content": observation.content + note})
