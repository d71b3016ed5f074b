"""A model that plays a script: for the demo, for tests, and for trying a setup without a key.

The request alone decides which turn is played: the one after as many turns as the conversation has assistant answers.
So a reopened conversation continues where it stopped. The only state kept here is which faults have fired: the fault of
a turn fires the first time that this object plays the turn, and not when the turn is requested again.

The file of a scripted model, version 1, is YAML, and is validated completely before the first turn is played.

    version: 1
    tools: true                    # false: the model has no tool calling, and its calls are in its text
    turns:
      - expect: "what the last observation must match"    # a regular expression, searched for; optional
        text: "I will look at the folder."
        tool_calls:
          - {name: execute_bash, arguments: {command: "ls"}}
        first_token_s: 0.3
        tokens_per_s: 80
        usage: {prompt_tokens: 100, completion_tokens: 20, cost: 0.0}
        fault: rate_limit          # or {disconnect_after_bytes: 20}

`{workspace}` in texts, arguments and expectations is replaced by the workspace's absolute path.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from core.errors import ConfigurationError, ModelError, ModelErrorKind
from core.events import TokenDelta, TokenUsage
from core.protocols import FrameSink, LLMRequest, LLMResponse, ToolCall
from core.regular_files import read_text

MAX_SCRIPT_BYTES = 4 * 1024 * 1024
"""Scripts are written by hand; a larger file is something else."""

FaultName = Literal[
    "rate_limit",
    "server_error",
    "timeout",
    "context_window",
    "disconnect_after_bytes",
    "malformed_arguments",
    "unknown_tool",
    "empty",
]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Disconnect(_Strict):
    """The connection breaks after this much of the text."""

    disconnect_after_bytes: int = Field(ge=0)


class ScriptedToolCall(_Strict):
    """A tool call of the model."""

    name: str = Field(min_length=1)
    arguments: dict[str, JsonValue] = {}


class ScriptedUsage(_Strict):
    """The reported usage of a turn."""

    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)
    cost: float = Field(default=0.0, ge=0)
    """US dollars."""


class ScriptedTurn(_Strict):
    """One answer."""

    expect: str | None = None
    text: str = ""
    tool_calls: list[ScriptedToolCall] = []
    first_token_s: float = Field(default=0.0, ge=0)
    tokens_per_s: float = Field(default=0.0, ge=0)
    """0 sends the whole text at once."""
    usage: ScriptedUsage = ScriptedUsage()
    fault: FaultName | Disconnect | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.expect is not None:
            try:
                re.compile(self.expect)
            except re.error as error:
                raise ValueError(f"expect is not a regular expression: {error}") from error
        if not (self.text or self.tool_calls or self.fault):
            raise ValueError("a turn needs text, tool_calls or a fault")
        return self


class Script(_Strict):
    """All turns, in the order in which they are played."""

    version: Literal[1]
    tools: bool = True
    """Whether the model has tool calling; if not, it writes its calls in its text."""
    turns: list[ScriptedTurn] = Field(min_length=1)


def load_script(path: Path) -> Script:
    """Read and validate a script. Raises ConfigurationError with the file, the place in it and what to do next."""
    import yaml

    hint = "Correct it, or choose another model with --model."
    try:
        if path.stat().st_size > MAX_SCRIPT_BYTES:
            raise ConfigurationError(f"{path}: larger than {MAX_SCRIPT_BYTES} bytes, so no script. {hint}")
        safe_loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C loader is faster, if present
        data: Any = yaml.load(read_text(path), Loader=safe_loader)  # noqa: S506
    except OSError as error:
        raise ConfigurationError(f"The script {path} cannot be read: {error.strerror}. {hint}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: not UTF-8 at byte {error.start}. {hint}") from error
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigurationError(f"{path}{line}: not YAML: {error.problem}. {hint}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigurationError(f"{path}: not YAML: {error}. {hint}") from error
    try:
        return Script.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        message = first["msg"].removeprefix("Value error, ")
        raise ConfigurationError(f"{path}, {_place(first['loc'])}: {message}. {hint}") from error


def _place(loc: tuple[int | str, ...]) -> str:
    """Return the place of an error for the user, who counts turns from 1."""
    if len(loc) >= 2 and loc[0] == "turns" and isinstance(loc[1], int):
        rest = ".".join(str(part) for part in loc[2:])
        return f"turn {loc[1] + 1}" + (f", {rest}" if rest else "")
    return ".".join(str(part) for part in loc) or "the whole file"


def with_workspace(turn: ScriptedTurn, workspace: str) -> ScriptedTurn:
    """Return the turn with `{workspace}` replaced everywhere."""

    def fill(value: JsonValue) -> JsonValue:
        match value:
            case str():
                return value.replace("{workspace}", workspace)
            case list():
                return [fill(item) for item in value]
            case dict():
                return {key: fill(item) for key, item in value.items()}
            case _:
                return value

    calls = [
        call.model_copy(update={"arguments": {key: fill(item) for key, item in call.arguments.items()}})
        for call in turn.tool_calls
    ]
    expect = turn.expect and turn.expect.replace("{workspace}", re.escape(workspace))
    text = turn.text.replace("{workspace}", workspace)
    return turn.model_copy(update={"expect": expect, "text": text, "tool_calls": calls})


SHOWN_CHARS = 400
"""How much of an observation an error shows."""

_FAILURES = {
    "rate_limit": (ModelErrorKind.RATE_LIMIT, "The provider's rate limit was reached, on every attempt."),
    "server_error": (ModelErrorKind.SERVER, "The provider failed, on every attempt."),
    "timeout": (ModelErrorKind.TIMEOUT, "The provider did not answer in time, on any attempt."),
    "context_window": (ModelErrorKind.CONTEXT_WINDOW, "The conversation is too long for this model."),
}


def turn_index(request: LLMRequest) -> int:
    """Return how many answers the conversation has, which is the index of the turn to play."""
    seen = sum(1 for message in request.messages if message.get("role") == "assistant")
    return request.answers_forgotten + seen


class ScriptedLLM:
    """A model that plays a script. Raises ConfigurationError for an invalid file."""

    def __init__(self, path: Path, workspace: str = "", name: str | None = None) -> None:
        self._path = path
        self._script = load_script(path)
        self._workspace = workspace
        self.name = name or f"scripted:{path}"
        self._fired: set[int] = set()

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        """Play the conversation's next turn. Raises ModelError; cancelling stops it immediately."""
        if request.tools and not self._script.tools:
            raise ModelError(ModelErrorKind.NO_TOOLS, "This scripted model does not support tools.")
        index = turn_index(request)
        turn = self._turn(index)
        self._check_expectation(index, turn, request.last_observation)
        fault = turn.fault if index not in self._fired else None
        self._fired.add(index)

        await asyncio.sleep(turn.first_token_s)
        if isinstance(fault, str) and fault in _FAILURES:
            kind, what = _FAILURES[fault]
            raise ModelError(kind, f"{what} This was scripted (turn {index + 1}). Send any message.")
        if cut := _cut_at(fault, turn):
            await self._stream(cut, turn.tokens_per_s, on_frame, cause)
        if fault == "disconnect_after_bytes" or isinstance(fault, Disconnect):
            what = f"The connection broke during the answer. This was scripted (turn {index + 1}). Send any message."
            raise ModelError(ModelErrorKind.CONNECTION, what)
        if fault == "empty":
            return self._response(index, cause, turn, text="", calls=())
        await self._stream(turn.text, turn.tokens_per_s, on_frame, cause)
        return self._response(index, cause, turn, text=turn.text, calls=_tool_calls(turn, fault, cause))

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""

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
        """Send the text in chunks at its speed; chunks that are due at the same time are sent together."""
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
            model=self.name,
            prompt_tokens=turn.usage.prompt_tokens,
            completion_tokens=turn.usage.completion_tokens,
            response_id=answer_id,
        )
        reason = "tool_calls" if calls else "stop"
        return LLMResponse(answer_id, text, calls, usage, turn.usage.cost, reason)


def _pieces(text: str) -> Iterator[str]:
    """Split a text into chunks of about a token: four characters, not across words."""
    return (match.group() for match in re.finditer(r"\s*\S{1,4}\s*", text)) if text.strip() else iter([text])


def _cut_at(fault: object, turn: ScriptedTurn) -> str:
    """Return the part of the text that is sent before the connection breaks."""
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
