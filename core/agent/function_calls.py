"""Turns a model's response into events. What the model wrote is untrusted until it is processed here.

Invariants, for every response: there is at least one event; each kept call is one event, in the model's order; no
action has unchecked arguments; the ids of the response and its calls are unique in the conversation; all text can be
stored. A call that makes no action becomes an ErrorObservation with the call's id, for the model to read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import JsonValue, ValidationError

from core.agent.tools.tool import InvalidCall, Tool
from core.events import (
    ErrorObservation,
    Event,
    LLMMetrics,
    MessageAction,
    ToolCallMetadata,
    truncate_middle,
)
from core.protocols import THINKING_BLOCKS, LLMResponse, ToolCall

MAX_CALLS = 32
"""Calls kept of one response. A model that makes more is confused, and each call costs a step."""
MAX_NAME_CHARS = 64
"""Providers refuse a request with a longer tool name in its history."""
SHOWN_ARGUMENTS_CHARS = 2_000
"""How much of the arguments an error repeats to the model."""

KEPT_REASONING_CHARS = 400_000
"""The limit of the reasoning kept with one response."""

EMPTY_ANSWER = "Your answer was empty. Call a tool, or answer the user in words."
TOO_MANY_CALLS = (
    "Your answer made {count} tool calls, and only the first {limit} were taken. "
    "Make the others again, in smaller numbers, if they are still needed."
)


def events_of(
    response: LLMResponse, tools: Mapping[str, Tool], used: set[str], *, step: int, metrics: LLMMetrics
) -> list[Event]:
    """Return the events of a response. Adds to `used`, the ids so far; `step` numbers the response."""
    text = _storable(response.text)
    if not response.tool_calls:
        message = MessageAction(content=text, wait_for_response=True, reasoning=_thought(response), llm_metrics=metrics)
        return [message if text.strip() else ErrorObservation(content=EMPTY_ANSWER, llm_metrics=metrics)]
    calls = [_tidy(call, used, f"call_{step}_{n}") for n, call in enumerate(response.tool_calls[:MAX_CALLS])]
    answer_id = _unused(response.id, used, f"answer_{step}")
    whole = _model_response(answer_id, response, text, calls)
    too_many = len(response.tool_calls) > MAX_CALLS
    events: list[Event] = []
    thought = text
    for position, (call, wanted) in enumerate(zip(calls, response.tool_calls, strict=False)):
        metadata = ToolCallMetadata(
            function_name=call.name,
            tool_call_id=call.id,
            model_response=whole if position == 0 else {"id": answer_id},
            total_calls_in_response=len(calls) + too_many,  # one event each, and one that refuses the rest
        )
        event = _event_of(call, tools.get(wanted.name), is_alone=len(response.tool_calls) == 1)
        if thought and "thought" in type(event).model_fields:
            event = event.model_copy(update={"thought": "\n".join(filter(None, (thought, event.thought_text)))})
            thought = ""
        events.append(event.model_copy(update={"tool_call_metadata": metadata, "llm_metrics": metrics}))
    if too_many:
        refusal = TOO_MANY_CALLS.format(count=len(response.tool_calls), limit=MAX_CALLS)
        events.append(ErrorObservation(content=refusal, llm_metrics=metrics))
    return events


def _event_of(call: ToolCall, tool: Tool | None, *, is_alone: bool) -> Event:
    """Return the action of a call, or an error. `tool` has the name that the model wrote."""
    shown = truncate_middle(call.arguments, SHOWN_ARGUMENTS_CHARS)
    if tool is None:
        return ErrorObservation(
            content=f"Tool {call.name} is not registered. (arguments: {shown}). "
            "Please check the tool name and retry with an existing tool."
        )
    arguments = _parsed(call.arguments)
    if arguments is None:
        return ErrorObservation(content=f"Failed to parse tool call arguments: {shown}")
    if tool.alone and not is_alone:
        return ErrorObservation(content=f"{call.name} was not done. Call it alone, in an answer of its own.")
    try:
        return tool.action_of(_storable_json(arguments))
    except InvalidCall as error:
        return ErrorObservation(content=str(error))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        return ErrorObservation(content=f'Invalid argument "{place}" in tool call {call.name}: {first["msg"]}')


def _parsed(text: str) -> dict[str, Any] | None:
    """Return the arguments, or None if they are not a JSON object without duplicate names."""
    try:
        arguments = json.loads(text or "{}", parse_constant=_refuse, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these pairs. Raises ValueError for a duplicate name."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def _tidy(call: ToolCall, used: set[str], fresh_id: str) -> ToolCall:
    """Return the call with a unique id and a name that every provider accepts."""
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", call.name[:MAX_NAME_CHARS]) or "unnamed"
    return ToolCall(_unused(call.id, used, fresh_id), name, _storable(call.arguments))


def _unused(wanted: str, used: set[str], fresh: str) -> str:
    """Return `wanted`, or `fresh` if it is empty, used or unusual, and add it to `used`."""
    chosen = wanted if re.fullmatch(r"[\x21-\x7e]{1,200}", wanted) and wanted not in used else fresh
    while chosen in used:
        chosen += "_"
    used.add(chosen)
    return chosen


def _model_response(
    answer_id: str, response: LLMResponse, text: str, calls: Sequence[ToolCall]
) -> dict[str, JsonValue]:
    """Return the whole response in the form of a chat completion, as V0 stores it."""
    tool_calls: list[JsonValue] = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in calls
    ]
    message: dict[str, JsonValue] = {"role": "assistant", "content": text, "tool_calls": tool_calls}
    if blocks := _blocks(response):
        message[THINKING_BLOCKS] = blocks
    elif reasoning := _thought(response):
        message["reasoning_content"] = reasoning
    usage = response.usage
    return {
        "id": answer_id,
        "model": usage.model,
        "object": "chat.completion",
        "choices": [{"finish_reason": response.finish_reason, "index": 0, "message": message}],
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        },
    }


def _thought(response: LLMResponse) -> str:
    """Return the model's reasoning as it is stored."""
    return _storable(truncate_middle(response.reasoning, KEPT_REASONING_CHARS))


def _blocks(response: LLMResponse) -> list[JsonValue]:
    """Return the signed reasoning blocks unchanged, or none if they are too long: shortened ones would be invalid."""
    size = sum(len(str(block)) for block in response.thinking)
    return [_storable_json(block) for block in response.thinking] if size <= KEPT_REASONING_CHARS else []


def _storable(text: str) -> str:
    """Return the text without lone surrogates, which databases and providers refuse."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _storable_json(value: Any) -> Any:
    match value:
        case str():
            return _storable(value)
        case list():
            return [_storable_json(item) for item in value]
        case dict():
            return {_storable(key): _storable_json(item) for key, item in value.items()}
        case _:
            return value
