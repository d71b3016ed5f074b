"""Condensers by name: the one table of kinds. To add one: its file, a row here, and its name in `settings.Kind`."""

from __future__ import annotations

from collections.abc import Callable

from core.memory.condensers.base import Condenser
from core.memory.condensers.llm_condensers import Attention, Structured, Summarising
from core.memory.condensers.rule_condensers import (
    Amortized,
    BrowserOutputMasking,
    ConversationWindow,
    ObservationMasking,
    Pipeline,
    Recent,
)
from core.memory.condensers.settings import ROLLING, CondenserSettings
from core.memory.token_estimate import Room

KINDS: dict[str, Callable[[CondenserSettings], Condenser]] = {
    "noop": lambda s: Condenser(),
    "observation_masking": lambda s: ObservationMasking(s.attention_window),
    "browser_output_masking": lambda s: BrowserOutputMasking(s.browser_window),
    "recent": lambda s: Recent(s.keep_first, s.max_size),
    "amortized": lambda s: Amortized(s.keep_first, s.max_size),
    "llm": lambda s: Summarising(s.keep_first, s.max_size, s.max_event_length),
    "llm_attention": lambda s: Attention(s.keep_first, s.max_size, s.max_event_length),
    "structured": lambda s: Structured(s.keep_first, s.max_size, s.max_event_length),
    "conversation_window": lambda s: ConversationWindow(),
}


def make(settings: CondenserSettings) -> Condenser:
    """The condenser that the settings name."""
    return Pipeline([KINDS[kind](settings) for kind in settings.kinds])


def room_of(settings: CondenserSettings, condenses: bool = True) -> Room:
    """How much the model may see before the history is condensed; without a bound where nothing would condense it."""
    if not condenses or not ROLLING & set(settings.kinds):
        return Room()
    return Room(settings.max_size, settings.max_tokens, settings.window_share)
