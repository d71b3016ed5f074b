"""Suggested patterns for "always allow", and the check of patterns that the user types.

A suggestion covers the action and useful variations of it: `git push origin` suggests `git push *`. What runs other
programs or is of high risk is suggested literally.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from core.events import Action, ActionSecurityRisk
from core.globs import escaped
from core.security.confirmation import TAINT
from core.security.facts import Facts
from core.security.patterns import (
    FOREIGN,
    Part,
    Pattern,
    PatternError,
    WorkFolders,
    is_autorun_file,
    is_inside,
    parse_all,
    parts_of,
    uncovered,
)

_WITH_VERBS = frozenset(
    {"git", "npm", "pnpm", "yarn", "cargo", "go", "uv", "pip", "poetry", "make", "just", "docker", "kubectl", "gh"}
)
"""Programs with subcommands."""
_RUNS_ANYTHING = frozenset(
    {"sh", "bash", "zsh", "dash", "fish", "env", "sudo", "xargs", "eval", "exec", "ssh", "find", "nohup", "timeout"}
    | {"python", "python3", "node", "perl", "ruby", "npx", "uvx", "docker", "make", "awk"}
)
"""Programs that run other code."""
_VERB = re.compile(r"[a-z][a-z0-9:_-]*")
MAX_PATTERNS = 4
MAX_PROPOSAL_CHARS = 400
_RUN_VERBS = frozenset({"run", "exec", "x", "dlx"})


@dataclass(frozen=True, slots=True)
class Reach:
    """What a pattern would cover as a permission. Texts are untrusted."""

    patterns: tuple[Pattern, ...] = ()
    problem: str = ""
    """Why the pattern is invalid; empty if it is valid."""
    uncovered: tuple[str, ...] = ()
    """Parts of the action that it would not cover; if there are any, it must not be granted."""
    broad: tuple[str, ...] = ()
    """The patterns that allow almost anything."""

    @property
    def is_usable(self) -> bool:
        """Whether it is valid and covers the action."""
        return bool(self.patterns) and not self.problem and not self.uncovered


def proposal(action: Action, facts: Facts, folders: WorkFolders) -> str:
    """The patterns that would allow an action and similar ones, separated by spaces.

    Empty if part of the action is not understood, or if the patterns would be too many or too long to review.
    """
    parts = parts_of(action, facts, folders)
    if any(part.text is None for part in parts):
        return ""
    is_risky = facts.risk is ActionSecurityRisk.HIGH
    patterns = tuple(dict.fromkeys(str(_for(part, folders, is_exact=is_risky)) for part in parts))
    text = " ".join(patterns)
    is_one_line = len(text.splitlines()) == 1  # it is shown in one row, and edited in one line
    return text if is_one_line and len(patterns) <= MAX_PATTERNS and len(text) <= MAX_PROPOSAL_CHARS else ""


def _for(part: Part, folders: WorkFolders, *, is_exact: bool) -> Pattern:
    tool, text = part.tool, part.text or ""
    is_exact = is_exact or (tool == "write" and is_autorun_file(text))
    match tool:
        case "bash":
            return Pattern("bash", escaped(text) if is_exact else _for_command(text))
        case "read" | "write":
            path = posixpath.normpath(posixpath.join(folders.workspace, text))
            inside = not is_exact and is_inside(text, folders) and posixpath.dirname(path) != path
            return Pattern(tool, f"{escaped(posixpath.dirname(path))}/**" if inside else escaped(path))
        case "browser":
            url = urlsplit(text)
            site = f"{url.scheme}://{url.netloc}/"
            return Pattern("browser", f"{escaped(site)}*" if text.startswith(site) else escaped(text))
    return Pattern(tool, escaped(text))


def _for_command(command: str) -> str:
    program, *rest = command.split(" ")
    verb = rest[0] if rest else ""
    if program in _WITH_VERBS and _VERB.fullmatch(verb):
        if verb not in _RUN_VERBS:
            return f"{escaped(program)} {escaped(verb)} *"
        if len(rest) > 1 and _VERB.fullmatch(rest[1]) and program in ("npm", "pnpm", "yarn"):
            return f"{escaped(program)} {escaped(verb)} {escaped(rest[1])} *"
    return escaped(command)


def reach_of(text: str, action: Action, facts: Facts, folders: WorkFolders) -> Reach:
    """Check a pattern that the user typed for this action."""
    try:
        patterns = parse_all(text)
    except PatternError as error:
        return Reach(problem=str(error))
    if patterns and all(pattern.tool == FOREIGN for pattern in patterns) and _is_tainted(action):
        return Reach(patterns, broad=tuple(str(pattern) for pattern in patterns if pattern.is_all))
    missing = uncovered(patterns, parts_of(action, facts, folders), folders)
    shown = tuple(
        "a part that is not understood" if part.text is None else f"{part.tool}: {part.text}" for part in missing
    )
    return Reach(patterns, "", shown, tuple(str(pattern) for pattern in patterns if is_broad(pattern)))


def _is_tainted(action: Action) -> bool:
    """Whether it needs approval because of untrusted content, which the user may trust instead."""
    return action.judgement is not None and action.judgement.rule == TAINT


def is_broad(pattern: Pattern) -> bool:
    """Whether a pattern allows almost anything."""
    if pattern.is_all:
        return True
    first, star, _rest = pattern.glob.partition("*")
    if pattern.tool in ("read", "write"):
        return bool(star) and first.count("/") < 2
    if pattern.tool != "bash" or not star:
        return False
    words = first.split()
    return not words or (len(words) == 1 and (words[0] in _RUNS_ANYTHING or not first.endswith(" "))) or (
        len(words) > 1 and words[0] in _RUNS_ANYTHING and words[1] in _RUN_VERBS)  # fmt: skip
