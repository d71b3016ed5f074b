"""One edit of a file of 1,000 lines in the server, its way back kept on the disk: beside writing the same bytes."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from time import perf_counter

from core.events import FileEditAction, FileEditObservation, Frame
from runtime.server.edit_history import DiskHistory, History
from runtime.server.file_actions import Files
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import folder, milliseconds_since
from tests.bench.size import sized

ROUNDS, IN_A_ROW = sized(20, 2), sized(20, 2)
TEXT = "".join(f"    line {number:04} = call_something({number}, 'abc')\n" for number in range(1000))
CHANGES = [("line 0500 =", "line five hundred ="), ("line five hundred =", "line 0500 =")]


def measure() -> list[Figure]:
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    with folder() as place:
        kept = DiskHistory(place / "undo")
        figures = [
            await _edits(place, kept, "str_replace in 1,000 lines, undo on the disk"),
            await _edits(place, None, "str_replace in 1,000 lines, undo in memory"),
        ]
        kept.close()
    return figures


async def _edits(place: Path, history: History | None, name: str) -> Figure:
    file = place / "file.py"
    file.write_text(TEXT)
    files = Files(lambda: str(place), 0o022, history=history)
    ours, least = [], []
    await _edit(files, file, 0)
    await _edit(files, file, 1)
    for _ in range(ROUNDS):
        ours += [await _edit(files, file, number) for number in range(IN_A_ROW)]
        least += [_write(place / "bare") for _ in range(IN_A_ROW)]
    return Figure(name, "ms", ours, Limit("the same bytes written and synced, in place", least), [Target(1)])


async def _edit(files: Files, file: Path, number: int) -> float:
    old, new = CHANGES[number % 2]
    action = FileEditAction(command="str_replace", path=str(file), old_str=old, new_str=new)
    started_at = perf_counter()
    observation = await files.edit(action, 1, _discard)
    taken = milliseconds_since(started_at)
    assert isinstance(observation, FileEditObservation)
    return taken


async def _discard(frame: Frame) -> None:
    """An edit has none."""


def _write(file: Path) -> float:
    started_at = perf_counter()
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(fd, TEXT.encode())
    os.fsync(fd)
    os.close(fd)
    return milliseconds_since(started_at)
