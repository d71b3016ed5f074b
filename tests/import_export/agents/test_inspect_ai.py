"""Logs of Inspect: shortened ones that version 0.3.285 wrote with a scripted model."""

from __future__ import annotations

import io
import json
import random
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from core.import_export.agents import inspect_ai, zips
from core.import_export.agents.inspect_ai import discover, read
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.transcript import Transcript, Usage
from core.import_export.bounded_json import Fault
from tests.import_export.agents.fuzzed import read_all, replaced, survives
from tests.import_export.agents.shown import shown

LOG = "2026-11-28T23-07-35-00-00_demo_azNmHWUGHAsjTb7ymW9Uke"
HASH = "cd1965c63ad438d62a4775d75f869f14"
TIME = "2026-11-28T23:07:3{}.000000+00:00"
HEADER = {
    "version": 2,
    "status": "success",
    "eval": {
        "task": "demo",
        "created": TIME.format(5),
        "model": "openai/gpt-4o",
        "dataset": {"samples": 2, "sample_ids": ["one/a", 2]},
        "config": {"epochs": 1},
        "revision": {"type": "git", "origin": "o", "commit": "abc1234"},
    },
}
SUMMARIES = [
    {"id": "one/a", "epoch": 1, "input": "What is 1 + 1?", "model_usage": {"openai/gpt-4o": {"total_tokens": 243}},
     "started_at": TIME.format(5), "completed_at": TIME.format(9)},
    {"id": 2, "epoch": 1, "input": [{"role": "user", "content": "Say two"}]},
]  # fmt: skip


def model(message: str, at: int, **usage: int) -> dict[str, Any]:
    output = {"choices": [{"message": {"id": message}}], "usage": usage}
    return {"event": "model", "timestamp": TIME.format(at), "model": "openai/gpt-4o", "output": output}


SAMPLE: dict[str, Any] = {
    "id": "one/a",
    "epoch": 1,
    "target": "2",
    "messages": [
        {"id": "m0", "role": "system", "content": "You are precise"},
        {"id": "m1", "role": "user", "content": "What is 1 + 1?", "source": "input"},
        {
            "id": "m2",
            "role": "assistant",
            "source": "generate",
            "content": [
                {"type": "reasoning", "reasoning": "easy", "redacted": False},
                {"type": "reasoning", "reasoning": "c2VjcmV0", "redacted": True, "summary": "in short"},
                {"type": "text", "text": "I add."},
                {"type": "tool_use", "id": "s1", "name": "web_search", "arguments": '{"query": "x"}', "result": "y"},
            ],
            "tool_calls": [
                {"id": "c1", "function": "add", "arguments": {"x": 1, "y": f"attachment://{HASH}"}},
                {"id": "c2", "function": "bash", "arguments": {"command": "exit 3"}},
                {"id": "c3", "function": "add", "arguments": {}},
            ],
        },
        {"id": "m3", "role": "tool", "content": f"attachment://{HASH}", "tool_call_id": "c1", "function": "add"},
        {"id": "m4", "role": "tool", "content": [{"type": "text", "text": "hi"}], "tool_call_id": "c2"},
        {"id": "m5", "role": "tool", "content": "", "tool_call_id": "c3",
         "error": {"type": "approval", "message": "Refused."}},
        {"id": "m6", "role": "user", "content": "Please go on."},
        {"id": "m7", "role": "assistant", "content": "It is 2"},
    ],
    "events": [
        {"event": "span_begin", "id": "x", "type": "solver", "name": "generate"},
        model("m2", 6, input_tokens=94, output_tokens=20, input_tokens_cache_read=7),
        {"event": "span_begin", "id": "t1", "type": "tool", "name": "add"},
        {"event": "tool", "id": "c1", "function": "add", "message_id": "m3", "completed": TIME.format(7)},
        {"event": "span_end", "id": "t1"},
        {"event": "span_begin", "id": "t2", "type": "tool", "name": "bash"},
        {"event": "tool", "id": "c2", "function": "bash", "message_id": "m4", "completed": TIME.format(7)},
        {"event": "sandbox", "span_id": "t2", "action": "exec", "cmd": "bash --login -c 'exit 3'", "result": 3},
        model("m7", 8, input_tokens=95, output_tokens=20),
        model("gone", 8, input_tokens=10, output_tokens=1),
        {"event": "compaction", "timestamp": TIME.format(8), "uuid": "u"},
    ],
    "attachments": {HASH: "two\nlines"},
    "scores": {"includes": {"value": "C"}},
    "error": {"message": "It broke", "traceback": "..."},
    "limit": {"type": "token", "limit": 5},
    "started_at": TIME.format(5),
    "completed_at": TIME.format(9),
}  # fmt: skip


