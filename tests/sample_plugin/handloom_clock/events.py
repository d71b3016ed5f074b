"""A request to a clock, and its answer."""

from typing import ClassVar

from core.events import Action, Observation


class TellTimeAction(Action):
    """What time is it there?"""

    kind: ClassVar[str] = "tell_time"
    runnable: ClassVar[bool] = True

    zone: str

    @property
    def message(self) -> str:
        return f"Asking for the time in {self.zone}"


class TimeObservation(Observation):
    """The time there."""

    kind: ClassVar[str] = "time"

    zone: str
