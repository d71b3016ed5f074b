"""Events of V0 in the words of the OpenHands SDK (V1): the mirror of `core.import_export.sdk_import`.

What has a counterpart is put into it. Whatever else a sandbox carries out is a call of a tool, so that the model's
history stays whole; the rest is an update of the state under the key `v0`, which holds the event as it is. What the
SDK's words do not hold goes along beside them (`core.import_export.sdk_sidecar`), so that nothing depends on this table
being complete. An event's id follows from the event. Pure. Shapes: `openhands/sdk/event` and `openhands/tools`.

The folder of a conversation of the OpenHands SDK (V1), zipped.

    events/event-<number>-<id>.json    one event: as it was imported, or in the SDK's words
    (`core.import_export.sdk_export`) base_state.json                    beside the folder, where it was imported; else
    the SDK makes its own v0.jsonl                           what the SDK's words do not hold
    (`core.import_export.sdk_sidecar`)

The same conversation makes the same bytes. The list of names is kept to the end, as every zip has it there.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from datetime import UTC
from typing import Any, BinaryIO, NamedTuple

from core.events import (
    Action,
    AgentCondensationObservation,
    AgentFinishAction,
    AgentState,
    AgentStateChangedObservation,
    AgentThinkAction,
    AgentThinkObservation,
    ChangeAgentStateAction,
    CheckpointObservation,
    CmdOutputObservation,
    CmdRunAction,
    CondensationAction,
    CondensationRequestAction,
    Envelope,
    ErrorObservation,
    EventSource,
    FileEditAction,
    FileEditObservation,
    FileReadAction,
    FileReadObservation,
    FileWriteAction,
    FileWriteObservation,
    LoopDetectionObservation,
    MCPAction,
    MessageAction,
    Observation,
    RecallObservation,
    SecretMaskedObservation,
    SystemMessageAction,
    TaskTrackingAction,
    TaskTrackingObservation,
    UndoObservation,
    UnknownAction,
    UnknownObservation,
    UserRejectObservation,
    envelope_to_dict,
    event_to_dict,
    to_json,
)
from core.import_export import sdk_sidecar
from core.import_export.event_files import MANY, lay_beside
from core.import_export.export_pages import Page, Told
from core.import_export.imported_conversation import JsonObject
from core.import_export.untrusted_files import MAX_ENTRIES
from core.import_export.v0_export import as_sdk, whole
from core.import_export.zip_writer import Part, Zipped
from core.store.blobs import pictures_of

KEY = "v0"
"""Of the updates of the state that hold an event for which the SDK has no word."""
_STATES = {
    AgentState.RUNNING: "running",
    AgentState.USER_CONFIRMED: "running",
    AgentState.RATE_LIMITED: "running",
    AgentState.PAUSED: "paused",
    AgentState.STOPPED: "paused",
    AgentState.AWAITING_USER_CONFIRMATION: "waiting_for_confirmation",
    AgentState.FINISHED: "finished",
    AgentState.REJECTED: "finished",
    AgentState.ERROR: "error",
}
"""Every other state is `idle`."""
_EDITS = ("create", "str_replace", "insert", "undo_edit")
_TASK_STATES = ("todo", "in_progress", "done")
_NO_ARGUMENTS = ("thought", "security_risk", "confirmation_state")
_NO_ANSWERS = (
    AgentStateChangedObservation,
    AgentCondensationObservation,
    CheckpointObservation,
    LoopDetectionObservation,
    RecallObservation,
    SecretMaskedObservation,
    UndoObservation,
    UnknownObservation,
)
"""What may have an action for its cause, and is not what came of it."""
_IDS = uuid.UUID("9f0e2a4c-6c0a-5d5e-8a57-3f1d1c0b7e21")


class _Call(NamedTuple):
    """An action that nothing has come of yet."""

    id: str
    tool: str
    command: str
    """Of the editor or of the plan."""


class Words:
    """Says the events of one conversation, in their order, as the SDK would. Remembers how it called them."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._calls: dict[int, _Call] = {}
        self._answer = ""
        """Which answer of the model the action before was of."""

    def keep(self, envelope: Envelope, original: JsonObject) -> None:
        """Remember an event that is the SDK's own, and leaves as it came."""
        self._ids.append(str(original.get("id", "")))
        if original.get("kind") == "ActionEvent":
            call, tool = str(original.get("tool_call_id", "")), str(original.get("tool_name", ""))
            wanted = original.get("action")
            command = str(wanted.get("command", "")) if isinstance(wanted, dict) else ""
            self._calls[envelope.id] = _Call(call, tool, command)
            self._answer = str(original.get("llm_response_id", ""))

    def say(self, envelope: Envelope, form: JsonObject) -> JsonObject:
        """The event of the SDK. `form` is its whole V0 form, from which its id follows."""
        id = str(uuid.uuid5(_IDS, to_json(form)))
        fields = self._fields(envelope, id)
        self._ids.append(id)
        at = envelope.timestamp.astimezone(UTC).replace(tzinfo=None)  # times of the SDK have no zone
        place = {"id": id, "timestamp": at.isoformat(), "source": envelope.source.value}
        if fields is None:
            return {"kind": "ConversationStateUpdateEvent", **place, "key": KEY, "value": form}
        return {"kind": fields.pop("kind"), **place, **fields}

    def _fields(self, envelope: Envelope, id: str) -> JsonObject | None:
        event = envelope.event
        match event:
            case Observation():
                return self._came_of(envelope, event)
            case SystemMessageAction(content=text):
                return {"kind": "SystemPromptEvent", "system_prompt": _text(text), "tools": []}
            case MessageAction(queued=False):
                return _message(event, envelope.source)
            case ChangeAgentStateAction(agent_state=AgentState.PAUSED):
                return {"kind": "PauseEvent"}
            case CondensationRequestAction():
                return {"kind": "CondensationRequest"}
            case CondensationAction():
                return self._condensation(event, id)
            case UnknownAction():
                return None
            case Action() if event.acts or isinstance(event, AgentFinishAction):
                return self._action(envelope, event, id)
        return None

    def _action(self, envelope: Envelope, event: Action, id: str) -> JsonObject:
        said = event.tool_call_metadata
        wanted, tool = _wanted(event)
        call = _Call(said.tool_call_id if said else id, tool, str(wanted.get("command") or ""))
        if event.acts:
            self._calls[envelope.id] = call
        answer = str(said.model_response.get("id") or said.tool_call_id) if said else id
        thought = event.thought_text if answer != self._answer and not isinstance(event, AgentThinkAction) else ""
        self._answer = answer
        arguments = wanted["data"] if "data" in wanted else {key: wanted[key] for key in wanted if key != "kind"}
        risk = getattr(event, "security_risk", None)
        return {
            "kind": "ActionEvent",
            "thought": _blocks(thought),
            "action": wanted,
            "tool_name": tool,
            "tool_call_id": call.id,
            "tool_call": {"id": call.id, "name": tool, "arguments": to_json(arguments), "origin": "completion"},
            "llm_response_id": answer,
            "security_risk": "UNKNOWN" if risk is None else risk.name,
        }

    def _came_of(self, envelope: Envelope, event: Observation) -> JsonObject | None:
        cause = envelope.cause
        match event:
            case AgentStateChangedObservation(agent_state=state):
                value = _STATES.get(state, "idle")
                return {"kind": "ConversationStateUpdateEvent", "key": "execution_status", "value": value}
            case AgentCondensationObservation(content=text):
                return {"kind": "CondensationSummaryEvent", "summary": text}
        call = None if cause is None or isinstance(event, _NO_ANSWERS) else self._calls.pop(cause, None)
        if call is None or cause is None:
            if isinstance(event, ErrorObservation):
                return {"kind": "ConversationErrorEvent", "code": event.error_id or "error", "detail": event.content}
            return None
        place = {"tool_name": call.tool, "tool_call_id": call.id}
        match event:
            case ErrorObservation(content=text):
                return {"kind": "AgentErrorEvent", **place, "error": text}
            case UserRejectObservation(content=text):
                reason = {"rejection_reason": text, "action_id": self._ids[cause]}
                return {"kind": "UserRejectObservation", **place, **reason}
        seen = {"is_error": event.success is False, **_seen(event, call)}
        return {"kind": "ObservationEvent", **place, "observation": seen, "action_id": self._ids[cause]}

    def _condensation(self, event: CondensationAction, id: str) -> JsonObject:
        return {
            "kind": "Condensation",
            "forgotten_event_ids": [self._ids[each] for each in event.forgotten if 0 <= each < len(self._ids)],
            "summary": event.summary,
            "summary_offset": event.summary_offset if event.summary_offset is None else max(0, event.summary_offset),
            "llm_response_id": id,
        }


