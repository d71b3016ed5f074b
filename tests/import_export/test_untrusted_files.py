"""Untrusted files, folders and archives: invalid ones are refused before they cost time or memory."""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import ImportRefusedError
from core.import_export import archive, untrusted_files, v0_format
from core.import_export.bounded_json import Fault
from core.import_export.importer import read
from core.import_export.untrusted_files import Archive, opened
from tests.import_export.files import EVENTS, archive_files, v0_folder
from tests.runtime import zips

REFUSED_WITHIN_S = 2.0
PEAK_BYTES = 100_000_000
NOTHING_THERE = "it contains no events of a conversation"
"""The refusal of an archive with which nothing else is wrong."""
SHOWN_BY_READING = {
    "another checksum", "less than announced", "more than announced", "packed into too little", "not deflated",
}  # fmt: skip
"""Damage in an entry's data, which is found only by reading it."""


def refused(path: Path, match: str = ".") -> str:
    """The sentence with which a path is refused, within the time and memory that a refusal may take."""
    tracemalloc.start()
    begun = time.process_time()
    try:
        with pytest.raises(ImportRefusedError, match=match) as caught:
            read(path)
        assert time.process_time() - begun < REFUSED_WITHIN_S
        assert tracemalloc.get_traced_memory()[1] < PEAK_BYTES
    finally:
        tracemalloc.stop()
    text = str(caught.value)
    assert path.name in text
    assert "try again" in text
    assert text.isprintable()
    return text


def events_zip(**strange: bytes) -> dict[str, bytes]:
    """The files of a conversation as they lie in an archive, with others between them."""
    return {f"events/{event['id']}.json": json.dumps(event).encode() for event in EVENTS} | strange


