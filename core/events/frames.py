"""Live frames, which are not stored as events: streamed tokens, terminal output, pages, notices.

Frames and events are disjoint types, so that the type checker decides what is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

CONVERSATION_TITLE = "STATUS$CONVERSATION_TITLE"
"""Id of the notice that carries a new title: updates lists and tabs, and is not shown as a notice."""


@dataclass(frozen=True, slots=True)
class TokenDelta:
    """A streamed piece of the model's answer. The following event has the whole text."""

    cause: int
    """The id of the event that the agent is answering."""
    text: str
    channel: Literal["answer", "reasoning"] = "answer"


@dataclass(frozen=True, slots=True)
class TerminalOutput:
    """Raw terminal output with its escape sequences, not sanitised."""

    cause: int
    """The id of the action that prints; -1 for output of the shell itself."""
    data: bytes
    is_echo: bool = False
    """Whether it is typed input shown to the user, not output of a program."""


@dataclass(frozen=True, slots=True)
class Status:
    """A notice about a retry, a start or a problem. It replaces an older notice with the same id."""

    level: Literal["info", "error"]
    id: str
    """As in V0: `STATUS$LLM_RETRY`, `STATUS$READY`, ..."""
    message: str
    """Text for the user; an empty one removes the notice."""


@dataclass(frozen=True, slots=True)
class PageShown:
    """The current page in the browser. Its title and address are untrusted."""

    cause: int
    """The id of the current or last browser action; -1 before the first."""
    url: str
    title: str
    data: bytes
    """A JPEG."""
    width: int
    """Width of the viewport in pixels, in BrowserGym's coordinates; `height` is the same."""
    height: int
    look: Mapping[str, Any] = field(default_factory=dict)
    """As `BrowserOutputObservation.look`; empty if the page is too large to be read repeatedly."""


Frame = TokenDelta | TerminalOutput | Status | PageShown
