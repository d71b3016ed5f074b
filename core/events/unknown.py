"""Events of kinds that this version does not know: kept as they came, written back unchanged."""

from __future__ import annotations

from pydantic import JsonValue

from core.events.base import Action, Observation


class UnknownAction(Action):
    """An action from another version or another program. Never carried out."""

    raw: dict[str, JsonValue]
    """The whole stored form but for the envelope's fields."""

    @property
    def message(self) -> str:
        return str(self.raw.get("message", ""))


class UnknownObservation(Observation):
    """An observation from another version or another program."""

    raw: dict[str, JsonValue]
    """The whole stored form but for the envelope's fields."""

    @property
    def message(self) -> str:
        return str(self.raw.get("message", ""))


def stored_kind(event: UnknownAction | UnknownObservation) -> str:
    """The kind as it is stored: a name that this version does not know."""
    return str(event.raw.get("action", event.raw.get("observation", "")))
