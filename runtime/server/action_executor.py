"""ActionExecutor: one table from the class of an action to its handler.

The shell, the files, the task list and every plugin add rows; two handlers for one action are refused when the table is
made. Errors in a handler become an ErrorObservation here and nowhere else; the traceback goes to the log. The task list
is stored here too. Its texts and that of a missing browser are those of OpenHands V0 (`openhands/runtime/base.py`,
`openhands/runtime/browser/utils.py`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from core.events import (
    Action,
    ActionConfirmationStatus,
    AgentThinkAction,
    AgentThinkObservation,
    BrowseInteractiveAction,
    BrowseURLAction,
    ErrorObservation,
    Frame,
    NullObservation,
    Observation,
    TaskTrackingAction,
    TaskTrackingObservation,
    UserRejectObservation,
)
from runtime.server.shortage_watch import ShortageWatch
from runtime.shortage_messages import with_note

log = logging.getLogger(__name__)

Emit = Callable[[Frame], Awaitable[None]]
"""Sends a live frame. Waits while the reader is slow, and raises if the reader is gone."""
Handler = Callable[[Any, int, Emit], Awaitable[Observation]]
"""Carries out an action of the class in its row; the second argument is the action's ID."""
Table = Mapping[type[Action], Handler]

REJECTED = "Action has been rejected by the user! Waiting for further user input."
NO_BROWSER = "Browser functionality is not supported or disabled."
THOUGHT_LOGGED = "Your thought has been logged."


class ActionExecutor:
    """Carries out actions by the rows of its tables. Messages of `shortage` are added to the next observation."""

    def __init__(self, tables: Iterable[Table], shortage: ShortageWatch | None = None) -> None:
        self._handlers = merge([{AgentThinkAction: _think}, *tables])
        self._shortage = shortage
        self._started_at = self._last_used_at = time.monotonic()

    @property
    def uptime_s(self) -> float:
        return time.monotonic() - self._started_at

    @property
    def memory_history(self) -> list[tuple[float, int]]:
        """The memory while commands ran, as in `ShortageWatch.memory_history`."""
        return self._shortage.memory_history() if self._shortage is not None else []

    @property
    def idle_s(self) -> float:
        """Seconds since the last action began or ended."""
        return time.monotonic() - self._last_used_at

    async def execute(self, action: Action, action_id: int, emit: Emit) -> Observation:
        """Carry out one action. Raises only what `emit` raises and CancelledError, never an error of the action."""
        self._last_used_at = time.monotonic()
        try:
            return await self._execute(action, action_id, emit)
        except ConnectionError:
            raise  # the reader of the frames is gone, so nobody needs the observation
        except PermissionError as error:
            return ErrorObservation(content=f"Permission denied: {error.filename or error}. Choose another path.")
        except Exception as error:
            log.exception("%s could not be carried out", type(action).__name__)
            return ErrorObservation(content=f"{type(error).__name__}: {error}")
        finally:
            self._last_used_at = time.monotonic()

    async def _execute(self, action: Action, action_id: int, emit: Emit) -> Observation:
        if not action.runnable or action.confirmation is ActionConfirmationStatus.AWAITING_CONFIRMATION:
            return NullObservation()
        if action.confirmation is ActionConfirmationStatus.REJECTED:
            return UserRejectObservation(content=REJECTED)
        handler = self._handlers.get(type(action))
        if handler is None and isinstance(action, BrowseURLAction | BrowseInteractiveAction):
            return ErrorObservation(content=NO_BROWSER)
        if handler is None:
            return ErrorObservation(
                content=f"Action {action.kind} is not supported in the current runtime. "
                "Do it another way, or start the runtime with the plugin that carries it out."
            )
        if self._shortage is None:
            return await handler(action, action_id, emit)
        with self._shortage.watched():
            observation = await handler(action, action_id, emit)
        return with_note(observation, self._shortage.take())


def merge(tables: Iterable[Table]) -> Table:
    """Merge tables. Raises ValueError if two of them have the same action."""
    merged: dict[type[Action], Handler] = {}
    for table in tables:
        if twice := merged.keys() & table.keys():
            names = ", ".join(sorted(action.__name__ for action in twice))
            raise ValueError(f"two handlers claim {names}")
        merged |= table
    return merged


async def _think(action: AgentThinkAction, action_id: int, emit: Emit) -> AgentThinkObservation:
    return AgentThinkObservation(content=THOUGHT_LOGGED)


NO_PLAN = 'No task list found. Use the "plan" command to create one.'
ICONS = {"todo": "⏳", "in_progress": "🔄", "done": "✅"}


class TaskList:
    """The task list of one session. It is written to `TASKS.md` in `folder`, or kept in memory only."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._tasks: list[dict[str, Any]] = []

    @property
    def table(self) -> Table:
        return {TaskTrackingAction: self.track}

    async def track(self, action: TaskTrackingAction, action_id: int, emit: Emit) -> Observation:
        """Replace the task list, or show it."""
        if action.command == "view":
            content = as_markdown(self._tasks) if self._tasks else NO_PLAN
            return TaskTrackingObservation(content=content, command="view", task_list=self._tasks)
        self._tasks = action.task_list
        content = f"Task list has been updated with {len(self._tasks)} items."
        if self._folder is not None:
            path = self._folder / "TASKS.md"
            try:
                await asyncio.to_thread(path.write_text, as_markdown(self._tasks), "utf-8")
            except OSError as error:
                return ErrorObservation(content=f"Failed to write task list to {path}: {error.strerror}")
            content += f" Stored in session directory: {path}"
        return TaskTrackingObservation(content=content, command="plan", task_list=self._tasks)


def as_markdown(tasks: list[dict[str, Any]]) -> str:
    """Format a task list as Markdown: a numbered line per task, its notes below."""
    lines = ["# Task List", ""]
    for number, task in enumerate(tasks, 1):
        icon = ICONS.get(str(task.get("status", "todo")), ICONS["todo"])
        lines.append(f"{number}. {icon} {task.get('title', '')}")
        lines.append(str(task.get("notes", "")))
    return "\n".join(lines) + "\n"
