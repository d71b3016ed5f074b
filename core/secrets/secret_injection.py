"""Gives each command and cell the secrets that it names, and no other action any.

A value is known to the masker before a command gets it. If the secrets cannot be read, the command runs without them
and its observation says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from core.errors import ConfigurationError
from core.events import Action, CmdOutputObservation, CmdRunAction, IPythonRunCellAction, Observation
from core.secrets import Masker
from core.secrets.command_secrets import checked, lending
from core.secrets.vault import Vault

NOT_INJECTED = "\n[Its secrets could not be had: {why}]"


class SecretInjection:
    """The secrets for the commands of one conversation, which works in `workspace`."""

    def __init__(self, vault: Vault, masker: Masker, workspace: str, conversation_id: str) -> None:
        self._vault = vault
        self._masker = masker
        self._workspace = workspace
        self._conversation_id = conversation_id

    async def around(self, action: Action, work: Callable[[], Awaitable[Observation]]) -> Observation:
        """Carry out the action by `work`, with the secrets that it names."""
        values, why = await self._named_in(_text_of(action))
        self._masker.add(values.values())
        with lending(values):
            observation = await work()
        return _noted(observation, NOT_INJECTED.format(why=why)) if why else observation

    async def _named_in(self, text: str) -> tuple[Mapping[str, str], str]:
        """The secrets that a text names, and the reason if they cannot be read."""
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
