"""The agent's plan: kept while the server lives, and written to `TASKS.md` where a session folder was given.

Texts and signs are those of OpenHands V0 (`openhands/runtime/base.py`).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from core.events import ErrorObservation, Observation, TaskTrackingAction, TaskTrackingObservation
from runtime.server.action_executor import Emit, Table

NO_PLAN = 'No task list found. Use the "plan" command to create one.'
ICONS = {"todo": "⏳", "in_progress": "🔄", "done": "✅"}


class TaskList:
    """The plan of one session. `folder` is where it is written; None keeps it in memory alone."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._tasks: list[dict[str, Any]] = []

    @property
    def table(self) -> Table:
        return {TaskTrackingAction: self.track}

    async def track(self, action: TaskTrackingAction, action_id: int, emit: Emit) -> Observation:
        """Replace the plan, or show it."""
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
    """A plan as people and models read it: one numbered line a task, its notes below."""
    lines = ["# Task List", ""]
    for number, task in enumerate(tasks, 1):
        icon = ICONS.get(str(task.get("status", "todo")), ICONS["todo"])
        lines.append(f"{number}. {icon} {task.get('title', '')}")
        lines.append(f"{task.get('notes', '')}")
    return "\n".join(lines) + "\n"
