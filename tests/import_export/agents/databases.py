"""Databases of other agents, written by tests."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any


def write(path: Path, schema: str, rows: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
    """A database with these rows in each table. Objects and lists become JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(schema)
        for table, found in rows.items():
            for row in found:
                values = [json.dumps(each) if isinstance(each, dict | list) else each for each in row.values()]
                names, marks = ", ".join(row), ", ".join("?" for _ in row)
                connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", values)


def told(forms: Iterable[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Each event as its kind and the texts in it that matter, to compare a whole session at a glance."""
    return [_told(form) for form in forms]


def _told(form: Mapping[str, Any]) -> tuple[str, ...]:
    kind = form.get("action") or form.get("observation")
    if "action" not in form:
        extras = form["extras"]
        found = (form["content"], extras.get("diff"), extras.get("reason"), extras.get("record", {}).get("type"))
        code = extras.get("metadata", {}).get("exit_code")
        return (f"= {kind}", *(str(each) for each in (*found, code) if each not in (None, "")))
    args = dict(form["args"])
    named = ("content", "thought", "command", "path", "name", "agent", "summary", "url")
    said = [args[name] for name in named if args.get(name)]
    if kind == "delegate":
        said.append(args["inputs"].get("session", ""))
    if kind == "task_tracking":
        said += [f"{task['title']}: {task['status']}" for task in args["task_list"]]
    return (f"{form['source']}: {kind}", *map(str, said))
