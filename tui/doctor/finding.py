"""What a check of `handloom doctor` says, and what it may look at. Pure data."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from core.settings.config import Settings

PROGRAM_ANSWERS_IN_S = 1.5
"""Programs tell their version in some milliseconds; a browser takes half a second."""


class Mark(StrEnum):
    """How it stands."""

    OK = "ok"
    NOTE = "note"
    """Handloom works, with less."""
    MISSING = "missing"
    """What the chosen runtime needs is not there."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    mark: Mark
    found: str
    """A version, a path, a figure; or what is wrong."""
    advice: str = ""
    """What to do next, in one sentence."""


@dataclass(frozen=True, slots=True)
class Patient:
    """What is looked at: this process's place, and the settings of its user."""

    environ: Mapping[str, str]
    home: Path
    """Where conversations are kept; it need not be there."""
    workspace: Path
    settings: Settings
    trouble: str = ""
    """Why the settings are not the user's own; empty where they are."""
    on_terminal: bool = False

    def needed_by(self, *runtimes: str) -> Mark:
        """The mark of what is not there and is needed by these runtimes alone."""
        return Mark.MISSING if self.settings.runtime in runtimes else Mark.NOTE


def first_line_of(*command: str, environ: Mapping[str, str] | None = None) -> str:
    """What a program says first; empty where it fails or takes too long. Blocks."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROGRAM_ANSWERS_IN_S,
            check=False,
            env=environ,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout.decode("utf-8", "replace").splitlines() or [""])[0].strip()
