"""Requests: what other processes ask of the driver of a batch, and what the driver says about itself.

A request is a row of `requests` in `batch.db`, so it survives the driver: `cancel` and `retry` are for a task and are
done by the next driver, too; the others are for the driver that runs, and the next one drops them.
`core.batch.progress` asks.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Self

DRIVER = "driver"
"""The name of the driver's state among the facts of a batch."""


class RequestKind(StrEnum):
    """What can be asked of a driver."""

    PAUSE = "pause"
    """Begin no attempt; those that run go on."""
    RESUME = "resume"
    WORKERS = "workers"
    """Run so many attempts at once."""
    CANCEL = "cancel"
    """Let a task fail that waits or runs."""
    RETRY = "retry"
    """Let a failed task wait again."""
    INTERRUPT = "interrupt"
    """End the batch, as SIGINT does."""


class Request(NamedTuple):
    """A request that has not been done yet."""

    id: int
    kind: str
    """A RequestKind; another Handloom may know more of them."""
    argument: str = ""


@dataclass(frozen=True, slots=True)
class DriverState:
    """What the driver of a batch says about itself."""

    pid: int = 0
    """Its process."""
    workers: int = 0
    is_paused: bool = False
    is_interrupted: bool = False
    budget: float | None = None
    """US dollars; None if there is no limit."""
    began: float = 0.0
    """When the driver began, in seconds since 1970."""
    before: int = 0
    """How many tasks were done or failed when it began."""
    status: int | None = None
    """Its exit status; None while it runs, and if it was killed."""
    tasks: str = ""
    """The list of tasks: an absolute path, or the pattern of environments."""
    options: str = ""
    """The options of its command, except --out and --budget, as a shell reads them."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Fields that are missing, unknown or of another type are left out."""
        try:
            found: Any = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            return cls()
        known = asdict(cls())
        return cls(**{name: value for name, value in found.items() if name in known and _fits(value, known[name])})


def _fits(value: object, default: object) -> bool:
    if default is None:
        return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
    if isinstance(default, bool | str):
        return isinstance(value, type(default))
    return isinstance(value, int | float) and not isinstance(value, bool)
