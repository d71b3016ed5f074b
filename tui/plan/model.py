"""The plan of a conversation: the latest task list in its log that was not undone, and the age of each task's state.

A pure fold over the results of the planning tool; live, replayed and loaded later from older pages alike. What a turn
had planned is left out while it is undone. Times are those of the events, so that they
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
"""A longer plan is truncated with a note: users do not read it, and every change would cost more."""
MAX_KEPT = 500
"""Plans that are kept in case later ones are undone; equal tasks are shared."""
TITLE_CELLS = 200
STATES = ("todo", "in_progress", "done")
INDENT = "    "


@dataclass(frozen=True, slots=True)
class Task:
    """One task of the plan."""

    title: str
    state: str
    """One of STATES; an unknown one counts as todo."""
    notes: str = ""
    since: datetime | None = None
    """The time since which it has this state."""
    began: datetime | None = None
    """When it was begun; None if the log does not say."""


class _Plan(NamedTuple):
    """One version of the plan."""

    at: int
    """The id of its event."""
    tasks: tuple[Task, ...]
    raw_tasks: tuple[dict[str, Any], ...]
    left_out: int


_NONE = _Plan(-1, (), (), 0)


class PlanModel(PaneModel):
    """The plan of one conversation."""

    def __init__(self) -> None:
        self.version = 0
        self.shown = False
        """Whether the user wants to see it; each conversation has its own answer."""
        self._plans: list[_Plan] = []
        """The latest plans in order, including undone ones."""
        self._undone = _Undone()
        self._plan = _NONE

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks of the current plan."""
        return self._plan.tasks

    @property
    def raw_tasks(self) -> list[dict[str, Any]]:
        """The tasks as stored. Untrusted."""
        return [dict(task) for task in self._plan.raw_tasks]

    @property
    def left_out(self) -> int:
        """Tasks beyond MAX_TASKS."""
        return self._plan.left_out

    @property
    def is_known(self) -> bool:
        """Whether the loaded events hold a plan that was not undone."""
        return self._plan is not _NONE

    @property
    def done(self) -> int:
        """The number of finished tasks."""
        return sum(task.state == "done" for task in self.tasks)

    @property
    def current(self) -> Task | None:
        """The task in progress, else the next one; None if all are done."""
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
        """When the last task was finished; None while one is left."""
        if self.current is not None or not self.tasks:
            return None
        return max((task.since for task in self.tasks if task.since is not None), default=None)

    def apply(self, envelope: Envelope) -> None:
        """Add a plan, or the effect of an undo or a redo on earlier ones."""
        self._fold(envelope)
        self._update()

    def prepend(self, envelopes: Sequence[Envelope]) -> None:
        """Take the plan of an older page if there is no newer one."""
        newer, self._plans = self._plans, []
        for envelope in envelopes:
            self._fold(envelope)
        self._plans = [*self._plans, *newer][-MAX_KEPT:]
        self._update()

    def _fold(self, envelope: Envelope) -> None:
        if getattr(envelope.event, "kind", "") == "undo":
            self._undone.fold(envelope)
        elif (raw_tasks := _raw_tasks_of(envelope)) is not None and (
            not self._plans or envelope.id > self._plans[-1].at
        ):
            self._add(raw_tasks, envelope)

    def _add(self, raw_tasks: Sequence[Any], envelope: Envelope) -> None:
        before = {task.title: task for task in self._latest_plan().tasks}
        raws = tuple(raw for raw in raw_tasks[:MAX_TASKS] if isinstance(raw, dict))
        tasks = tuple(_task(raw, before, envelope.timestamp) for raw in raws)
        self._plans.append(_Plan(envelope.id, tasks, raws, max(0, len(raw_tasks) - MAX_TASKS)))
        del self._plans[:-MAX_KEPT]

    def _latest_plan(self) -> _Plan:
        return next((plan for plan in reversed(self._plans) if not self._undone.covers(plan.at)), _NONE)

    def _update(self) -> None:
        latest = self._latest_plan()
        if latest is not self._plan:
            self._plan = latest
            self.version += 1
            self.notify()


class _Undone:
    """Which events are undone, from undos and their results in any order."""

    def __init__(self) -> None:
        self._asked: dict[int, Any] = {}
        self._done: set[int] = set()

    def fold(self, envelope: Envelope) -> None:
        """Add an undo or its result."""
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


def _raw_tasks_of(envelope: Envelope) -> Sequence[Any] | None:
    """The tasks in an event; None if it has no plan."""
    kind, raw_tasks = getattr(envelope.event, "kind", ""), getattr(envelope.event, "task_list", None)
    if kind == "plan":
        return raw_tasks or None  # as the user approved it
    if kind != "task_tracking" or not hasattr(envelope.event, "content"):
        return None  # the action is a request; its result is the plan
    return raw_tasks if isinstance(raw_tasks, list) else None


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


def plan_text(tasks: Sequence[Task]) -> str:
    """A plan as text for the user to edit: a task a line, its notes indented below. Clean, because the tasks are."""
    return "\n".join(line for task in tasks for line in (task.title, *([INDENT + task.notes] if task.notes else [])))


def tasks_of(text: str, tasks: Sequence[Task], raw_tasks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tasks of an edited plan text, as they are stored. A task with an unchanged title keeps its state."""
    before = {task.title: raw for task, raw in zip(tasks, raw_tasks, strict=False)}
    found: list[dict[str, Any]] = []
    for line in text.split("\n"):
        words = line.strip()
        if not words:
            continue
        if line[0].isspace() and found:
            notes = found[-1].get("notes")
            found[-1]["notes"] = f"{notes}\n{words}" if notes else words
        else:
            raw = before.get(words, {"title": words, "status": "todo"})
            found.append({key: value for key, value in raw.items() if key not in ("notes", "id")})
    for number, task in enumerate(found, 1):
        task["id"] = str(number)
    return found
