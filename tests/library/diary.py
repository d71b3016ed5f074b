"""A small agent of these tests: it writes one session a file, a line of JSON for each thing that was said or done."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from core.import_export.agents.files import lines, open_below, walk
from core.import_export.agents.source import AgentSession, Places, Source
from core.import_export.agents.transcript import Branch, Transcript, as_time


def discover(places: Places) -> Iterator[AgentSession]:
    root = places.home / ".diary"
    for file in walk(root, ".jsonl"):
        with open_below(root, file.path) as opened:
            first: dict[str, Any] = next((line.value for line in lines(opened) if line.value), {})
        yield AgentSession(
            agent="diary",
            id=file.path.stem,
            root=root,
            path=file.path,
            title=first.get("title", ""),
            folder=first.get("folder", ""),
            updated_at=as_time(first.get("at")),
            size=file.size,
            changed_ns=file.changed_ns,
            parent_id=first.get("parent", ""),
        )


def read(session: AgentSession) -> Transcript:
    found = Transcript("diary")
    with open_below(session.root, session.path) as file:
        for line in lines(file, session.first_bytes):
            _take(found, line.number, line.value)
    return found


def _take(found: Transcript, number: int, record: Any) -> None:
    match record:
        case {"user": str(text), "at": at}:
            found.at(at, number, "user")
            found.user(text)
        case {"agent": str(text), "at": at}:
            found.at(at, number, "agent")
            found.says(text)
        case {"run": str(command), "output": str(output), "at": at}:
            found.at(at, number, "run")
            found.call(f"call-{number}", "bash", {"command": command})
            found.result(f"call-{number}", output, exit_code=0)
        case {"other": str(text)}:
            other = Transcript("diary")
            other.user(text)
            found.branches.append(Branch(text, other))
        case {"title": _}:
            pass
        case _:
            found.unknown("line", record)


DIARY = Source("diary", "Diary", discover, read)


def write(home: Path, name: str, *records: dict[str, Any], append: bool = False) -> Path:
    """Write a session, or add to it."""
    path = home / ".diary" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a" if append else "w") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
    return path
