"""How many tokens a text takes, estimated without a tokenizer, and what the model is shown of a long one. Pure.

The estimate is a little above what models count for prose and code, so that what fits by it fits. What a provider said
of an earlier request corrects it (`Scale`). Used by the view, its condensers and the controller.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.events import truncate_middle

BYTES_PER_TOKEN = 3
"""Of UTF-8: English and code have three to four, Chinese three in a character that is often one token."""
MESSAGE_TOKENS = 4
"""What each message costs beside its text."""
PICTURE_TOKENS = 1200
"""About what providers count for a picture of the size of a screen."""
LEAST_TOKENS = 64
"""Of a text that is cut: less says nothing."""


def tokens_of(text: str) -> int:
    """An estimate for a text; 0 for an empty one."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return -(-size // BYTES_PER_TOKEN)


def clipped(text: str, tokens: int | None) -> str:
    """The text with its middle cut out where it takes more than that many tokens; None cuts nothing."""
    if tokens is None or len(text) <= tokens or (size := tokens_of(text)) <= tokens:
        return text
    return truncate_middle(text, max(LEAST_TOKENS, len(text) * tokens // size))


@dataclass(frozen=True, slots=True)
class Room:
    """How large the model's view of a history may become; what is beyond is condensed. None is no bound."""

    max_events: int | None = None
    """Events that the model sees."""
    max_tokens: int | None = None
    """Tokens of a prompt."""
    share: float = 0.0
    """Of the model's own context window that prompts may take, where `max_tokens` does not say less; 0 is no bound."""

    def tokens(self, context_window: int) -> int | None:
        """The tokens that a prompt may have for a model with this context window; 0 is one that is not known."""
        of_window = int(context_window * self.share) if context_window > 0 and self.share > 0 else None
        if self.max_tokens is None or of_window is None:
            return self.max_tokens or of_window
        return min(self.max_tokens, of_window)


def part_tokens(room: int | None, parts: int = 1) -> int | None:
    """What one result of an answer that made so many calls may take, or one message: together a third of the room."""
    return None if room is None else max(LEAST_TOKENS, room // 3 // max(1, parts))


@dataclass(frozen=True, slots=True)
class Scale:
    """What the estimates of one conversation are to be multiplied by."""

    factor: float = 1.0

    @classmethod
    def of(cls, said: int, estimated: int) -> Scale:
        """By what a provider said of a prompt that was estimated so. Nonsense counts for nothing."""
        if said <= 0 or estimated <= 0:
            return cls()
        return cls(min(max(said / estimated, 0.4), 3.0))

    def __call__(self, estimated: int) -> int:
        return int(estimated * self.factor)
