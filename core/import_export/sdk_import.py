"""Events of the OpenHands SDK (V1) as events of V0. Pure functions.

An event with a counterpart in V0 becomes that, so that the panes, the search and a replay know it. Any other event gets
an unknown kind, `sdk.` and its name. The originals are kept whole (`core.import_export.imported_conversation`), so
this table need not be complete. Source: `openhands/sdk/event` and `openhands/tools` of the SDK.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from core.events import EventFormatError, event_from_dict
from core.import_export.imported_conversation import JsonObject

_STATES = {
    "idle": "awaiting_user_input",
    "running": "running",
    "paused": "paused",
    "waiting_for_confirmation": "awaiting_user_confirmation",
    "finished": "finished",
    "error": "error",
    "stuck": "error",
}
_RISKS = {"LOW": 0, "MEDIUM": 1, "HIGH": 2}
_FOUND_IN_ARGUMENTS = ("command", "path", "file_text", "old_str", "new_str", "insert_line", "view_range")


def is_sdk_event(value: Any) -> bool:
    """Whether a JSON value is an event of the SDK, not of V0."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("kind"), str)
        and not isinstance(value.get("action"), str)
        and not isinstance(value.get("observation"), str)
    )


def as_v0(events: Sequence[JsonObject]) -> list[JsonObject]:
    """The V0 form of each event, in the same order. Ids are positions in the list."""
    context = _Context.of(events)
    return [_form(event, number, context) for number, event in enumerate(events)]


def has_branches(events: Sequence[JsonObject]) -> bool:
    """Whether an event has another parent than the event before it."""
    return any(_text(event, "parent_id") not in ("", _text(before, "id")) for before, event in pairwise(events))


@dataclass(frozen=True, slots=True)
class _Context:
    """How the events of one conversation refer to each other. All values are positions in the list."""

    places: Mapping[str, int]
    calls: Mapping[str, int]
    """The action of each tool call."""
    answers: Mapping[str, list[int]]
    """The actions of each model answer."""
    events: Sequence[JsonObject]

    @classmethod
    def of(cls, events: Sequence[JsonObject]) -> _Context:
        places: dict[str, int] = {}
        calls: dict[str, int] = {}
        answers: dict[str, list[int]] = {}
        for number, event in enumerate(events):
            if id := _text(event, "id"):
                places.setdefault(id, number)
            if event.get("kind") == "ActionEvent":
                if call := _text(event, "tool_call_id"):
                    calls.setdefault(call, number)
                answers.setdefault(_text(event, "llm_response_id"), []).append(number)
        return cls(places, calls, answers, events)

    def cause_of(self, event: JsonObject) -> int | None:
        found = self.places.get(_text(event, "action_id"))
        return self.calls.get(_text(event, "tool_call_id")) if found is None else found


def _form(event: JsonObject, number: int, context: _Context) -> JsonObject:
    kind = str(event.get("kind"))
    place: JsonObject = {"id": number, "timestamp": event.get("timestamp"), "source": event.get("source")}
    if place["source"] not in ("agent", "user", "environment"):
        place["source"] = "environment"  # mostly hooks; the original keeps the source
    translate = _KINDS.get(kind)
    form = translate(event, number, context) if translate else None
    if form is not None:
        try:
            event_from_dict(form)
        except EventFormatError:
            form = None
    if form is None:
        cause = None if kind == "ActionEvent" else context.cause_of(event)
        branch = "action" if kind == "ActionEvent" else "observation"
        form = {branch: f"sdk.{kind}"} | ({"cause": cause} if cause is not None and cause < number else {})
    return {**place, **form}


def _system(event: JsonObject, number: int, context: _Context) -> JsonObject:
    tools = event.get("tools")
    text = "\n\n".join(filter(None, (_content(event.get(key)) for key in ("system_prompt", "dynamic_context"))))
    return _action("system", content=text, tools=tools if isinstance(tools, list) else None)


def _message(event: JsonObject, number: int, context: _Context) -> JsonObject:
    message = event.get("llm_message")
    content = message.get("content") if isinstance(message, dict) else None
    urls = _pictures(content)
    return _action(
        "message",
        content=_content(content),
        image_urls=urls or None,
        wait_for_response=event.get("source") == "agent",
    )


