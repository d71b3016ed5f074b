"""The plan as a text that the user edits: a task a line, its notes indented below. Pure, both ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tui.plan.model import Task

INDENT = "    "


def plan_text(tasks: Sequence[Task]) -> str:
    """A plan as text; clean, because the tasks are."""
    return "\n".join(line for task in tasks for line in (task.title, *([INDENT + task.notes] if task.notes else [])))


def tasks_of(text: str, tasks: Sequence[Task], raw_tasks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tasks that stand in a text, as they are stored. A task whose title is as before stays what it was."""
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
