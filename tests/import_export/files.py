"""Conversations of others, small and whole, as files that a test can import or spoil."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import zlib
from pathlib import Path
from typing import Any

from tests.runtime.zips import packed

JsonObject = dict[str, Any]
SDK_IDS = [f"0a1b2c3d-0000-4000-8000-{number:012d}" for number in range(12)]


def png(width: int = 1, height: int = 1) -> bytes:
    """A picture of one colour, or one that only claims this size."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"\0" * (width + 1) * height if width * height < 10_000 else b"")
    chunks = ((b"IHDR", head), (b"IDAT", rows), (b"IEND", b""))
    body = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(body)


def data_url(data: bytes) -> str:
    """The URL that holds a picture."""
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def time_of(number: int) -> str:
    """As V0 writes it: without a zone."""
    return f"2025-03-04T05:06:{number:02d}.000007"


def _v0(number: int, source: str, **fields: Any) -> JsonObject:
    return {"id": number, "timestamp": time_of(number), "source": source, **fields}


_ANSWER = {"id": "answer-1", "model": "acme/large", "choices": []}
_CALL = {
    "function_name": "execute_bash", "tool_call_id": "call_1", "model_response": _ANSWER, "total_calls_in_response": 1
}  # fmt: skip
EVENTS: list[JsonObject] = [
    _v0(0, "user", message="List the files, please.", action="message",
        args={"content": "List the files, please.", "image_urls": None, "wait_for_response": False}),
    _v0(1, "agent", message="Running command: ls", action="run", tool_call_metadata=_CALL, timeout=120,
        args={"command": "ls", "thought": "I look.", "is_confirmed": "confirmed", "keep_prompt": True}),
    _v0(2, "agent", message="Command `ls` executed with exit code 0.", cause=1, observation="run", content="a\r\nb",
        extras={"command": "ls", "metadata": {"exit_code": 0, "pid": -1}, "hidden": False}, success=True),
    _v0(3, "environment", observation="weather", cause=2, content="sunny",
        extras={"degrees": [21, 1e3, None, True]}, unheard_of={"deep": [{"er": "\U0001f986"}]}),
    _v0(4, "agent", message="", action="finish",
        args={"outputs": {}, "thought": "Done.", "task_completed": "true"}),
]  # fmt: skip
"""A V0 conversation with fields of older versions, an unknown kind of event, and unknown fields."""


def trajectory(path: Path, events: Any = None) -> Path:
    """A file of V0."""
    path.write_text(json.dumps(EVENTS if events is None else events), "utf-8")
    return path


def v0_folder(folder: Path, events: list[JsonObject] | None = None) -> Path:
    """A conversation as V0's file store keeps it."""
    (folder / "events").mkdir(parents=True)
    for event in EVENTS if events is None else events:
        (folder / "events" / f"{event['id']}.json").write_text(json.dumps(event), "utf-8")
    about = {"conversation_id": "abc", "title": "Files", "llm_model": "acme/large", "created_at": time_of(0)}
    (folder / "metadata.json").write_text(json.dumps(about), "utf-8")
    return folder


def _sdk(number: int, kind: str, source: str, **fields: Any) -> JsonObject:
    return {"kind": kind, "id": SDK_IDS[number], "timestamp": time_of(number), "source": source, **fields}


def _text(text: str) -> list[JsonObject]:
    return [{"cache_prompt": False, "type": "text", "text": text}]


def _call(id: str, name: str, arguments: str) -> JsonObject:
    return {"id": id, "name": name, "arguments": arguments, "origin": "completion"}


