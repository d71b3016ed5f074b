"""A model that plays a script: for the demo, for tests, and for trying a set-up without a key.

Which turn is played follows from the request alone: as many turns are over as the conversation has answers of
the assistant. So a conversation that is opened again goes on where it stopped. The one thing kept here is
which faults have fired: the fault of a turn fires the first time that the turn is played by this object, and
the turn is played without it when it is asked for again, as a fault that passes would behave.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

from core.errors import ModelError, ModelErrorKind
from core.events import TokenDelta, TokenUsage
from core.llm.script import Disconnect, ScriptedTurn, load_script, with_workspace
from core.ports import FrameSink, LLMRequest, LLMResponse, ToolCall

SHOWN_CHARS = 400
"""How much of an observation an error shows: enough to see the difference."""

_FAILURES = {
    "rate_limit": (ModelErrorKind.RATE_LIMIT, "The provider asked to slow down, on every try."),
    "server_error": (ModelErrorKind.SERVER, "The provider failed, on every try."),
    "timeout": (ModelErrorKind.TIMEOUT, "The provider did not answer in time, on any try."),
    "context_window": (ModelErrorKind.CONTEXT_WINDOW, "The conversation is too long for this model."),
}


def turn_index(request: LLMRequest) -> int:
    """How many answers the conversation already has, which is the index of the turn to play."""
    seen = sum(1 for message in request.messages if message.get("role") == "assistant")
    return request.answers_forgotten + seen


class ScriptedLLM:
    """An LLM whose answers are written in a file. Raises ConfigurationError for a file that is no script."""

    def __init__(self, path: Path, workspace: str = "", name: str | None = None) -> None:
        self._path = path
        self._script = load_script(path)
        self._workspace = workspace
        self._name = name or f"scripted:{path}"
        self._fired: set[int] = set()

    @property
    def name(self) -> str:
        """As the user names it."""
        return self._name

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        """Play the turn that the conversation has come to. Raises ModelError; cancelling stops it at once."""
        if request.tools and not self._script.tools:
            raise ModelError(ModelErrorKind.NO_TOOLS, "This scripted model takes no tools.")
        index = turn_index(request)
        turn = self._turn(index)
        self._check_expectation(index, turn, request.last_observation)
        fault = turn.fault if index not in self._fired else None
        self._fired.add(index)

        await asyncio.sleep(turn.first_token_s)
        if isinstance(fault, str) and fault in _FAILURES:
            kind, what = _FAILURES[fault]
            raise ModelError(kind, f"{what} This was scripted (turn {index + 1}); say anything to go on.")
        if cut := _cut_at(fault, turn):
            await self._stream(cut, turn.tokens_per_s, on_frame, cause)
        if fault == "disconnect_after_bytes" or isinstance(fault, Disconnect):
            what = "The connection broke while the answer came in."
            raise ModelError(
                ModelErrorKind.CONNECTION,
                f"{what} This was scripted (turn {index + 1}); say anything to go on.",
            )
        if fault == "empty":
            return self._response(index, cause, turn, text="", calls=())
        await self._stream(turn.text, turn.tokens_per_s, on_frame, cause)
        return self._response(index, cause, turn, text=turn.text, calls=_tool_calls(turn, fault, cause))

    async def aclose(self) -> None:
        """There is nothing to let go of."""

    def _turn(self, index: int) -> ScriptedTurn:
        turns = self._script.turns
        if index >= len(turns):
            raise ModelError(
                ModelErrorKind.SCRIPT,
                f"All {len(turns)} turns of {self._path} have been played. "
                "Start a new conversation, or choose another model with --model.",
            )
        return with_workspace(turns[index], self._workspace)

    def _check_expectation(self, index: int, turn: ScriptedTurn, seen: str) -> None:
        if turn.expect is not None and not re.search(turn.expect, seen):
            raise ModelError(
                ModelErrorKind.SCRIPT,
                f"Turn {index + 1} of {self._path} expected an observation that matches\n  {turn.expect}\n"
                f"but the last observation was\n  {seen[:SHOWN_CHARS] or '(none)'}\n"
                "Correct the script, or what it was run on.",
            )

    async def _stream(self, text: str, tokens_per_s: float, on_frame: FrameSink, cause: int) -> None:
        """Send the text piece by piece at its pace; pieces that are due together go together."""
        if not text:
            return
        if not tokens_per_s:
            on_frame(TokenDelta(cause, text))
            return
        pieces = list(_pieces(text))
        clock = asyncio.get_running_loop().time
        start, sent = clock(), 0
        while True:
            due = min(int((clock() - start) * tokens_per_s) + 1, len(pieces))
            if due > sent:
                on_frame(TokenDelta(cause, "".join(pieces[sent:due])))
                sent = due
            if sent == len(pieces):
                return
            await asyncio.sleep(start + sent / tokens_per_s - clock())

    def _response(
        self, index: int, cause: int, turn: ScriptedTurn, *, text: str, calls: tuple[ToolCall, ...]
    ) -> LLMResponse:
        answer_id = f"scripted-{index}-{cause}"
        usage = TokenUsage(
            model=self._name,
            prompt_tokens=turn.usage.prompt_tokens,
            completion_tokens=turn.usage.completion_tokens,
            response_id=answer_id,
        )
        reason = "tool_calls" if calls else "stop"
        return LLMResponse(answer_id, text, calls, usage, turn.usage.cost, reason)


def _pieces(text: str) -> Iterator[str]:
    """Pieces of about the length of a model's tokens: four characters, not across words."""
    return (match.group() for match in re.finditer(r"\s*\S{1,4}\s*", text)) if text.strip() else iter([text])


def _cut_at(fault: object, turn: ScriptedTurn) -> str:
    """The part of the text that still came in before the connection broke."""
    data = turn.text.encode()
    if isinstance(fault, Disconnect):
        return data[: fault.disconnect_after_bytes].decode(errors="ignore")
    if fault == "disconnect_after_bytes":
        return data[: len(data) // 2].decode(errors="ignore")
    return ""


def _tool_calls(turn: ScriptedTurn, fault: object, cause: int) -> tuple[ToolCall, ...]:
    calls = [
        ToolCall(f"call_{cause}_{position}", call.name, json.dumps(call.arguments, ensure_ascii=False))
        for position, call in enumerate(turn.tool_calls)
    ]
    first = calls[0] if calls else ToolCall(f"call_{cause}_0", "execute_bash", '{"command": "true"}')
    if fault == "malformed_arguments":
        calls[:1] = [ToolCall(first.id, first.name, first.arguments[:-1])]
    elif fault == "unknown_tool":
        calls[:1] = [ToolCall(first.id, "no_such_tool", first.arguments)]
    return tuple(calls)
