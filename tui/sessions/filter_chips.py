"""Chips: what the list of conversations leaves out, each said in one visible word or two. Pure, no Textual.

Invariant: nothing is left out that no chip names, so that a conversation that is not in the list can be found again by
taking the chips away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from core.store.conversations import ConversationFilter
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize_line

T = TypeVar("T")
VALUE_CELLS = 22
"""A longer value is cut off in its chip."""


class Chip(StrEnum):
    """By what conversations are chosen."""

    FOLDER = "folder"
    MODEL = "model"
    STATE = "state"
    AGE = "age"
    ORIGIN = "origin"


KEYS = {chip: str(number) for number, chip in enumerate(Chip, 1)}
"""The key of each chip, in the list."""
NAMES = {
    Chip.FOLDER: _("folder"),
    Chip.MODEL: _("model"),
    Chip.STATE: _("state"),
    Chip.AGE: _("age"),
    Chip.ORIGIN: _("origin"),
}
ANY = _("any")
HERE = _("this")

STATES: dict[str, frozenset[str]] = {
    "waits": frozenset({"awaiting_user_input", "awaiting_user_confirmation", "paused"}),
    "finished": frozenset({"finished"}),
    "error": frozenset({"error"}),
    "stopped": frozenset({"stopped", "rejected"}),
    "running": frozenset({"loading", "running", "user_confirmed", "user_rejected", "rate_limited"}),
}
"""The states of the agent that a user tells apart in a list."""
STATE_WORDS = {
    "waits": _("waiting for you"),
    "finished": _("finished"),
    "error": _("error"),
    "stopped": _("stopped"),
    "running": _("running"),
}
AGES_DAYS = (1, 7, 30, 365)
ORIGINS = {"": _("started here"), "fork": _("fork"), "import": _("import"), "again": _("run again")}


class Shown(NamedTuple):
    """A chip as it is drawn."""

    chip: Chip
    name: str
    value: str
    is_set: bool


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which conversations are wanted. The empty one wants all."""

    workspace: str = ""
    model: str = ""
    state: str = ""
    """A key of STATES."""
    age_days: int = 0
    origin: str | None = None
    order: tuple[Chip, ...] = ()
    """The chips that are set, the latest last."""

    def filter(self, text: str, now: datetime) -> ConversationFilter:
        """What the store is asked for. Without a text, delegates are left to those that they work for."""
        return ConversationFilter(
            text=text,
            workspace=self.workspace,
            model=self.model,
            states=STATES.get(self.state, frozenset()),
            since=now - timedelta(days=self.age_days) if self.age_days else None,
            origin=self.origin,
            parents=not text,
        )

    def turned(self, chip: Chip, here: str) -> Chosen:
        """The chip at its next value; behind the last one it wants any. `here` is the folder that is this one."""
        match chip:
            case Chip.FOLDER:
                return self.with_value(chip, "" if self.workspace else here)
            case Chip.STATE:
                return self.with_value(chip, _next(self.state, ["", *STATES]))
            case Chip.AGE:
                return self.with_value(chip, _next(self.age_days, [0, *AGES_DAYS]))
            case Chip.ORIGIN:
                return self.with_value(chip, _next(self.origin, [None, *ORIGINS]))
            case Chip.MODEL:
                return self.with_value(chip, "")

    def with_value(self, chip: Chip, value: str | int | None) -> Chosen:
        """The chip at this value."""
        field = _FIELDS[chip]
        others = tuple(other for other in self.order if other is not chip)
        is_set = value != getattr(Chosen(), field)
        changed: dict[str, Any] = {field: value, "order": (*others, chip) if is_set else others}
        return replace(self, **changed)

    def without(self, chip: Chip) -> Chosen:
        """The chip taken away."""
        return self.with_value(chip, getattr(Chosen(), _FIELDS[chip]))

    def without_last(self) -> Chosen:
        """Without the chip that was set last."""
        return self.without(self.order[-1]) if self.order else self

    def shown(self) -> Sequence[Shown]:
        """Every chip, set or not; clean."""
        values = {
            Chip.FOLDER: HERE if self.workspace else "",
            Chip.MODEL: sanitize_line(self.model, VALUE_CELLS),
            Chip.STATE: STATE_WORDS.get(self.state, ""),
            Chip.AGE: _("{n} d").format(n=self.age_days) if self.age_days else "",
            Chip.ORIGIN: ORIGINS.get(self.origin, "") if self.origin is not None else "",
        }
        return [Shown(chip, NAMES[chip], value or ANY, chip in self.order) for chip, value in values.items()]


_FIELDS = {
    Chip.FOLDER: "workspace",
    Chip.MODEL: "model",
    Chip.STATE: "state",
    Chip.AGE: "age_days",
    Chip.ORIGIN: "origin",
}


def _next(value: T, values: Sequence[T]) -> T:
    return values[(values.index(value) + 1) % len(values)]
