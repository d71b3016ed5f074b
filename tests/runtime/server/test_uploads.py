"""Uploads are complete and below their destination, or leave nothing."""

from __future__ import annotations

import os
import random
import resource
import shutil
import stat
import threading
import time
import tracemalloc
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from runtime.server import transfers
from runtime.server.transfers import TooLargeError, TransferError, Upload
from runtime.server.zip_archive import ArchiveError
from tests.runtime import zips

UMASK = 0o027


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A destination with something in it, and something outside that no upload reaches."""
    place = tmp_path / "place"
    (place / "kept").mkdir(parents=True)
    (place / "kept/file").write_text("kept")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("outside")
    return place


def tree(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder with its content; None for anything other than a file."""
    found = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in found}


def unpack(destination: Path, archive: bytes) -> None:
    with closing(Upload(str(destination), UMASK)) as upload:
        upload.write(archive)
        upload.unpack()


def place_file(destination: Path, name: str, data: bytes) -> None:
    with closing(Upload(str(destination), UMASK)) as upload:
        upload.write(data)
        upload.place(name)


def refused(place: Path, archive: bytes) -> str:
    """The error for an archive that must change nothing."""
    before = tree(place.parent)
    with pytest.raises(ArchiveError) as error:
        unpack(place, archive)
    assert tree(place.parent) == before
    return str(error.value)


