"""What comes back from an engine elsewhere: nothing of it is believed, and nothing of the user's is lost."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from core.autorun_paths import NAMES
from runtime.docker.workspace_copy import (
    SUFFIX,
    ArchiveError,
    DownloadResult,
    Upload,
    apply_download,
    archive_to,
    pack,
)

TOP = "work"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "main.py").write_text("print()\n")
    (folder / "notes").write_text("mine\n")
    return folder


def packed(workspace: Path, *hidden: Path) -> tuple[Upload, bytes]:
    """What went, and the archive in which it did."""
    file = io.BytesIO()
    with archive_to(file) as archive:
        found = pack(workspace, hidden, archive, TOP, (1000, 1000))
    return found, file.getvalue()


def entry(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, linkname: str = "") -> tuple[object, ...]:
    return name, content, kind, linkname


def archive_of(folder: Path, *entries: tuple[object, ...]) -> Path:
    """An archive with entries of these names."""
    file = folder / "coming.tar"
    with file.open("wb") as opened, archive_to(opened) as archive:
        for name, content, kind, linkname in entries:
            made = tarfile.TarInfo(str(name))
            assert isinstance(content, bytes)
            assert isinstance(kind, bytes)
            made.type, made.size, made.linkname = kind, len(content), str(linkname)
            archive.addfile(made, io.BytesIO(content))
    return file


def brought(workspace: Path, *entries: tuple[object, ...], known: Upload | None = None) -> DownloadResult:
    """What becomes of entries that come to this workspace, as it went, with all that went and is not among them."""
    known = packed(workspace)[0] if known is None else known
    named = {str(name).removeprefix(f"{TOP}/") for name, *_ in entries}
    same = [
        entry(f"{TOP}/{path}", (workspace / path).read_bytes())
        for path in known.files
        if path not in named and (workspace / path).is_file()
    ]
    return apply_download(archive_of(workspace.parent, *same, *entries), TOP, workspace, known, NAMES)


def files(workspace: Path) -> dict[str, str]:
    return {
        str(path.relative_to(workspace)): path.read_text() for path in sorted(workspace.rglob("*")) if path.is_file()
    }


class TestChanges:
    def test_files_are_written_made_and_removed(self, workspace: Path) -> None:
        known = packed(workspace)[0]
        coming = archive_of(workspace.parent, entry("work/notes", b"more\n"), entry("work/a/b/new", b"new\n"))
        told = apply_download(coming, TOP, workspace, known, NAMES)
        assert files(workspace) == {"notes": "more\n", "a/b/new": "new\n"}
        assert (sorted(told.written), told.removed, told.messages()) == (["a/b/new", "notes"], ["src/main.py"], [])

    def test_unchanged_files_are_not_touched(self, workspace: Path) -> None:
        before = (workspace / "notes").stat()
        told = brought(workspace)
        assert (workspace / "notes").stat() == before
        assert told.written == told.removed == []
        assert told.in_sync == packed(workspace)[0].files

    def test_hard_link_is_copied_as_a_file(self, workspace: Path) -> None:
        brought(workspace, entry("work/one", b"content"), entry("work/two", kind=tarfile.LNKTYPE, linkname="work/one"))
        assert (workspace / "two").read_text() == "content"

    def test_undecodable_names_round_trip(self, workspace: Path) -> None:
        name = b"caf\xe9".decode("utf-8", "surrogateescape")
        brought(workspace, entry(f"work/{name}", b"x"))
        assert (workspace / name).read_bytes() == b"x"


class TestChangesOfTheUser:
    def test_conflicting_file_is_kept_and_the_other_version_added(self, workspace: Path) -> None:
        known = packed(workspace)[0]
        (workspace / "notes").write_text("changed by me\n")
        told = brought(workspace, entry("work/notes", b"theirs\n"), known=known)
        assert files(workspace) == {
            "notes": "changed by me\n",
            f"notes{SUFFIX}": "theirs\n",
            "src/main.py": "print()\n",
        }
        assert told.conflicts == ["notes"]
        again = brought(workspace, entry("work/notes", b"theirs\n"), known=Upload())
        assert (again.conflicts, files(workspace)[f"notes{SUFFIX}"]) == ([], "theirs\n")

    def test_file_removed_by_the_user_and_changed_in_the_sandbox_gets_a_suffix(self, workspace: Path) -> None:
        known = packed(workspace)[0]
        (workspace / "notes").unlink()
        brought(workspace, entry("work/notes", b"theirs\n"), known=known)
        assert files(workspace) == {f"notes{SUFFIX}": "theirs\n", "src/main.py": "print()\n"}

    def test_file_changed_by_the_user_and_removed_in_the_sandbox_stays(self, workspace: Path) -> None:
        known = packed(workspace)[0]
        (workspace / "notes").write_text("changed by me\n")
        apply_download(
            archive_of(workspace.parent, entry("work/src/main.py", b"print()\n")), TOP, workspace, known, NAMES
        )
        assert files(workspace)["notes"] == "changed by me\n"

    def test_file_created_by_the_user_is_not_overwritten(self, workspace: Path) -> None:
        known = packed(workspace)[0]
        (workspace / "new").write_text("mine\n")
        brought(workspace, entry("work/new", b"theirs\n"), known=known)
        assert (files(workspace)["new"], files(workspace)[f"new{SUFFIX}"]) == ("mine\n", "theirs\n")

    def test_identical_new_files_are_merged(self, workspace: Path) -> None:
        known = packed(workspace)[0]
        (workspace / "new").write_text("same\n")
        told = brought(workspace, entry("work/new", b"same\n"), known=known)
        assert told.conflicts == []
        assert f"new{SUFFIX}" not in files(workspace)


class TestArchivesThatAreRefused:
    @pytest.mark.parametrize(
        "name",
        ["work/../../evil", "/work/evil", "work/./evil", "../evil", "elsewhere/evil", "work//evil", "work"],
    )
    def test_names_outside_the_workspace_are_refused(self, workspace: Path, name: str) -> None:
        before = files(workspace.parent)
        with pytest.raises(ArchiveError):
            brought(workspace, entry(name, b"x"))
        (workspace.parent / "coming.tar").unlink()
        assert files(workspace.parent) == before

    def test_duplicate_names_get_a_suffix(self, workspace: Path) -> None:
        with pytest.raises(ArchiveError, match="twice"):
            brought(workspace, entry("work/x", b"1"), entry("work/x", b"2"))

    def test_truncated_archive_changes_nothing(self, workspace: Path) -> None:
        known = packed(workspace)[0]
        coming = archive_of(workspace.parent, entry("work/notes", b"x" * 5000), entry("work/b", b"y" * 5000))
        for size in (100, 512, 600, 3000, 5632, 8000, 11_264, 11_776):
            (workspace.parent / "part.tar").write_bytes(coming.read_bytes()[:size])
            with pytest.raises((ArchiveError, tarfile.TarError)):
                apply_download(workspace.parent / "part.tar", TOP, workspace, known, NAMES)
            assert files(workspace) == {"notes": "mine\n", "src/main.py": "print()\n"}, size

    @pytest.mark.parametrize(
        ("kind", "linkname"),
        [
            (tarfile.SYMTYPE, "/etc/passwd"),
            (tarfile.SYMTYPE, "notes"),
            (tarfile.LNKTYPE, "work/nowhere"),
            (tarfile.LNKTYPE, "/etc/passwd"),
            (tarfile.CHRTYPE, ""),
            (tarfile.BLKTYPE, ""),
            (tarfile.FIFOTYPE, ""),
        ],
    )
    def test_special_files_are_not_copied_and_are_reported(self, workspace: Path, kind: bytes, linkname: str) -> None:
        told = brought(workspace, entry("work/evil", kind=kind, linkname=linkname))
        assert told.special == ["evil"]
        assert not told.is_complete
        assert files(workspace) == {"notes": "mine\n", "src/main.py": "print()\n"}

    def test_link_in_the_target_path_is_not_followed(self, workspace: Path) -> None:
        outside = workspace.parent / "outside"
        outside.mkdir()
        (workspace / "way").symlink_to(outside)
        brought(workspace, entry("work/way/evil", b"x"), known=Upload())
        assert list(outside.iterdir()) == []

    @pytest.mark.parametrize(
        "path",
        [
            *(".vscode/tasks.json", ".VSCode/tasks.json", "deep/.envrc", ".git/hooks/pre-commit", ".git/config"),
            *(
                ".git/commondir",
                ".git/objects/info/alternates",
                ".git/modules/x/config",
                "deep/.git/HEAD",
                ".GIT/config",
            ),
            *("deep/.git", ".git"),
        ],
    )
    def test_files_that_user_programs_execute_are_not_copied(self, workspace: Path, path: str) -> None:
        told = brought(workspace, entry(f"work/{path}", b"evil"))
        assert told.refused == [path]
        assert not (workspace / path).exists()

    def test_denied_file_cannot_be_removed(self, workspace: Path) -> None:
        (workspace / ".envrc").write_text("mine")
        known = packed(workspace)[0]
        apply_download(archive_of(workspace.parent), TOP, workspace, known, NAMES)
        assert files(workspace) == {".envrc": "mine"}

    @pytest.mark.parametrize("path", [".git/HEAD", ".git/refs/heads/main", ".git/objects/ab/cd", ".git/logs/HEAD"])
    def test_commits_are_copied_back(self, workspace: Path, path: str) -> None:
        brought(workspace, entry(f"work/{path}", b"x"))
        assert (workspace / path).read_text() == "x"

    def test_caches_are_not_downloaded(self, workspace: Path) -> None:
        tag = entry("work/target/CACHEDIR.TAG", b"x")
        told = brought(workspace, entry("work/node_modules/x", b"x"), tag, entry("work/target/debug/x", b"x"))
        assert (told.written, told.messages()) == ([], [])


class TestPacking:
    def test_caches_and_hidden_paths_are_not_uploaded(self, workspace: Path) -> None:
        for path in ("node_modules/x", "target/CACHEDIR.TAG", "target/x", "secret/x", "src/.venv/x"):
            (workspace / path).parent.mkdir(exist_ok=True)
            (workspace / path).write_text("x")
        assert sorted(packed(workspace, workspace / "secret")[0].files) == ["notes", "src/main.py"]

    def test_links_are_packed_as_links_and_pipes_not_at_all(self, workspace: Path) -> None:
        (workspace / "link").symlink_to("/etc/passwd")
        (workspace / "folder-link").symlink_to("/etc")
        os.mkfifo(workspace / "pipe")
        known, archive = packed(workspace)
        assert sorted(known.files) == ["folder-link", "link", "notes", "src/main.py"]
        with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
            assert opened.getmember("work/link").linkname == "/etc/passwd"
            assert {member.uid for member in opened} == {1000}

    def test_upload_and_download_round_trip(self, workspace: Path) -> None:
        (workspace / "link").symlink_to("nowhere")
        known, archive = packed(workspace)
        (workspace.parent / "coming.tar").write_bytes(archive)
        told = apply_download(workspace.parent / "coming.tar", TOP, workspace, known, NAMES)
        assert (told.written, told.removed, told.conflicts, told.is_complete) == ([], [], [], True)

    def test_upload_record_round_trips(self, workspace: Path) -> None:
        known = packed(workspace)[0]
        file = workspace.parent / "carried.json"
        known.write(file)
        read = Upload.read(file)
        assert read is not None
        assert read.files == known.files
        file.write_text("{")
        assert Upload.read(file) is None
