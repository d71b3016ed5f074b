"""OpenHands' own reader on Handloom's exports. Runs where `openhands-ai` is installed.

Arguments: the file for the outcome, and exports: trajectories (`.json`) and zips of event files. The outcome has one
JSON object for each export, with its `name`, the number of its `events`, of those that V0 would `replay`, and of each
event that was refused, the error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from openhands.controller.replay import ReplayManager
from openhands.events.serialization.event import event_from_dict, event_to_dict


def forms(path: Path) -> Iterator[tuple[str, Any]]:
    """The events of an export, each with its name in it."""
    if path.suffix == ".json":
        for form in json.loads(path.read_text()):
            yield f"event {form.get('id')}", form
        return
    with ZipFile(path) as archive:
        for name in archive.namelist():
            if name.startswith("events/"):
                yield name, json.loads(archive.read(name))


def look(path: Path) -> dict[str, Any]:
    """Read every event as V0 does, write it as V0 does, and load the whole for V0's replay."""
    refused, taken = [], []
    for name, form in forms(path):
        try:
            event_to_dict(event_from_dict(json.loads(json.dumps(form))))
            taken.append(form)
        except Exception as error:  # noqa: BLE001  # boundary: any exception of the package is a refusal
            refused.append(f"{name}: {type(error).__name__}: {error}")
    replayed = ReplayManager(ReplayManager.get_replay_events(taken)).replay_events
    return {"name": path.name, "events": len(taken), "replayed": len(replayed), "refused": refused}


def main(arguments: list[str]) -> None:
    outcome, *exports = arguments
    Path(outcome).write_text(json.dumps([look(Path(path)) for path in exports]))


if __name__ == "__main__":
    main(sys.argv[1:])
