"""What a start is asked for. Plain data, made by the command line, read by the app.

Imports nothing, because the first frame needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def _forget(model: str, base_url: str) -> None:
    """Remember nothing: the default where no configuration file may be written."""


@dataclass(frozen=True, slots=True)
class StartOptions:
    """How the workspace opens."""

    workspace: str
    """The folder in which the agent works, absolute."""
    model: str | None = None
    """The model of new conversations; None lets the start screen ask."""
    resume: str | None = None
    """A conversation's id; "" and None mean the last one of this workspace, "" saying so when there is none."""
    demo: bool = False
    """Always begins a new conversation, so that the script is told from its first line."""
    theme: str | None = None
    """A theme's name; None takes our dark one."""
    themes_dir: str | None = None
    """A folder with themes of the user's own."""
    remember_model: Callable[[str, str], None] = _forget
    """Called with (model, base URL or "") when one is chosen on screen."""