SDK_EVENTS: list[JsonObject] = [
    _sdk(0, "SystemPromptEvent", "agent", system_prompt=_text("You help.")[0], tools=[{"kind": "TerminalTool"}]),
    _sdk(1, "MessageEvent", "user", llm_message={"role": "user", "content": _text("List the files, please.")}),
    _sdk(
        2,
        "ActionEvent",
        "agent",
        thought=_text("I look."),
        action={"kind": "TerminalAction", "command": "ls", "is_input": False, "timeout": 30.0, "reset": False},
        tool_name="terminal",
        tool_call_id="call_1",
        tool_call=_call("call_1", "terminal", '{"command": "ls"}'),
        llm_response_id="answer-1",
        security_risk="LOW",
    ),
    _sdk(
        3,
        "ActionEvent",
        "agent",
        thought=[],
        action={"kind": "FileEditorAction", "command": "create", "path": "/w/a", "file_text": "x"},
        tool_name="file_editor",
        tool_call_id="call_2",
        tool_call=_call("call_2", "file_editor", '{"command": "create"}'),
        llm_response_id="answer-1",
    ),
    _sdk(
        4,
        "ObservationEvent",
        "environment",
        tool_name="terminal",
        tool_call_id="call_1",
        action_id=SDK_IDS[2],
        observation={
            "kind": "TerminalObservation",
            "content": _text("a\nb"),
            "is_error": False,
            "command": "ls",
            "exit_code": 0,
            "metadata": {"exit_code": 0, "pid": 7, "working_dir": "/w"},
        },
    ),
    _sdk(5, "AgentErrorEvent", "agent", tool_name="file_editor", tool_call_id="call_2", error="No such folder."),
    _sdk(6, "ConversationStateUpdateEvent", "environment", key="execution_status", value="running"),
    _sdk(7, "Condensation", "environment", forgotten_event_ids=[SDK_IDS[1], SDK_IDS[2]], summary="Files were listed."),
    _sdk(8, "StreamingDeltaEvent", "agent", delta={"text": "D"}),
    _sdk(9, "PauseEvent", "user"),
    _sdk(
        10,
        "ActionEvent",
        "agent",
        thought=[],
        action={"kind": "FinishAction", "message": "Done."},
        tool_name="finish",
        tool_call_id="call_3",
        tool_call=_call("call_3", "finish", '{"message": "Done."}'),
        llm_response_id="answer-2",
    ),
]
"""A conversation of the SDK: two calls of one answer, an error, a condensation, kinds without a counterpart."""
BASE_STATE: JsonObject = {
    "id": "0a1b2c3d-0000-4000-8000-00000000ffff",
    "agent": {"kind": "Agent", "llm": {"model": "acme/large", "api_key": "**********"}},
    "workspace": {"kind": "LocalWorkspace", "working_dir": "/home/somebody/w"},
    "execution_status": "finished",
}


def sdk_folder(folder: Path, events: list[JsonObject] | None = None) -> Path:
    """A conversation as the SDK keeps it."""
    (folder / "events").mkdir(parents=True)
    for number, event in enumerate(SDK_EVENTS if events is None else events):
        (folder / "events" / f"event-{number:05d}-{event['id']}.json").write_text(json.dumps(event), "utf-8")
    (folder / "base_state.json").write_text(json.dumps(BASE_STATE), "utf-8")
    return folder


RECORDED: list[JsonObject] = [
    {"after": 1, "at": "2025-03-04T05:06:01.500000+00:00", "cause": 1, "data": base64.b64encode(b"a\r\n").decode()},
    {"after": 1, "at": "2025-03-04T05:06:01.600000+00:00", "cause": 1, "data": "AA==", "is_echo": True},
]


def archive_files(
    events: list[JsonObject] | None = None, *, pictures: tuple[bytes, ...] = (), **changed: Any
) -> dict[str, bytes]:
    """The members of an archive; `changed` replaces fields of its description."""
    found = EVENTS if events is None else events
    files = {
        "events.jsonl": "".join(f"{json.dumps(event)}\n" for event in found).encode(),
        "recordings.jsonl": "".join(f"{json.dumps(line)}\n" for line in RECORDED).encode(),
        **{f"blobs/{hashlib.sha256(data).hexdigest()}.png": data for data in pictures},
    }
    about = {
        "format": "handloom-archive",
        "version": 1,
        "conversation": {
            "id": "abc",
            "title": "Files",
            "workspace": "/w",
            "model": "acme/large",
            "repository": "",
            "created_at": "2025-03-04T05:06:00+00:00",
        },
        "counts": {"events": len(found), "blobs": len(pictures), "recordings": len(RECORDED)},
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
        **changed,
    }
    return {**files, "handloom.json": json.dumps(about).encode()}


def archive(path: Path, files: dict[str, bytes] | None = None) -> Path:
    """An archive of Handloom."""
    path.write_bytes(packed(archive_files() if files is None else files))
    return path
