"""Pins: facts that the user wants remembered, in one project or everywhere, until they are taken back.

They lie in `memory.json` in Handloom's home, which only the user can read. They are the user's own words: the agent is
shown them at the start of a conversation and never writes them. Everything here blocks for a file, so it is called
beside the loop. A file that is broken is told and never written over.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.errors import ConfigurationError, UsageError
from core.regular_files import read_bytes
from core.secrets import Masker, from_environment
from core.secrets.redactor import without_secrets

FILE = "memory.json"
MAX_FACTS = 200
MAX_CHARS = 1_000
"""Of one fact: what is longer belongs into a file of the project."""
MAX_BYTES = 1024 * 1024
SHOWN_CHARS = 8_000
"""Of all that the agent is shown; the newest ones count."""
KEEP_IT = "Keep it with handloom secrets set NAME, and remember the name."
INTRODUCTION = "What the user wants remembered:"


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that is remembered."""

    text: str
    workspace: str = ""
    """The folder that it holds for; empty for all of them."""
    at: str = ""
    """When it was said, in ISO 8601, UTC."""


class Pins:
    """The facts of one home."""

    def __init__(self, home: Path, environ: Mapping[str, str] = os.environ) -> None:
        """`environ` holds values that nothing may be remembered with."""
        self._file, self._environ = home / FILE, environ

    def all(self) -> list[Fact]:
        """All of them, the oldest first. Raises ConfigurationError where the file cannot be read."""
        try:
            data = json.loads(read_bytes(self._file, MAX_BYTES))
            return [_fact(each) for each in data["facts"]][:MAX_FACTS]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise ConfigurationError(f"{self._file} cannot be read: {error}. Correct it or move it away.") from error

    def of(self, workspace: str) -> list[Fact]:
        """Those that hold in a folder. Raises as `all`."""
        return [fact for fact in self.all() if fact.workspace in ("", workspace)]

    def add(self, text: str, workspace: str = "") -> Fact:
        """Remember something, in a folder or everywhere; what is remembered already stays as it is.

        Raises UsageError for what cannot be remembered, ConfigurationError where it cannot be written down.
        """
        text = " ".join("".join(char if char.isprintable() else " " for char in text).split())
        if not text:
            raise UsageError("There is nothing to remember. Write it behind the command.")
        if len(text) > MAX_CHARS:
            raise UsageError(f"That is too long to be remembered: {MAX_CHARS} characters at most.")
        if without_secrets(text, Masker(from_environment(self._environ))) != text:
            raise UsageError("There is a secret in it, and agents read all that is remembered. " + KEEP_IT)
        facts = self.all()
        for fact in facts:
            if (fact.text, fact.workspace) == (text, workspace):
                return fact
        if len(facts) >= MAX_FACTS:
            raise UsageError(f"{MAX_FACTS} things are remembered already. Forget one first: handloom memory list")
        fact = Fact(text, workspace, datetime.now(UTC).isoformat(timespec="seconds"))
        self._write([*facts, fact])
        return fact

    def forget(self, number: int) -> Fact:
        """Forget the fact at a place of `all`, counted from 1. Raises UsageError for a wrong one, and as `add`."""
        facts = self.all()
        if not 1 <= number <= len(facts):
            raise UsageError(f"Nothing with the number {number} is remembered. handloom memory list shows what is.")
        fact = facts.pop(number - 1)
        self._write(facts)
        return fact

    def _write(self, facts: Sequence[Fact]) -> None:
        text = json.dumps({"version": 1, "facts": [asdict(fact) for fact in facts]}, ensure_ascii=False, indent=1)
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self._file.parent, delete=False, encoding="utf-8") as new:  # 0600
                new.write(text + "\n")
            os.replace(new.name, self._file)
        except OSError as error:
            raise ConfigurationError(f"{self._file} cannot be written: {error}. Nothing was changed.") from error


def told(facts: Sequence[Fact]) -> str:
    """The facts as the agent is shown them; empty where there are none."""
    lines: list[str] = []
    left = SHOWN_CHARS
    for fact in reversed(facts):
        line = f"- {fact.text}"
        if (left := left - len(line)) < 0:
            break
        lines.append(line)
    return "\n".join([INTRODUCTION, *reversed(lines)]) if lines else ""


def _fact(data: Any) -> Fact:
    """One fact of the file. Raises TypeError, KeyError."""
    text, workspace, at = data["text"], data.get("workspace", ""), data.get("at", "")
    if not all(isinstance(each, str) for each in (text, workspace, at)):
        raise TypeError("a fact is made of texts")
    return Fact(text[:MAX_CHARS], workspace, at)
