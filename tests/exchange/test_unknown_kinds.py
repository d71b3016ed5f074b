"""A log that a newer version wrote is exported and played; what is unknown in it is shown as such."""

from __future__ import annotations

from core.events import UnknownAction, UnknownObservation

UNKNOWN = (
    UnknownAction(raw={"action": "dance", "args": {"step": "left"}, "message": "I dance"}),
    UnknownAction(raw={"action": "sing", "args": {}}),
    UnknownObservation(raw={"observation": "weather", "content": "sunny", "extras": {"degrees": 21}}),
    UnknownObservation(raw={"observation": "applause"}),
)
