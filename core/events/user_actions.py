"""What the user decides, as actions of the log: ways out, undo, review, plans, consent, permissions, the mode.

Handloom's own but for LoopRecoveryAction, which is OpenHands V0's. To add one, add a class with a `kind`.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import JsonValue

from core.events.base import Action


class LoopRecoveryAction(Action):
    """The user's choice of a way out of a loop."""

    kind: ClassVar[str] = "loop_recovery"

    option: Literal[1, 2, 3] = 1

    @property
    def message(self) -> str:
        return f"Recovering from a loop by option {self.option}."


class UndoAction(Action):
    """The user takes back a turn and all that came after it, or takes back such an undo. Handloom's own: V0 has none.

    It only says what shall be; its observation says whether it is so.
    """

    kind: ClassVar[str] = "undo"

    first: int
    """The first event that is undone, a message of the user. What lies between it and this action is undone."""
    chat: bool = True
    """Whether the model no longer sees those events."""
    files: bool = False
    """Whether the files that they changed are brought back."""
    checkpoint: str = ""
    """How the files shall be."""
    before: str = ""
    """How they were."""
    spared: list[str] = []
    """Files that differ between these two and are left alone."""
    redoes: int | None = None
    """The undo that is taken back; None where this is none of that."""

    @property
    def message(self) -> str:
        what = " and ".join(name for name, is_meant in (("chat", self.chat), ("files", self.files)) if is_meant)
        return f"Undo {self.redoes} taken back: {what}" if self.redoes is not None else f"Undo to {self.first}: {what}"


class ReviewAction(Action):
    """The user has looked through what the conversation changed, and accepts it. Handloom's own: V0 has none."""

    kind: ClassVar[str] = "review"

    checkpoint: str
    """From here on, changes are counted from these files."""
    path: str = ""
    """The file that was accepted; empty for all of them."""
    hunks: list[int] = []
    """Which of its hunks, counted from 0; none for the whole file."""

    @property
    def message(self) -> str:
        what = f"{len(self.hunks)} of the changes to {self.path}" if self.hunks else self.path or "all changes"
        return f"Accepted: {what}"


PLANNER = "Planner"
"""The class of the agent that plans before it carries out."""


class PlanAction(Action):
    """The user approves the plan, as it stands here, or wants another before anything else changes. Handloom's own.

    Until the first approval a Planner only reads; from there on it carries out, until another plan is wanted.
    """

    kind: ClassVar[str] = "plan"

    approved: bool = True
    task_list: list[dict[str, JsonValue]] = []
    """The tasks as the user has edited them, in the form of a TaskTrackingAction's."""

    @property
    def message(self) -> str:
        count = len(self.task_list)
        tasks = f"{count} task{'' if count == 1 else 's'}"
        return f"Plan approved: {tasks}" if self.approved else "Another plan is wanted; nothing changes until then"


class ConsentAction(Action):
    """The user lets a conversation that came from elsewhere go on, or is still to be asked. Handloom's own."""

    kind: ClassVar[str] = "consent"

    origin: str
    """Where it comes from, as the user was told."""
    given: bool = True

    @property
    def message(self) -> str:
        return (
            f"Goes on although it was imported from {self.origin}." if self.given else f"Imported from {self.origin}."
        )


class PermissionAction(Action):
    """The user allows or denies, for this conversation, whatever a pattern covers. Handloom's own."""

    kind: ClassVar[str] = "permission"

    verdict: Literal["allow", "deny"]
    pattern: str
    """As in a policy: `bash(git push *)`."""
    revoked: bool = False
    """Whether it is taken back."""
    informed: bool = False
    """Whether it answered a question that was asked because of what had been read or done before."""

    @property
    def message(self) -> str:
        what = "Taken back" if self.revoked else "Permission"
        return f"{what}: {self.verdict} {self.pattern} in this conversation"


class ModeAction(Action):
    """The user says how much the agent may do by itself, from here on. Handloom's own."""

    kind: ClassVar[str] = "mode"

    mode: Literal["always", "risky", "auto-edit", "plan", "never"]
    own: bool = False
    """Whether it is that of the settings; then theirs counts again, whatever it is by then."""

    @property
    def message(self) -> str:
        return f"Mode: {self.mode}"
