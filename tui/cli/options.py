"""The options with which the workspace starts, made from the command line.

Imports little, because the first frame needs it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from core.environment import THEMES, home_folder
from core.settings.screen_settings import ScreenSettings, read

if TYPE_CHECKING:
    import argparse


@dataclass(frozen=True, slots=True)
class ReplayStart:
    """A replay without model, sandbox or conversation."""

    conversation_id: str
    home: Path
    """The home that holds the conversation; a temporary one if it was read from a file."""
    speed: float = 1.0


@dataclass(frozen=True, slots=True)
class StartOptions:
    """How the workspace opens."""

    workspace: str
    """Absolute."""
    model: str | None = None
    """The model of new conversations; None lets the start screen ask."""
    agent: str | None = None
    """The agent of new conversations; None leaves it to the settings."""
    confirm: str | None = None
    """The approval mode of conversations that have none of their own; None leaves it to the settings."""
    instructions: str | None = None
    """For new conversations; None leaves them to the settings."""
    resume: str | None = None
    """A conversation's ID; "" and None mean the last one of this workspace, and "" reports if there is none."""
    task: str = ""
    """A message that is sent as soon as a conversation is open; a new one, unless one is resumed."""
    repository: str = ""
    """Cloned into the workspace by a new conversation: `URL` or `URL#BRANCH`."""
    runtime: str | None = None
    """Where actions run; None leaves it to the settings."""
    demo: bool = False
    """Whether to start a new conversation with the scripted model."""
    replay: ReplayStart | None = None
    """A replay to show instead of a workspace."""
    batch: Path | None = None
    """The folder of a batch to show instead of a conversation."""
    home: Path | None = None
    """Where choices are stored; None stores none."""
    screen: ScreenSettings = field(default_factory=ScreenSettings)
    trusts: bool = False
    """Whether the files for agents in all folders are trusted."""
    theme: str | None = None
    """A theme that takes precedence over the settings."""
    themes_dir: str | None = None
    """A folder with themes of the user."""

    @property
    def needs_new_conversation(self) -> bool:
        """Whether these options can only be followed by a new conversation."""
        return bool(self.demo or self.repository or self.instructions or self.task)

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace, replay: ReplayStart | None = None) -> Self:
        """For `handloom`, `handloom demo` and `handloom replay`."""
        demo = arguments.command == "demo"
        home = home_folder(os.environ)
        return cls(
            workspace=str(Path(arguments.workspace).expanduser().absolute()),
            model="demo" if demo else arguments.model,
            agent=arguments.agent,
            confirm=getattr(arguments, "confirm", None),
            instructions=arguments.instructions,
            resume=arguments.resume,
            task=getattr(arguments, "task", ""),
            repository=arguments.repo or "",
            runtime=arguments.runtime,
            demo=demo,
            replay=replay,
            home=home,
            screen=read(home, os.environ),
            themes_dir=str(home / THEMES),
        )
