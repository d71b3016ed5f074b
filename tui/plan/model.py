"""The plan of a conversation: the latest list of tasks of its log that stands, and since when each is as it is.

A pure fold over the results of the planning tool; live, replayed and loaded later from older pages alike. What a turn
had planned that was undone is set aside, and is had again by a redo. Times are those of the events, so that they
survive a restart. Texts are clean. Knows no Textual.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.pane import PaneModel

if TYPE_CHECKING:
    from core.events import Envelope

MAX_TASKS = 200
"""A longer plan is cut, and says so: nobody reads it, and every change would pay for it."""
MAX_KEPT = 500
"""Plans that are kept for the case that those after them are undone; what they have in common is kept once."""
TITLE_CELLS = 200
STATES = ("todo", "in_progress", "done")


@dataclass(frozen=True, slots=True)
class Task:
    """One task of the plan."""

    title: str
    state: str
    """One of STATES; what is not known of a task counts as todo."""
    notes: str = ""
    since: datetime | None = None
    """When it came into this state."""
    began: datetime | None = None
    """When it was begun; None where that was never told."""


class _Plan(NamedTuple):
    """One that was told."""

    at: int
    """The event that told it."""
    tasks: tuple[Task, ...]
    told: tuple[dict[str, Any], ...]
    left_out: int


_NONE = _Plan(-1, (), (), 0)


class PlanModel(PaneModel):
    """The plan of one conversation."""

    def __init__(self) -> None:
        self.version = 0
        self.shown = False
        """Whether the user wants to see it; each conversation has its own answer."""
        self._plans: list[_Plan] = []
        """The latest ones in order, those that were undone among them."""
        self._undone = _Undone()
        self._standing = _NONE

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks of the plan that stands."""
        return self._standing.tasks

    @property
    def told(self) -> list[dict[str, Any]]:
        """The same as they were told, foreign."""
        return [dict(task) for task in self._standing.told]

    @property
    def left_out(self) -> int:
        """Tasks beyond MAX_TASKS."""
        return self._standing.left_out

    @property
    def is_known(self) -> bool:
        """Whether a plan that stands was told in what is loaded."""
        return self._standing is not _NONE

    @property
    def done(self) -> int:
        """How many are done."""
        return sum(task.state == "done" for task in self.tasks)

    @property
    def current(self) -> Task | None:
        """The one that is being done; else the next one; None where all are done."""
        for state in ("in_progress", "todo"):
            for task in self.tasks:
                if task.state == state:
                    return task
        return None

    @property
    def began(self) -> datetime | None:
        """When the first task was begun."""
        return min((task.began for task in self.tasks if task.began is not None), default=None)

    @property
    def ended(self) -> datetime | None:
        """When the last one was done; None while one is not."""
        if self.current is not None or not self.tasks:
            return None
        return max((task.since for task in self.tasks if task.since is not None), default=None)

    def apply(self, envelope: Envelope) -> None:
        """Take over a plan that is told, and what an undo or a redo makes of those before."""
        self._fold(envelope)
        self._stand()

    def prepend(self, envelopes: Sequence[Envelope]) -> None:
        """An older page tells the plan where no newer one does that stands."""
        newer, self._plans = self._plans, []
        for envelope in envelopes:
            self._fold(envelope)
        self._plans = [*self._plans, *newer][-MAX_KEPT:]
        self._stand()

    def _fold(self, envelope: Envelope) -> None:
        if getattr(envelope.event, "kind", "") == "undo":
            self._undone.fold(envelope)
        elif (told := _told(envelope)) is not None and (not self._plans or envelope.id > self._plans[-1].at):
            self._take(told, envelope)

    def _take(self, told: Sequence[Any], envelope: Envelope) -> None:
        before = {task.title: task for task in self._last_standing().tasks}
        raws = tuple(raw for raw in told[:MAX_TASKS] if isinstance(raw, dict))
        tasks = tuple(_task(raw, before, envelope.timestamp) for raw in raws)
        self._plans.append(_Plan(envelope.id, tasks, raws, max(0, len(told) - MAX_TASKS)))
        del self._plans[:-MAX_KEPT]

    def _last_standing(self) -> _Plan:
        return next((plan for plan in reversed(self._plans) if not self._undone.covers(plan.at)), _NONE)

    def _stand(self) -> None:
        standing = self._last_standing()
        if standing is not self._standing:
            self._standing = standing
            self.version += 1
            self.notify()


class _Undone:
    """Which events are undone, by the undos and their results in whatever order their pages come."""

    def __init__(self) -> None:
        self._asked: dict[int, Any] = {}
        self._done: set[int] = set()

    def fold(self, envelope: Envelope) -> None:
        """Take in an undo or what became of it."""
        if hasattr(envelope.event, "first"):
            self._asked[envelope.id] = envelope.event
        elif getattr(envelope.event, "done", False) and envelope.cause is not None:
            self._done.add(envelope.cause)

    def covers(self, event_id: int) -> bool:
        """Whether an event is undone."""
        done = {id: undo for id, undo in self._asked.items() if id in self._done}
        redone = {undo.redoes for undo in done.values()}
        return any(
            undo.redoes is None and undo.chat and id not in redone and undo.first <= event_id < id
            for id, undo in done.items()
        )


def _told(envelope: Envelope) -> Sequence[Any] | None:
    """The plan that an event tells; None for every other event."""
    kind, told = getattr(envelope.event, "kind", ""), getattr(envelope.event, "task_list", None)
    if kind == "plan":
        return told or None  # as the user approved it
    if kind != "task_tracking" or not hasattr(envelope.event, "content"):
        return None  # the action is a wish; its result is what came of it
    return told if isinstance(told, list) else None


def _task(raw: dict[str, Any], before: dict[str, Task], at: datetime) -> Task:
    title = sanitize_line(str(raw.get("title") or _("Untitled")), TITLE_CELLS)
    state = str(raw.get("status"))
    state = state if state in STATES else "todo"
    notes = sanitize_line(str(raw.get("notes") or ""), TITLE_CELLS)
    old = before.get(title)
    since = old.since if old is not None and old.state == state else at
    began = old.began if old is not None and old.began is not None else (at if state == "in_progress" else None)
    task = Task(title, state, notes, since, began)
    return old if old is not None and old == task else task