class TestArchives:
    def test_zipped_folder_is_read_like_the_folder(self, tmp_path: Path) -> None:
        path = tmp_path / "x.bin"
        path.write_bytes(zips.packed(events_zip()))
        (v0_folder(tmp_path / "folder") / "metadata.json").unlink()
        assert read(path) == read(tmp_path / "folder")

    def test_enclosing_folder_is_ignored(self, tmp_path: Path) -> None:
        path = tmp_path / "x.zip"
        path.write_bytes(zips.packed({f"session-1/{name}": data for name, data in events_zip().items()}))
        assert len(read(path).envelopes) == len(EVENTS)

    @pytest.mark.parametrize("name", zips.BAD_NAMES[:19])
    def test_path_outside_the_archive_is_refused(self, name: str, tmp_path: Path) -> None:
        path = tmp_path / "x.zip"
        path.write_bytes(zips.packed({**events_zip(), name: b"x"}))
        refused(path, "its name")

    @pytest.mark.parametrize("name", ["events/0.json:stream", "a\x1b[31mb", "a\u202eb", "events/\n"])
    def test_suspicious_entry_names_are_refused(self, name: str, tmp_path: Path) -> None:
        path = tmp_path / "x.zip"
        path.write_bytes(zips.packed({**events_zip(), name: b"x"}))
        refused(path, "its name")

    @pytest.mark.parametrize("kind", zips.SPECIAL_MODES)
    def test_links_and_devices_are_refused(self, kind: str, tmp_path: Path) -> None:
        path = tmp_path / "x.zip"
        path.write_bytes(zips.packed({"events/0.json": b"/etc/passwd"}, mode=zips.SPECIAL_MODES[kind] | 0o777))
        refused(path, "link or a device")

    @pytest.mark.parametrize("clash", zips.CLASHES)
    def test_names_that_collide_on_some_file_systems_are_refused(self, clash: str, tmp_path: Path) -> None:
        path = tmp_path / "x.zip"
        path.write_bytes(zips.repeated(*zips.CLASHES[clash]))
        refused(path, "another entry has the same")

    @pytest.mark.parametrize("damage", sorted(zips.DAMAGED.keys() - SHOWN_BY_READING))
    def test_damaged_archive_is_refused(self, damage: str, tmp_path: Path) -> None:
        path = tmp_path / "x.zip"
        path.write_bytes(zips.DAMAGED[damage])
        assert NOTHING_THERE not in refused(path)

    @pytest.mark.parametrize("damage", sorted(SHOWN_BY_READING))
    def test_damage_found_only_while_reading_is_noticed(self, damage: str, tmp_path: Path) -> None:
        path = tmp_path / "x.zip"
        path.write_bytes(zips.DAMAGED[damage])
        with path.open("rb") as file:
            archive = Archive(file)
            with pytest.raises(Fault, match="damaged"):
                archive.read("bad" if "bad" in archive.names() else "x", 1_000)

    @pytest.mark.parametrize("bomb", zips.bombs())
    def test_zip_bomb_is_refused_before_unpacking(self, bomb: str, tmp_path: Path) -> None:
        path = tmp_path / "x.zip"
        path.write_bytes(zips.bombs()[bomb]())
        assert NOTHING_THERE not in refused(path)

    def test_unpacked_bytes_are_counted_whatever_size_is_declared(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "x.zip"
        path.write_bytes(zips.packed(events_zip()))
        monkeypatch.setattr(Archive, "read", lambda self, name, limit=0: untrusted_files.Tree.read(self, name, 20))
        refused(path, "larger than")

    @pytest.mark.parametrize(
        "head",
        [b"\x1f\x8b\x08" + bytes(50), b"BZh9" + bytes(50), b"\xfd7zXZ\0", bytes(257) + b"ustar\0" + bytes(500)],
        ids=["gzip", "bzip2", "xz", "tar"],
    )
    def test_other_archive_formats_are_named_and_not_opened(self, head: bytes, tmp_path: Path) -> None:
        path = tmp_path / "x.json"
        path.write_bytes(head)
        refused(path, "unpack it")


@pytest.mark.parametrize("form", ["file", "folder", "zipped", "archive"])
def test_total_size_of_events_is_limited(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    if form == "folder":
        v0_folder(path)
    else:
        path.write_bytes(
            {
                "file": json.dumps(EVENTS).encode(),
                "zipped": zips.packed(events_zip()),
                "archive": zips.packed(archive_files()),
            }[form]
        )
    read(path)
    for module in (untrusted_files, v0_format, archive):
        monkeypatch.setattr(module, "MAX_EVENTS_BYTES", 500)
    refused(path, "which is the limit")


class TestFolders:
    @pytest.mark.parametrize("place", ["events", "events/1.json", "metadata.json"])
    def test_links_are_not_followed(self, place: str, tmp_path: Path) -> None:
        folder = v0_folder(tmp_path / "session")
        target = folder / place
        elsewhere = tmp_path / "elsewhere"
        if target.exists():
            target.rename(elsewhere)
        else:
            elsewhere.write_text("{}")
        target.symlink_to(elsewhere)
        refused(folder, "link|no events")

    @pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.mkdir()], ids=["pipe", "folder"])
    def test_only_regular_files_are_opened(self, make: Callable[[Path], None], tmp_path: Path) -> None:
        folder = v0_folder(tmp_path / "session")
        (folder / "events" / "1.json").unlink()
        make(folder / "events" / "1.json")
        if stat.S_ISDIR((folder / "events" / "1.json").stat().st_mode):
            assert "left out: events/1.json/" in " ".join(read(folder).warnings)
        else:
            refused(folder, "not a regular file")

    def test_socket_is_not_opened(self, tmp_path: Path) -> None:
        folder = v0_folder(tmp_path / "s")
        (folder / "events" / "1.json").unlink()
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(folder / "events" / "1.json"))
            refused(folder, "cannot be opened")

    @pytest.mark.parametrize("path", ["/dev/zero", "/dev/tty", "/proc/self/mem"])
    def test_devices_are_not_read(self, path: str) -> None:
        refused(Path(path))

    def test_reading_a_pipe_does_not_block(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        refused(tmp_path / "pipe", "not a regular file")

    def test_sparse_terabyte_file_is_refused_without_reading(self, tmp_path: Path) -> None:
        folder = v0_folder(tmp_path / "session")
        with (folder / "events" / "1.json").open("wb") as file:
            file.truncate(2**40)
        refused(folder, "larger than")

    def test_link_swapped_in_after_listing_is_not_followed(self, tmp_path: Path) -> None:
        """Names are listed first and opened later; the folder `events` is held, and no file in it is a way out."""
        folder = v0_folder(tmp_path / "session")
        secret = tmp_path / "secret"
        secret.write_text(json.dumps({"id": 1, "action": "message", "args": {"content": "the secret"}}))
        is_over = threading.Event()

        def swap() -> None:
            place, other = folder / "events" / "1.json", folder / "events" / "other"
            while not is_over.is_set():
                other.symlink_to(secret)
                os.replace(other, place)
                other.write_text(json.dumps(EVENTS[1]))
                os.replace(other, place)

        swapper = threading.Thread(target=swap)
        swapper.start()
        refusals: list[str] = []
        try:
            for _ in range(300):
                try:
                    assert "the secret" not in repr(read(folder).envelopes)
                except ImportRefusedError as error:
                    refusals.append(str(error))
        finally:
            is_over.set()
            swapper.join()
        assert {text.partition(": ")[2].partition(" (")[0] for text in refusals} == {"it cannot be opened"}

    def test_ignored_files_are_reported(self, tmp_path: Path) -> None:
        folder = v0_folder(tmp_path / "session")
        (folder / "notes.txt").write_text("x")
        (folder / "event_cache").mkdir()
        assert "Files that are not events were left out: notes.txt." in read(folder).warnings

    def test_unrelated_folder_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "x.json").write_text("[]")
        refused(tmp_path, "contains no events")

    def test_path_given_by_the_user_may_be_a_link(self, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(v0_folder(tmp_path / "session"))
        with opened(tmp_path / "link") as source:
            assert isinstance(source, untrusted_files.Folder)


def test_archive_with_too_many_entries_is_refused_by_its_end_record(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(untrusted_files.MAX_ENTRIES + 1):
            archive.writestr(f"events/{number}.json", "{}")
    refused(path, "more than 10,000 entries")
