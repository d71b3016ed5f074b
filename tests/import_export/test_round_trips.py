"""What was exported comes back as it was, and what was imported leaves as it came."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.errors import ImportRefusedError
from core.events import (
    CmdOutputObservation,
    CmdRunAction,
    FileEditAction,
    MCPObservation,
    MessageAction,
    UnknownObservation,
    envelope_to_dict,
)
from core.events.codec import TRAJECTORY_DROPS
from core.import_export.exporter import export
from core.import_export.imported_conversation import as_it_came, lost
from core.import_export.importer import import_file
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
        await export(home, id, "openhands-sdk", out)
        text = io.BytesIO()
        await export(home, id, "trajectory", text)
        files = io.BytesIO()
        await export(home, id, "openhands-events", files)
    with zipfile.ZipFile(out) as archive:
        left = {name: json.loads(archive.read(name)) for name in archive.namelist()}
    with zipfile.ZipFile(files) as archive:
        assert [name for name in archive.namelist() if "event-" in name] == []
    beside = left.pop("v0.jsonl")
    assert list(beside) == ["conversation"]  # no event of ours among them
    assert left.pop("base_state.json") == {"id": "x", "agent": {"kind": "Agent"}}
    assert left == {f"events/event-{n:05d}-{event['id']}.json": event for n, event in enumerate(events)}
    assert [event["args"]["content"] for event in json.loads(text.getvalue())] == ["say 0", "say 1", "say 2"]


async def members(home: EventStore, id: str, format: str) -> dict[str, bytes]:
    """The files in an archive of a conversation."""
    out = io.BytesIO()
    await export(home, id, format, out)
    with zipfile.ZipFile(out) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


async def packed(home: EventStore, id: str, format: str, file: Path) -> str:
    """Export a conversation and import that; the new id."""
    again, _ = await import_file(home, await exported(home, id, format, file))
    return again


@pytest.mark.parametrize("events", [ORDINARY, HOSTILE], ids=["ordinary", "hostile"])
async def test_a_conversation_comes_back_whole_from_the_words_of_the_sdk(events: Any, tmp_path: Path) -> None:
    async with home_with(tmp_path, events, title="A title") as home:
        file = await exported(home, "c", "openhands-sdk", tmp_path / "first.zip")
        id, imported = await import_file(home, file)
        assert imported.format == "openhands-sdk"
        assert len(imported.warnings) == (events is HOSTILE)  # of the event that nobody knows
        for was, now in zip(await home.read("c"), await home.read(id), strict=True):
            if isinstance(was.event, UnknownObservation):
                assert as_it_came(envelope_to_dict(now))["observation"] == was.event.raw["observation"]
            else:
                assert now == replace(was, conversation_id=id)
        assert (imported.title, imported.workspace, imported.model) == ("A title", "/work/project", "scripted:demo")
        if events is ORDINARY:
            assert await members(home, id, "openhands-sdk") == await members(home, "c", "openhands-sdk")


async def test_what_others_wrote_leaves_in_the_words_of_the_sdk_without_loss(tmp_path: Path) -> None:
    (tmp_path / "came.json").write_text(json.dumps(EVENTS))
    async with home_with(tmp_path, ()) as home:
        id, _ = await import_file(home, tmp_path / "came.json")
        again = await packed(home, id, "openhands-sdk", tmp_path / "sdk.zip")
        assert await members(home, again, "openhands-sdk") == await members(home, id, "openhands-sdk")
        for was, now in zip(EVENTS, await home.read(again), strict=True):
            assert lost(was, as_it_came(envelope_to_dict(now), place=True)) == {}


@pytest.mark.parametrize("first", ["openhands-sdk", "openhands-events"])
async def test_a_conversation_of_the_sdk_that_went_on_here_leaves_in_either_form(first: str, tmp_path: Path) -> None:
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
        again = await packed(home, id, first, tmp_path / "first.zip")
        assert [each.event for each in (await home.read(again))[-3:]] == list(more)
        left, came = await members(home, again, "openhands-sdk"), await members(home, id, "openhands-sdk")
        assert json.loads(left["base_state.json"]) == BASE_STATE
        for number, event in enumerate(SDK_EVENTS):
            assert json.loads(left[f"events/event-{number:05d}-{event['id']}.json"]) == event
        if first == "openhands-sdk":
            assert left == came


async def test_an_event_that_was_changed_since_its_export_is_read_as_it_is(tmp_path: Path) -> None:
    async with home_with(tmp_path, ORDINARY) as home:
        with zipfile.ZipFile(await exported(home, "c", "openhands-sdk", tmp_path / "x.zip")) as archive:
            archive.extractall(tmp_path / "folder")
        (asked,) = (tmp_path / "folder" / "events").glob("event-00001-*.json")
        asked.write_text(asked.read_text().replace("**Please** look", "Look"))
        id, imported = await import_file(home, tmp_path / "folder")
        assert imported.warnings == ["Events that were changed since their export, read as they are: 1."]
        was, now = await home.read("c"), await home.read(id)
    assert isinstance(now[1].event, MessageAction)
    assert now[1].event.content == "The test of `total` fails. Look at it."
    assert [each.event for each in now[2:]] == [each.event for each in was[2:]]


@pytest.mark.parametrize("line", ["[]", "{", '{"number": 1}', '{"number": "1", "sha256": ""}', "\n" * 40])
async def test_a_file_beside_the_events_that_is_none_of_ours_is_refused(line: str, tmp_path: Path) -> None:
    async with home_with(tmp_path, ORDINARY) as home:
        with zipfile.ZipFile(await exported(home, "c", "openhands-sdk", tmp_path / "x.zip")) as archive:
            archive.extractall(tmp_path / "folder")
        (tmp_path / "folder" / "v0.jsonl").write_text(line)
        with pytest.raises(ImportRefusedError, match=r"v0\.jsonl, line .*take v0\.jsonl away"):
            await import_file(home, tmp_path / "folder")


async def test_without_the_file_beside_them_the_events_still_say_what_was_done(tmp_path: Path) -> None:
    async with home_with(tmp_path, ORDINARY) as home:
        with zipfile.ZipFile(await exported(home, "c", "openhands-sdk", tmp_path / "x.zip")) as archive:
            archive.extractall(tmp_path / "folder")
        (tmp_path / "folder" / "v0.jsonl").unlink()
        id, _ = await import_file(home, tmp_path / "folder")
        events = [(each.event, each.cause) for each in await home.read(id)]
    was, cause = events[3]
    assert isinstance(was, CmdRunAction)
    assert (was.command, was.thought) == ("pytest -q", "I will run the tests first.")
    seen, cause = events[4]
    assert isinstance(seen, CmdOutputObservation)
    assert (seen.exit_code, seen.content, cause) == (1, "F.\nE   assert 7 == 6\n1 failed, 1 passed in 0.12s", 3)
    edited = events[5][0]
    assert isinstance(edited, FileEditAction)
    assert (edited.command, edited.path, edited.old_str) == ("str_replace", "app.py", "sum(items) + 1")
    page = events[8][0]
    assert isinstance(page, MCPObservation)
    assert page.content == "The page"
