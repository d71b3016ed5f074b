"""The texts of the batch's screen: its state, the lines above the table, and the rows. Pure; knows no widget.

Only rows that are asked for are laid out. Everything from the ledger is hostile and made one clean line first.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.cells import cell_len, set_cell_size
from textual.content import Content

from core.batch.ledger import CANCELLED, TaskState
from core.batch.progress import Progress, TaskLine
from core.batch.requests import DriverState, RequestKind
from core.errors import ExitStatus
from tui.dialogs.search_list import elided
from tui.i18n import _, counted
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.footer import UNKNOWN, dollars, duration, tokens

STATES = {
    TaskState.DONE: ("✓", _("done"), "$text-success"),
    TaskState.FAILED: ("✕", _("failed"), "$text-error"),
    TaskState.RUNNING: ("▶", _("running"), "$text-primary"),
    TaskState.WAITING: ("○", _("waiting"), "$text-muted"),
}
"""Glyph, word and colour of each state, in the order in which they are counted."""
ASKED = {
    RequestKind.CANCEL: ("…", _("cancelling"), "$text-warning"),
    RequestKind.RETRY: ("…", _("waiting"), "$text-muted"),
}
"""Instead of the state, while the driver has not done a request yet."""
LOST = ("✕", _("lost"), "$text-warning")
"""Instead of running, if no process works on the batch."""
OUTCOMES = {
    "finished": _("finished"),
    "failed": _("failed"),
    "limit": _("limit"),
    "stuck": _("stuck"),
    "error": _("error"),
    "stalled": _("stalled"),
    "lost": _("lost"),
    "interrupted": _("interrupted"),
    "late": _("late"),
}
"""The words for how attempts end; a running one has none."""


@dataclass(frozen=True, slots=True)
class Order:
    """An order of the table."""

    name: str
    word: str
    key: Callable[[TaskLine, float], Any] | None
    """None for the order of the list. Tasks that are equal keep the order of the list."""


_RANKS = {TaskState.RUNNING: 0, TaskState.FAILED: 1, TaskState.WAITING: 2, TaskState.DONE: 3}
ORDERS = (
    Order("list", _("list"), None),
    Order("state", _("state"), lambda task, now: _RANKS.get(TaskState(task.state), 4)),
    Order("id", _("id"), lambda task, now: task.id),
    Order("attempt", _("attempts"), lambda task, now: -task.attempt),
    Order("cost", _("cost"), lambda task, now: -(task.cost or 0.0)),
    Order("tokens", _("tokens"), lambda task, now: -(task.tokens_in + task.tokens_out)),
    Order("time", _("time"), lambda task, now: -(task.seconds(now) or 0.0)),
)


def arranged(
    tasks: Sequence[TaskLine], wanted: str, order: Order, now: float, *, is_reversed: bool = False
) -> list[TaskLine]:
    """The tasks that match every word of `wanted`, sorted. Words match the id, state, outcome, reason and worker."""
    found = list(tasks)
    for word in wanted.casefold().split():
        found = [task for task in found if word in _searched(task)]
    if (key := order.key) is not None:
        found.sort(key=lambda task: key(task, now))
    if is_reversed:
        found.reverse()
    return found


def _searched(task: TaskLine) -> str:
    words = (task.id, task.state, _STATE_WORDS.get(task.state, ""), task.outcome, OUTCOMES.get(task.outcome, ""))
    return "\n".join((*words, task.reason, task.worker)).casefold()


_STATE_WORDS = {state.value: word for state, (_glyph, word, _colour) in STATES.items()}


# -- the table ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table, as wide as `cells`."""

    name: str
    title: str
    cells: int
    text: Callable[[TaskLine, float], str]
    from_width: int
    """It is left out of narrower tables."""
    is_figure: bool = True
    """Aligned to the right."""


def _tokens(task: TaskLine, now: float) -> str:
    return tokens(task.tokens_in + task.tokens_out) if task.ended is not None else ""


def _cost(task: TaskLine, now: float) -> str:
    if task.ended is None:
        return ""
    return UNKNOWN if task.cost is None else dollars(task.cost)


def _time(task: TaskLine, now: float) -> str:
    seconds = task.seconds(now)
    return "" if seconds is None else duration(max(0, int(seconds)))


COLUMNS = (
    Column("attempt", _("attempt"), 7, lambda task, now: str(task.attempt) if task.attempt else "", 60),
    Column("cost", _("cost"), 9, _cost, 70),
    Column("tokens", _("tokens"), 7, _tokens, 84),
    Column("time", _("time"), 7, _time, 34),
    Column("worker", _("worker"), 14, lambda task, now: sanitize_line(task.worker, 14), 110, is_figure=False),
)
STATE_CELLS = 2 + max(cell_len(word) for _glyph, word, _colour in [*STATES.values(), *ASKED.values()])
STATE_FROM = 60
"""Narrower tables have only the glyph of a state."""
ID_CELLS, REASON_CELLS = 36, 14
"""The widest id, and the narrowest reason."""


