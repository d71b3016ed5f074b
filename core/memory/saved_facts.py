"""Facts that the user wants remembered, in one project or everywhere, until the user removes them.

They are stored in `memory.json` in Handloom's home, readable for the user only. They are the user's own words: the
agent sees them at the start of a conversation and never writes them. All functions block for a file, so call them in a
thread. A broken file is reported and never overwritten.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.errors import ConfigurationError, UsageError
from core.regular_files import read_bytes, write_private
from core.secrets import Redactor, from_environment
from core.secrets.redactor import without_secrets

FILE = "memory.json"
MAX_FACTS = 200
MAX_CHARS = 1_000
"""The limit of one fact. Longer texts belong in a file of the project."""
MAX_BYTES = 1024 * 1024
SHOWN_CHARS = 8_000
"""The limit of all facts together; the newest are kept."""
USE_SECRETS = "Store it with handloom secrets set NAME, and remember the name."
INTRODUCTION = "What the user wants remembered:"


@dataclass(frozen=True, slots=True)
class Fact:
    """One remembered fact."""

    text: str
    workspace: str = ""
    """The folder that it applies to; "" for all."""
    at: str = ""
    """When it was added, in ISO 8601, UTC."""


class SavedFacts:
    """The facts of one home."""

    def __init__(self, home: Path, environ: Mapping[str, str] = os.environ) -> None:
        """`environ` contains secrets that no fact may contain."""
        self._file, self._environ = home / FILE, environ

    def all(self) -> list[Fact]:
        """Return all facts, the oldest first. Raises ConfigurationError if the file cannot be read."""
        try:
            data = json.loads(read_bytes(self._file, MAX_BYTES))
            return [_fact(each) for each in data["facts"]][:MAX_FACTS]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise ConfigurationError(f"{self._file} cannot be read: {error}. Correct it or move it away.") from error

    def of(self, workspace: str) -> list[Fact]:
        """Return the facts that apply in a folder. Raises like `all`."""
        return [fact for fact in self.all() if fact.workspace in ("", workspace)]

    def add(self, text: str, workspace: str = "") -> Fact:
        """Add a fact, for a folder or everywhere, unless it exists.

        Raises UsageError for an invalid fact, ConfigurationError if the file cannot be written.
        """
        text = " ".join("".join(char if char.isprintable() else " " for char in text).split())
        if not text:
            raise UsageError("Write the fact to remember after the command.")
        if len(text) > MAX_CHARS:
            raise UsageError(f"The fact is too long: {MAX_CHARS} characters at most.")
        if without_secrets(text, Redactor(from_environment(self._environ))) != text:
            raise UsageError(f"The fact contains a secret, and agents read all facts. {USE_SECRETS}")
        facts = self.all()
        for fact in facts:
            if (fact.text, fact.workspace) == (text, workspace):
                return fact
        if len(facts) >= MAX_FACTS:
            raise UsageError(f"There are {MAX_FACTS} facts already. Remove one first: handloom memory list")
        fact = Fact(text, workspace, datetime.now(UTC).isoformat(timespec="seconds"))
        self._write([*facts, fact])
        return fact

    def forget(self, number: int) -> Fact:
        """Remove a fact by its number in `all`, from 1. Raises UsageError for a wrong number, and like `add`."""
        facts = self.all()
        if not 1 <= number <= len(facts):
            raise UsageError(f"There is no fact number {number}. handloom memory list shows all facts.")
        fact = facts.pop(number - 1)
        self._write(facts)
        return fact

    def _write(self, facts: Sequence[Fact]) -> None:
        text = json.dumps({"version": 1, "facts": [asdict(fact) for fact in facts]}, ensure_ascii=False, indent=1)
        try:
            write_private(self._file, text + "\n")
        except OSError as error:
            raise ConfigurationError(f"{self._file} cannot be written: {error}. Nothing was changed.") from error


def facts_text(facts: Sequence[Fact]) -> str:
    """Return the facts as text for the agent, or ""."""
    lines: list[str] = []
    left = SHOWN_CHARS
    for fact in reversed(facts):
        line = f"- {fact.text}"
        if (left := left - len(line)) < 0:
            break
        lines.append(line)
    return "\n".join([INTRODUCTION, *reversed(lines)]) if lines else ""


def _fact(data: Any) -> Fact:
    """Parse one fact. Raises TypeError, KeyError."""
    text, workspace, at = data["text"], data.get("workspace", ""), data.get("at", "")
    if not all(isinstance(each, str) for each in (text, workspace, at)):
        raise TypeError("a fact is made of texts")
    return Fact(text[:MAX_CHARS], workspace, at)
