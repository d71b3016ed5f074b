"""The file of a scripted model, version 1: YAML, checked whole before the first turn is played.

    version: 1
    tools: true                    # false: the model takes none, and its calls stand in its text
    turns:
      - expect: "what the last observation must match"    # a regular expression, searched for; optional
        text: "I will look at the folder."
        tool_calls:
          - {name: execute_bash, arguments: {command: "ls"}}
        first_token_s: 0.3
        tokens_per_s: 80
        usage: {prompt_tokens: 100, completion_tokens: 20, cost: 0.0}
        fault: rate_limit          # or {disconnect_after_bytes: 20}

`{workspace}` in texts, arguments and expectations stands for the workspace's absolute path.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from core.errors import ConfigurationError
from core.regular_files import read_text

MAX_SCRIPT_BYTES = 4 * 1024 * 1024
"""A script is written by hand; anything larger is another file."""

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
    model_config = ConfigDict(frozen=True, extra="forbid")


class Disconnect(_Strict):
    """The connection breaks after this much of the text was sent."""

    disconnect_after_bytes: int = Field(ge=0)


class ScriptedToolCall(_Strict):
    """A call as the model would make it."""

    name: str = Field(min_length=1)
    arguments: dict[str, JsonValue] = {}


class ScriptedUsage(_Strict):
    """What the turn is said to have used."""

    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)
    cost: float = Field(default=0.0, ge=0)
    """US dollars. A scripted model is free unless it says otherwise."""


class ScriptedTurn(_Strict):
    """One answer."""

    expect: str | None = None
    text: str = ""
    tool_calls: list[ScriptedToolCall] = []
    first_token_s: float = Field(default=0.0, ge=0)
    tokens_per_s: float = Field(default=0.0, ge=0)
    """0 sends the text at once."""
    usage: ScriptedUsage = ScriptedUsage()
    fault: FaultName | Disconnect | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.expect is not None:
            try:
                re.compile(self.expect)
            except re.error as error:
                raise ValueError(f"expect is no regular expression: {error}") from error
        if not (self.text or self.tool_calls or self.fault):
            raise ValueError("a turn needs text, tool_calls or a fault")
        return self


class Script(_Strict):
    """All turns, in the order in which they are played."""

    version: Literal[1]
    tools: bool = True
    """Whether the model takes tools; one that does not writes its calls in its text."""
    turns: list[ScriptedTurn] = Field(min_length=1)


def load_script(path: Path) -> Script:
    """Read and check a script.

    Raises ConfigurationError that names the file, the place in it and what to do next.
    """
    import yaml

    hint = "Correct it, or choose another model with --model."
    try:
        if path.stat().st_size > MAX_SCRIPT_BYTES:
            raise ConfigurationError(f"{path}: larger than {MAX_SCRIPT_BYTES} bytes, so no script. {hint}")
        safe_loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C, where there is one, is faster
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
    """Where in a script: turns count from 1, as people count."""
    if len(loc) >= 2 and loc[0] == "turns" and isinstance(loc[1], int):
        rest = ".".join(str(part) for part in loc[2:])
        return f"turn {loc[1] + 1}" + (f", {rest}" if rest else "")
    return ".".join(str(part) for part in loc) or "the whole file"


def with_workspace(turn: ScriptedTurn, workspace: str) -> ScriptedTurn:
    """The turn with `{workspace}` put in wherever it stands."""

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
