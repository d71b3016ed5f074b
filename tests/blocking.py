"""Guards against blocking calls on the event loop, based on blockbuster: fails the test even if the error is caught.

It watches code that shares its loop with the screen: core, and the client side of runtime. The action server has its
own process and loop. Exceptions are in ALLOWED, each with its reason.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from blockbuster import BlockBuster, BlockBusterFunction, BlockingError
from blockbuster import blockbuster as machinery

from core.store.database import sqlite3

ROOT = Path(__file__).parents[1]
TESTS = str(ROOT / "tests")
OURS = tuple(str(ROOT / folder) for folder in ("core", "runtime", "tui", "tests"))
WATCHED = (
    *(
        "core",
        "runtime.client",
        "runtime.reconnecting_client",
        "runtime.local.local_runtime",
        "runtime.protocol",
    ),
    *(
        "runtime.health_check",
        "runtime.remote.remote_runtime",
        "runtime.server_runtime",
    ),
)

ALLOWED = (
    # One line of the log, about a failure, to a terminal.
    ("logging/__init__.py", frozenset({"emit"})),
    # A folder and a key of 64 bytes under /tmp. In a thread, a start that is cancelled would leave the key behind.
    ("runtime/local/local_runtime.py", frozenset({"_bind", "_write_key"})),
    ("runtime/isolation/confinement.py", frozenset({"_create"})),
)
"""File and functions in which the loop may wait for the disk, and why."""


def asked_by_a_test() -> bool:
    """Whether a test blocks its own loop, which is its own business: by its own code, or by its own coroutine's."""
    frame, is_innermost = inspect.currentframe(), True
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(OURS) and file != __file__:
            is_coroutine = frame.f_code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR)
            if is_innermost or is_coroutine:
                if file.startswith(TESTS):
                    return True
                if is_coroutine:
                    return False
            is_innermost = False
        frame = frame.f_back
    return False


class BlockedLoop(BlockingError):
    """A blocking call on the event loop. `seen` keeps every one, because a broad catch may hide it."""

    seen: list[str] = []

    def __init__(self, name: str) -> None:
        super().__init__(name)
        ours = [f for f in traceback.extract_stack() if f.filename.startswith(OURS) and f.filename != __file__]
        where = " <- ".join(f"{Path(f.filename).relative_to(ROOT)}:{f.lineno} {f.name}" for f in reversed(ours[-4:]))
        self.seen.append(f"{name} in {where}")


class LoopGuard:
    """Switches the guard on and off; made once, because making it looks at every module."""

    def __init__(self) -> None:
        self._blockbuster = BlockBuster(list(WATCHED))
        for owner, names in (
            (sqlite3.Connection, ("execute", "executemany", "commit", "rollback", "close")),
            (sqlite3.Cursor, ("execute", "executemany", "fetchone", "fetchmany", "fetchall")),
        ):
            for name in names:
                function = BlockBusterFunction(owner, name, scanned_modules=list(WATCHED))
                self._blockbuster.functions[f"{sqlite3.__name__}.{owner.__name__}.{name}"] = function
        for function in self._blockbuster.functions.values():
            for file, names_in_it in ALLOWED:
                function.can_block_in(file, names_in_it)
            function.can_block_predicate = _either(function.can_block_predicate, asked_by_a_test)

    @contextmanager
    def watching(self) -> Iterator[list[str]]:
        """Raise at every blocking call meanwhile; the list has them all."""
        seen: list[str] = []
        BlockedLoop.seen = seen
        original = machinery.BlockingError
        setattr(machinery, "BlockingError", BlockedLoop)  # noqa: B010  # the name under which it is raised
        self._blockbuster.activate()
        try:
            yield seen
        finally:
            self._blockbuster.deactivate()
            setattr(machinery, "BlockingError", original)  # noqa: B010


def _either(first: Callable[..., bool], second: Callable[[], bool]) -> Callable[..., bool]:
    return lambda *args, **kwargs: first(*args, **kwargs) or second()