def _action_event(event: JsonObject, number: int, context: _Context) -> JsonObject | None:
    wanted = event.get("action")
    if not isinstance(wanted, dict):
        return None
    translate = _ACTIONS.get(str(wanted.get("kind")))
    form = translate(event, wanted) if translate else None
    if form is None:
        return None
    thought = _content(event.get("thought"))
    if form["action"] != "think":
        form["args"]["thought"] = thought
    risk = _RISKS.get(_text(event, "security_risk"))
    if risk is not None and form["action"] not in ("think", "finish", "task_tracking"):
        form["args"]["security_risk"] = risk
    if metadata := _call_metadata(event, number, context):
        form["tool_call_metadata"] = metadata
    return form


def _run(event: JsonObject, wanted: JsonObject) -> JsonObject:
    form = _action("run", command=wanted.get("command"), is_input=bool(wanted.get("is_input")))
    return form if wanted.get("timeout") is None else {**form, "timeout": wanted["timeout"]}


def _edit(event: JsonObject, wanted: JsonObject) -> JsonObject:
    args = {key: wanted[key] for key in _FOUND_IN_ARGUMENTS if wanted.get(key) is not None}
    if args.get("command") == "view":
        return _action("read", path=args.get("path"), view_range=args.get("view_range"), impl_source="oh_aci")
    args.pop("view_range", None)
    return _action("edit", **args, impl_source="oh_aci")


def _tool_call(event: JsonObject, wanted: JsonObject) -> JsonObject:
    arguments = wanted.get("data")
    return _action(
        "call_tool_mcp", name=_text(event, "tool_name"), arguments=arguments if isinstance(arguments, dict) else {}
    )


def _observation_event(event: JsonObject, number: int, context: _Context) -> JsonObject | None:
    seen = event.get("observation")
    if not isinstance(seen, dict):
        return None
    translate = _OBSERVATIONS.get(str(seen.get("kind")))
    if translate is None:
        return None
    name, extras = translate(seen)
    if seen.get("kind") == "MCPToolObservation":
        extras = {"name": _text(event, "tool_name")}
    content = seen.get("content", seen.get("output"))
    return _answer(name, _content(content), event, context, number) | {"extras": extras}


def _terminal(seen: JsonObject) -> tuple[str, JsonObject]:
    metadata = dict(seen["metadata"]) if isinstance(seen.get("metadata"), dict) else {}
    if metadata.get("exit_code", -1) == -1 and seen.get("exit_code") is not None:
        metadata["exit_code"] = seen["exit_code"]
    return "run", {"command": seen.get("command") or "", "metadata": metadata}


def _editor(seen: JsonObject) -> tuple[str, JsonObject]:
    path = seen.get("path") or ""
    if seen.get("command") == "view":
        return "read", {"path": path, "impl_source": "oh_aci"}
    keys = ("prev_exist", "old_content", "new_content")
    return "edit", {"path": path, "impl_source": "oh_aci", **{key: seen[key] for key in keys if key in seen}}


def _task_list(seen: JsonObject) -> tuple[str, JsonObject]:
    return "task_tracking", {"command": seen.get("command") or "", "task_list": seen.get("task_list") or []}


def _conversation_error(event: JsonObject, number: int, context: _Context) -> JsonObject:
    text = ": ".join(filter(None, (_text(event, "code"), _text(event, "detail"))))
    return {"observation": "error", "content": text, "extras": {"error_id": _text(event, "code")}}


def _state(event: JsonObject, number: int, context: _Context) -> JsonObject | None:
    state = _STATES.get(_text(event, "value"))
    if event.get("key") not in ("execution_status", "agent_status") or state is None:
        return None
    return {"observation": "agent_state_changed", "content": "", "extras": {"agent_state": state}}


def _condensation(event: JsonObject, number: int, context: _Context) -> JsonObject | None:
    forgotten = event.get("forgotten_event_ids")
    if not isinstance(forgotten, list):
        return None
    places = [context.places[each] for each in forgotten if isinstance(each, str) and each in context.places]
    summary = event.get("summary")
    offset = event.get("summary_offset")
    return _action(
        "condensation",
        forgotten_event_ids=places,
        summary=summary,
        summary_offset=None if summary is None else offset or 0,
    )


def _action(kind: str, **args: Any) -> JsonObject:
    return {"action": kind, "args": args}


def _answer(name: str, content: str, event: JsonObject, context: _Context, number: int) -> JsonObject:
    """An observation, with the action of the same tool call as its cause."""
    form: JsonObject = {"observation": name, "content": content, "extras": {}}
    cause = context.cause_of(event)
    if cause is not None and cause < number:
        form["cause"] = cause
    call = _text(event, "tool_call_id")
    if call:
        answer = _text(context.events[cause], "llm_response_id") if cause is not None else ""
        form["tool_call_metadata"] = {
            "function_name": _text(event, "tool_name"),
            "tool_call_id": call,
            "model_response": {"id": answer} if answer else {},
        }
    return form


