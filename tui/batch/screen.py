"""The screen of a batch: its progress, its tasks, and what can be asked of its driver, which is another process.

The ledger is read in a thread when its lock file says that something has changed, a few times a second at most. Only
visible rows are drawn. Leaving the screen changes nothing in the batch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from rich.cells import cell_len, set_cell_size
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Input, Static

from core.batch.ledger import LOCK, TaskState
from core.batch.progress import Progress, ProgressReader, TaskLine, ask
from core.batch.requests import RequestKind
from core.errors import HandloomError
from tui.batch.batch_rows import (
    ORDERS,
    BatchRows,
    arranged,
    bar,
    figures,
    heading,
    shown_path,
    standing,
    tallies,
)
from tui.dialogs.dialog import Field, SureScreen, TextScreen
from tui.dialogs.modal import Modal
from tui.dialogs.search_list import elided
from tui.file_watcher import RUNG, watch
from tui.i18n import _
from tui.sessions.view import RowsView
from tui.terminal_io.sanitizer import sanitize

REST_S = 0.3
"""Shortest time between two readings of the ledger; a long one makes it longer."""
COSTS_S = 2.0
"""Shortest time between two readings of the costs of running attempts."""
MAX_COSTS = 200
"""Running attempts whose costs are read."""
LOOK_S = 2.0
"""How often the ledger is read on systems that do not tell of changes."""
TYPED_S = 0.1
"""The table is filtered so long after the last letter."""
TICK_S = 1.0
ANSWER_S = 1.5
"""The number of workers that was asked for is in the ledger after this time."""
KEY_CELLS = 12
LIST_KEYS = (
    _("Enter opens"),
    _("Esc leaves"),
    _("? help"),
    _("/ filters"),
    _("p pauses"),
    _("x cancels"),
    _("r retries"),
    _("o sorts"),
    _("+ - workers"),
)
"""The last ones are left out if there is not enough space."""
FIELD_KEYS = _("Enter opens · ↓ goes to the table · Esc clears")


@dataclass
class BatchState:
    """The state of the screen when it was closed, restored when it is opened again."""

    folder: Path
    wanted: str = ""
    order: int = 0
    is_reversed: bool = False
    task: str = ""
    """The id of the task under the cursor."""


class Costs(NamedTuple):
    """Where the costs of running conversations are."""

    bells: Path
    """The folder of locks of the store (`core.store.locks`), which tells of new events."""
    read: Callable[[Sequence[str]], Awaitable[Mapping[str, float]]]
    """What these conversations have cost so far; unknown ones are left out. Raises HandloomError."""


class BatchScreen(Modal[str | None]):
    """The screen. Its result is the conversation to open; None if the user leaves."""

    HELP = _("The tasks of a batch. Enter opens the conversation of a task, Esc leaves; the batch goes on.")
    AUTO_FOCUS = "#batch-rows"
    DEFAULT_CSS = """
    BatchScreen {
        align: center middle; background: $background;
        & > Vertical {
            width: 100%; height: 100%; padding: 0 1; background: $surface; border: round $accent;
            border-title-color: $text-accent; border-title-style: bold; border-subtitle-color: $text-muted;
        }
        #batch-bar, #batch-tallies, #batch-figures { height: 1; }
        #batch-standing { height: auto; max-height: 3; display: none; }
        #batch-find, #batch-find:focus { height: 1; border: none; background: $panel; padding: 0 1; margin-top: 1; }
        #batch-heading { height: 1; }
        #batch-rows { height: 1fr; }
        #batch-message { height: auto; max-height: 3; color: $text-success; display: none; }
        #batch-message.-wrong { color: $text-error; }
    }
    BatchScreen.-low { #batch-find, #batch-find:focus { margin-top: 0; } }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back"),
        Binding("enter", "open", "Open", priority=True),
        Binding("up", "step(-1)", show=False, priority=True),
        Binding("down", "step(1)", show=False, priority=True),
        Binding("slash", "find", show=False),
        Binding("q", "leave", show=False),
        Binding("o", "sort(1)", show=False),
        Binding("O", "reverse", show=False),
        Binding("p,space", "pause", show=False),
        Binding("x", "cancel_task", show=False),
        Binding("r", "retry_task", show=False),
        Binding("plus,equals_sign", "workers(1)", show=False),
        Binding("minus", "workers(-1)", show=False),
        Binding("I", "interrupt", show=False),
        Binding("question_mark,f1", "help", show=False),
    ]

    def __init__(self, state: BatchState, costs: Costs | None = None, clock: Callable[[], float] = time.time) -> None:
        """`state` is kept up to date."""
        super().__init__()
        self.state, self._costs, self._clock = state, costs, clock
        self.progress: Progress | None = None
        """None before the ledger was read."""
        self._table = BatchRows(clock)
        self._wants_pause: bool | None = None
        """What the last press of p asked for; None when the driver has answered."""
        self._workers: int | None = None
        """How many workers were asked for a moment ago."""
        self._standing = ("", "")
        """What is shown of the driver, and its colour."""
        self._changed = asyncio.Event()
        self._tick: Timer | None = None

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = _("Batch {folder}").format(folder=shown_path(self.state.folder))
            yield Static(id="batch-bar")
            yield Static(id="batch-tallies")
            yield Static(id="batch-figures")
            yield Static(id="batch-standing")
            yield Field(self.state.wanted, placeholder=_("Type / to filter"), id="batch-find")
            yield Static(id="batch-heading")
            yield RowsView(self._table, _("Reading…"), id="batch-rows")
            yield Static(id="batch-message")

    def on_mount(self) -> None:
        self._show_keys()
        self._tick = self.set_interval(TICK_S, self._draw, pause=True)
        self.run_worker(self._follow(), group="batch", exit_on_error=False)

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < 20, "-low")
        self._show_keys()
        self.call_after_refresh(self._draw)

    def on_descendant_focus(self) -> None:
        self._show_keys()

    @property
    def rows(self) -> RowsView:
        return self.query_one("#batch-rows", RowsView)

    @property
    def _field(self) -> Input:
        return self.query_one("#batch-find", Input)

    @property
    def selected(self) -> TaskLine | None:
        """The task under the cursor."""
        row = self.rows.cursor
        return self._table.tasks[row] if row < len(self._table.tasks) else None

    # -- reading -------------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Read the ledger whenever it has changed."""
        watching = watch(self.state.folder / LOCK, self._changed.set, RUNG)
        bells = None
        if self._costs is not None:
            bells = watch(self._costs.bells, self._on_new_events, RUNG, rest_s=COSTS_S)
        reader: ProgressReader | None = None
        try:
            reader = await asyncio.to_thread(ProgressReader, self.state.folder)
            while True:
                self._changed.clear()
                began = time.monotonic()
                self.progress = await asyncio.to_thread(reader.read)
                await self._arrange()
                await self._read_costs()
                took_s = time.monotonic() - began
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), LOOK_S if watching is None else None)
                await asyncio.sleep(max(REST_S, 4 * took_s))
        except HandloomError as error:
            self._show_message(str(error), wrong=True)
        finally:
            for one in (watching, bells):
                if one is not None:
                    one.close()
            if reader is not None:
                await asyncio.to_thread(reader.close)

    def _on_new_events(self) -> None:
        self.run_worker(self._read_costs(), group="costs", exclusive=True, exit_on_error=False)

    async def _read_costs(self) -> None:
        """Read what the attempts that run have cost so far, which the ledger does not know yet."""
        progress = self.progress
        if self._costs is None or progress is None:
            return
        running = [task.conversation for task in progress.tasks if task.ended is None and task.conversation]
        found = await self._costs.read(running[:MAX_COSTS]) if running and progress.is_alive else {}
        if found != self._table.costs:
            self._table.costs = found
            self._draw()

    async def _arrange(self, *, to_top: bool = False, is_filtered: bool = False) -> None:
        """Filter and sort the tasks, and show them.

        The cursor goes to the top, or stays on its task; if a new filter has removed that, it goes to the top.
        """
        progress, state = self.progress, self.state
        if progress is None:
            return
        order, is_reversed = ORDERS[state.order], state.is_reversed
        tasks = await asyncio.to_thread(
            lambda: arranged(progress.tasks, state.wanted, order, self._clock(), is_reversed=is_reversed)
        )
        place = await asyncio.to_thread(_place_of, state.task, tasks)
        if not self.is_mounted or progress is not self.progress:
            return
        self._table.tasks, self._table.asked, self._table.is_alive = tasks, progress.asked, progress.is_alive
        self.rows.empty = _("No task matches.") if progress.tasks else _("This batch has no tasks.")
        if to_top or (place is None and is_filtered):
            self.rows.show(cursor=0)
        elif place != self.rows.cursor:
            self.rows.show(cursor=self.rows.cursor if place is None else place)
        else:
            self.rows.redraw()
        self._remember()
        self._draw()

    def _draw(self) -> None:
        """Draw what is above the table, and what time has changed in it."""
        progress = self.progress
        if progress is None or not (self.is_mounted and self.display):
            return
        width, now = max(10, self.size.width - 4), self._clock()
        self.query_one("#batch-bar", Static).update(bar(progress, width), layout=False)
        self.query_one("#batch-tallies", Static).update(tallies(progress, width), layout=False)
        self.query_one("#batch-figures", Static).update(figures(progress, self._table.costs, width, now), layout=False)
        if (stands := standing(progress, self.state.folder)) != self._standing:  # a new layout draws the whole screen
            self._standing = stands
            shown = self.query_one("#batch-standing", Static)
            shown.display = bool(stands[0])
            shown.update(Content.styled(*stands))
        order = ORDERS[self.state.order]
        columns = heading(self.rows.scrollable_content_region.width, order, is_reversed=self.state.is_reversed)
        self.query_one("#batch-heading", Static).update(columns, layout=False)
        self.rows.refresh()
        if self._tick is not None:
            is_running = progress.is_alive and bool(progress.counts[TaskState.RUNNING])
            (self._tick.resume if is_running else self._tick.pause)()

    def _remember(self) -> None:
        if (task := self.selected) is not None:
            self.state.task = task.id

    def _show_message(self, text: str, *, wrong: bool = False) -> None:
        message = self.query_one("#batch-message", Static)
        message.display = bool(text)
        message.set_class(wrong, "-wrong")
        message.update(Content(sanitize(text)))

    def _short_id(self, task: TaskLine) -> str:
        """The id of a task, short enough that a message with it is easy to read."""
        return elided(task.id, max(12, self.size.width // 2))

    def _show_keys(self) -> None:
        keys, room = list(LIST_KEYS), max(10, self.size.width - 6)
        while len(keys) > 1 and cell_len(" · ".join(keys)) > room:
            del keys[-1]
        self.query_one(Vertical).border_subtitle = FIELD_KEYS if self.focused is self._field else " · ".join(keys)

    # -- the table -----------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Single letters are commands only while the table has the focus."""
        return action in ("back", "open", "step", "help") or self.focused is self.rows

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.value.strip() != self.state.wanted:
            self.state.wanted = event.value.strip()
            self.run_worker(self._filter(), group="filter", exclusive=True, exit_on_error=False)

    async def _filter(self) -> None:
        await asyncio.sleep(TYPED_S)
        await self._arrange(is_filtered=True)

    def on_rows_view_moved(self) -> None:
        self._remember()

    def on_rows_view_opened(self) -> None:
        self.action_open()

    def action_step(self, step: int) -> None:
        if self._field.has_focus:
            self.set_focus(self.rows)
        else:
            self._show_message("")
            self.rows.action_move(step)

    def action_find(self) -> None:
        self.set_focus(self._field)

    def action_back(self) -> None:
        """Clear the filter, then leave."""
        if self.state.wanted or self._field.has_focus:
            self._field.value = ""
            self.set_focus(self.rows)
        else:
            self.action_leave()

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_sort(self, step: int) -> None:
        self.state.order = (self.state.order + step) % len(ORDERS)
        self.state.is_reversed = False
        self._sorted()

    def action_reverse(self) -> None:
        self.state.is_reversed = not self.state.is_reversed
        self._sorted()

    def _sorted(self) -> None:
        order = ORDERS[self.state.order].word
        text = _("Sorted by {order}, reversed.") if self.state.is_reversed else _("Sorted by {order}.")
        self._show_message(text.format(order=order))
        self.run_worker(self._arrange(to_top=True), group="filter", exclusive=True, exit_on_error=False)

    def action_open(self) -> None:
        task = self.selected
        if task is None:
            return
        if task.conversation:
            self.dismiss(task.conversation)
        elif task.state == TaskState.RUNNING:
            self._show_message(_("The conversation of {task} has not begun yet.").format(task=self._short_id(task)))
        else:
            self._show_message(_("{task} has no conversation yet.").format(task=self._short_id(task)))

    # -- the driver ----------------------------------------------------------------------------------------------------

    def _ask(self, kind: RequestKind, argument: str = "", said: str = "") -> None:
        """Ask the driver for something, if there is one."""
        if self.progress is None:
            return
        if not self.progress.is_alive:
            self._show_message(_("This batch is not running, so nothing was changed."), wrong=True)
            return
        self.run_worker(self._asked(kind, argument, said), group=f"ask {kind} {argument}", exit_on_error=False)

    async def _asked(self, kind: RequestKind, argument: str, said: str) -> None:
        try:
            await asyncio.to_thread(ask, self.state.folder, kind, argument)
        except HandloomError as error:
            self._show_message(str(error), wrong=True)
        else:
            self._show_message(said)
            self._changed.set()

    def action_pause(self) -> None:
        if self.progress is not None:
            is_paused = self.progress.driver.is_paused if self._wants_pause is None else self._wants_pause
            self._wants_pause = not is_paused
            self.run_worker(self._ask_pause(), group="pause", exclusive=True, exit_on_error=False)

    async def _ask_pause(self) -> None:
        """Ask once for all presses in quick succession: requests that follow each other closely may change places."""
        await asyncio.sleep(TYPED_S)
        self._ask(RequestKind.PAUSE if self._wants_pause else RequestKind.RESUME)
        await asyncio.sleep(ANSWER_S)
        self._wants_pause = None

    def action_workers(self, more: int) -> None:
        if self.progress is not None:
            before = self.progress.driver.workers if self._workers is None else self._workers
            self._workers = max(1, before + more)
            self.run_worker(self._ask_workers(), group="workers", exclusive=True, exit_on_error=False)

    async def _ask_workers(self) -> None:
        """Ask once for all presses in quick succession, and count further ones from there until the driver answers."""
        await asyncio.sleep(TYPED_S)
        self._ask(RequestKind.WORKERS, str(self._workers))
        await asyncio.sleep(ANSWER_S)
        self._workers = None

    def action_cancel_task(self) -> None:
        task = self.selected
        if task is None:
            return
        if task.state in (TaskState.RUNNING, TaskState.WAITING):
            self._ask(RequestKind.CANCEL, task.id, _("Cancelling {task}.").format(task=self._short_id(task)))
        else:
            self._show_message(_("{task} has ended already.").format(task=self._short_id(task)), wrong=True)

    def action_retry_task(self) -> None:
        task = self.selected
        if task is None:
            return
        if task.state == TaskState.FAILED:
            self._ask(RequestKind.RETRY, task.id, _("{task} is tried again.").format(task=self._short_id(task)))
        else:
            self._show_message(_("Only failed tasks can be tried again."), wrong=True)

    def action_interrupt(self) -> None:
        if self.progress is not None and self.progress.is_alive:
            self.run_worker(self._interrupt(), group="sure", exclusive=True, exit_on_error=False)
        else:
            self._ask(RequestKind.INTERRUPT)

    async def _interrupt(self) -> None:
        question = _(
            "Interrupt this batch? Running attempts end and run again when you go on. Leaving the screen does not "
            "interrupt it."
        )
        if await self.app.push_screen_wait(SureScreen(question, _("interrupt"))):
            self._ask(RequestKind.INTERRUPT)

    # -- help ----------------------------------------------------------------------------------------------------------

    def action_help(self) -> None:
        keys = [
            ("Enter", _("open the conversation of the newest attempt")),
            ("↑ ↓ j k", _("move; PgUp PgDn, Home End and g G move further")),
            ("/", _("go to the filter field; words match id, state, result and worker")),
            ("o", _("sort by: list, state, id, attempts, cost, tokens, time")),
            ("O", _("reverse the order")),
            (f"p {_('Space')}", _("pause or continue: begin no attempts; those that run go on")),
            ("x", _("cancel the task")),
            ("r", _("try a failed task again")),
            ("+ -", _("more or fewer workers")),
            ("I", _("interrupt the batch (asks first)")),
            ("Esc q", _("clear the filter; leave, and the batch goes on")),
        ]
        lines = [Content.assemble((set_cell_size(key, KEY_CELLS), "bold $text-accent"), word) for key, word in keys]
        self.app.push_screen(TextScreen(_("Batch"), Content("\n").join(lines)))


def _place_of(id: str, tasks: list[TaskLine]) -> int | None:
    return next((place for place, task in enumerate(tasks) if task.id == id), None)
