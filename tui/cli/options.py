"""What a start is asked for. Plain data, made by the command line, read by the app.

Standard library and what of core is no more than that, because the first frame needs it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from core.home import THEMES, home_folder
from core.settings.screen_settings import ScreenSettings, read

if TYPE_CHECKING:
    import argparse


@dataclass(frozen=True, slots=True)
class ReplayStart:
    """A replay that is all that is opened: no model, no sandbox, no conversation."""

    conversation_id: str
    home: Path
    """Where it is kept; a folder of its own for one that came in a file."""
    speed: float = 1.0


@dataclass(frozen=True, slots=True)
class StartOptions:
    """How the workspace opens."""

    workspace: str
    """The folder in which the agent works, absolute."""
    model: str | None = None
    """The model of new conversations; None lets the start screen ask."""
    agent: str | None = None
    """The agent of new conversations; None leaves it to the settings."""
    resume: str | None = None
    """A conversation's id; "" and None mean the last one of this workspace, "" saying so when there is none."""
    repository: str = ""
    """What new conversations clone into the workspace, `URL` or `URL#BRANCH`; the first one is new then."""
    runtime: str | None = None
    """Where actions are carried out; None leaves it to the settings."""
    demo: bool = False
    """Always begins a new conversation, so that the script is told from its first line."""
    replay: ReplayStart | None = None
    """What is replayed instead of a workspace being opened."""
    home: Path | None = None
    """Where choices are remembered; None remembers none."""
    screen: ScreenSettings = field(default_factory=ScreenSettings)
    """How the workspace looks, sounds and moves."""
    trusts: bool = False
    """Whether all that folders bring for agents has the user's yes."""
    theme: str | None = None
    """A theme's name, which wins over that of the settings."""
    themes_dir: str | None = None
    """A folder with themes of the user's own."""

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace, replay: ReplayStart | None = None) -> Self:
        """What was typed after `handloom`, `handloom demo` or `handloom replay`."""
        demo = arguments.command == "demo"
        home = home_folder(os.environ)
        return cls(
            workspace=str(Path(arguments.workspace).expanduser().absolute()),
            model="demo" if demo else arguments.model,
            agent=arguments.agent,
            resume=arguments.resume,
            repository=arguments.repo or "",
            runtime=arguments.runtime,
            demo=demo,
            replay=replay,
            home=home,
            screen=read(home, os.environ),
            themes_dir=str(home / THEMES),
        )
