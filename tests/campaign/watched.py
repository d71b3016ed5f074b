"""The workspace as users start it, which also reports its objects on request.

    python -m tests.campaign.watched FILE ARGUMENTS...

Runs `handloom ARGUMENTS...`. At each SIGUSR2 it collects garbage and appends a line of JSON to FILE: the pending
asyncio tasks, and the number of Python objects by type, for the most frequent types.
"""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import sys
from collections import Counter
from contextlib import suppress
from types import FrameType

from tui.__main__ import main

NAMED = 40
"""Types that are reported."""


def count_into(file: str) -> None:
    """Answer SIGUSR2 from here on."""

    def count(number: int, frame: FrameType | None) -> None:
        gc.collect()
        tasks: list[str] = []
        with suppress(RuntimeError):  # there is no loop yet
            tasks = sorted(task.get_name() for task in asyncio.all_tasks())
        objects = gc.get_objects()
        types = Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in objects)
        alive = len(objects) + gc.get_freeze_count()  # what is spared is not looked at, and is there all the same
        found = {"tasks": tasks, "objects": alive, "types": dict(types.most_common(NAMED))}
        del objects
        with open(file, "a", encoding="utf-8") as out:
            out.write(json.dumps(found) + "\n")

    signal.signal(signal.SIGUSR2, count)


if __name__ == "__main__":
    count_into(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
