"""What can stop the agent, and the options that the user has then. Nothing here ends a conversation.

`AgentSession.recover` carries out the option that the user chooses. A new option is a name here, a row, a case there,
and a key in the command table of the workspace.
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


class HaltOption(StrEnum):
    """What the user can choose after a halt."""

    RETRY = "retry"
    """Ask the model again."""
    EXTEND = "extend"
    """Extend the limit by the same amount again."""
    CONDENSE = "condense"
    """Condense the history, then ask the model again."""
    SWITCH_MODEL = "switch_model"
    RESTART_SANDBOX = "restart_sandbox"
    SKIP = "skip"
    """Go on without the failed step: the agent reads the error."""
    CUT_LOOP = "cut_loop"
    """Remove the loop from what the model sees, and wait for the user."""
    RESEND = "resend"
    """Send the last request again."""
    TELL = "tell"
    """Tell the agent that it is repeating itself."""
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Halt:
    """The reason of a halt. `what` is the name of the limit, the kind of the model error, or that of the loop."""

    kind: HaltKind
    what: str = ""
    since: int | None = None
    """The id of the first event of a loop."""

    @property
    def options(self) -> tuple[HaltOption, ...]:
        """The options, the most likely first."""
        if self.kind is HaltKind.MODEL:
            return _MODEL_OPTIONS.get(self.what, (HaltOption.RETRY, HaltOption.SWITCH_MODEL, HaltOption.STOP))
        return _OPTIONS[self.kind]


_OPTIONS = {
    HaltKind.LIMIT: (HaltOption.EXTEND, HaltOption.STOP),
    HaltKind.SANDBOX: (HaltOption.RESTART_SANDBOX, HaltOption.SKIP, HaltOption.STOP),
    HaltKind.STUCK: (HaltOption.TELL, HaltOption.CUT_LOOP, HaltOption.RESEND, HaltOption.STOP),
}
_MODEL_OPTIONS: dict[str, tuple[HaltOption, ...]] = {
    ModelErrorKind.NOT_FOUND: (HaltOption.SWITCH_MODEL, HaltOption.RETRY, HaltOption.STOP),
    ModelErrorKind.CONTEXT_WINDOW: (HaltOption.CONDENSE, HaltOption.SWITCH_MODEL, HaltOption.STOP),
    ModelErrorKind.BAD_REQUEST: (HaltOption.RETRY, HaltOption.CONDENSE, HaltOption.SWITCH_MODEL, HaltOption.STOP),
    ModelErrorKind.CONTENT_POLICY: (HaltOption.SWITCH_MODEL, HaltOption.RETRY, HaltOption.STOP),
}
"""By the kind of model error; every other kind may be tried again."""