def _widths(width: int) -> tuple[int, int, int, list[Column]]:
    """The cells of the state, the id and the reason, and the columns after them."""
    columns = [column for column in COLUMNS if width >= column.from_width]
    state = STATE_CELLS if width >= STATE_FROM else 1
    left = max(0, width - state - 1 - sum(column.cells + 1 for column in columns))
    id = min(ID_CELLS, max(left * 2 // 5, min(left, 12)))
    reason = max(0, left - id - 1)
    return (state, left, 0, columns) if reason < REASON_CELLS // 2 else (state, id, reason, columns)


def heading(width: int, order: Order, *, is_reversed: bool) -> Content:
    """The line above the table: the names of the columns, and its order."""
    state, id, reason, columns = _widths(width)
    cells = [_fit(_("state") if state > 1 else "", state), _fit(_("task"), id)]
    if reason:
        cells.append(_fit(_("result"), reason))
    cells += [_fit(column.title, column.cells, right=column.is_figure) for column in columns]
    return Content.styled(" ".join(cells), "$text-muted")


class BatchRows:
    """The rows of the table (`tui.sessions.view.RowSource`)."""

    height = 1

    def __init__(self, clock: Callable[[], float]) -> None:
        self.tasks: list[TaskLine] = []
        """Those that match, in the order in which they are shown."""
        self.asked: dict[str, str] = {}
        self.is_alive = False
        self.costs: Mapping[str, float] = {}
        """What running attempts have cost so far, by their conversations."""
        self._clock = clock

    def __len__(self) -> int:
        return len(self.tasks)

    def is_selectable(self, row: int) -> bool:
        return True

    def lines(self, row: int, width: int) -> Sequence[Content]:
        return [self._line(self.tasks[row], width, self._clock())]

    def _line(self, task: TaskLine, width: int, now: float) -> Content:
        state, id, reason, columns = _widths(width)
        is_lost = task.state == TaskState.RUNNING and not self.is_alive
        glyph, word, colour = LOST if is_lost else _state_of(task, self.asked.get(task.id, ""))
        parts: list[str | tuple[str, str]] = [(_fit(f"{glyph} {word}" if state > 1 else glyph, state), colour), " "]
        parts.append((_fit(task.id, id), "bold" if task.state == TaskState.RUNNING else ""))
        if reason:
            parts += [" ", (_fit(_result(task, reason), reason), "$text-muted")]
        for column in columns:
            text = "" if is_lost and column.name == "time" else column.text(task, now)
            if column.name == "cost" and task.ended is None and task.conversation in self.costs:
                text = dollars(self.costs[task.conversation])
            parts += [" ", (_fit(text, column.cells, right=column.is_figure), "$text-muted")]
        return Content.assemble(*parts)


def _state_of(task: TaskLine, asked: str) -> tuple[str, str, str]:
    if asked == RequestKind.CANCEL and task.state in (TaskState.RUNNING, TaskState.WAITING):
        return ASKED[RequestKind.CANCEL]
    if asked == RequestKind.RETRY and task.state == TaskState.FAILED:
        return ASKED[RequestKind.RETRY]
    return STATES.get(task.state, ("?", "", "$text-muted"))  # type: ignore[call-overload, no-any-return]  # its value


def _result(task: TaskLine, cells: int) -> str:
    """How the newest attempt ended, and why."""
    if task.reason == CANCELLED:
        return elided(_("cancelled"), cells)
    outcome = "" if _SAYS_NOTHING.get(task.outcome) == task.state else OUTCOMES.get(task.outcome, "")
    return sanitize_line(": ".join(filter(None, (outcome, " ".join(task.reason[: 4 * cells].split())))), cells)


_SAYS_NOTHING = {"finished": "done", "failed": "failed"}
"""Outcomes that the state of a task includes."""


def _fit(text: str, cells: int, *, right: bool = False) -> str:
    """A text in exactly these cells."""
    text = elided(text, cells)
    return " " * (cells - cell_len(text)) + text if right else set_cell_size(text, cells)


# -- above the table ---------------------------------------------------------------------------------------------------


def bar(progress: Progress, width: int) -> Content:
    """The progress bar: done and failed tasks of all."""
    counts, total = progress.counts, len(progress.tasks)
    done, failed = counts[TaskState.DONE], counts[TaskState.FAILED]
    share = 100 * (done + failed) // total if total else 0
    text = f" {share:>3}% " + _("{n} of {all}").format(n=f"{done + failed:,}", all=f"{total:,}")
    room = max(0, width - cell_len(text))
    if room < 8:
        return Content(elided(text.strip(), width))
    full = room * (done + failed) // total if total else 0
    red = min(full, max(1, round(room * failed / total))) if failed and full else 0
    rest = "─" * (room - full)
    return Content.assemble(
        ("━" * (full - red), "$text-success"), ("━" * red, "$text-error"), (rest, "$text-muted"), (text, "bold")
    )


def tallies(progress: Progress, width: int) -> Content:
    """How many tasks are in each state; words are left out if they do not fit."""
    counts = progress.counts
    words = STATES if progress.is_alive else {**STATES, TaskState.RUNNING: LOST}
    shown = [(state, value) for state, value in words.items() if counts[state]]
    for with_words in (True, False):
        texts = [
            (f"{glyph} {counts[state]:,}" + (f" {word}" if with_words else ""), colour)
            for state, (glyph, word, colour) in shown
        ]
        if sum(cell_len(text) + 3 for text, _colour in texts) - 3 <= width:
            break
    return _joined(texts)


def figures(progress: Progress, costs: Mapping[str, float], width: int, now: float) -> Content:
    """What was spent, the workers and the time left; the last ones are left out if they do not fit.

    `costs` is what running attempts have cost so far.
    """
    driver, texts = progress.driver, list[tuple[str, str]]()
    left = progress.left_s(now)
    spent = dollars(progress.spent + sum(costs.values()))
    if driver.budget is not None:
        spent = _("{spent} of {budget}").format(spent=spent, budget=dollars(driver.budget))
    texts.append((spent, "bold"))
    if left is not None:
        texts.append((_("about {time} left").format(time=_about(left)), ""))
    if progress.is_alive and driver.workers:
        texts.append((counted(driver.workers, "{n} worker", "{n} workers"), ""))
    texts.append((_("{n} tokens").format(n=tokens(progress.tokens_in + progress.tokens_out)), ""))
    while len(texts) > 1 and sum(cell_len(text) + 3 for text, _style in texts) - 3 > width:
        del texts[-1]
    return _joined(texts)


def _about(seconds: float) -> str:
    """A duration without seconds, unless it is short: 12s, 3m, 2h10m."""
    text = duration(max(1, int(seconds)))
    return text if seconds < 60 or seconds >= 3600 else f"{round(seconds / 60)}m"


def _joined(texts: Iterable[tuple[str, str]]) -> Content:
    parts: list[tuple[str, str]] = []
    for text, style in texts:
        parts += [(" · ", "$text-muted")] * bool(parts) + [(text, style)]
    return Content.assemble(*parts)


def standing(progress: Progress, folder: Path) -> tuple[str, str]:
    """What the user should know about the driver, and the colour of it; empty while it simply runs."""
    driver, counts = progress.driver, progress.counts
    if progress.is_alive:
        if driver.is_interrupted:
            return _("Interrupting: the running attempts end."), "$text-warning"
        if driver.is_paused:
            return _("Paused: what runs goes on, and nothing else begins. p continues."), "$text-warning"
        return "", ""
    again = command(folder, driver)
    if not (counts[TaskState.WAITING] or counts[TaskState.RUNNING]):
        if not counts[TaskState.FAILED]:
            return _("Finished: all tasks are done."), "$text-success"
        text = _("Finished. To try the failed tasks again, run: {command}")
        return text.format(command=f"{again} --retry-failed"), "$text-error"
    if driver.status == ExitStatus.INTERRUPTED:
        return _("Interrupted. To go on, run: {command}").format(command=again), "$text-warning"
    if driver.status == ExitStatus.LIMIT:
        text = _("The budget is spent. To go on, run with a larger one: {command}")
        return text.format(command=f"{again} --budget USD"), "$text-warning"
    text = _("The process of this batch ended unexpectedly. To go on, run: {command}")
    return text.format(command=again), "$text-error"


def summary(progress: Progress) -> str:
    """The batch in one line."""
    counts = progress.counts
    words = STATES if progress.is_alive else {**STATES, TaskState.RUNNING: LOST}
    states = [f"{counts[state]:,} {word}" for state, (_glyph, word, _colour) in words.items() if counts[state]]
    return _(", ").join([counted(len(progress.tasks), "{n} task", "{n} tasks"), *states, dollars(progress.spent)])


def command(folder: Path, driver: DriverState) -> str:
    """The command that goes on with a batch; one that an older driver ran has not said its list of tasks."""
    tasks = shown_path(Path(driver.tasks)) if driver.tasks else "TASKS"
    options = f" {sanitize_line(driver.options, 300)}" if driver.options else ""
    return f"handloom batch {tasks} --out {shown_path(folder)}{options}"


def shown_path(folder: Path) -> str:
    """A folder as the user would type it here, clean."""
    with suppress(ValueError, OSError):
        folder = folder.relative_to(Path.cwd())
    return sanitize_line(shlex.quote(str(folder)), 200)
