"""Exported conversations are imported unchanged, and imported ones are exported unchanged."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.events import (
    BrowserOutputObservation,
    CheckpointObservation,
    CmdRunAction,
    MessageAction,
    ModeAction,
    UnknownObservation,
    envelope_to_dict,
)
from core.events.codec import TRAJECTORY_DROPS
from core.import_export.exporter import export
from core.import_export.imported_conversation import imported_fields, original_form
from core.import_export.importer import import_file
from core.import_export.json_parts import missing_parts
from core.store.event_store import EventStore
from core.store.writer import Draft
from tests.import_export.conversations import AGENT, ENVIRONMENT, HOSTILE, ORDINARY, RECORDING, USER, home_with, ran
from tests.import_export.files import BASE_STATE, EVENTS, SDK_EVENTS, sdk_folder
from tests.tapes import recording_of

DROPPED = TRAJECTORY_DROPS | {"screenshot", "set_of_marks"}


async def exported(home: EventStore, id: str, format: str, file: Path) -> Path:
    await export(home, id, format, file)
    return file


@pytest.mark.parametrize("events", [ORDINARY, HOSTILE], ids=["ordinary", "hostile"])
async def test_archive_round_trip_is_lossless(events: Any, tmp_path: Path) -> None:
    async with home_with(tmp_path, events, recording=RECORDING[:4]) as home:
        archive = await exported(home, "c", "archive", tmp_path / "first.zip")
        id, imported = await import_file(home, archive)
        assert len(imported.warnings) == (events is HOSTILE)  # of the event that nobody knows
        for was, now in zip(await home.read("c"), await home.read(id), strict=True):
            if isinstance(was.event, UnknownObservation):
                assert original_form(envelope_to_dict(now))["observation"] == was.event.raw["observation"]
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
async def test_openhands_events_are_exported_as_imported(format: str, tmp_path: Path) -> None:
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
        missing = missing_parts({key: value for key, value in was.items() if key not in ("id", "cause")}, now)
        if format == "trajectory" and "extras" in missing:
            missing["extras"] = {key: value for key, value in missing["extras"].items() if key not in DROPPED}
        assert {key: value for key, value in missing.items() if value != {}} == {}
        assert "imported" not in now


async def test_trajectory_with_gaps_is_exported_as_imported(tmp_path: Path) -> None:
    events = [{**event, "id": 2 * event["id"] + 1} for event in EVENTS]
    events = [{**event, "cause": 2 * event["cause"] + 1} if "cause" in event else event for event in events]
    (tmp_path / "came.json").write_text(json.dumps(events))
    async with home_with(tmp_path, ()) as home:
        id, _ = await import_file(home, tmp_path / "came.json")
        left = json.loads((await exported(home, id, "trajectory", tmp_path / "left.json")).read_text())
        with zipfile.ZipFile(await exported(home, id, "openhands-events", tmp_path / "left.zip")) as archive:
            names = {name for name in archive.namelist() if name.startswith("events/")}
        again, _ = await import_file(home, await exported(home, id, "archive", tmp_path / "whole.zip"))
        from_archive = json.loads((await exported(home, again, "trajectory", tmp_path / "again.json")).read_text())
    for event in events:
        event["extras"] = {key: value for key, value in event.get("extras", {}).items() if key not in DROPPED}
    for event in (*left, *from_archive):
        event.setdefault("extras", {})
    assert left == from_archive == events
    assert names == {f"events/{event['id']}.json" for event in events}


async def test_handloom_fields_are_not_in_v0_files(tmp_path: Path) -> None:
    page = BrowserOutputObservation(content="The page", url="http://x", trigger_by_action="browse", look={"a": 1})
    events = (
        (MessageAction(content="Look at the page.", queued=True), USER, None),
        (ModeAction(mode="plan"), USER, None),
        (CheckpointObservation(content="", checkpoint="c" * 40, after=0, files=1), ENVIRONMENT, None),
        (page, AGENT, 0),
    )
    async with home_with(tmp_path, events) as home:
        left = json.loads((await exported(home, "c", "trajectory", tmp_path / "left.json")).read_text())
        files = await members(home, "c", "openhands-events")
    assert [event["id"] for event in left] == [0, 3]
    assert "queued" not in left[0]["args"]
    assert "look" not in left[1]["extras"]
    found = [json.loads(files[f"events/{number}.json"]) for number in range(4)]
    assert [event.get("action", event.get("observation")) for event in found] == ["message", "null", "null", "browse"]
    assert [event["id"] for event in found] == [0, 1, 2, 3]


async def test_event_files_are_read_again(tmp_path: Path) -> None:
    async with home_with(tmp_path, ORDINARY) as home:
        id, imported = await import_file(home, await exported(home, "c", "openhands-events", tmp_path / "x.zip"))
        assert imported.format == "openhands"
        assert [envelope.event for envelope in await home.read(id)] == [e.event for e in await home.read("c")]


async def members(home: EventStore, id: str, format: str) -> dict[str, bytes]:
    """The files in an archive of a conversation."""
    out = io.BytesIO()
    await export(home, id, format, out)
    with zipfile.ZipFile(out) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


async def test_events_of_the_sdk_are_exported_as_their_originals(tmp_path: Path) -> None:
    sdk_folder(tmp_path / "sdk")
    async with home_with(tmp_path, ()) as home:
        id, _ = await import_file(home, tmp_path / "sdk")
        files = await members(home, id, "openhands-events")
        text = io.BytesIO()
        await export(home, id, "trajectory", text)
    originals = [original_form(json.loads(files[f"events/{number}.json"])) for number in range(len(SDK_EVENTS))]
    assert originals == SDK_EVENTS
    assert all("imported" not in event for event in json.loads(text.getvalue()))


@pytest.mark.parametrize("format", ["openhands-events", "archive"])
async def test_continued_sdk_conversation_round_trips(format: str, tmp_path: Path) -> None:
    sdk_folder(tmp_path / "sdk")
    more = (
        MessageAction(content="And now?"),
        CmdRunAction(command="ls -la", thought="I look again."),
        ran("ls -la", "x"),
    )
    async with home_with(tmp_path, ()) as home:
        id, _ = await import_file(home, tmp_path / "sdk")
        lease = await home.acquire(id)
        drafts = [Draft(more[0], USER), Draft(more[1], AGENT), Draft(more[2], ENVIRONMENT, cause=len(SDK_EVENTS) + 1)]
        await home.append(lease, drafts)
        await home.release(lease)
        again, _ = await import_file(home, await exported(home, id, format, tmp_path / "first.zip"))
        events = await home.read(again)
        assert [each.event for each in events[-3:]] == list(more)
        imported = [list(imported_fields(envelope_to_dict(each)))[-1] for each in events[:-3]]
    assert [origin["original"] for origin in imported] == SDK_EVENTS
    assert imported[0]["about"] == {"base_state": BASE_STATE}