def _call_metadata(event: JsonObject, number: int, context: _Context) -> JsonObject | None:
    """The tool call of an action. The first action of an answer has the answer, assembled from its events."""
    answer, call = _text(event, "llm_response_id"), _text(event, "tool_call_id")
    if not call:
        return None
    together = context.answers.get(answer, [number]) if answer else [number]
    response: JsonObject = {"id": answer or call}
    if together[0] == number:
        calls = [made for place in together if (made := _tool_call_of(context.events[place]))]
        message = {"role": "assistant", "content": _content(event.get("thought")), "tool_calls": calls}
        response["choices"] = [{"index": 0, "finish_reason": "tool_calls", "message": message}]
    return {
        "function_name": _text(event, "tool_name"),
        "tool_call_id": call,
        "model_response": response,
        "total_calls_in_response": len(together),
    }


def _tool_call_of(event: JsonObject) -> JsonObject | None:
    call = event.get("tool_call")
    if not isinstance(call, dict):
        return None
    named = call.get("function") if isinstance(call.get("function"), dict) else call
    function = {"name": _text(named, "name"), "arguments": _text(named, "arguments")}
    return {"id": _text(event, "tool_call_id"), "type": "function", "function": function}


def _text(event: Any, key: str) -> str:
    """A text field; empty if it is missing or not a text."""
    value = event.get(key) if isinstance(event, dict) else None
    return value if isinstance(value, str) else ""


def _content(value: Any) -> str:
    """The text of a text, of a content block, or of a list of them."""
    if isinstance(value, str):
        return value
    blocks = value if isinstance(value, list) else [value]
    return "\n".join(text for block in blocks if (text := _text(block, "text")))


def _pictures(value: Any) -> list[str]:
    blocks = value if isinstance(value, list) else []
    lists = [block.get("image_urls") for block in blocks if isinstance(block, dict)]
    return [url for urls in lists if isinstance(urls, list) for url in urls if isinstance(url, str)]


_Translate = Callable[[JsonObject, int, _Context], JsonObject | None]
_KINDS: Mapping[str, _Translate] = {
    "SystemPromptEvent": _system,
    "MessageEvent": _message,
    "ActionEvent": _action_event,
    "ObservationEvent": _observation_event,
    "UserRejectObservation": lambda event, number, context: _answer(
        "user_rejected", _text(event, "rejection_reason"), event, context, number
    ),
    "AgentErrorEvent": lambda event, number, context: _answer("error", _text(event, "error"), event, context, number),
    "ConversationErrorEvent": _conversation_error,
    "ConversationStateUpdateEvent": _state,
    "PauseEvent": lambda event, number, context: _action("change_agent_state", agent_state="paused"),
    "Condensation": _condensation,
    "CondensationRequest": lambda event, number, context: _action("condensation_request"),
    "CondensationSummaryEvent": lambda event, number, context: {
        "observation": "condense",
        "content": _text(event, "summary"),
        "extras": {},
    },
}
_ACTIONS: Mapping[str, Callable[[JsonObject, JsonObject], JsonObject]] = {
    **dict.fromkeys(("TerminalAction", "ExecuteBashAction"), _run),
    **dict.fromkeys(("FileEditorAction", "StrReplaceEditorAction"), _edit),
    "TaskTrackerAction": lambda event, wanted: _action(
        "task_tracking", command=wanted.get("command", "view"), task_list=wanted.get("task_list") or []
    ),
    "FinishAction": lambda event, wanted: _action("finish", final_thought=_text(wanted, "message")),
    "ThinkAction": lambda event, wanted: _action("think", thought=_text(wanted, "thought")),
    "MCPToolAction": _tool_call,
}
_OBSERVATIONS: Mapping[str, Callable[[JsonObject], tuple[str, JsonObject]]] = {
    **dict.fromkeys(("TerminalObservation", "ExecuteBashObservation"), _terminal),
    **dict.fromkeys(("FileEditorObservation", "StrReplaceEditorObservation"), _editor),
    "TaskTrackerObservation": _task_list,
    "ThinkObservation": lambda seen: ("think", {}),
    "FinishObservation": lambda seen: ("null", {}),
    "MCPToolObservation": lambda seen: ("mcp", {}),
}