def _message(event: MessageAction, source: EventSource) -> JsonObject:
    role = "assistant" if source is EventSource.AGENT else "user"
    said = {"role": role, "content": _blocks(event.content, pictures_of(event))}
    return {"kind": "MessageEvent", "llm_message": said, "extended_content": _blocks(event.context)}


def _wanted(action: Action) -> tuple[JsonObject, str]:
    """What the SDK would want done, and the tool that does it."""
    match action:
        case CmdRunAction():
            limit = None if action.timeout is None else max(0.0, action.timeout)
            wanted = {"command": action.command, "is_input": action.is_input, "timeout": limit}
            return {"kind": "TerminalAction", **wanted}, "terminal"
        case FileEditAction(command=command) if command in _EDITS and (action.insert_line or 0) >= 0:
            found = {name: getattr(action, name) for name in ("file_text", "old_str", "new_str", "insert_line")}
            fields = {name: value for name, value in found.items() if value is not None}
            return {"kind": "FileEditorAction", "command": command, "path": action.path, **fields}, "file_editor"
        case FileReadAction():
            fields = {} if action.view_range is None else {"view_range": action.view_range}
            return {"kind": "FileEditorAction", "command": "view", "path": action.path, **fields}, "file_editor"
        case FileWriteAction(start=0, end=-1):
            fields = {"path": action.path, "file_text": action.content}
            return {"kind": "FileEditorAction", "command": "create", **fields}, "file_editor"
        case TaskTrackingAction(command=command, task_list=tasks) if _are_tasks(tasks):
            return {"kind": "TaskTrackerAction", "command": command, "task_list": _tasks(tasks)}, "task_tracker"
        case AgentFinishAction():
            return {"kind": "FinishAction", "message": action.final_thought or action.thought}, "finish"
        case AgentThinkAction(thought=text):
            return {"kind": "ThinkAction", "thought": text}, "think"
        case MCPAction(name=name, arguments=arguments):
            return {"kind": "MCPToolAction", "data": dict(arguments)}, name
    said = action.tool_call_metadata
    arguments = {key: value for key, value in event_to_dict(action)["args"].items() if key not in _NO_ARGUMENTS}
    return {"kind": "MCPToolAction", "data": arguments}, said.function_name if said else action.kind


