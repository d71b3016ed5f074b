"""What was exported comes back as it was, and what was imported leaves as it came."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.events import UnknownObservation, envelope_to_dict
from core.events.codec import TRAJECTORY_DROPS
from core.exchange.imported import as_it_came, lost
from core.exchange.importing import import_file
from core.exchange.writing import export
from core.store import EventStore
from tests.exchange.conversations import HOSTILE, ORDINARY, RECORDING, home_with
from tests.exchange.files import EVENTS
from tests.tapes import recording_of

DROPPED = TRAJECTORY_DROPS | {"screenshot", "set_of_marks"}


async def exported(home: EventStore, id: str, format: str, file: Path) -> Path:
    await export(home, id, format, file)
    return file


@pytest.mark.parametrize("events", [ORDINARY, HOSTILE], ids=["ordinary", "hostile"])
async def test_an_archive_comes_back_whole(events: Any, tmp_path: Path) -> None:
    async with home_with(tmp_path, events, recording=RECORDING[:4]) as home:
        archive = await exported(home, "c", "archive", tmp_path / "first.zip")
        id, imported = await import_file(home, archive)
        assert len(imported.warnings) == (events is HOSTILE)  # of the event that nobody knows
        for was, now in zip(await home.read("c"), await home.read(id), strict=True):
            if isinstance(was.event, UnknownObservation):
                assert as_it_came(envelope_to_dict(now))["observation"] == was.event.raw["observation"]
            else:
                assert now == replace(was, conversation_id=id)
        assert await recording_of(home, id) == await recording_of(home, "c")
        again = await exported(home, id, "archive", tmp_path / "second.zip")
        with zipfile.ZipFile(archive) as first, zipfile.ZipFile(again) as second:
            assert [name for name in first.namelist() if name.startswith("blobs/")] == [
                name for name in second.namelist() if name.startswith("blobs/")
            ]
            assert first.read("recordings.jsonl") == second.read("recordings.jsonl")


@pytest.mark.parametrize("format", ["trajectory", "openhands-events"])
async def test_events_of_openhands_leave_as_they_came(format: str, tmp_path: Path) -> None:
    (tmp_path / "came.json").write_text(json.dumps(EVENTS))
    async with home_with(tmp_path, ()) as home:
        id, _ = await import_file(home, tmp_path / "came.json")
        out = io.BytesIO()
        await export(home, id, format, out)
    if format == "trajectory":
        left = json.loads(out.getvalue())
    else:
        with zipfile.ZipFile(out) as archive:
            names = sorted(int(name[7:-5]) for name in archive.namelist() if name.startswith("events/"))
            left = [json.loads(archive.read(f"events/{number}.json")) for number in names]
    assert len(left) == len(EVENTS)
    for was, now in zip(EVENTS, left, strict=True):
        missing = lost({key: value for key, value in was.items() if key not in ("id", "cause")}, now)
        if format == "trajectory" and "extras" in missing:
            missing["extras"] = {key: value for key, value in missing["extras"].items() if key not in DROPPED}
        assert {key: value for key, value in missing.items() if value != {}} == {}
        assert "imported" not in now


async def test_event_files_are_read_again(tmp_path: Path) -> None:
    async with home_with(tmp_path, ORDINARY) as home:
        id, imported = await import_file(home, await exported(home, "c", "openhands-events", tmp_path / "x.zip"))
        assert imported.format == "openhands"
        assert [envelope.event for envelope in await home.read(id)] == [e.event for e in await home.read("c")]


async def test_events_of_the_sdk_leave_as_they_came(tmp_path: Path) -> None:
    events = [
        {
            "kind": "MessageEvent",
            "id": f"0a1b2c3d-0000-4000-8000-{number:012d}",
            "timestamp": f"2025-09-04T05:06:0{number}.000007",
            "source": "user",
            "llm_message": {"role": "user", "content": [{"type": "text", "text": f"say {number}"}]},
            "activated_skills": [],
        }
        for number in range(3)
    ]
    folder = tmp_path / "sdk" / "events"
    folder.mkdir(parents=True)
    for number, event in enumerate(events):
        (folder / f"event-{number:05d}-{event['id']}.json").write_text(json.dumps(event))
    (tmp_path / "sdk" / "base_state.json").write_text('{"id": "x", "agent": {"kind": "Agent"}}')
    async with home_with(tmp_path, ()) as home:
        id, _ = await import_file(home, tmp_path / "sdk")
        out = io.BytesIO()
        await export(home, id, "openhands-events", out)
        text = io.BytesIO()
        await export(home, id, "trajectory", text)
    with zipfile.ZipFile(out) as archive:
        left = {name: json.loads(archive.read(name)) for name in archive.namelist()}
    assert left.pop("base_state.json") == {"id": "x", "agent": {"kind": "Agent"}}
    assert left == {f"events/event-{n:05d}-{event['id']}.json": event for n, event in enumerate(events)}
    assert [event["args"]["content"] for event in json.loads(text.getvalue())] == ["say 0", "say 1", "say 2"]
