"""The mode of a conversation as an event of its log, so that it is there again after a restart."""

from __future__ import annotations

from typing import ClassVar, Literal

from core.events.base import Action


class ModeAction(Action):
    """The user says how much the agent may do by itself, from here on. Handloom's own."""

    kind: ClassVar[str] = "mode"

    mode: Literal["always", "risky", "auto-edit", "plan", "never"]
    own: bool = False
    """Whether it is that of the settings; then theirs counts again, whatever it is by then."""

    @property
    def message(self) -> str:
        return f"Mode: {self.mode}"
