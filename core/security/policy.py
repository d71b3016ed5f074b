"""The policy: rules of `policy.toml`, the user's in the home and a project's in `.handloom`.

    allow = ["bash(npm run *)"]
    ask = ["net(*)"]
    deny = ["read(~/.ssh/**)", "bash(git push *)"]

A project's policy can only restrict, so it applies without trust in the project: its `allow` rules are ignored. While
a file cannot be parsed, every action needs approval. Blocking: call it in a thread.
"""

from __future__ import annotations

import errno
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.regular_files import read_text
from core.security.confirmation import Verdict
from core.security.patterns import Pattern, PatternError, parse

POLICY = "policy.toml"
PROJECT_POLICY = Path(".handloom") / POLICY
MAX_BYTES = 256 * 1024
MAX_PATTERNS = 2_000
"""Limits for one file."""
Signature = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a policy."""

    verdict: Verdict
    pattern: Pattern
    where: str
    """File and line, such as `policy.toml:3`."""

    def __str__(self) -> str:
        return f"{self.where} {self.verdict} {self.pattern}"


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules of a file."""

    rules: tuple[Rule, ...] = ()
    broken: str = ""
    """Why the file cannot be used, for the user; then every action needs approval."""
    ignored: str = ""
    """Which of its rules are ignored, and why."""


class _PolicyError(Exception):
    """A problem in a policy file, with the line; 0 if it is unknown."""

    def __init__(self, text: str, line: int = 0) -> None:
        super().__init__(text)
        self.line = line


def signature(file: Path) -> Signature:
    """A value that changes when the file changes; None if it does not exist."""
    try:
        found = file.stat()
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_policy(file: Path, *, name: str, tightens: bool = False) -> Policy:
    """Read a policy, which is empty if the file does not exist. `name` is for messages. Never raises."""
    try:
        text = _text_of(file)
        rules = tuple(_rules(text, name)) if text else ()
    except _PolicyError as error:
        place = f"{file}, line {error.line}" if error.line else str(file)
        return Policy(broken=f"{place}: {error} Until it is fixed, every action needs approval.")
    if not tightens:
        return Policy(rules)
    kept = tuple(rule for rule in rules if rule.verdict is not Verdict.ALLOW)
    ignored = f"{file}: its allow rules are ignored, because a project's policy can only restrict."
    return Policy(kept, ignored=ignored if len(kept) < len(rules) else "")


def _text_of(file: Path) -> str:
    """The text of a file, empty if it does not exist. Raises _PolicyError."""
    try:
        return read_text(file, MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise _PolicyError(f"it is longer than {MAX_BYTES // 1024} kB.") from None
        raise _PolicyError(f"it cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise _PolicyError("it is not UTF-8.") from None


def _rules(text: str, name: str) -> Iterator[Rule]:
    try:
        document: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at (?:line (\d+)[^)]*|end of document)\)", str(error))
        line = int(found[1]) if found and found[1] else len(text.splitlines())
        raise _PolicyError(f"{re.sub(r' *[(]at .*[)]$', '', str(error))}.", line) from None
    except RecursionError:
        raise _PolicyError("it is nested too deeply.") from None
    if sum(len(patterns) for patterns in document.values() if isinstance(patterns, list)) > MAX_PATTERNS:
        raise _PolicyError(f"it has more than {MAX_PATTERNS:,} patterns.")
    for key, patterns in document.items():
        start = max(_place_of(text, key), 0)
        line = _line_at(text, start)
        if key not in set(Verdict):
            raise _PolicyError(f"Unknown list {key!r}. The lists are allow, ask and deny.", line)
        if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
            raise _PolicyError(f'{key} is a list of patterns, such as {key} = ["bash(git push *)"].', line)
        for pattern in patterns:
            place = _place_of(text, pattern, start)
            at = _line_at(text, place) if place >= 0 else line
            start = max(place + 1, start)
            try:
                yield Rule(Verdict(key), parse(pattern), f"{name}:{at}")
            except PatternError as error:
                raise _PolicyError(str(error), at) from None


def _place_of(text: str, what: str, start: int = 0) -> int:
    """Where a text stands, as it is or with escapes, from `start` on; -1 if it does not."""
    forms = {what, what.replace("\\", "\\\\").replace('"', '\\"')}
    return min((at for form in forms if (at := text.find(form, start)) >= 0), default=-1)


def _line_at(text: str, place: int) -> int:
    """The number of the line, from 1."""
    return text.count("\n", 0, place) + 1
