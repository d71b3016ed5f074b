"""What can stop the agent, and the choices that the user has then. Nothing here ends a conversation.

Each kind of halt has its choices in `WAYS`; the session carries out the one that the user takes. A new choice is a name
here, a row, a case in `core.session.recovery`, and a key in the command table of the workspace.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from core.errors import ModelErrorKind

MODEL_PREFIX = "LLM$"
"""Start of the error id of an observation for a failed model call; the kind follows."""
LIMIT_PREFIX = "LIMIT$"
"""Start of the error id of an observation for a model call that was not made; the name of the limit follows."""
RUNTIME_UNAVAILABLE = "RUNTIME$UNAVAILABLE"
"""Error id of an observation that says that the sandbox is gone."""


class HaltKind(StrEnum):
    """What stopped the agent."""

    LIMIT = "limit"
    MODEL = "model"
    SANDBOX = "sandbox"
    STUCK = "stuck"


class Way(StrEnum):
    """A choice of the user after a halt."""

    RETRY = "retry"
    """Ask the model again."""
    EXTEND = "extend"
    """Extend the limit by the same amount again."""
    CONDENSE = "condense"
    """Condense the history, then ask the model again."""
    SWITCH_MODEL = "switch_model"
    """Switch to another model."""
    RESTART_SANDBOX = "restart_sandbox"
    """Start a new sandbox, then go on."""
    SKIP = "skip"
    """Go on without the failed step: the agent reads the error."""
    CUT_LOOP = "cut_loop"
    """Remove the loop from what the model sees, and wait for the user."""
    RESEND = "resend"
    """Send the last request again."""
    TELL = "tell"
    """Tell the agent that it is repeating itself."""
    STOP = "stop"
    """Stop."""


@dataclass(frozen=True, slots=True)
class Halt:
    """The reason of a halt. `what` is the name of the limit, the kind of the model error, or that of the loop."""

    kind: HaltKind
    what: str = ""
    since: int | None = None
    """The id of the first event of a loop."""

    @property
    def ways(self) -> tuple[Way, ...]:
        """The choices, the most likely first."""
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
"""By the kind of model error; every other kind may be tried again."""
