"""Homes that earlier versions wrote, one for each version of the schema, open, replay, export and go on as before.

`homes/version-N.db.gz` was written by the last commit whose schema had that version: the same conversation each time,
as far as that version could keep it (pictures beside the events from 3 on, recordings from 5 on).
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from core.events import (
    AgentState,
    AgentStateChangedObservation,
    BrowserOutputObservation,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    EventSource,
    MessageAction,
)
from core.import_export.exporter import FORMATS, export
from core.import_export.importer import import_file
from core.replay.player import Player
from core.store import database
from core.store.blobs import Blob, BlobRef, embed_pictures, parse_data_url, picture_urls
from core.store.event_store import EventStore
from core.store.reader import EventReader
from core.store.repair import find_damage
from core.store.writer import Draft

ID = "0123456789abcdef0123456789abcdef"
HOMES = Path(__file__).with_name("homes")
VERSIONS = range(1, database.VERSION + 1)


@pytest.fixture(params=VERSIONS)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    found = tmp_path / "home"
    found.mkdir()
    packed = (HOMES / f"version-{request.param}.db.gz").read_bytes()
    (found / "handloom.db").write_bytes(gzip.decompress(packed))
    return found


async def whole(home: EventReader, id: str = ID) -> list[Envelope]:
    """The events with their pictures in them."""
    return [
        replace(each, event=embed_pictures(each.event, await blobs(home, id, each))) for each in await home.read(id)
    ]


async def blobs(home: EventReader, id: str, envelope: Envelope) -> dict[str, Blob]:
    refs = [ref for url in picture_urls(envelope.event) if (ref := BlobRef.parse(url)) is not None]
    found = [await home.blob(id, ref) for ref in refs]
    return {blob.ref.digest: blob for blob in found if blob is not None}


async def test_events_of_an_old_home_equal_those_of_the_newest(home: Path, tmp_path: Path) -> None:
    newest = tmp_path / "newest"
    newest.mkdir()
    (newest / "handloom.db").write_bytes(gzip.decompress((HOMES / f"version-{database.VERSION}.db.gz").read_bytes()))
    async with EventReader(home) as old, EventReader(newest) as new:
        events = await whole(old)
        assert events == await whole(new)
        (info,) = await old.conversations()
    assert (info.title, info.workspace, info.model) == ("Repair the sum", "/work/project", "scripted:demo")
    assert (info.state, info.cost, info.event_count) == ("finished", 0.05, 8)
    assert info.first_line == "The test of `total` fails. Look at it."
    assert [each.cause for each in events] == [None, None, None, 1, 3, 3, 4, None]
    ran, page = events[4].event, events[5].event
    assert isinstance(ran, CmdOutputObservation)
    assert (ran.exit_code, ran.content.count("\n")) == (1, 62)
    assert isinstance(page, BrowserOutputObservation)
    picture = parse_data_url(page.screenshot)
    assert picture is not None
    assert (picture.ref.width, picture.ref.height) == (16, 10)


async def test_old_home_is_intact_searchable_and_can_continue(home: Path) -> None:
    async with EventStore(home) as store:
        await store.index()
        assert [hit.event_id for hit in await store.search("pytest")] == [4, 3]
        lease = await store.acquire(ID)
        await store.append(lease, [Draft(MessageAction(content="And now?"), EventSource.USER)])
        assert [each.id for each in await store.read(ID)] == list(range(9))
    assert find_damage(home / "handloom.db") == []


async def test_old_home_is_replayed(home: Path) -> None:
    async with EventReader(home) as reader:
        player = Player(reader, ID)
        await player.open()
        told: list[object] = []
        while items := await player.next_event():
            told += [item.event for item in items if isinstance(item, Envelope)]
        scene = await player.seek(6)
    assert len(told) == 8
    assert isinstance(told[3], CmdRunAction)
    assert told[3].command == "pytest -q"
    assert scene.state is not None
    assert scene.state.event == AgentStateChangedObservation(agent_state=AgentState.RUNNING)
    assert scene.spent is not None
    assert scene.spent.accumulated_cost == 0.05


@pytest.mark.parametrize("format", FORMATS)
async def test_old_home_is_exported(home: Path, format: str) -> None:
    async with EventReader(home) as reader:
        out = io.BytesIO()
        await export(reader, ID, format, out)
    assert len(out.getvalue()) > 100
    if format == "trajectory":
        kinds = [event.get("action") or event.get("observation") for event in json.loads(out.getvalue())]
        assert kinds == ["system", "message", "agent_state_changed", "run", "run", "browse", "message",
                         "agent_state_changed"]  # fmt: skip


async def test_archive_of_an_old_home_is_imported(home: Path, tmp_path: Path) -> None:
    async with EventStore(home) as store:
        await export(store, ID, "archive", tmp_path / "a.zip")
        id, imported = await import_file(store, tmp_path / "a.zip")
        assert imported.warnings == []
        assert events_of(await whole(store, id)) == events_of(await whole(store))


def events_of(envelopes: Sequence[Envelope]) -> list[object]:
    return [(each.id, each.timestamp, each.source, each.cause, each.event) for each in envelopes]


def test_every_schema_version_has_a_stored_home() -> None:
    assert sorted(path.name for path in HOMES.iterdir()) == [f"version-{number}.db.gz" for number in VERSIONS]
