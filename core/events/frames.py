"""What is live and never stored one by one: tokens as they come, terminal bytes, pages, notices.

Frames and events are disjoint: what has to survive is an event, and the type checker is the persistence policy.
Plain dataclasses, so that a screen can import them before anything heavy is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

CONVERSATION_TITLE = "STATUS$CONVERSATION_TITLE"
"""Id of the notice that carries a new title: for lists and tabs, not to be told as something that happens."""


@dataclass(frozen=True, slots=True)
class TokenDelta:
    """A piece of the model's answer while it streams. The event that follows carries the whole text."""

    cause: int
    """The id of the event that the agent is answering."""
    text: str
    channel: Literal["answer", "reasoning"] = "answer"


@dataclass(frozen=True, slots=True)
class TerminalOutput:
    """Bytes as a terminal of 1 cell per character would get them: escape sequences included, not sanitised."""

    cause: int
    """The id of the action that prints; -1 for what the shell says by itself."""
    data: bytes
    is_echo: bool = False
    """What was typed into the terminal, shown to the user; no output of a program."""


@dataclass(frozen=True, slots=True)
class Status:
    """A notice about something going on: a retry, a start, a trouble. The newest of one id replaces the older."""

    level: Literal["info", "error"]
    id: str
    """As in V0: `STATUS$LLM_RETRY`, `STATUS$READY`, ..."""
    message: str
    """For people; empty takes the notice of this id away."""


@dataclass(frozen=True, slots=True)
class PageShown:
    """The page in the browser as it looks at this moment. Its title and address are the page's own words."""

    cause: int
    """The id of the action that is or was at work on it; -1 before the first."""
    url: str
    title: str
    data: bytes
    """A JPEG."""
    width: int
    """Of the page's view in pixels, as BrowserGym's coordinates count them; so is the height."""
    height: int
    look: Mapping[str, Any] = field(default_factory=dict)
    """As `BrowserOutputObservation.look`; empty where the page is too large to be read again and again."""


Frame = TokenDelta | TerminalOutput | Status | PageShown
