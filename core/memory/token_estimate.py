"""Estimates how many tokens a text takes, without a tokenizer, and clips long texts. Pure.

The estimate is slightly above what models count for prose and code, so that what fits by the estimate fits. `Scale`
corrects it by what the provider counted in an earlier request.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.events import truncate_middle

BYTES_PER_TOKEN = 3
"""UTF-8 bytes: three to four in English and code; a Chinese character has three and is often one token."""
MESSAGE_TOKENS = 4
"""The tokens of each message besides its text."""
PICTURE_TOKENS = 1200
"""About what providers count for a screenshot."""
LEAST_TOKENS = 64
"""The least that is left of a clipped text."""


def tokens_of(text: str) -> int:
    """Estimate the tokens of a text."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return -(-size // BYTES_PER_TOKEN)


def clipped(text: str, tokens: int | None) -> str:
    """Cut out the middle of a text that takes more than `tokens`; None means no limit."""
    if tokens is None or len(text) <= tokens or (size := tokens_of(text)) <= tokens:
        return text
    return truncate_middle(text, max(LEAST_TOKENS, len(text) * tokens // size))


@dataclass(frozen=True, slots=True)
class ContextLimit:
    """How large the model's view of a history may become before it is condensed. None means no limit."""

    max_events: int | None = None
    """Events that the model sees."""
    max_tokens: int | None = None
    """Tokens of a prompt."""
    share: float = 0.0
    """The share of the model's context window that a prompt may take, if `max_tokens` is not less; 0 means no limit."""

    def tokens(self, context_window: int) -> int | None:
        """Return the tokens that a prompt may have with this context window; 0 is an unknown window."""
        of_window = int(context_window * self.share) if context_window > 0 and self.share > 0 else None
        if self.max_tokens is None or of_window is None:
            return self.max_tokens or of_window
        return min(self.max_tokens, of_window)


def part_tokens(limit: int | None, parts: int = 1) -> int | None:
    """Return the limit of one message, or of one of so many results of one response: together a third of `limit`."""
    return None if limit is None else max(LEAST_TOKENS, limit // 3 // max(1, parts))


@dataclass(frozen=True, slots=True)
class Scale:
    """The factor that corrects the estimates of one conversation."""

    factor: float = 1.0

    @classmethod
    def of(cls, counted: int, estimated: int) -> Scale:
        """Compare what a provider counted with the estimate. Implausible counts are ignored or bounded."""
        if counted <= 0 or estimated <= 0:
            return cls()
        return cls(min(max(counted / estimated, 0.4), 3.0))

    def __call__(self, estimated: int) -> int:
        return int(estimated * self.factor)
