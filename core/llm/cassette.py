"""Cassettes: recorded requests and answers of a model, in a readable file that is played without the model.

Version 1 is JSON Lines. The first line is the header, each further one is an exchange:

    {"cassette": 1, "model": "openai/gpt-5.6"}
    {"thread": 0, "request": {"kept": 0, "messages": [...], "tools": [...]}, "answer": {"text": "Hello."}}
    {"thread": 0, "request": {"kept": 2, "messages": [...]}, "error": {"kind": "rate_limit", "message": "..."}}

A thread is one conversation, with its exchanges in order. A request has the first `kept` messages of the request before
it in the file, then its own; without tools it has those of the request before. Messages and tools have the form of
OpenAI's chat completions. Secrets, pictures (a digest replaces each), and what depends on place and day are not
recorded: see `Scrubber`. A file is checked completely before anything of it is played.

Recorder writes one file, RecordCalls one thread of it: an exchange a line, as soon as it is over, but not a cancelled
one. CassetteLLM plays a file offline. In strict mode, the requests of a conversation must equal those of one thread, in
order; the first different request fails with an error that shows the difference. A reopened conversation continues
after as many answers as it has. In loose mode, an equal conversation gets its answer, whatever the instructions and
tools are.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from core.errors import ConfigurationError, ModelError, ModelErrorKind
from core.events import Status, TokenDelta, TokenUsage
from core.protocols import THINKING_BLOCKS, Complete, FrameSink, LLMRequest, LLMResponse, ToolCall
from core.secrets import Redactor, from_environment
from core.secrets.redactor import without_secrets
from core.status_messages import NO_RECORD

RECORD_STATUS = "STATUS$RECORDING"
VERSION = 1
MAX_CASSETTE_BYTES = 64 * 1024 * 1024
MAX_MESSAGES = 1_000_000
"""The messages of all requests of a file, with kept ones: bounds the size of a small file in memory."""
SHOWN_CHARS = 160
"""How much of a difference an error shows, from a little before it."""
_LEAD_CHARS = 40

WORKSPACE = "<handloom:workspace>"
HOME = "<handloom:home>"
DATE = "<handloom:date>"
KEY = "<handloom:key>"
PYTHON = "<handloom:python>"
_KEYS = re.compile(r"\b(?:sk|pk|gsk|xai|AIza|ghp|github_pat)[-_][A-Za-z0-9_-]{16,}|(?<=[Bb]earer )[^\s\"',}]{8,}")
_PYTHON = re.compile(r"(?<=\[Python interpreter: )[^\]\n]+")
_ENVIRONMENT = re.compile(r"\n*\[Environment(?: changed)?\] [^\n]*")
"""What `core.memory` tells the agent about the machine."""
_DATES = re.compile(r"(?<=Today's date is )\d{4}-\d\d-\d\d")
_PICTURES = re.compile(r"data:[a-z]+/[a-z.+-]+;base64,[A-Za-z0-9+/=]+")

Message = dict[str, JsonValue]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Header(_Strict):
    """The first line."""

    cassette: Literal[1]
    model: str = ""


class RecordedRequest(_Strict):
    """What the model was asked."""

    kept: int = Field(default=0, ge=0)
    messages: list[Message]
    tools: list[Message] | None = None


class RecordedCall(_Strict):
    """A tool call of an answer, `arguments` as the model wrote them."""

    id: str
    name: str
    arguments: str


class RecordedAnswer(_Strict):
    """What the model answered."""

    id: str = ""
    model: str = ""
    text: str = ""
    reasoning: str = ""
    tool_calls: list[RecordedCall] = []
    finish_reason: str = "stop"
    prompt_tokens: int = Field(default=0, ge=0, le=10**12)
    completion_tokens: int = Field(default=0, ge=0, le=10**12)
    cache_read_tokens: int = Field(default=0, ge=0, le=10**12)
    cache_write_tokens: int = Field(default=0, ge=0, le=10**12)
    context_window: int = Field(default=0, ge=0, le=10**12)
    cost: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """US dollars; null if the price was unknown."""


class RecordedError(_Strict):
    """The final error of a call."""

    kind: ModelErrorKind
    message: str


class Exchange(_Strict):
    """One line: a request with its answer or its error."""

    thread: int = Field(default=0, ge=0)
    request: RecordedRequest
    answer: RecordedAnswer | None = None
    error: RecordedError | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.answer is None) == (self.error is None):
            raise ValueError("an exchange has either an answer or an error")
        return self


@dataclass(frozen=True, slots=True)
class FullRequest:
    """A scrubbed request with all of its messages, as it is compared."""

    messages: Sequence[Message]
    tools: Sequence[Message]

    @property
    def answers(self) -> int:
        """The number of answers of the model in it."""
        return sum(1 for message in self.messages if message.get("role") == "assistant")

    def conversation(self) -> Sequence[Message]:
        """Return the messages without the instructions."""
        return [message for message in self.messages if message.get("role") != "system"]


@dataclass(frozen=True, slots=True)
class Recorded:
    """An exchange with its full request."""

    request: FullRequest
    exchange: Exchange


class Scrubber:
    """Replaces what must not or cannot be in a cassette.

    That is: values of secret variables, text that looks like a key, the bytes of pictures, the paths of the workspace,
    the home folder and Python, and today's date. What the agent is told about the machine is removed.
    """

    def __init__(self, workspace: str, environ: Mapping[str, str], redactor: Redactor | None = None) -> None:
        """`redactor` knows more secrets than the environment has, and may learn some."""
        self._redactor = Redactor(from_environment(environ)) if redactor is None else redactor
        home = environ.get("HOME", "").rstrip("/")
        self._folders = [(folder, mark) for folder, mark in ((workspace, WORKSPACE), (home, HOME)) if len(folder) > 1]

    def text(self, text: str) -> str:
        """Return the text with replacements."""
        text = _PICTURES.sub(_digest, self._redactor.redact_text(text))
        for folder, mark in self._folders:
            text = re.sub(re.escape(folder) + r"(?![\w-]|\.\w)", mark, text)
        text = without_secrets(_KEYS.sub(KEY, text), self._redactor)
        return _PYTHON.sub(PYTHON, _DATES.sub(DATE, _ENVIRONMENT.sub("", text)))

    def restore_folders(self, text: str) -> str:
        """Return a recorded text of the model with the folders of this place."""
        for folder, mark in self._folders:
            text = text.replace(mark, folder)
        return text

    def request(self, request: LLMRequest) -> FullRequest:
        """Return a request as it is compared and written: without signed thinking blocks, which no cassette has."""
        messages = [{name: part for name, part in one.items() if name != THINKING_BLOCKS} for one in request.messages]
        return FullRequest(self._items(messages), self._items(request.tools))

    def _items(self, items: Sequence[dict[str, Any]]) -> list[Message]:
        return [cast("Message", self._value(item)) for item in items]

    def _value(self, value: Any) -> JsonValue:
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return {str(key): self._value(item) for key, item in value.items()}
            case list() | tuple():
                return [self._value(item) for item in value]
            case _:
                return cast("JsonValue", value)


def _digest(found: re.Match[str]) -> str:
    return f"picture:sha256:{hashlib.sha256(found[0].encode()).hexdigest()}"


def _request_after(before: FullRequest | None, request: FullRequest) -> RecordedRequest:
    """Return a request as it is written after another one."""
    kept = 0
    if before is not None:
        pairs = zip(before.messages, request.messages, strict=False)
        shorter = min(len(before.messages), len(request.messages))
        kept = next((at for at, (one, other) in enumerate(pairs) if one != other), shorter)
    same_tools = before is not None and before.tools == request.tools
    tools = None if same_tools else list(request.tools)
    return RecordedRequest(kept=kept, messages=list(request.messages[kept:]), tools=tools)


def _to_line(item: Header | Exchange) -> str:
    """Return a line of the file, without default values."""
    return json.dumps(item.model_dump(mode="json", exclude_defaults=True), ensure_ascii=True) + "\n"


def load_cassette(path: Path) -> list[Recorded]:
    """Read and check a cassette. Raises ConfigurationError with the file, the line and what to do next."""
    hint = "Record it again with --record, or choose another model with --model."
    try:
        if not path.is_file() and path.exists():
            raise ConfigurationError(f"{path} is not a file. {hint}")
        if path.stat().st_size > MAX_CASSETTE_BYTES:
            raise ConfigurationError(f"{path} is larger than {MAX_CASSETTE_BYTES} bytes. {hint}")
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise ConfigurationError(f"The cassette {path} cannot be read: {error.strerror}. {hint}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: not UTF-8 at byte {error.start}. {hint}") from error
    return _checked(path, lines, hint)


def _checked(path: Path, lines: Sequence[str], hint: str) -> list[Recorded]:
    recorded: list[Recorded] = []
    number, total, before = 1, 0, None
    try:
        Header.model_validate(_json(lines[0]))
        for line in lines[1:]:
            number += 1
            if not line.strip():
                continue
            exchange = Exchange.model_validate(_json(line))
            before = _full_request(before, exchange.request)
            recorded.append(Recorded(before, exchange))
            total += len(before.messages)
            if total > MAX_MESSAGES:
                raise ValueError(f"more than {MAX_MESSAGES} messages up to here")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the whole line"
        message = first["msg"].removeprefix("Value error, ")
        raise ConfigurationError(f"{path}, line {number}, {place[:100]}: {message}. {hint}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path}, line {number}: {error}. {hint}") from error
    if not recorded:
        raise ConfigurationError(f"{path} has no exchanges. {hint}")
    return recorded


def _json(line: str) -> Any:
    """Parse a line. Raises ValueError."""
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} in column {error.colno}") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _full_request(before: FullRequest | None, request: RecordedRequest) -> FullRequest:
    """Complete a request with its part of the one before. Raises ValueError."""
    before = before or FullRequest((), ())
    if request.kept > len(before.messages):
        raise ValueError(f"keeps {request.kept} messages of a request that has {len(before.messages)}")
    tools = before.tools if request.tools is None else request.tools
    return FullRequest([*before.messages[: request.kept], *request.messages], tools)


class Recorder:
    """A cassette that is being recorded."""

    def __init__(self, path: Path, model: str) -> None:
        """Create the file, readable only by its owner. Raises ConfigurationError if it exists or cannot be created."""
        self._path = path
        self._before: FullRequest | None = None
        self._lock = asyncio.Lock()
        self._threads = itertools.count()
        self._has_failed = False
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                file.write(_to_line(Header(cassette=VERSION, model=model)))
        except FileExistsError as error:
            raise ConfigurationError(
                f"{path} exists and is not overwritten. Give --record another file, or remove this one."
            ) from error
        except OSError as error:
            raise ConfigurationError(
                f"{path} cannot be written: {error.strerror}. Give --record another file."
            ) from error

    def thread(self, scrubber: Scrubber) -> RecordCalls:
        """Return the step that records the calls of one conversation, as a new thread."""
        return RecordCalls(self, scrubber, next(self._threads))

    async def add(
        self, request: FullRequest, thread: int, answer: RecordedAnswer | None, error: RecordedError | None = None
    ) -> str:
        """Write an exchange. Returns a message for the user at the first failure, after which recording stops."""
        async with self._lock:
            if self._has_failed:
                return ""
            recorded = _request_after(self._before, request)
            exchange = Exchange(thread=thread, request=recorded, answer=answer, error=error)
            try:
                await asyncio.to_thread(self._append, _to_line(exchange))
            except OSError as failure:
                self._has_failed = True
                return NO_RECORD.format(path=self._path, error=failure.strerror)
            self._before = request
            return ""

    def _append(self, line: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line)


class RecordCalls:
    """A step of the model call: records the request and the answer or the error."""

    def __init__(self, recorder: Recorder, scrubber: Scrubber, thread: int) -> None:
        self._recorder, self._scrubber, self._thread = recorder, scrubber, thread

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int, next: Complete) -> LLMResponse:
        """As `LLM.complete`; recorded when the call has succeeded or failed."""
        full = self._scrubber.request(request)
        try:
            response = await next(request, on_frame, cause)
        except ModelError as error:
            failure = RecordedError(kind=error.kind, message=self._scrubber.text(str(error)))
            self._report(await self._recorder.add(full, self._thread, None, failure), on_frame)
            raise
        self._report(await self._recorder.add(full, self._thread, self._answer(response)), on_frame)
        return response

    def _report(self, problem: str, on_frame: FrameSink) -> None:
        if problem:
            on_frame(Status("error", RECORD_STATUS, problem))

    def _answer(self, response: LLMResponse) -> RecordedAnswer:
        usage, clean = response.usage, self._scrubber.text
        calls = [RecordedCall(id=c.id, name=c.name, arguments=clean(c.arguments)) for c in response.tool_calls]
        return RecordedAnswer(
            id=response.id,
            model=usage.model,
            text=clean(response.text),
            reasoning=clean(response.reasoning),
            tool_calls=calls,
            finish_reason=response.finish_reason,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            context_window=usage.context_window,
            cost=response.cost,
        )


class CassetteLLM:
    """A model that plays a cassette. Raises ConfigurationError for an invalid file."""

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
        self.name = name or f"cassette:{path}"
        self._played: set[int] = set()
        self._at: int | None = None
        """The index of the exchange that was played last."""

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        """Play the exchange of this request. Raises ModelError: the recorded one, or one that shows a difference."""
        full = self._scrubber.request(request)
        at = self._next() if self._is_strict else None
        if at is None:
            at = self._find(full)
        if at is None or not self._matches(self._recorded[at], full):
            raise ModelError(ModelErrorKind.SCRIPT, self._difference(at, full))
        self._at = at
        self._played.add(at)
        exchange = self._recorded[at].exchange
        if exchange.error is not None:
            raise ModelError(exchange.error.kind, exchange.error.message)
        assert exchange.answer is not None
        response = self._response(exchange.answer)
        if response.reasoning:
            on_frame(TokenDelta(cause, response.reasoning, "reasoning"))
        if response.text:
            on_frame(TokenDelta(cause, response.text))
        return response

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""

    def _next(self) -> int | None:
        """Return the next exchange of the current thread; None at the beginning and at the end of a thread."""
        if self._at is None:
            return None
        thread = self._recorded[self._at].exchange.thread
        later = range(self._at + 1, len(self._recorded))
        return next((at for at in later if self._recorded[at].exchange.thread == thread), None)

    def _find(self, request: FullRequest) -> int | None:
        """Return the first exchange with an equal request, preferably one that was not played."""
        equal = [at for at, recorded in enumerate(self._recorded) if self._matches(recorded, request)]
        return min(equal, key=lambda at: at in self._played, default=None)

    def _matches(self, recorded: Recorded, request: FullRequest) -> bool:
        if self._is_strict:
            return recorded.request == request
        return recorded.request.conversation() == request.conversation()

    def _difference(self, at: int | None, request: FullRequest) -> str:
        """Explain why a request has no answer. Without `at`, compare it with one that has as many answers."""
        if at is None:
            left = [n for n, one in enumerate(self._recorded) if one.request.answers == request.answers]
            at = next((n for n in left if n not in self._played or not self._is_strict), None)
        if at is None:
            return (
                f"All exchanges of {self._path} for this conversation have been played. "
                "Start a new one, or choose another model with --model."
            )
        what = _first_difference(self._recorded[at].request, request)
        return (
            f"Request {at + 1} of {self._path} differs from what was recorded: {what}\n"
            "Record it again with --record, or accept equal conversations with llm.cassette_match = loose."
        )

    def _response(self, answer: RecordedAnswer) -> LLMResponse:
        restore = self._scrubber.restore_folders
        usage = TokenUsage(
            model=answer.model or self.name,
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
            cache_read_tokens=answer.cache_read_tokens,
            cache_write_tokens=answer.cache_write_tokens,
            context_window=answer.context_window,
            per_turn_token=answer.prompt_tokens + answer.completion_tokens,
            response_id=answer.id,
        )
        calls = tuple(ToolCall(call.id, call.name, restore(call.arguments)) for call in answer.tool_calls)
        text, reasoning = restore(answer.text), restore(answer.reasoning)
        return LLMResponse(answer.id, text, calls, usage, answer.cost, answer.finish_reason, reasoning)


def _first_difference(recorded: FullRequest, asked: FullRequest) -> str:
    for number, (old, new) in enumerate(zip(recorded.messages, asked.messages, strict=False), 1):
        if old != new:
            return f"message {number} ({new.get('role')}).{_both_sides(old, new)}"
    if len(recorded.messages) != len(asked.messages):
        return f"it has {len(asked.messages)} messages, and {len(recorded.messages)} were recorded."
    return f"its tools.{_both_sides(list(recorded.tools), list(asked.tools))}"


def _both_sides(old: Message | Sequence[Message], new: Message | Sequence[Message]) -> str:
    one, other = (json.dumps(side, ensure_ascii=False) for side in (old, new))
    pairs = enumerate(zip(one, other, strict=False))
    begin = max(0, next((at for at, (a, b) in pairs if a != b), min(len(one), len(other))) - _LEAD_CHARS)
    return f"\n  recorded: {one[begin : begin + SHOWN_CHARS]}\n  asked:    {other[begin : begin + SHOWN_CHARS]}"
