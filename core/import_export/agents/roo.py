"""Tasks of Roo Code in an editor: as those of Cline, from which it comes (`editor_tasks`).

The setting `roo-cline.customStoragePath` of an editor moves them. A sub-task names the task that started it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from core.import_export.agents import editor_tasks, files
from core.import_export.agents.editor_tasks import read
from core.import_export.agents.source import AgentSession, Places

NAME = "roo"
EXTENSION = "rooveterinaryinc.roo-cline"

__all__ = ["NAME", "discover", "read"]

_MOVED = re.compile(r'"roo-cline\.customStoragePath"\s*:\s*"((?:[^"\\\0]|\\[^\0]){1,4096})"')
"""In settings with comments, which are no JSON."""


def discover(places: Places) -> Iterator[AgentSession]:
    """The tasks in the storage of every editor, and where their settings moved it."""
    roots = {folder / EXTENSION: None for folder in editor_tasks.storage_folders(places)}
    for folder in editor_tasks.storage_folders(places):
        if (moved := _moved(folder.parent)) is not None:
            roots[moved] = None
    yield from editor_tasks.discover(NAME, tuple(roots))


def _moved(user: Path) -> Path | None:
    with suppress(OSError), files.open_below(user, user / "settings.json") as file:
        text = file.read(files.EDGE_BYTES * 16).decode("utf-8", "replace")
        if (found := _MOVED.search(text)) and os.path.isabs(path := found[1].replace("\\\\", "\\")):
            return Path(path)
    return None
