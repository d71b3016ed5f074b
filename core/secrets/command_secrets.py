"""Secrets of one command: which it names, and how their values get to it.

The values are in the context of the task that runs the action and never in the action, so nothing that stores, prints
or compares actions has them. The client of the action server sends them in a separate field of the request.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from core.errors import ConfigurationError
from core.events import Action, CmdOutputObservation, CmdRunAction, IPythonRunCellAction, Observation

if TYPE_CHECKING:
    from core.secrets.redactor import Redactor
    from core.secrets.vault import Vault

MAX_BYTES = 60_000
"""Of all values of one command: what a pipe takes at once."""
MAX_NAMES = 32
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_OURS = re.compile(
    r"(?i)(?:BASH|LC_|LD_|DYLD_|PYTHON|GIT_|HANDLOOM|__HANDLOOM|COMP_|READLINE|HIST|SHELL)\w*"
    r"|PATH|HOME|USER|LOGNAME|PWD|OLDPWD|IFS|ENV|PS[0-4]|PROMPT_COMMAND|TERM|LANG|UID|EUID|PPID|RANDOM|SECONDS|LINENO"
    r"|OPTARG|OPTIND|OPTERR|DIRSTACK|FUNCNAME|PIPESTATUS|GROUPS|HOSTNAME|HOSTTYPE|OSTYPE|MACHTYPE|SHLVL|PAGER|EDITOR"
    r"|VISUAL|TMPDIR|_|CDPATH|GLOBIGNORE|EXECIGNORE|NODE_OPTIONS|PERL5\w*|RUBY\w*"
)
_REFERENCE = re.compile(
    r"\$\{?[#!]?(?P<shell>[A-Za-z_]\w*)"
    r"|(?:environb?|getenvb?|env|ENV|printenv)\b[^A-Za-z_\n]{0,8}(?:(?:get|pop|fetch)\b[^A-Za-z_\n]{0,8})?"
    r"(?P<program>[A-Za-z_]\w*)"
)

_INJECTED: ContextVar[Mapping[str, str]] = ContextVar("secrets of the running action", default={})  # noqa: B039


def is_usable(name: str) -> bool:
    """Whether a secret can have this name: that of a variable which no shell and no program treats specially."""
    return _NAME.fullmatch(name) is not None and _OURS.fullmatch(name) is None


def referenced(text: str, names: Collection[str]) -> list[str]:
    """Which of these secrets a command or cell names: `$NAME`, `${NAME}`, `os.environ["NAME"]`, `getenv("NAME")`."""
    if not names:
        return []
    found = {match["shell"] or match["program"] for match in _REFERENCE.finditer(text)}
    return sorted(found.intersection(names))


def injected() -> Mapping[str, str]:
    """The secrets of the action that this task carries out, by name."""
    return _INJECTED.get()


def validated(values: Mapping[str, str]) -> Mapping[str, str]:
    """Return the values if a command can have them. Raises ValueError, whose text has no value in it."""
    if not all(is_usable(name) for name in values) or any("\0" in value for value in values.values()):
        raise ValueError("a secret has an unusable name, or a NUL in its value")
    if len(values) > MAX_NAMES:
        raise ValueError(f"one command can have at most {MAX_NAMES} secrets")
    if sum(len(value.encode("utf-8", "replace")) + 1 for value in values.values()) > MAX_BYTES:
        raise ValueError(f"the secrets of one command can have at most {MAX_BYTES} bytes in total")
    return values


@contextmanager
def injecting(values: Mapping[str, str]) -> Iterator[None]:
    """Inject these secrets into the action that is carried out meanwhile. Raises ValueError as `validated` does."""
    token = _INJECTED.set(dict(validated(values)))
    try:
        yield
    finally:
        _INJECTED.reset(token)


NOT_INJECTED = "\n[Its secrets could not be read: {why}]"


class SecretInjection:
    """Gives each command and cell of one conversation the secrets that it names, and no other action any.

    A value is known to the redactor before a command gets it. If the secrets cannot be read, the command runs without
    them and its observation says why.
    """

    def __init__(self, vault: Vault, redactor: Redactor, workspace: str, conversation_id: str) -> None:
        self._vault = vault
        self._redactor = redactor
        self._workspace = workspace
        self._conversation_id = conversation_id

    async def around(self, action: Action, work: Callable[[], Awaitable[Observation]]) -> Observation:
        """Carry out the action by `work`, with the secrets that it names."""
        values, why = await self._secrets_of(_text_of(action))
        self._redactor.add(values.values())
        with injecting(values):
            observation = await work()
        return _noted(observation, NOT_INJECTED.format(why=why)) if why else observation

    async def _secrets_of(self, text: str) -> tuple[Mapping[str, str], str]:
        """The secrets that a text names, and the reason if they cannot be read."""
        if "$" not in text and "env" not in text.lower():
            return {}, ""
        try:
            found = self._vault.named_in
            return validated(await asyncio.to_thread(found, text, self._workspace, self._conversation_id)), ""
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
