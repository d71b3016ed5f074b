"""A model that plays a cassette: the recorded answers, offline, for the requests that they were given to.

In strict mode, the requests of a conversation must equal those of one thread of the file, in order; the first different
request fails with an error that shows the difference. A reopened conversation continues after as many answers as it
has. In loose mode, an equal conversation gets its answer, whatever the instructions and tools are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from core.errors import ModelError, ModelErrorKind
from core.events import TokenDelta, TokenUsage
from core.llm.cassette import Asked, Message, Recorded, RecordedAnswer, Scrubber, load_cassette
from core.protocols import FrameSink, LLMRequest, LLMResponse, ToolCall

SHOWN_CHARS = 160
"""How much of a difference is shown, from a little before it."""
_LEAD = 40


class CassetteLLM:
    """Implements core.protocols.LLM from a file. Raises ConfigurationError for a file that is no cassette."""

    def __init__(
        self,
        path: Path,
        workspace: str,
        environ: Mapping[str, str],
        match: Literal["strict", "loose"] = "strict",
        name: str = "",
    ) -> None:
        self._path = path
        self._recorded = load_cassette(path)
        self._scrubber = Scrubber(workspace, environ)
        self._is_strict = match == "strict"
        self._name = name or f"cassette:{path}"
        self._played: set[int] = set()
        self._at: int | None = None
        """The exchange that was played last."""

    @property
    def name(self) -> str:
        return self._name

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        """Play the exchange that the request belongs to. Raises ModelError: a recorded one, or with a difference."""
        asked = self._scrubber.asked(request)
        at = self._next() if self._is_strict else None
        if at is None:
            at = self._equal(asked)
        if at is None or not self._fits(self._recorded[at], asked):
            raise ModelError(ModelErrorKind.SCRIPT, self._difference(at, asked))
        self._at = at
        self._played.add(at)
        exchange = self._recorded[at].exchange
        if exchange.error is not None:
            raise ModelError(exchange.error.kind, exchange.error.message)
        assert exchange.answer is not None
        response = self._response(exchange.answer)
        for text, channel in ((response.reasoning, "reasoning"), (response.text, "answer")):
            if text:
                on_frame(TokenDelta(cause, text, "reasoning" if channel == "reasoning" else "answer"))
        return response

    async def aclose(self) -> None:
        """There is nothing to let go of."""

    def _next(self) -> int | None:
        """The exchange behind the last one of its thread; None at the beginning and at the end of one."""
        if self._at is None:
            return None
        thread = self._recorded[self._at].exchange.thread
        later = range(self._at + 1, len(self._recorded))
        return next((at for at in later if self._recorded[at].exchange.thread == thread), None)

    def _equal(self, asked: Asked) -> int | None:
        """The first exchange with an equal request, those that were played last."""
        equal = [at for at, recorded in enumerate(self._recorded) if self._fits(recorded, asked)]
        return min(equal, key=lambda at: at in self._played, default=None)

    def _fits(self, recorded: Recorded, asked: Asked) -> bool:
        if self._is_strict:
            return recorded.asked == asked
        return recorded.asked.conversation() == asked.conversation()

    def _difference(self, at: int | None, asked: Asked) -> str:
        """What is told of a request that was not recorded; compared with the one that has as many answers."""
        if at is None:
            left = [n for n, one in enumerate(self._recorded) if one.asked.answers == asked.answers]
            at = next((n for n in left if n not in self._played or not self._is_strict), None)
        if at is None:
            return (
                f"All of {self._path} that fits this conversation has been played. "
                "Start a new one, or choose another model with --model."
            )
        what = _first_difference(self._recorded[at].asked, asked)
        return (
            f"Request {at + 1} of {self._path} differs from what was recorded: {what}\n"
            "Record it anew with --record, or take equal conversations with llm.cassette_match = loose."
        )

    def _response(self, answer: RecordedAnswer) -> LLMResponse:
        put_back = self._scrubber.put_back
        usage = TokenUsage(
            model=answer.model or self._name,
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
            cache_read_tokens=answer.cache_read_tokens,
            cache_write_tokens=answer.cache_write_tokens,
            context_window=answer.context_window,
            per_turn_token=answer.prompt_tokens + answer.completion_tokens,
            response_id=answer.id,
        )
        calls = tuple(ToolCall(call.id, call.name, put_back(call.arguments)) for call in answer.tool_calls)
        text, reasoning = put_back(answer.text), put_back(answer.reasoning)
        return LLMResponse(answer.id, text, calls, usage, answer.cost, answer.finish_reason, reasoning)


def _first_difference(recorded: Asked, asked: Asked) -> str:
    """Where two requests begin to differ, with both sides of it."""
    for number, (old, new) in enumerate(zip(recorded.messages, asked.messages, strict=False), 1):
        if old != new:
            return f"message {number} ({new.get('role')}).{_sides(old, new)}"
    if len(recorded.messages) != len(asked.messages):
        return f"it has {len(asked.messages)} messages, and {len(recorded.messages)} were recorded."
    return f"its tools.{_sides(list(recorded.tools), list(asked.tools))}"


def _sides(old: Message | Sequence[Message], new: Message | Sequence[Message]) -> str:
    one, other = (json.dumps(side, ensure_ascii=False) for side in (old, new))
    pairs = enumerate(zip(one, other, strict=False))
    begin = max(0, next((at for at, (a, b) in pairs if a != b), min(len(one), len(other))) - _LEAD)
    return f"\n  recorded: {one[begin : begin + SHOWN_CHARS]}\n  asked:    {other[begin : begin + SHOWN_CHARS]}"
