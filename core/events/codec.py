"""Events to and from the JSON form of OpenHands V0.

The same form is used by the sandbox protocol, `--json`, the trajectory export, and the database, which leaves out
derived fields. Fields of older V0 versions are accepted. Unknown kinds and fields are kept and written back unchanged.
Pure functions. Source: `openhands/events/serialization/*.py`.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pydantic_core
from pydantic import ConfigDict, JsonValue, TypeAdapter, ValidationError

from core.events.base import (
    Action,
    Envelope,
    Event,
    EventSource,
    LLMMetrics,
    Observation,
    ToolCallMetadata,
    UnknownAction,
    UnknownObservation,
)

ENVELOPE_KEYS = ("id", "timestamp", "source", "cause", "conversation_id")
TOP_FIELDS = ("tool_call_metadata", "llm_metrics", "timeout", "judgement", "refusals")
"""Fields of events outside of `args` and `extras`."""
_NOT_INNER = set(TOP_FIELDS)
_ACTION_KEYS = {"action", "args", "message", *TOP_FIELDS, *ENVELOPE_KEYS} - {"refusals"}
_OBSERVATION_KEYS = {"observation", "content", "extras", "success", "refusals", *_ACTION_KEYS} - {
    "action",
    "args",
    "timeout",
    "judgement",
}

TRAJECTORY_DROPS = frozenset(
    {
        "dom_object",
        "axtree_object",
        "active_page_index",
        "last_browser_action",
        "last_browser_action_error",
        "focused_element_bid",
        "extra_element_properties",
    }
)
"""Fields of a page that a trajectory leaves out: large, and useful only to the step itself."""

JsonObject = dict[str, Any]
_ENVELOPE = TypeAdapter(Envelope)
_CARRIED = TypeAdapter(dict[str, JsonValue], config=ConfigDict(allow_inf_nan=False, defer_build=True))


SHOWN_CHARS = 300
"""Length of an error message, so that it does not quote a whole file."""


class EventFormatError(ValueError):
    """Data that is not an event in V0 form. The text says which part is wrong."""

    def __init__(self, text: str) -> None:
        super().__init__(text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…")


def event_to_dict(event: Event, *, derived: bool = True) -> JsonObject:
    """The V0 form of an event without its envelope. Without `derived`, derived fields are left out."""
    if isinstance(event, UnknownAction | UnknownObservation):
        return dict(event.raw)
    fields = event.model_dump(mode="json", exclude=_NOT_INNER)
    for name in event.ours:
        if fields[name] == type(event).model_fields[name].default:
            del fields[name]
    data: JsonObject = {"message": event.message} if derived else {}
    if isinstance(event, Action):
        data["action"] = event.kind
        data["args"] = fields
        if event.timeout is not None:
            data["timeout"] = event.timeout
        if event.judgement is not None:
            data["judgement"] = event.judgement.model_dump(mode="json")
    elif isinstance(event, Observation):
        data["observation"] = event.kind
        data["content"] = fields.pop("content")
        data["extras"] = fields
        if derived and event.success is not None:
            data["success"] = event.success
        if event.refusals:
            data["refusals"] = [refusal.model_dump(mode="json") for refusal in event.refusals]
    if event.tool_call_metadata is not None:
        data["tool_call_metadata"] = dict(event.tool_call_metadata)  # already JSON, and by far the largest part
    if event.llm_metrics is not None:
        data["llm_metrics"] = event.llm_metrics.model_dump(mode="json")
    return data


def without_ours(form: JsonObject, event: Event) -> JsonObject:
    """The form without the fields that only Handloom has: classes of V0 fail on fields that they do not know."""
    part = "args" if "action" in form else "extras"
    form = {name: value for name, value in form.items() if name != "refusals"}
    if not event.ours or not isinstance(form.get(part), dict):
        return form
    return {**form, part: {name: value for name, value in form[part].items() if name not in event.ours}}


def event_from_dict(data: Mapping[str, Any]) -> tuple[Event, dict[str, JsonValue]]:
    """An event from its V0 form, and the parts that this version does not know.

    Raises EventFormatError for a known kind with invalid fields.
    """
    if not isinstance(data, Mapping):
        raise EventFormatError(f"an event is a JSON object, not {type(data).__name__}")
    is_action = "action" in data
    if is_action == ("observation" in data):
        raise EventFormatError("an event has either the key 'action' or the key 'observation'")
    branch: type[Event] = Action if is_action else Observation
    kind = data["action" if is_action else "observation"]
    cls = branch.kinds.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raw = {key: value for key, value in data.items() if key not in ENVELOPE_KEYS}
        try:
            return (UnknownAction(raw=raw) if is_action else UnknownObservation(raw=raw)), {}
        except ValidationError as error:
            raise EventFormatError(f"an event of an unknown kind: {error.errors()[0]['msg']}") from error
    return _known_from_dict(cls, data)


def _known_from_dict(cls: type[Event], data: Mapping[str, Any]) -> tuple[Event, dict[str, JsonValue]]:
    inner_key = "args" if issubclass(cls, Action) else "extras"
    inner = data.get(inner_key) or {}
    if not isinstance(inner, Mapping):
        raise EventFormatError(f"{cls.kind}: {inner_key!r} is a JSON object, not {type(inner).__name__}")
    values = dict(inner)
    unknown: dict[str, JsonValue] = {}
    if issubclass(cls, Action):
        _accept_legacy_args(cls.kind, values)
        if data.get("timeout") is not None:
            values["timeout"] = data["timeout"]
        if data.get("judgement") is not None:
            values["judgement"] = data["judgement"]
    else:
        _accept_legacy_extras(cls.kind, values)
        values["content"] = data.get("content") or ""
        if data.get("refusals") is not None:
            values["refusals"] = data["refusals"]
    fields = cls.model_fields
    strange = {key: values.pop(key) for key in list(values) if key not in fields}
    if strange:
        unknown[inner_key] = strange
    try:
        if data.get("tool_call_metadata") is not None:
            values["tool_call_metadata"] = ToolCallMetadata.model_validate(data["tool_call_metadata"])
        if data.get("llm_metrics") is not None:
            values["llm_metrics"] = LLMMetrics.model_validate(data["llm_metrics"])
        event = cls.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise EventFormatError(f"{cls.kind}: {place}: {first['msg']}") from error
    known = _ACTION_KEYS if issubclass(cls, Action) else _OBSERVATION_KEYS
    unknown.update({key: value for key, value in data.items() if key not in known})
    if "message" in data and data["message"] != event.message:
        unknown["message"] = data["message"]
    return event, unknown


def _accept_legacy_args(kind: str, args: dict[str, Any]) -> None:
    """Convert arguments of older V0 versions in place."""
    for dropped in ("keep_prompt", "task_completed"):
        args.pop(dropped, None)
    if "is_confirmed" in args:
        args.setdefault("confirmation_state", args.pop("is_confirmed"))
    if "images_urls" in args:
        args.setdefault("image_urls", args.pop("images_urls"))
    if kind == "change_agent_state" and args.get("agent_state") == "init":
        args["agent_state"] = "loading"
    code = args.pop("translated_ipython_code", None)
    if isinstance(code, str) and kind in ("edit", "read"):
        for key, value in _editor_call(code).items():
            args.setdefault(key, value)


def _editor_call(code: str) -> dict[str, Any]:
    """The keyword arguments of `print(file_editor(**{...}))`: older V0 versions translated edits into Python."""
    try:
        tree = ast.parse(code.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "file_editor":
            return _literal_keywords(node)
    return {}


def _literal_keywords(call: ast.Call) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for keyword in call.keywords:
        try:
            value = ast.literal_eval(keyword.value)
        except (ValueError, TypeError, SyntaxError, RecursionError):
            continue
        if keyword.arg is not None:
            found[keyword.arg] = value
        elif isinstance(value, dict):
            found.update(value)
    return found


def _accept_legacy_extras(kind: str, extras: dict[str, Any]) -> None:
    """Convert extras of older V0 versions in place."""
    extras.pop("formatted_output_and_error", None)
    if kind == "agent_state_changed" and extras.get("agent_state") == "init":
        extras["agent_state"] = "loading"
    if kind == "run" and ("exit_code" in extras or "command_id" in extras):
        found = extras.get("metadata") or {}
        if not isinstance(found, Mapping):
            raise EventFormatError(f"run: 'metadata' is a JSON object, not {type(found).__name__}")
        metadata = dict(found)
        if "exit_code" in extras:
            metadata["exit_code"] = extras.pop("exit_code")
        if "command_id" in extras:
            metadata["pid"] = extras.pop("command_id")
        extras["metadata"] = metadata


def envelope_to_dict(envelope: Envelope, *, derived: bool = True) -> JsonObject:
    """The whole V0 form: the envelope's fields, then the event's, then the carried ones.

    Without `derived` this is the stored form: no message, success and conversation id, which are derived again.
    """
    data: JsonObject = {
        "id": envelope.id,
        "timestamp": envelope.timestamp.isoformat(),
        "source": envelope.source.value,
    }
    if envelope.cause is not None:
        data["cause"] = envelope.cause
    data.update(event_to_dict(envelope.event, derived=derived))
    for key, value in envelope.carried.items():
        if key in ("args", "extras") and isinstance(value, dict):
            data[key] = {**data.get(key, {}), **value}
        else:
            data[key] = value
    if derived:
        data["conversation_id"] = envelope.conversation_id
    return data


def envelope_from_dict(data: Mapping[str, Any], conversation_id: str | None = None) -> Envelope:
    """The envelope of a V0 form. `conversation_id` is used if the form has none.

    A time without a zone is UTC. Raises EventFormatError.
    """
    event, carried = event_from_dict(data)
    try:
        timestamp = datetime.fromisoformat(str(data.get("timestamp")))
        return _ENVELOPE.validate_python(
            {
                "conversation_id": data.get("conversation_id") or conversation_id or "",
                "id": data.get("id"),
                "timestamp": timestamp.replace(tzinfo=UTC) if timestamp.tzinfo is None else timestamp.astimezone(UTC),
                "source": EventSource(data.get("source") or "environment"),
                "cause": data.get("cause"),
                "event": event,
                "carried": _CARRIED.validate_python(carried) if carried else {},
            }
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise EventFormatError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except (ValueError, OverflowError) as error:
        raise EventFormatError(str(error)) from error


def to_json(data: Mapping[str, Any]) -> str:
    """One line of valid JSON, with lone surrogates as escapes. Raises ValueError for NaN.

    Pydantic is ten times as fast as the standard library, which handles the cases that Pydantic gets wrong.
    """
    try:
        text = pydantic_core.to_json(data, inf_nan_mode="constants").decode()
    except ValueError:  # lone surrogates, which are not valid UTF-8
        return json.dumps(data, separators=(",", ":"), allow_nan=False)
    if "NaN" in text or "Infinity" in text:
        return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text


@cache
def _field_names() -> frozenset[str]:
    names = {"action", "observation", "args", "extras", "content", "message", "success", "timeout"}
    for cls in (*Action.kinds.values(), *Observation.kinds.values()):
        names.update(cls.model_fields)
    return frozenset(names)


def is_field(name: str) -> bool:
    """Whether a key of an event's form is a field name of the vocabulary, not text from outside."""
    return name in _field_names()


def drop_for_trajectory(data: JsonObject, *, screenshots: bool = False) -> JsonObject:
    """The form for a trajectory file: pages without trees, and without screenshots unless asked."""
    extras = data.get("extras")
    if not isinstance(extras, dict):
        return data
    drops = TRAJECTORY_DROPS if screenshots else TRAJECTORY_DROPS | {"screenshot", "set_of_marks"}
    return {**data, "extras": {key: value for key, value in extras.items() if key not in drops}}
