"""What stands in the way of the agent, and the ways out that the user is offered. Nothing here ends a conversation.

Each kind of halt has its ways in `WAYS`; the session takes the one that the user chooses. To add a way: a name here, a
row, a case in `core.session.recovery`, and a key in the workspace's command table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from core.errors import ModelErrorKind

MODEL_PREFIX = "LLM$"
"""How the error id of the observation begins that stands for a model call without an answer; the kind follows."""
LIMIT_PREFIX = "LIMIT$"
"""How the error id begins that stands for a call that was not made; the name of the limit follows."""
RUNTIME_UNAVAILABLE = "RUNTIME$UNAVAILABLE"
"""Error id of an observation that says that the sandbox is gone."""


class HaltKind(StrEnum):
    """What kind of thing stands in the way."""

    LIMIT = "limit"
    MODEL = "model"
    SANDBOX = "sandbox"
    STUCK = "stuck"


class Way(StrEnum):
    """A way out of a halt."""

    RETRY = "retry"
    """Ask the model again."""
    EXTEND = "extend"
    """Go on beyond the limit, by the same amount again."""
    CONDENSE = "condense"
    """Shorten what the model sees, then ask it again."""
    SWITCH_MODEL = "switch_model"
    """Let another model answer."""
    RESTART_SANDBOX = "restart_sandbox"
    """Start the sandbox anew, then go on."""
    SKIP = "skip"
    """Go on without it: the agent reads what went wrong."""
    CUT_LOOP = "cut_loop"
    """Take the loop out of what the model sees, and wait for the user."""
    RESEND = "resend"
    """Say the last request again."""
    TELL = "tell"
    """Tell the agent that it goes round in a circle."""
    STOP = "stop"
    """Leave the work as it is."""


@dataclass(frozen=True, slots=True)
class Halt:
    """One thing that stands in the way. `what` is the limit's name, the model error's kind, or the loop's."""

    kind: HaltKind
    what: str = ""
    since: int | None = None
    """The id of the event at which a loop began."""

    @property
    def ways(self) -> tuple[Way, ...]:
        """The ways out, the likeliest first."""
        if self.kind is HaltKind.MODEL:
            return _OF_MODEL.get(self.what, _TRY_AGAIN)
        return _OF_KIND[self.kind]


_TRY_AGAIN = (Way.RETRY, Way.SWITCH_MODEL, Way.STOP)
_OF_KIND = {
    HaltKind.LIMIT: (Way.EXTEND, Way.STOP),
    HaltKind.SANDBOX: (Way.RESTART_SANDBOX, Way.SKIP, Way.STOP),
    HaltKind.STUCK: (Way.TELL, Way.CUT_LOOP, Way.RESEND, Way.STOP),
}
_OF_MODEL: dict[str, tuple[Way, ...]] = {
    ModelErrorKind.NOT_FOUND: (Way.SWITCH_MODEL, Way.RETRY, Way.STOP),
    ModelErrorKind.CONTEXT_WINDOW: (Way.CONDENSE, Way.SWITCH_MODEL, Way.STOP),
    ModelErrorKind.BAD_REQUEST: (Way.RETRY, Way.CONDENSE, Way.SWITCH_MODEL, Way.STOP),
    ModelErrorKind.CONTENT_POLICY: (Way.SWITCH_MODEL, Way.RETRY, Way.STOP),
}
"""By the kind of a model's error; every other kind may be tried again."""
