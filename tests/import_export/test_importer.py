"""An import is stored whole, or the home is as it was before, byte for byte."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from contextlib import closing
from pathlib import Path

import pytest

from core.errors import ImportRefusedError
from core.import_export import importer
from core.import_export.importer import import_file, read
from core.secrets import Redactor
from core.store.blobs import BlobRef
from core.store.database import sqlite3
from core.store.event_store import EventStore
from tests.import_export.files import EVENTS, SDK_EVENTS, archive, archive_files, png, sdk_folder, trajectory, v0_folder
from tests.program import Handloom
from tests.tapes import recording_of

_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"
"""Shadow tables of the index are ordinary tables."""


def fingerprint(home: Path) -> tuple[str, str]:
    """Of everything that the database says, and of its file once the log is written into it."""
    dump = hashlib.sha256()
    with closing(sqlite3.connect(home / "handloom.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for (table,) in connection.execute(_TABLES).fetchall():
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                dump.update(repr((table, row)).encode())
    return dump.hexdigest(), hashlib.sha256((home / "handloom.db").read_bytes()).hexdigest()


class TestCompleteImport:
    @pytest.mark.parametrize("format", ["openhands", "folder", "openhands-sdk", "archive"])
    async def test_imported_conversation_is_stored_completely(
        self, format: str, store: EventStore, tmp_path: Path
    ) -> None:
        path = {
            "openhands": lambda: trajectory(tmp_path / "x"),
            "folder": lambda: v0_folder(tmp_path / "x"),
            "openhands-sdk": lambda: sdk_folder(tmp_path / "x"),
            "archive": lambda: archive(tmp_path / "x", archive_files(pictures=(png(),))),
        }[format]()
        id, imported = await import_file(store, path)
        assert await store.read(id) == imported.envelopes == read(path, conversation_id=id).envelopes
        (info,) = await store.conversations(conversation_id=id)
        assert (info.origin, info.origin_of) == ("import", "x")
        assert (info.title, info.model, info.created_at) == (imported.title, "acme/large", imported.created_at)
        assert info.first_line == "List the files, please."
        assert info.event_count == len(SDK_EVENTS if format == "openhands-sdk" else EVENTS)
        assert await recording_of(store, id) == imported.recorded

    async def test_pictures_are_imported(self, store: EventStore, tmp_path: Path) -> None:
        id, imported = await import_file(store, archive(tmp_path / "x", archive_files(pictures=(png(3, 3),))))
        (blob,) = imported.blobs
        assert await store.blob(id, BlobRef.parse(str(blob.ref)) or blob.ref) == blob

    async def test_importing_a_file_twice_gives_two_conversations(self, store: EventStore, tmp_path: Path) -> None:
        path = trajectory(tmp_path / "x")
        first, second = [(await import_file(store, path))[0] for _ in range(2)]
        assert first != second
        assert await store.count_conversations() == 2

    async def test_secrets_of_this_machine_do_not_reach_the_database(self, store: EventStore, tmp_path: Path) -> None:
        events = [{**EVENTS[0], "args": {"content": "it is hunter2-hunter2"}}]
        await import_file(store, trajectory(tmp_path / "x", events), redactor=Redactor(["hunter2-hunter2"]))
        assert await store.search("hunter2") == []
        assert b"hunter2" not in b"".join(path.read_bytes() for path in store.home.glob("handloom.db*"))

    async def test_undecodable_name_is_stored_as_text(self, store: EventStore, tmp_path: Path) -> None:
        path = tmp_path / os.fsdecode(b"\xff\xfe.json")
        id, _ = await import_file(store, trajectory(path))
        (info,) = await store.conversations(conversation_id=id)
        assert info.origin_of == "??.json"


class TestNothing:
    async def test_refused_import_changes_nothing(self, store: EventStore, tmp_path: Path) -> None:
        await import_file(store, trajectory(tmp_path / "good"))
        before = await asyncio.to_thread(fingerprint, store.home)
        folder = v0_folder(tmp_path / "folder")
        (folder / "events" / "4.json").write_text("[")
        files = archive_files(pictures=(png(),))
        files["recordings.jsonl"] += b"{}\n"
        (tmp_path / "cut").write_text(json.dumps(EVENTS)[:-1])
        for path in (folder, archive(tmp_path / "zip", files), tmp_path / "cut", tmp_path / "not there"):
            with pytest.raises(ImportRefusedError, match=path.name):
                await import_file(store, path)
        assert await asyncio.to_thread(fingerprint, store.home) == before

    async def test_cancelled_import_stores_nothing_and_ends_its_thread(
        self, store: EventStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = await asyncio.to_thread(fingerprint, store.home)
        loop, has_begun, has_ended = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

        def endless(path: Path, **options: object) -> object:
            check = options["check"]
            assert callable(check)
            loop.call_soon_threadsafe(has_begun.set)
            try:
                while True:
                    check()
            finally:
                loop.call_soon_threadsafe(has_ended.set)

        monkeypatch.setattr(importer, "read", endless)
        task = asyncio.create_task(import_file(store, tmp_path))
        await has_begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(has_ended.wait(), 10)
        assert await asyncio.to_thread(fingerprint, store.home) == before

    async def test_fingerprint_changes_with_one_more_event(self, store: EventStore, tmp_path: Path) -> None:
        before = await asyncio.to_thread(fingerprint, store.home)
        await import_file(store, trajectory(tmp_path / "x", EVENTS[:1]))
        after = await asyncio.to_thread(fingerprint, store.home)
        assert before[0] != after[0]
        assert before[1] != after[1]


class TestCommand:
    def test_import_prints_the_id_and_warnings(self, tmp_path: Path) -> None:
        handloom = Handloom(tmp_path)
        ended = handloom("import", str(trajectory(tmp_path / "x.json", EVENTS[1:])))
        assert ended.status == 0, ended.err
        id = ended.out.strip()
        assert "4 events were imported." in ended.err
        assert f"{id}  " in handloom("list").out
        exported = json.loads(handloom("export", id).out)
        assert [event["id"] for event in exported] == [1, 2, 3, 4]

    def test_json_output_is_one_object(self, tmp_path: Path) -> None:
        ended = Handloom(tmp_path)("import", str(sdk_folder(tmp_path / "x")), "--json")
        told = json.loads(ended.out)
        assert told.pop("conversation_id")
        assert told == {"event_count": len(SDK_EVENTS), "format": "openhands-sdk", "warnings": []}
        assert ended.err == ""

    def test_refusal_is_one_sentence_with_status_2(self, tmp_path: Path) -> None:
        (tmp_path / "x\x1b[31m.json").write_text("[")
        ended = Handloom(tmp_path)("import", str(tmp_path / "x\x1b[31m.json"))
        assert (ended.status, ended.out) == (2, "")
        assert "cut off" in ended.err
        assert "\x1b" not in ended.err
        assert len(ended.err.splitlines()) == 1
