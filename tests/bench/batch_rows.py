"""From a key to its character in the filter of a batch with 10,000 tasks: at rest, and while results arrive."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from core.batch.ledger import AttemptState, Ended, Ledger, TaskState
from core.batch.requests import DriverState
from core.batch.tasks import BatchTask
from tests.bench.figure import Figure, Limit, Target
from tests.bench.keys import FIRST_GLYPH, GAPS_S, QUIET_S, SEED
from tests.bench.places import folder
from tests.bench.program import HELLO, HELLO_DRAWN, Program
from tests.bench.size import sized

KEYS, TASKS = sized(100, 5), sized(10_000, 200)
RESULT_S = 0.1
"""Between two results."""


def measure() -> list[Figure]:
    least: list[float] = []
    still: list[float] = []
    busy: list[float] = []
    with folder() as place, Program(HELLO, {}) as hello, _driver(place) as driver:
        hello.drawn(HELLO_DRAWN)
        words = ("-m", "tui", "batch", "attach", str(place / "out"))
        with Program(words, {"HANDLOOM_HOME": str(place / "home")}) as screen:
            screen.drawn(f"of {TASKS:,}".encode())
            for program in (hello, screen):
                program.quiet(QUIET_S)
            screen.write("/")
            screen.watch(QUIET_S)
            pace = random.Random(SEED)
            for taken, first in ((still, FIRST_GLYPH), (busy, FIRST_GLYPH + KEYS)):
                for number in range(KEYS):
                    for program, times in ((hello, least), (screen, taken)):
                        program.watch(pace.uniform(*GAPS_S))
                        times.append(program.press(chr(first + number)))
                screen.write("\x1b")
                screen.watch(QUIET_S)
                screen.write("/")
                driver.start()
    limit = Limit("hello Textual at rest", least)
    return [
        Figure(f"key to paint, {TASKS:,} tasks", "ms", still, limit, [Target(16), Target(50, "p95")]),
        Figure("key to paint, 10 results a second", "ms", busy, limit, [Target(16), Target(50, "p95")]),
    ]


class _Driver:
    """The ledger of a batch, and a thread that stores results in it once it is started."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        """May be called twice."""
        if not self._thread.is_alive():
            self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(RESULT_S) and (started := self._ledger.start("local")) is not None:
            task, number = started
            self._ledger.end(task.id, number, Ended(AttemptState.FINISHED, "c", 0.01, 900, 90), TaskState.DONE)


@contextmanager
def _driver(place: Path) -> Iterator[_Driver]:
    with Ledger(place / "out") as ledger:
        ledger.begin([BatchTask(f"task-{number:05}", "Do something.") for number in range(TASKS)])
        ledger.note_driver(DriverState(1, 4))
        driver = _Driver(ledger)
        try:
            yield driver
        finally:
            driver.end()
