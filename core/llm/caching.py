"""Marks in a prompt for what the provider can keep of it. Pure.

Some providers keep by themselves what requests have in common; Anthropic's models do where it is marked, at four
places at most. Marked are the instructions, and the two newest messages that answers are made for: the one before the
newest is the newest of the last request, so that what was kept then is found again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Message = dict[str, Any]

_MARK = {"type": "ephemeral"}
_NEWEST = 2


def takes_marks(model: str) -> bool:
    """Whether requests to a model are to be marked."""
    provider, _, name = model.partition("/")
    return provider == "anthropic" or (
        provider in ("bedrock", "vertex_ai", "openrouter", "azure_ai", "databricks") and "claude" in name.lower()
    )


def with_marks(messages: Sequence[Message]) -> list[Message]:
    """The messages with their marks; the given ones stay as they are."""
    marked = list(messages)
    asking = [at for at, message in enumerate(messages) if message.get("role") in ("user", "tool")]
    system = [at for at, message in enumerate(messages[:1]) if message.get("role") == "system"]
    for at in (*system, *asking[-_NEWEST:]):
        marked[at] = _marked(messages[at])
    return marked


def _marked(message: Message) -> Message:
    """A result takes its mark as a whole, any other message on its last text."""
    if message.get("role") == "tool":
        return {**message, "cache_control": _MARK}
    content = message.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])
    last = max((at for at, part in enumerate(parts) if part.get("text")), default=None)
    if last is None:
        return message
    parts[last] = {**parts[last], "cache_control": _MARK}
    return {**message, "content": parts}
