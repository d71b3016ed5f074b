"""Secrets on their way to one command: which it names, and the values that go with it.

The values go beside the action, in the context of the task that carries it out, so nothing that stores, prints or
compares actions ever has them. A client puts them into a field of its own of the request; a server takes them out and
has them in the context of the task that runs the command. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

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

_LENT: ContextVar[Mapping[str, str]] = ContextVar("secrets that are lent to the action", default={})  # noqa: B039


def is_usable(name: str) -> bool:
    """Whether a secret may be called so: a variable's name, and none that shells and programs obey."""
    return _NAME.fullmatch(name) is not None and _OURS.fullmatch(name) is None


def named(text: str, names: Collection[str]) -> list[str]:
    """Which of these secrets a command or cell names: `$NAME`, `${NAME}`, `os.environ["NAME"]`, `getenv("NAME")`."""
    if not names:
        return []
    found = {match["shell"] or match["program"] for match in _REFERENCE.finditer(text)}
    return sorted(found.intersection(names))


def lent() -> Mapping[str, str]:
    """What is lent to the action that this task carries out, by name."""
    return _LENT.get()


def checked(values: Mapping[str, str]) -> Mapping[str, str]:
    """The same. Raises ValueError for what no command can be lent; its text says nothing of the values."""
    if not all(is_usable(name) for name in values) or any("\0" in value for value in values.values()):
        raise ValueError("a secret has a name that cannot be used, or a value with a zero in it")
    if len(values) > MAX_NAMES:
        raise ValueError(f"one command may be lent {MAX_NAMES} secrets")
    if sum(len(value.encode("utf-8", "replace")) + 1 for value in values.values()) > MAX_BYTES:
        raise ValueError(f"the secrets of one command may have {MAX_BYTES} bytes in all")
    return values


@contextmanager
def lending(values: Mapping[str, str]) -> Iterator[None]:
    """Lend these to what is carried out meanwhile. Raises ValueError as `checked`."""
    token = _LENT.set(dict(checked(values)))
    try:
        yield
    finally:
        _LENT.reset(token)
