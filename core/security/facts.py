"""What an action would do, as far as reading it tells. Pure, but for what the names of paths say.

Reading a shell line is never complete: what cannot be told is `opaque`, and whoever decides treats it as the worst.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from dataclasses import dataclass
from urllib.parse import urlsplit

from core.events import (
    Action,
    ActionSecurityRisk,
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
)


@dataclass(frozen=True, slots=True)
class Facts:
    """What an action would do, as far as reading it tells."""

    risk: ActionSecurityRisk
    reasons: tuple[str, ...] = ()
    """Why, one short sentence each, for the user."""
    commands: tuple[str, ...] = ()
    """Each simple command, words joined by one space; of a wrapper such as sudo also what it wraps."""
    reads: tuple[str, ...] = ()
    """Paths, absolute where that can be told."""
    writes: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    """Whom it would call."""
    opaque: bool = False
    """Part of it cannot be told by reading."""
    sends: bool = False
    """Whether it could carry data out of the sandbox."""


_UNTELLABLE = re.compile(r"\$\(|`|<\(|>\(|<<|\$\{|\$[A-Za-z_]")
_PROGRAMS_OF_PROGRAMS = frozenset({"eval", "source", ".", "xargs", "sh", "bash", "zsh", "dash"})
_WRAPPERS = frozenset({"sudo", "env", "nice", "nohup", "time", "command", "exec"})
_ENDS = frozenset(";|&\n()")
_URL = re.compile(r"https?://[^\s'\"()<>]+")


def facts_of(action: Action, *, workspace: str) -> Facts:
    """Read an action. `workspace` is the folder in which it is carried out, as the sandbox calls it."""
    risk = getattr(action, "security_risk", ActionSecurityRisk.UNKNOWN)
    match action:
        case CmdRunAction(is_input=True):
            return Facts(risk, opaque=True)
        case CmdRunAction(command=command):
            return _of_line(command, risk, workspace)
        case FileReadAction(path=path):
            low = ActionSecurityRisk.LOW if risk is ActionSecurityRisk.UNKNOWN else risk
            return Facts(low, reads=(_absolute(path, workspace),))
        case FileEditAction(command="view", path=path):
            low = ActionSecurityRisk.LOW if risk is ActionSecurityRisk.UNKNOWN else risk
            return Facts(low, reads=(_absolute(path, workspace),))
        case FileWriteAction(path=path) | FileEditAction(path=path):
            return Facts(risk, writes=(_absolute(path, workspace),))
        case BrowseURLAction(url=url):
            return Facts(risk, hosts=_hosts(url), sends=True)
        case BrowseInteractiveAction(browser_actions=code):
            return Facts(risk, hosts=_hosts(code), opaque=True, sends=True)
    return Facts(risk)


def _absolute(path: str, workspace: str) -> str:
    return path if path.startswith(("/", "~", "$")) else posixpath.normpath(posixpath.join(workspace, path))


def _hosts(text: str) -> tuple[str, ...]:
    found = (urlsplit(url).hostname for url in _URL.findall(text))
    return tuple(dict.fromkeys(host for host in found if host))


def _of_line(line: str, risk: ActionSecurityRisk, workspace: str) -> Facts:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&\n()<>")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        words = list(lexer)
    except ValueError:
        return Facts(risk, (), (" ".join(line.split()),), hosts=_hosts(line), opaque=True)
    commands: list[list[str]] = [[]]
    writes: list[str] = []
    reads: list[str] = []
    redirects = ""
    for word in words:
        if redirects:
            (reads if redirects.startswith("<") else writes).append(_absolute(word, workspace))
            redirects = ""
        elif set(word) & {"<", ">"} and set(word) <= {"<", ">", "&"}:
            redirects = word
        elif set(word) <= _ENDS:
            commands.append([])
        else:
            commands[-1].append(word)
    simple = [command for command in commands if command]
    simple += [command[1:] for command in simple if command[0] in _WRAPPERS and command[1:]]
    opaque = bool(_UNTELLABLE.search(line)) or any(command[0] in _PROGRAMS_OF_PROGRAMS for command in simple)
    for command in simple:
        looks_like_path = (word for word in command[1:] if "/" in word and "://" not in word)
        reads += [_absolute(word, workspace) for word in looks_like_path if not word.startswith("-")]
    told = tuple(" ".join(command) for command in simple)
    return Facts(risk, (), told, tuple(reads), tuple(writes), _hosts(line), opaque)
