"""A model's reasoning as its provider signed it: assembled, and sent back where the provider requires it. Pure.

Anthropic's models continue their reasoning between tool calls. While reasoning is on, they refuse a request in which a
response with tool calls lacks its blocks. No other provider accepts these blocks, so they are sent to no other. A
response of another model, or one whose blocks were changed, has none; then reasoning is off until the next answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Message = dict[str, Any]

BLOCKS = "thinking_blocks"
"""Where litellm has them in a message."""
_CLOUDS = ("bedrock", "vertex_ai", "azure_ai")


class Thoughts:
    """The blocks of an answer while it comes in."""

    def __init__(self) -> None:
        self.blocks: list[Message] = []

    def add(self, pieces: Any) -> int:
        """Take in the blocks of a piece of the answer; how many characters are new. A signature ends a block."""
        size = 0
        for piece in pieces if isinstance(pieces, list) else []:
            if not isinstance(piece, dict):
                continue
            if piece.get("type") == "redacted_thinking":
                self.blocks.append({"type": "redacted_thinking", "data": str(piece.get("data") or "")})
                size += len(self.blocks[-1]["data"])
                continue
            if not self.blocks or self.blocks[-1].get("signature") or self.blocks[-1]["type"] != "thinking":
                self.blocks.append({"type": "thinking", "thinking": "", "signature": ""})
            block = self.blocks[-1]
            for name in ("thinking", "signature"):
                text = str(piece.get(name) or "")
                block[name] += text
                size += len(text)
        return size

    def signed(self) -> list[Message]:
        """The blocks that a provider would know again; none unless all are."""
        whole = all(block.get("signature") or block.get("data") for block in self.blocks)
        return self.blocks if whole else []


def takes_thoughts(model: str) -> bool:
    """Whether a model's provider wants its signed thoughts back."""
    provider, _, name = model.partition("/")
    return provider == "anthropic" or (provider in _CLOUDS and "claude" in name.lower())


def sent_back(messages: Sequence[Message], model: str, effort: str) -> tuple[list[Message], bool]:
    """The messages as a model's provider takes them, and whether the model may be made to think.

    `effort` is as in the settings.
    """
    asked_at = max((at for at, message in enumerate(messages) if message.get("role") == "user"), default=0)
    calling = [message for message in messages[asked_at:] if message.get("tool_calls")]
    may_think = not takes_thoughts(model) or not calling or BLOCKS in calling[-1]
    if takes_thoughts(model) and may_think and effort != "none":
        return list(messages), True
    return [_without(message) if BLOCKS in message else message for message in messages], may_think


def _without(message: Message) -> Message:
    return {name: value for name, value in message.items() if name != BLOCKS}
