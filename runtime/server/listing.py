"""What stands in a folder, two levels deep, as the model reads it.

The texts are those of OpenHands' editor (`openhands_aci/editor/editor.py`). Folders are listed from their descriptors,
links to folders among them as long as they stay beneath the roots.
"""

from __future__ import annotations

import os
import stat
from itertools import islice

from runtime.server.beneath import FileError, Location, Roots
from runtime.server.excerpts import MAX_CHARS

LISTED_ENTRIES = 10_000
"""Of one folder; far more than MAX_CHARS can show."""

_CLIPPED = (
    "<response clipped><NOTE>Due to the max output limit, only part of this directory has been shown to you. "
    "You should use `ls -la` instead to view large directories incrementally.</NOTE>"
)


def listing(roots: Roots, place: Location) -> str:
    """A folder's entries and theirs; hidden ones are left out, and counted. Raises FileError, OSError."""
    path = place.path
    top = _entries(place)
    hidden = sum(name.startswith(".") for name in top)
    paths = [f"{path}/"]
    for entry in (os.path.join(path, name) for name in top if not name.startswith(".")):
        below = _below(roots, entry)
        paths.append(entry if below is None else f"{entry}/")
        paths += below or []
    shown = "\n".join(sorted(paths))
    if len(shown) > MAX_CHARS:
        shown = shown[:MAX_CHARS] + _CLIPPED
    text = f"Here's the files and directories up to 2 levels deep in {path}, excluding hidden items:\n{shown}"
    if hidden:
        text += (
            f"\n\n{hidden} hidden files/directories in this directory are excluded. "
            f"You can use 'ls -la {path}' to see them."
        )
    return text


def _below(roots: Roots, path: str) -> list[str] | None:
    """What is shown of a folder in a folder; None for what is none. One that must not be read counts as empty."""
    try:
        with roots.locate(path) as place:
            if not _is_folder(place):
                return None
            try:
                names = [name for name in _entries(place) if not name.startswith(".")]
            except (FileError, OSError):
                return []
            return [_marked(roots, os.path.join(path, name)) for name in names]
    except (FileError, OSError):
        return None


def _marked(roots: Roots, path: str) -> str:
    try:
        with roots.locate(path) as place:
            return f"{path}/" if _is_folder(place) else path
    except (FileError, OSError):
        return path


def _is_folder(place: Location) -> bool:
    status = place.status()
    return status is not None and stat.S_ISDIR(status.st_mode)


def _entries(place: Location) -> list[str]:
    fd = place.open_folder()
    try:
        with os.scandir(fd) as entries:
            return sorted(entry.name for entry in islice(entries, LISTED_ENTRIES))
    finally:
        os.close(fd)