class TestFile:
    def test_upload_replaces_a_file_and_keeps_its_mode(self, place: Path) -> None:
        (place / "kept/file").chmod(0o751)
        place_file(place / "kept", "file", b"new")
        assert (place / "kept/file").read_bytes() == b"new"
        assert stat.S_IMODE((place / "kept/file").stat().st_mode) == 0o751

    def test_folders_have_the_users_umask(self, place: Path) -> None:
        place_file(place / "a/b", "new", b"")
        modes = [stat.S_IMODE((place / path).stat().st_mode) for path in ("a", "a/b", "a/b/new")]
        assert modes == [0o750, 0o750, 0o640]

    @pytest.mark.parametrize("destination", ["a/b/", "a/b/.", "a//b", "a/../a/b"])
    def test_destination_may_be_written_in_any_form(self, place: Path, destination: str) -> None:
        with closing(Upload(f"{place}/{destination}", UMASK)) as upload:
            upload.place("new")
        assert (place / "a/b/new").read_bytes() == b""

    def test_link_in_the_files_place_is_replaced(self, place: Path) -> None:
        (place / "link").symlink_to(place.parent / "outside/file")
        place_file(place, "link", b"new")
        assert (place / "link").read_bytes() == b"new"
        assert not (place / "link").is_symlink()
        assert (place.parent / "outside/file").read_text() == "outside"

    @pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc/x", "../x", "a\0b", "kept"])
    def test_invalid_name_is_refused(self, place: Path, name: str) -> None:
        before = tree(place.parent)
        with pytest.raises(TransferError):
            place_file(place, name, b"x")
        assert tree(place.parent) == before

    @pytest.mark.parametrize("destination", ["relative", "", "~/x", "/tmp/\0"])
    def test_destination_must_be_absolute(self, destination: str) -> None:
        with pytest.raises(TransferError, match="Destination must be an absolute path"):
            Upload(destination, UMASK)

    def test_destination_below_a_file_is_refused(self, place: Path) -> None:
        with pytest.raises(TransferError, match=r"is not a folder\. Choose another destination"):
            Upload(str(place / "kept/file/below"), UMASK)

    def test_closed_upload_leaves_nothing(self, place: Path) -> None:
        before = tree(place)
        with closing(Upload(str(place / "a/b"), UMASK)) as upload:
            upload.write(b"half")
        assert tree(place) == before

    def test_failed_write_leaves_nothing(self, place: Path) -> None:
        before = tree(place)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
        try:
            for archive in (zips.packed({"large": os.urandom(90_000), "larger": bytes(200_000)}), b"x" * 200_000):
                with pytest.raises(OSError, match="File too large"):
                    unpack(place / "new", archive)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert tree(place) == before

    def test_more_than_the_limit_is_refused(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(transfers, "MAX_UPLOAD_BYTES", 10)
        with closing(Upload(str(place), UMASK)) as upload:
            upload.write(b"x" * 10)
            with pytest.raises(TooLargeError):
                upload.write(b"x")


class TestArchive:
    @pytest.mark.parametrize("method", [0, 8], ids=["stored", "deflated"])
    def test_archive_is_unpacked_below_the_destination(self, place: Path, method: int) -> None:
        large = os.urandom(300_000) * 2
        unpack(place / "new", zips.packed({"a/b/x": large, "empty/": b"", "ünï/🦆": b"", "y": b"y"}, method=method))
        assert tree(place / "new") == {
            "a": None,
            "a/b": None,
            "a/b/x": large,
            "empty": None,
            "y": b"y",
            "ünï": None,
            "ünï/🦆": b"",
        }

    def test_existing_files_are_replaced_and_others_kept(self, place: Path) -> None:
        (place / "kept/other").write_text("other")
        unpack(place, zips.packed({"kept/file": b"new"}))
        assert tree(place) == {"kept": None, "kept/file": b"new", "kept/other": b"other"}

    def test_executable_files_stay_executable(self, place: Path) -> None:
        unpack(place, zips.packed({"x": b""}, mode=stat.S_IFREG | 0o4777))
        unpack(place, zips.packed({"a/y": b""}, mode=stat.S_IFREG | 0o666))
        modes = [stat.S_IMODE((place / path).stat().st_mode) for path in ("x", "a", "a/y")]
        assert modes == [0o750, 0o750, 0o640]

    def test_empty_archive_places_nothing(self, place: Path) -> None:
        before = tree(place)
        unpack(place, zips.packed({}))
        assert tree(place) == before

    @pytest.mark.parametrize("name", zips.BAD_NAMES, ids=lambda name: repr(name[:20]))
    def test_archive_with_a_bad_name_places_nothing(self, place: Path, name: str) -> None:
        assert repr(name[:20])[1:-1] in refused(place, zips.packed({"good": b"good", name: b"bad"}))

    @pytest.mark.parametrize("kind", zips.SPECIAL_MODES)
    def test_archive_with_a_special_file_places_nothing(self, place: Path, kind: str) -> None:
        said = refused(place, zips.packed({"x": b"/etc/passwd"}, mode=zips.SPECIAL_MODES[kind] | 0o777))
        assert "is neither a regular file nor a folder" in said

    @pytest.mark.parametrize("kind", zips.CLASHES)
    def test_archive_with_duplicate_entries_places_nothing(self, place: Path, kind: str) -> None:
        assert "another entry are one file" in refused(place, zips.repeated(*zips.CLASHES[kind]))

    @pytest.mark.parametrize("kind", zips.DAMAGED)
    def test_damaged_archive_places_nothing(self, place: Path, kind: str) -> None:
        refused(place, zips.DAMAGED[kind])

    @pytest.mark.parametrize(("kind", "make"), zips.bombs().items(), ids=zips.bombs())
    def test_zip_bomb_is_refused_with_little_memory(self, place: Path, kind: str, make: Callable[[], bytes]) -> None:
        bomb = make()
        began = time.thread_time()
        tracemalloc.start()
        refused(place, bomb)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert time.thread_time() - began < 2
        assert peak < 50_000_000

    def test_link_in_the_path_is_not_followed(self, place: Path) -> None:
        (place / "link").symlink_to(place.parent / "outside")
        assert "'link' exists and is not a folder" in refused(place, zips.packed({"new": b"", "link/file": b"new"}))

    def test_conflicting_file_or_folder_stops_the_unpacking(self, place: Path) -> None:
        assert "a folder with this name exists" in refused(place, zips.packed({"new": b"", "kept": b"new"}))
        assert "'file' exists and is not a folder" in refused(place, zips.packed({"new": b"", "kept/file/x": b""}))
        assert "'file' exists and is not a folder" in refused(place, zips.packed({"new": b"", "kept/file/": b""}))

    def test_folder_swapped_for_a_link_is_not_followed(self, place: Path) -> None:
        outside, target, aside = place.parent / "outside", place / "swapped", place / "aside"
        ended = threading.Event()

        def swap() -> None:
            while not ended.is_set():
                with suppress(OSError):
                    target.rename(aside)
                with suppress(OSError):
                    target.symlink_to(outside)
                with suppress(OSError):
                    target.unlink()
                shutil.rmtree(aside, ignore_errors=True)

        archive = zips.packed({f"swapped/{number}": b"new" for number in range(20)})
        swapper = threading.Thread(target=swap)
        swapper.start()
        outcomes = {True: 0, False: 0}
        try:
            for _ in range(300):
                try:
                    unpack(place, archive)
                except (ArchiveError, OSError):
                    outcomes[False] += 1
                else:
                    outcomes[True] += 1
        finally:
            ended.set()
            swapper.join()
        assert tree(outside) == {"file": b"outside"}
        assert outcomes[False], "the swapper was never in the way, so nothing was tried"

    def test_randomly_damaged_archive_is_placed_completely_or_not(self, place: Path, seed: int) -> None:
        chance = random.Random(seed)
        before = tree(place.parent)
        for _ in range(1_000):
            damaged = bytearray(zips.GOOD)
            for _ in range(chance.randint(1, 4)):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            try:
                unpack(place / "new", bytes(damaged))
            except ArchiveError:
                assert tree(place.parent) == before
            else:
                assert sorted(map(bool, tree(place / "new").values())) == [True, True]
                shutil.rmtree(place / "new")
