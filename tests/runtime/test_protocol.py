"""The wire protocol: valid data round-trips, and invalid data is refused with a reason."""

from __future__ import annotations

import json

import pytest

from core.errors import UsageError
from core.events import (
    AgentThinkAction,
    BrowserOutputObservation,
    CmdOutputObservation,
    CmdRunAction,
    Frame,
    PageShown,
    Status,
    TerminalOutput,
    TokenDelta,
    event_to_dict,
)
from runtime import protocol
from runtime.protocol import NO_ACTION_ID, LineSplitter, ProtocolError, editor_of, ports_of, usage_of


@pytest.mark.parametrize(
    "frame",
    [
        TerminalOutput(7, bytes(range(256))),
        TerminalOutput(-1, b""),
        TerminalOutput(7, b"$ ls", is_echo=True),
        Status("info", "STATUS$READY", "über"),
        Status("error", "STATUS$ERROR", ""),
        TokenDelta(3, "a\nb", "reasoning"),
        TokenDelta(3, "\ud800"),
        PageShown(4, "http://x/", "T\n", bytes(range(256)), 1280, 720),
    ],
)
def test_frame_is_encoded_as_one_line_and_decoded(frame: Frame) -> None:
    line = protocol.encode_frame(frame)
    assert b"\n" not in line
    assert protocol.decode_line(line) == frame


def test_terminal_output_is_as_documented() -> None:
    line = protocol.encode_frame(TerminalOutput(7, b"hi"))
    assert line == b'{"frame":"terminal_output","cause":7,"data":"aGk="}'


def test_line_with_observation_key_is_decoded_as_observation() -> None:
    observation = CmdOutputObservation(command="x", content="a\n\ud800\x00é")
    line = protocol.encode_observation(observation)
    assert b"\n" not in line
    assert protocol.decode_line(line) == observation


def test_observation_for_v0_clients_has_only_v0_fields() -> None:
    page = BrowserOutputObservation(content="", url="http://x/", trigger_by_action="browse", look={"words": []})
    ours = json.loads(protocol.encode_observation(page))
    theirs = json.loads(protocol.encode_observation(page, is_for_v0=True))
    assert ours["extras"].pop("look") == {"words": []}
    assert theirs == ours


def test_request_contains_action_timeout_and_id() -> None:
    action = CmdRunAction(command="ls", timeout=3.5)
    assert protocol.decode_request(protocol.encode_request(action, 12)) == (action, 12)


def test_v0_request_has_no_id() -> None:
    body = b'{"action": {"action": "run", "args": {"command": "ls", "is_confirmed": "confirmed"}}}'
    assert protocol.decode_request(body) == (CmdRunAction(command="ls"), NO_ACTION_ID)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 10_000,
        b'{"action": "run"}',
        b'{"action": {"action": "no such"}}',
        b'{"action": {"action": "run", "args": {}}}',
        b'{"action": {"action": "run", "args": []}}',
        b'{"action": {"observation": "run"}}',
        b'{"action": {"action": "think", "id": "7"}}',
        b'{"action": {"action": "think", "id": true}}',
    ],
)
def test_invalid_request_body_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        protocol.decode_request(body)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"{}",
        b'{"frame": "no such"}',
        b'{"frame": ["terminal_output"]}',
        b'{"frame": "terminal_output", "cause": 1}',
        b'{"frame": "terminal_output", "cause": "x", "data": ""}',
        b'{"frame": "terminal_output", "cause": 1, "data": "%"}',
        b'{"frame": "terminal_output", "cause": 1, "data": 1}',
        b'{"observation": "no such"}',
        b'{"observation": "run", "extras": {}}',
    ],
)
def test_invalid_answer_line_is_refused(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        protocol.decode_line(line)


def test_action_is_not_accepted_as_answer() -> None:
    with pytest.raises(ProtocolError):
        protocol.decode_observation(event_to_dict(AgentThinkAction()))


@pytest.mark.parametrize("size", [1, 3, 100])
def test_split_lines_are_reassembled(size: int) -> None:
    data = b"one\n\ntwo\nrest"
    splitter = LineSplitter()
    lines = [line for at in range(0, len(data), size) for line in splitter.feed(data[at : at + size])]
    assert lines == [b"one", b"", b"two"]


def test_endless_line_is_refused() -> None:
    splitter = LineSplitter(limit=10)
    with pytest.raises(ProtocolError, match="longer than 10 bytes"):
        list(splitter.feed(b"x" * 11))


def test_ports_out_of_range_are_dropped_and_incomplete_ones_refused() -> None:
    listed = [{"port": port, "pid": 1, "command": "x"} for port in (-1, 0, 80, 65535, 65536)]
    assert [port.port for port in ports_of(listed)] == [80, 65535]
    for wrong in (None, 5, [1], [{"port": 1}], [{"port": "x", "pid": 1, "command": ""}]):
        with pytest.raises(ProtocolError):
            ports_of(wrong)


@pytest.mark.parametrize("url", ["http://[", "http://127.0.0.1:99999/", "http://127.0.0.1/", "x"])
def test_invalid_address_of_an_editor_is_refused(url: str) -> None:
    assert editor_of({"token": "t", "url": "http://127.0.0.1:1/?tkn=t"}) == "http://127.0.0.1:1/?tkn=t"
    with pytest.raises(ProtocolError):
        editor_of({"token": "t", "url": url})


def test_missing_editor_is_a_sentence() -> None:
    with pytest.raises(UsageError, match=r"^No editor is here\.$"):
        editor_of({"token": None, "detail": "no editor is here"})
    with pytest.raises(UsageError, match=r"^The editor is switched off: add vscode to sandbox\.plugins\.$"):
        editor_of({"token": None})


@pytest.mark.parametrize("sample", [[1.0, -1], [-1, 5], ["nan", 5], ["inf", 5], [1], "x", 5])
def test_invalid_sample_of_memory_is_refused(sample: object) -> None:
    used = {"processes": 1, "memory": 1, "cpu_seconds": 1, "memory_history": [[3.5, 7], sample]}
    info = {"sandbox": used, "resources": {"disk": {"free": 1}}, "uptime": 1}
    with pytest.raises(ProtocolError):
        usage_of(info)
    used["memory_history"] = [[3.5, 7]]
    assert usage_of(info).memory_history == ((3.5, 7),)
