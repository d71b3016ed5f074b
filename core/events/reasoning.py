"""What a model thought before it answered, where it lets that be seen: kept with the answer, and no part of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from core.events.actions import MessageAction
from core.events.base import Event


def reasoning_of(event: Event) -> str:
    """The thoughts before the answer that an event begins; empty for any other. As foreign as the answer."""
    if isinstance(event, MessageAction):
        return event.reasoning
    message = answer_of(event)
    text = message.get("reasoning_content")
    return text if isinstance(text, str) else "\n".join(_texts(message.get("thinking_blocks")))


def answer_of(event: Event) -> dict[str, Any]:
    """The assistant's message of the answer that an event with a tool call begins; empty for any other."""
    metadata = event.tool_call_metadata
    match metadata.model_response if metadata is not None else {}:
        case {"choices": [{"message": dict() as message}, *_]}:
            return message
        case _:
            return {}


def _texts(blocks: Any) -> Iterable[str]:
    for block in blocks if isinstance(blocks, list) else []:
        if isinstance(block, dict) and isinstance(text := block.get("thinking"), str):
            yield text