def write_zip(path: Path, members: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in members.items():
            archive.writestr(name, json.dumps(value))


MEMBERS: dict[str, Any] = {
    "_journal/start.json": HEADER,
    "samples/one/a_epoch_1.json": SAMPLE,
    "samples/2_epoch_1.json": {**SAMPLE, "id": 2},
    "summaries.json": SUMMARIES,
    "header.json": HEADER,
}


@pytest.fixture
def places(tmp_path: Path) -> Places:
    write_zip(tmp_path / "project" / "logs" / f"{LOG}.eval", MEMBERS)
    return Places(tmp_path, {}, "linux", (tmp_path / "project",))


def by_id(places: Places) -> dict[str, AgentSession]:
    return {session.id: session for session in discover(places)}


ID = "azNmHWUGHAsjTb7ymW9Uke-one_a-1"


def test_each_sample_is_a_session(places: Places) -> None:
    found = by_id(places)
    session = found[ID]
    assert set(found) == {ID, "azNmHWUGHAsjTb7ymW9Uke-2-1"}
    assert (session.title, session.model, session.commit) == ("demo one/a: What is 1 + 1?", "openai/gpt-4o", "abc1234")
    assert (session.tokens, session.folder, session.row) == (243, str(places.projects[0]), "samples/one/a_epoch_1.json")
    assert session.started_at is not None
    assert session.started_at.isoformat() == "2026-11-28T23:07:35+00:00"
    assert found["azNmHWUGHAsjTb7ymW9Uke-2-1"].title == "demo 2: Say two"
    named = Places(places.home / "none", {"INSPECT_LOG_DIR": str(places.projects[0] / "logs")})
    assert set(by_id(named)) == set(found)


def test_events_add_times_tokens_and_exit_codes(places: Places) -> None:
    transcript = read(by_id(places)[ID])
    assert shown(transcript) == [
        ("inspect.system",),
        ("user", "What is 1 + 1?"),
        ("thinks", "easy"),
        ("thinks", "in short"),
        ("agent", "I add."),
        ("calls", "web_search", {"query": "x"}),
        ("mcp result", 5, "y"),
        ("calls", "add", {"x": 1, "y": "two\nlines"}),
        ("runs", "exit 3"),
        ("calls", "add", {}),
        ("mcp result", 7, "two\nlines"),
        ("ran", 8, "hi", 3),
        ("user_rejected result", 9, "Refused."),
        ("inspect.user",),
        ("agent", "It is 2"),
        ("inspect.compaction",),
        ("error result", None, "It broke"),
        ("error result", None, "The sample was stopped by its limit of token."),
        ("inspect.sample",),
    ]
    assert transcript.usage == Usage("openai/gpt-4o", 206, 41, 7)
    assert [form["timestamp"][17:19] for form in transcript.forms] == [
        "35", "35", *["36"] * 8, *["37"] * 4, "38", "38", "39", "39", "39",
    ]  # fmt: skip
    assert transcript.commit == "abc1234"


def test_a_log_that_did_not_end_has_only_its_journal(places: Places) -> None:
    members = {name: MEMBERS[name] for name in ("_journal/start.json", "samples/one/a_epoch_1.json")}
    write_zip(places.projects[0] / "logs" / f"{LOG}.eval", {**members, "_journal/summaries/1.json": SUMMARIES[:1]})
    (session,) = discover(places)
    assert (session.title, session.model) == ("demo one/a: What is 1 + 1?", "openai/gpt-4o")


def test_a_log_in_json_has_its_samples_inside(places: Places) -> None:
    (places.projects[0] / "logs" / f"{LOG}.eval").unlink()
    samples = [{**SAMPLE, "id": 2}, SAMPLE, None]
    (places.projects[0] / "logs" / f"{LOG}.json").write_text(json.dumps({**HEADER, "version": 3, "samples": samples}))
    (places.projects[0] / "logs" / "package.json").write_text(json.dumps({**HEADER, "samples": samples}))
    found = by_id(places)
    assert set(found) == {ID, "azNmHWUGHAsjTb7ymW9Uke-2-1"}
    transcript = read(found[ID])
    assert len(transcript.forms) == 19
    assert transcript.warnings == ["The log has version 3, which is newer than this reader."]


def with_zstd(members: dict[str, Any]) -> bytes:
    """A zip file whose members are compressed with zstd: each is one frame with one block that is stored as it is."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, value in members.items():
            data = json.dumps(value).encode()
            assert len(data) < 128 * 1024
            frame = b"\x28\xb5\x2f\xfd\xa0" + len(data).to_bytes(4, "little")
            archive.writestr(name, frame + (len(data) << 3 | 1).to_bytes(3, "little") + data)
        places = [info.header_offset for info in archive.infolist()]
        start = archive.start_dir
    found = bytearray(made.getvalue())
    for place in places:
        found[place + 8 : place + 10] = (93).to_bytes(2, "little")
    while (start := found.find(b"PK\x01\x02", start)) >= 0:
        found[start + 10 : start + 12] = (93).to_bytes(2, "little")
        start += 4
    return bytes(found)


def test_logs_packed_with_zstd_are_read(places: Places) -> None:
    (places.projects[0] / "logs" / f"{LOG}.eval").write_bytes(with_zstd(MEMBERS))
    session = by_id(places)[ID]
    assert session.title == "demo one/a: What is 1 + 1?"
    assert len(read(session).forms) == 19


def test_a_member_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    write_zip(tmp_path / "bomb.zip", {"a": "x" * 1_000_000})
    with (tmp_path / "bomb.zip").open("rb") as file:
        info = zips.members(file)["a"]
        assert len(zips.member(file, info, 2_000_000)) == 1_000_002
        with pytest.raises(Fault, match="longer than"):
            zips.member(file, info, 100_000)


def test_damaged_logs_raise_nothing_else(places: Places) -> None:
    (places.projects[0] / "logs" / f"{LOG}.json").write_text(json.dumps({**HEADER, "samples": [SAMPLE]}))
    survives(discover, read, places, trials=100)


def test_damaged_samples_raise_nothing_else(places: Places, seed: int) -> None:
    """Damage inside the zip file: it is written anew from damaged JSON."""
    rng = random.Random(seed)
    for _ in range(40):
        members = {name: replaced(json.loads(json.dumps(value)), rng) for name, value in MEMBERS.items()}
        write_zip(places.projects[0] / "logs" / f"{LOG}.eval", members)
        read_all(discover, read, places)


def test_the_time_grows_with_the_number_of_messages_only(places: Places) -> None:
    sample = {**SAMPLE, "messages": SAMPLE["messages"] * 1500, "events": SAMPLE["events"] * 1500}
    write_zip(places.projects[0] / "logs" / f"{LOG}.eval", {"samples/2_epoch_1.json": sample})
    (session,) = discover(places)
    started = time.process_time()
    assert len(read(session).forms) > 10_000
    assert time.process_time() - started < 3


def test_attachments_are_put_in_their_places_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_ai, "MAX_ATTACHED_CHARS", 25)
    named = f"attachment://{HASH}"
    transcript = Transcript("inspect")
    sample = {"attachments": {HASH: "x" * 10}}
    inspect_ai._Reader(transcript, sample).read([{"role": "user", "content": f"{named} {named} {named}"}])
    assert shown(transcript)[0] == ("user", f"{'x' * 10} {'x' * 10} {named}")
