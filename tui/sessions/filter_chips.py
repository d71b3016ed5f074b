"""The filters of the list of conversations, each shown as a chip. Pure, no Textual.

Every active filter has a chip, so that a missing conversation can be found by removing chips.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from core.import_export.agents.names import AGENTS
from core.store.conversations import ConversationFilter
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize_line

T = TypeVar("T")
VALUE_CELLS = 22


class Chip(StrEnum):
    """The filters of the list."""

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
"""The states of the agent, in groups that users filter by."""
STATE_WORDS = {
    "waits": _("waiting for you"),
    "finished": _("finished"),
    "error": _("error"),
    "stopped": _("stopped"),
    "running": _("running"),
}
AGES_DAYS = (1, 7, 30, 365)
ORIGINS = {
    "": _("started here"),
    "fork": _("fork"),
    "import": _("import"),
    "again": _("run again"),
    **{name: agent.title for name, agent in AGENTS.items()},
}
OUR_ORIGINS = tuple(name for name in ORIGINS if name not in AGENTS)


class ChipLabel(NamedTuple):
    """The text of a chip."""

    chip: Chip
    name: str
    value: str
    is_set: bool


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters that are set. By default none, which matches every conversation."""

    workspace: str = ""
    model: str = ""
    state: str = ""
    """A key of STATES."""
    age_days: int = 0
    origin: str | None = None
    order: tuple[Chip, ...] = ()
    """The chips that are set, the latest last."""

    def filter(self, text: str, now: datetime) -> ConversationFilter:
        """The query for the store. Without a text, delegates are left out."""
        return ConversationFilter(
            text=text,
            workspace=self.workspace,
            model=self.model,
            states=STATES.get(self.state, frozenset()),
            since=now - timedelta(days=self.age_days) if self.age_days else None,
            origin=self.origin,
            parents=not text,
        )

    def next_value(self, chip: Chip, here: str) -> Filters:
        """The filters with the next value of a chip; after the last value it is unset. `here` is the current folder."""
        match chip:
            case Chip.FOLDER:
                return self.with_value(chip, "" if self.workspace else here)
            case Chip.STATE:
                return self.with_value(chip, _next(self.state, ["", *STATES]))
            case Chip.AGE:
                return self.with_value(chip, _next(self.age_days, [0, *AGES_DAYS]))
            case Chip.ORIGIN:
                return self.with_value(chip, _next(self.origin, [None, *OUR_ORIGINS]))
            case Chip.MODEL:
                return self.with_value(chip, "")

    def with_value(self, chip: Chip, value: str | int | None) -> Filters:
        """The filters with this value of a chip."""
        field = _FIELDS[chip]
        others = tuple(other for other in self.order if other is not chip)
        is_set = value != getattr(Filters(), field)
        changed: dict[str, Any] = {field: value, "order": (*others, chip) if is_set else others}
        return replace(self, **changed)

    def without(self, chip: Chip) -> Filters:
        return self.with_value(chip, getattr(Filters(), _FIELDS[chip]))

    def without_last(self) -> Filters:
        return self.without(self.order[-1]) if self.order else self

    def labels(self) -> Sequence[ChipLabel]:
        """Every chip, set or not; sanitised."""
        values = {
            Chip.FOLDER: HERE if self.workspace else "",
            Chip.MODEL: sanitize_line(self.model, VALUE_CELLS),
            Chip.STATE: STATE_WORDS.get(self.state, ""),
            Chip.AGE: _("{n} d").format(n=self.age_days) if self.age_days else "",
            Chip.ORIGIN: ORIGINS.get(self.origin, "") if self.origin is not None else "",
        }
        return [ChipLabel(chip, NAMES[chip], value or ANY, chip in self.order) for chip, value in values.items()]


_FIELDS = {
    Chip.FOLDER: "workspace",
    Chip.MODEL: "model",
    Chip.STATE: "state",
    Chip.AGE: "age_days",
    Chip.ORIGIN: "origin",
}


def _next(value: T, values: Sequence[T]) -> T:
    return values[(values.index(value) + 1) % len(values)]
