"""Runs of research agents, which lie in the folder where somebody ran them: found below known projects only.

Nobody searches the whole home. Looked at are a project's own folder and its folders with the usual names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from core.import_export.agents import files
from core.import_export.agents.source import Places

_FOLDERS = ("trajectories", "logs", "results", "runs", "output", "outputs", "evaluation")
_DEPTH = 6
"""`trajectories/<user>/<run>/<instance>/<instance>.traj`, and one to spare."""


def in_projects(places: Places, suffix: str | tuple[str, ...]) -> Iterator[tuple[Path, files.FoundFile]]:
    """The files of known projects whose names end in `suffix`, each with its project; each file once."""
    seen: set[Path] = set()
    for project in places.projects:
        if not project.is_absolute():
            continue
        for folder, depth in ((project, 1), *((project / name, _DEPTH) for name in _FOLDERS)):
            if folder.is_symlink() and folder != project:
                continue
            for found in files.walk(folder, suffix, depth):
                if found.path not in seen:
                    seen.add(found.path)
                    yield project, found
