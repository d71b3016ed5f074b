"""A model's signed thoughts in the history: attached to the answers that they led to, for that model alone. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from core.events import Envelope
from core.events.reasoning import answer_of
from core.llm.thoughts import BLOCKS
from core.secrets import PLACEHOLDER

Message = dict[str, Any]


def with_thoughts(messages: list[Message], events: Iterable[Envelope], model: str) -> list[Message]:
    """The messages, those with tool calls of this model's with the blocks that came with them.

    Blocks out of which a secret was masked are left out: what was signed are others.
    """
    blocks = dict(filter(None, (_signed(envelope, model) for envelope in events)))
    return [_thinking(message, blocks) for message in messages] if blocks else messages


def _signed(envelope: Envelope, model: str) -> tuple[str, list[Message]] | None:
    """The id of an answer's first call, and its blocks; None where it has none, or another model made it."""
    metadata, message = envelope.event.tool_call_metadata, answer_of(envelope.event)
    blocks, calls = message.get(BLOCKS), message.get("tool_calls")
    if metadata is None or metadata.model_response.get("model") != model or not isinstance(blocks, list):
        return None
    if PLACEHOLDER in json.dumps(blocks):
        return None
    match calls:
        case [{"id": str() as id}, *_]:
            return id, blocks
        case _:
            return None


def _thinking(message: Message, blocks: dict[str, list[Message]]) -> Message:
    calls = message.get("tool_calls")
    found = blocks.get(str(calls[0].get("id"))) if calls else None
    return {**message, BLOCKS: found} if found else message