def _seen(event: Observation, call: _Call) -> JsonObject:
    """What came of a tool, in the form that goes with its kind."""
    content = {"content": _blocks(event.content, pictures_of(event)[:1])}  # others show the same page with marks
    match event:
        case CmdOutputObservation(command=command, metadata=metadata):
            told = {"command": command, "exit_code": metadata.exit_code, "metadata": metadata.model_dump(mode="json")}
            return {"kind": "TerminalObservation", **content, "is_error": False, **told}
        case FileReadObservation(path=path) if call.tool == "file_editor":
            return {"kind": "FileEditorObservation", **content, "command": "view", "path": path}
        case FileWriteObservation(path=path) | FileEditObservation(path=path) if _is_edit(call):
            found = {name: getattr(event, name, None) for name in ("prev_exist", "old_content", "new_content")}
            fields = {name: value for name, value in found.items() if value is not None}
            return {"kind": "FileEditorObservation", **content, "command": call.command, "path": path, **fields}
        case TaskTrackingObservation(task_list=tasks) if call.tool == "task_tracker" and _are_tasks(tasks):
            return {"kind": "TaskTrackerObservation", **content, "command": call.command, "task_list": _tasks(tasks)}
        case AgentThinkObservation():
            return {"kind": "ThinkObservation", **content}
    return {"kind": "MCPToolObservation", **content, "tool_name": call.tool}


def _is_edit(call: _Call) -> bool:
    return call.tool == "file_editor" and call.command in _EDITS


def _are_tasks(tasks: Sequence[JsonObject]) -> bool:
    """Whether the SDK could read these tasks."""
    return all(
        isinstance(task.get("title"), str)
        and isinstance(task.get("notes", ""), str)
        and task.get("status", "todo") in _TASK_STATES
        for task in tasks
    )


def _tasks(tasks: Sequence[JsonObject]) -> list[JsonObject]:
    return [{key: task[key] for key in ("title", "notes", "status") if key in task} for task in tasks]


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _blocks(text: str, pictures: Sequence[str] = ()) -> list[Any]:
    """Text and pictures as a message has them."""
    blocks: list[Any] = [_text(text)] if text else []
    return [*blocks, {"type": "image", "image_urls": list(pictures)}] if pictures else blocks


_STRANGE = re.compile(r"[^0-9A-Za-z-]")


class Writer:
    """Writes the zip."""

    def __init__(self, out: BinaryIO, told: Told) -> None:
        self._told = told
        self._zip = Zipped(out, told.scratch)
        self._words = Words()
        self._state: JsonObject | None = None
        self._beside = Part(told.scratch)
        self._beside.add(sdk_sidecar.head(told.info))

    def take(self, page: Page) -> None:
        """Write the next events, each into its own member."""
        for envelope in page.events:
            if envelope.id == 0:
                self._state = lay_beside(envelope, "base_state")
            original = as_sdk(envelope)
            if original is None:
                self._say(whole(envelope, page))
            else:
                self._words.keep(envelope, original)
                self._add(envelope.id, original)

    def end(self) -> None:
        """Write what lies beside the events."""
        if self._state is not None:
            self._zip.add("base_state.json", to_json(self._state))
        self._zip.add_part(sdk_sidecar.NAME, self._beside)
        if self._zip.count > MAX_ENTRIES:
            self._told.note(MANY)
        self._zip.end()

    def _say(self, envelope: Envelope) -> None:
        form = envelope_to_dict(envelope, derived=False)
        event = self._words.say(envelope, form)
        is_whole = event.get("key") == KEY
        self._beside.add(sdk_sidecar.line(envelope.id, self._add(envelope.id, event), None if is_whole else form))

    def _add(self, number: int, event: JsonObject) -> str:
        """Write an event's file; its text."""
        name = _STRANGE.sub("", str(event.get("id", "")))[:64] or "0"
        data = to_json(event)
        self._zip.add(f"events/event-{number:05d}-{name}.json", data)
        return data
