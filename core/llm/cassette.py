"""A cassette: what a model was asked and what it answered, in a file that can be read, kept and played without it.

Version 1 is JSON Lines. The first line says what it is, each further one is an exchange:

    {"cassette": 1, "model": "openai/gpt-5.6"}
    {"thread": 0, "request": {"kept": 0, "messages": [...], "tools": [...]}, "answer": {"text": "Hello."}}
    {"thread": 0, "request": {"kept": 2, "messages": [...]}, "error": {"kind": "rate_limit", "message": "..."}}

Exchanges of one thread are of one conversation, in their order. A request has the first `kept` messages of the one
before it in the file, then its own; tools that are left out are those of the one before. The forms of messages and
tools are those of OpenAI's chat completions. Left out of the file are secrets, pictures (a digest stands for each), and
what is of one place and day: `Scrubber` says which. A file is checked whole before anything of it is played.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from core.errors import ConfigurationError, ModelErrorKind
from core.llm.reasoning_blocks import BLOCKS
from core.protocols import LLMRequest
from core.secrets import Redactor, from_environment
from core.secrets.redactor import without_secrets

VERSION = 1
MAX_CASSETTE_BYTES = 64 * 1024 * 1024
MAX_MESSAGES = 1_000_000
"""Of all requests of a file, kept ones counted each time: a bound on what a small file can grow to."""

WORKSPACE = "<handloom:workspace>"
HOME = "<handloom:home>"
DATE = "<handloom:date>"
KEY = "<handloom:key>"
PYTHON = "<handloom:python>"
_KEYS = re.compile(r"\b(?:sk|pk|gsk|xai|AIza|ghp|github_pat)[-_][A-Za-z0-9_-]{16,}|(?<=[Bb]earer )[^\s\"',}]{8,}")
_PYTHON = re.compile(r"(?<=\[Python interpreter: )[^\]\n]+")
_DATES = re.compile(r"(?<=Today's date is )\d{4}-\d\d-\d\d")
_PICTURES = re.compile(r"data:[a-z]+/[a-z.+-]+;base64,[A-Za-z0-9+/=]+")

Message = dict[str, JsonValue]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Header(_Strict):
    """The first line."""

    cassette: Literal[1]
    model: str = ""
    """Whose answers these are."""


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
    """US dollars; null where the price was not known."""


class RecordedError(_Strict):
    """How a call failed for good."""

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
class Asked:
    """A request as it is compared: scrubbed, with all of its messages."""

    messages: Sequence[Message]
    tools: Sequence[Message]

    @property
    def answers(self) -> int:
        """How many answers of the model it holds."""
        return sum(1 for message in self.messages if message.get("role") == "assistant")

    def conversation(self) -> Sequence[Message]:
        """The messages without the instructions."""
        return [message for message in self.messages if message.get("role") != "system"]


@dataclass(frozen=True, slots=True)
class Recorded:
    """An exchange with its request in full."""

    asked: Asked
    exchange: Exchange


class Scrubber:
    """Takes out of requests and answers what must not or cannot be in a cassette.

    Those are the values of secret variables, what looks like a key, the bytes of pictures, the folders of the workspace
    and of the user, where Python is, and today's date.
    """

    def __init__(self, workspace: str, environ: Mapping[str, str], redactor: Redactor | None = None) -> None:
        """`redactor` knows more secrets than those of the environment, and may learn some."""
        self._redactor = Redactor(from_environment(environ)) if redactor is None else redactor
        home = environ.get("HOME", "").rstrip("/")
        self._places = [(place, mark) for place, mark in ((workspace, WORKSPACE), (home, HOME)) if len(place) > 1]

    def text(self, text: str) -> str:
        """A text without them."""
        text = _PICTURES.sub(_digest, self._redactor.redact_text(text))
        for place, mark in self._places:
            text = re.sub(re.escape(place) + r"(?![\w-]|\.\w)", mark, text)
        text = without_secrets(_KEYS.sub(KEY, text), self._redactor)
        return _PYTHON.sub(PYTHON, _DATES.sub(DATE, text))

    def put_back(self, text: str) -> str:
        """A recorded text of the model's with the folders that are meant here."""
        for place, mark in self._places:
            text = text.replace(mark, place)
        return text

    def asked(self, request: LLMRequest) -> Asked:
        """A request as it is compared and written: without signed thoughts, which no cassette answers with."""
        messages = [{name: part for name, part in one.items() if name != BLOCKS} for one in request.messages]
        return Asked(self._items(messages), self._items(request.tools))

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


def request_after(before: Asked | None, asked: Asked) -> RecordedRequest:
    """A request as it is written behind another one."""
    kept = 0
    if before is not None:
        pairs = zip(before.messages, asked.messages, strict=False)
        kept = next((at for at, (one, other) in enumerate(pairs) if one != other), -1)
        kept = min(len(before.messages), len(asked.messages)) if kept < 0 else kept
    same_tools = before is not None and before.tools == asked.tools
    tools = None if same_tools else list(asked.tools)
    return RecordedRequest(kept=kept, messages=list(asked.messages[kept:]), tools=tools)


def to_line(item: Header | Exchange) -> str:
    """A line of the file, with its end; what is as by default is left out."""
    return json.dumps(item.model_dump(mode="json", exclude_defaults=True), ensure_ascii=True) + "\n"


def load_cassette(path: Path) -> list[Recorded]:
    """Read and check a cassette. Raises ConfigurationError with the file, the line in it and what to do next."""
    hint = "Record it anew with --record, or choose another model with --model."
    try:
        if not path.is_file() and path.exists():
            raise ConfigurationError(f"{path} is no file, and so no cassette. {hint}")
        if path.stat().st_size > MAX_CASSETTE_BYTES:
            raise ConfigurationError(f"{path}: larger than {MAX_CASSETTE_BYTES} bytes, so no cassette. {hint}")
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
            before = _in_full(before, exchange.request)
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
        raise ConfigurationError(f"{path}: nothing is recorded in it. {hint}")
    return recorded


def _json(line: str) -> Any:
    """What a line holds. Raises ValueError."""
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error.msg} in column {error.colno}") from error
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def _in_full(before: Asked | None, request: RecordedRequest) -> Asked:
    """The request with what it has of the one before. Raises ValueError."""
    above = before.messages if before is not None else ()
    if request.kept > len(above):
        raise ValueError(f"keeps {request.kept} messages of a request that has {len(above)}")
    tools = request.tools if request.tools is not None else (before.tools if before is not None else ())
    return Asked([*above[: request.kept], *request.messages], tools)
