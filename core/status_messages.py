"""What the user is told of models while they work: one form each, which the screen can say in another language.

Text only, so that the screen can have it without anything that calls a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable

NO_PICTURES = "{model} sees no pictures; {other} answers."
NO_ROOM = "The conversation no longer fits {model}; {other} answers."
FAILED = "{model} failed; {other} answers. {error}"
FAILED_BEFORE = "{model} failed a while ago; {other} answers."
NO_TOOLS = "{model} has no tool calls of its own; it is asked to write them as text, and goes on."
RETRYING = "Retrying LLM request, {tries} in {seconds} s: {reason}"
NO_RECORD = "The record {path} cannot be written: {error}. It ends here; the work goes on."
SLOW_DOWN, NO_ANSWER, NO_CONNECTION, PROVIDER_FAILED = (
    "the provider asks to slow down",
    "no answer in time",
    "the connection failed",
    "the provider failed",
)
FORMS = (FAILED_BEFORE, NO_PICTURES, NO_ROOM, FAILED, NO_TOOLS, RETRYING, NO_RECORD)
"""Each with the places of what differs; the first that fits counts."""
WORDS = (SLOW_DOWN, NO_ANSWER, NO_CONNECTION, PROVIDER_FAILED)
"""What may stand in such a place and is ours, too."""
_PLACE = re.compile(r"\\\{(\w+)\\\}")
_PATTERNS = tuple((form, re.compile(_PLACE.sub(r"(?P<\1>.+?)", re.escape(form)), re.DOTALL)) for form in FORMS)


def said_as(text: str, look_up: Callable[[str], str]) -> str:
    """A notice in another language: `look_up` gives a form, or a word, there. Any other text stays as it is."""
    for form, pattern in _PATTERNS:
        if (found := pattern.fullmatch(text)) is not None:
            parts = {name: look_up(part) if part in WORDS else part for name, part in found.groupdict().items()}
            return look_up(form).format(**parts)
    return text
