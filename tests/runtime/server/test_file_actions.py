"""Reading, writing and editing, with the texts that models are tuned to."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from core.events import (
    ErrorObservation,
    FileEditAction,
    FileEditObservation,
    FileEditSource,
    FileReadAction,
    FileReadObservation,
    FileReadSource,
    FileWriteAction,
    FileWriteObservation,
    Observation,
)
from runtime.server import file_actions as files_module
from runtime.server.edit_history import MemoryHistory
from runtime.server.file_actions import MAX_WHOLE_CONTENT_BYTES, Files
from runtime.server.text_file import PREFIX
from tests.runtime.conftest import Watcher
from tests.runtime.server.test_downloads import somebody

PNG = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000003000000050802000000")
REVIEW = "Review the changes and make sure they are as expected. Edit the file again if necessary."


def lines(*numbers: int) -> str:
    return "".join(f"line {number}\n" for number in numbers)


def ascii_head(name: str) -> str:
    return ascii(name)[:12]


class Desk:
    """Files, and helpers with short names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = Files(lambda: str(folder))

    async def read(self, path: str, **fields: Any) -> Observation:
        return await self.files.read(FileReadAction(path=path, **fields), 1, Watcher().emit)

    async def view(self, path: Path | str, view_range: list[int] | None = None) -> str:
        observation = await self.read(str(path), impl_source=FileReadSource.OH_ACI, view_range=view_range)
        return observation.content

    async def write(self, path: str, content: str, **fields: Any) -> Observation:
        return await self.files.write(FileWriteAction(path=path, content=content, **fields), 1, Watcher().emit)

    async def edit(self, command: str, path: Path | str, **fields: Any) -> Observation:
        action = FileEditAction(command=command, path=str(path), **fields)
        return await self.files.edit(action, 1, Watcher().emit)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "f.txt"
    path.write_text("".join(f"line {number}\n" for number in range(1, 13)))
    return path


class TestRead:
    async def test_relative_path_starts_in_the_folder_of_the_shell(self, desk: Desk, file: Path) -> None:
        assert await desk.read("f.txt") == FileReadObservation(path=str(file), content=file.read_text())

    @pytest.mark.parametrize(
        ("start", "end", "numbers"),
        [
            (0, -1, range(1, 13)),
            (0, 2, (1, 2)),
            (0, 1, (1,)),
            (1, -1, range(2, 13)),
            (3, 3, ()),
            (5, 2, ()),
            (11, 99, (12,)),
            (99, -1, ()),
            (-5, 2, (1, 2)),
            (-1, -1, range(1, 13)),
            (0, -7, ()),
            (0, 0, ()),
        ],
    )
    async def test_requested_lines_are_read(
        self, desk: Desk, file: Path, start: int, end: int, numbers: Sequence[int]
    ) -> None:
        assert (await desk.read("f.txt", start=start, end=end)).content == lines(*numbers)

    async def test_image_is_described(self, desk: Desk) -> None:
        (desk.folder / "picture").write_bytes(PNG)
        assert (await desk.read("picture")).content.startswith("ERROR_BINARY_FILE It is a PNG")

    async def test_missing_permission_is_reported(self, desk: Desk, file: Path) -> None:
        file.chmod(0)
        with somebody():
            for observation in (await desk.read("f.txt"), await desk.write("f.txt", "x")):
                assert observation == ErrorObservation(content=f"Permission denied: {file}. Choose another path.")
            assert (await desk.view(file)).startswith("ERROR:\nRan into [Errno 13] Permission denied: ")

    async def test_unreadable_path_is_reported(self, desk: Desk) -> None:
        (desk.folder / "binary").write_bytes(b"\0\1\2")
        assert await desk.read("binary") == ErrorObservation(content="ERROR_BINARY_FILE")
        assert await desk.read("none") == ErrorObservation(
            content=f"File not found: {desk.folder}/none. Your current working directory is {desk.folder}."
        )
        assert await desk.read(".") == ErrorObservation(
            content=f"Path is a directory: {desk.folder}. You can only read files"
        )


class TestWrite:
    async def test_file_and_missing_folders_are_created(self, desk: Desk) -> None:
        assert await desk.write("a/b/f", "text") == FileWriteObservation(path="a/b/f")
        assert (desk.folder / "a/b/f").read_text() == "text\n"

    async def test_last_line_end_is_not_doubled(self, desk: Desk) -> None:
        await desk.write("f", "text\n")
        assert (desk.folder / "f").read_text() == "text\n"

    @pytest.mark.parametrize(
        ("start", "end", "before", "after"),
        [
            (0, 2, (), range(3, 13)),
            (1, 11, (1,), (12,)),
            (0, 0, (), range(1, 13)),
            (2, -1, (1, 2), ()),
            (3, 3, (1, 2, 3), range(4, 13)),
            (12, -1, range(1, 13), ()),
            (11, 99, range(1, 12), ()),
        ],
    )
    async def test_named_lines_are_replaced(
        self, desk: Desk, file: Path, start: int, end: int, before: Sequence[int], after: Sequence[int]
    ) -> None:
        await desk.write("f.txt", "new", start=start, end=end)
        assert file.read_text() == lines(*before) + "new\n" + lines(*after)

    async def test_only_a_line_feed_ends_a_line(self, desk: Desk) -> None:
        """As in what `view` numbers; form feeds and separators of Unicode are part of a line."""
        file = desk.folder / "f"
        file.write_text("1\x0c\u2028\n2\n3\n")
        assert (await desk.read("f", start=1, end=2)).content == "2\n"
        await desk.write("f", "two", start=1, end=2)
        assert file.read_text() == "1\x0c\u2028\ntwo\n3\n"

    async def test_empty_content_removes_lines_or_everything(self, desk: Desk, file: Path) -> None:
        await desk.write("f.txt", "", start=1, end=11)
        assert file.read_text() == lines(1, 12)
        await desk.write("f.txt", "")
        assert file.read_text() == ""

    async def test_writing_lines_creates_a_missing_file(self, desk: Desk) -> None:
        await desk.write("new", "text", start=3, end=5)
        assert (desk.folder / "new").read_text() == "text\n"

    @pytest.mark.parametrize(("start", "end"), [(0, 1), (1, -1)])
    async def test_lines_of_a_binary_file_are_not_replaced(self, desk: Desk, start: int, end: int) -> None:
        (desk.folder / "f").write_bytes(b"\0\1")
        refused = await desk.write("f", "text", start=start, end=end)
        assert isinstance(refused, ErrorObservation)
        assert "appears to be binary" in refused.content
        assert (desk.folder / "f").read_bytes() == b"\0\1"

    @pytest.mark.parametrize(("umask", "mode"), [(None, 0o644), (0o077, 0o600)])
    async def test_new_files_have_the_users_umask(
        self, desk: Desk, tmp_path: Path, umask: int | None, mode: int
    ) -> None:
        desk.files = Files(lambda: str(tmp_path)) if umask is None else Files(lambda: str(tmp_path), umask)
        await desk.write("written", "x")
        await desk.edit("create", tmp_path / "created", file_text="x")
        modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("written", "created")]
        assert modes == [mode, mode]

    async def test_line_ends_and_encoding_are_kept(self, desk: Desk) -> None:
        (desk.folder / "f").write_bytes("Привет\r\nмир\r\n".encode("cp1251"))
        await desk.write("f", "мир\nПривет\n")
        assert (desk.folder / "f").read_bytes() == "мир\r\nПривет\r\n".encode("cp1251")

    async def test_binary_file_can_be_overwritten(self, desk: Desk) -> None:
        (desk.folder / "f").write_bytes(b"\0\1")
        await desk.write("f", "text")
        assert (desk.folder / "f").read_text() == "text\n"

    async def test_folder_is_refused(self, desk: Desk) -> None:
        assert await desk.write(".", "x") == ErrorObservation(
            content=f"Path is a directory: {desk.folder}. You can only write to files"
        )


class TestView:
    async def test_file_has_numbered_lines(self, desk: Desk, file: Path) -> None:
        file.write_text("a\n\nc\n")
        observation = await desk.edit("view", file)
        assert observation == FileReadObservation(
            path=str(file),
            content=f"Here's the result of running `cat -n` on {file}:\n     1\ta\n     2\t\n     3\tc\n",
            impl_source=FileReadSource.OH_ACI,
        )

    async def test_range_of_a_folder_is_refused(self, desk: Desk) -> None:
        assert (await desk.view(desk.folder, [1, 2])).endswith(
            "The `view_range` parameter is not allowed when `path` points to a directory."
        )

    async def test_path_must_be_absolute(self, desk: Desk, file: Path) -> None:
        assert await desk.view("f.txt") == (
            "ERROR:\nInvalid `path` parameter: f.txt. "
            f"The path should be an absolute path, starting with `/`. Maybe you meant {file}?"
        )
        assert (await desk.view("none")).endswith("starting with `/`.")

    async def test_path_must_exist(self, desk: Desk) -> None:
        path = desk.folder / "none"
        assert await desk.view(path) == (
            f"ERROR:\nInvalid `path` parameter: {path}. The path {path} does not exist. Please provide a valid path."
        )


class TestEdit:
    async def test_create_makes_a_file(self, desk: Desk) -> None:
        path = desk.folder / "new/f"
        assert await desk.edit("create", path, file_text="a\nb") == FileEditObservation(
            content=f"File created successfully at: {path}",
            path=str(path),
            prev_exist=False,
            old_content=None,
            new_content="a\nb",
            impl_source=FileEditSource.OH_ACI,
            diff=f"--- {path}\n+++ {path}\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n",
        )
        assert path.read_text() == "a\nb"

    async def test_str_replace_shows_the_result(self, desk: Desk, file: Path) -> None:
        old = file.read_text()
        observation = await desk.edit("str_replace", file, old_str="line 6\n", new_str="new\nlines\n")
        shown = ["line 3", "line 4", "line 5", "new", "lines", "line 7", "line 8", "line 9"]
        shown += ["line 10", "line 11"]
        numbered = "".join(f"{number:6}\t{line}\n" for number, line in enumerate(shown, 3))
        assert observation == FileEditObservation(
            content=(
                f"The file {file} has been edited. "
                f"Here's the result of running `cat -n` on a snippet of {file}:\n"
                f"{numbered}{REVIEW}"
            ),
            path=str(file),
            prev_exist=True,
            old_content=old,
            new_content=old.replace("line 6\n", "new\nlines\n"),
            impl_source=FileEditSource.OH_ACI,
            diff=(
                f"--- {file}\n+++ {file}\n@@ -3,7 +3,8 @@\n line 3\n line 4\n line 5\n-line 6\n+new\n+lines\n"
                " line 7\n line 8\n line 9\n"
            ),
        )

    async def test_insert_shows_the_result(self, desk: Desk, file: Path) -> None:
        observation = await desk.edit("insert", file, insert_line=1, new_str="new")
        assert file.read_text().startswith("line 1\nnew\nline 2\n")
        assert observation.content == (
            f"The file {file} has been edited. "
            "Here's the result of running `cat -n` on a snippet of the edited file:\n"
            "     1\tline 1\n     2\tnew\n     3\tline 2\n     4\tline 3\n     5\tline 4\n     6\tline 5\n"
            "Review the changes and make sure they are as expected "
            "(correct indentation, no duplicate lines, etc). Edit the file again if necessary."
        )

    async def test_insert_after_a_last_line_without_newline(self, desk: Desk, file: Path) -> None:
        file.write_text("a")
        await desk.edit("insert", file, insert_line=1, new_str="b")
        assert file.read_text() == "a\nb\n"

    async def test_undo_reverts_up_to_ten_edits(self, desk: Desk, file: Path) -> None:
        first = file.read_text()
        for number in range(11):
            await desk.edit("insert", file, insert_line=0, new_str=str(number))
        observation = await desk.edit("undo_edit", file)
        assert observation.content.startswith(
            f"Last edit to {file} undone successfully. Here's the result of running `cat -n` on {file}:\n"
        )
        for _ in range(9):
            await desk.edit("undo_edit", file)
        assert file.read_text() == "0\n" + first
        assert await desk.edit("undo_edit", file) == ErrorObservation(
            content=f"ERROR:\nNo edit history found for {file}."
        )

    async def test_line_ends_encoding_and_mode_are_kept(self, desk: Desk, file: Path) -> None:
        file.write_bytes("Привет\r\nмир\r\n".encode("cp1251"))
        file.chmod(0o755)
        await desk.edit("str_replace", file, old_str="Привет\nмир", new_str="мир\nПривет")
        assert file.read_bytes() == "мир\r\nПривет\r\n".encode("cp1251")
        assert os.access(file, os.X_OK)

    async def test_edit_of_a_large_file_reports_only_its_diff(self, desk: Desk, file: Path) -> None:
        file.write_text("old\n" + "x\n" * MAX_WHOLE_CONTENT_BYTES)
        observation = await desk.edit("str_replace", file, old_str="old", new_str="new")
        assert isinstance(observation, FileEditObservation)
        assert (observation.old_content, observation.new_content) == (None, None)
        assert observation.diff == f"--- {file}\n+++ {file}\n@@ -1,4 +1,4 @@\n-old\n+new\n x\n x\n x\n"

    @pytest.mark.parametrize(
        ("old", "new", "is_carried"),
        [("x" * 9, "y", True), ("x", "y" * 9, True), ("x" * 10, "y", False), ("x", "y" * 10, False)],
    )
    async def test_observation_has_whole_contents_up_to_a_size(
        self, desk: Desk, file: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, is_carried: bool
    ) -> None:
        monkeypatch.setattr(files_module, "MAX_WHOLE_CONTENT_BYTES", 10)
        file.write_text(f"{old}\n")
        observation = await desk.edit("str_replace", file, old_str=old, new_str=new)
        assert isinstance(observation, FileEditObservation)
        carried = (observation.old_content, observation.new_content)
        assert carried == ((f"{old}\n", f"{new}\n") if is_carried else (None, None))

    async def test_edit_by_a_model_is_refused(self, desk: Desk, file: Path) -> None:
        refused = await desk.edit("view", file, impl_source=FileEditSource.LLM_BASED_EDIT)
        assert refused == ErrorObservation(
            content="ERROR:\nEdits by a model are not supported. Use the editor's commands."
        )

    async def test_missing_new_str_deletes_old_str(self, desk: Desk, file: Path) -> None:
        await desk.edit("str_replace", file, old_str="line 2\n")
        assert file.read_text() == lines(1, *range(3, 13))

    @pytest.mark.parametrize(("line", "first", "last"), [(0, 1, 5), (4, 1, 9), (5, 2, 10), (12, 9, 13)])
    async def test_insert_shows_four_lines_on_either_side(
        self, desk: Desk, file: Path, line: int, first: int, last: int
    ) -> None:
        after = [*(f"line {number}" for number in range(1, 13))]
        after.insert(line, "new")
        shown = "".join(f"{number:6}\t{after[number - 1]}\n" for number in range(first, last + 1))
        said = (await desk.edit("insert", file, insert_line=line, new_str="new")).content
        assert f"a snippet of the edited file:\n{shown}Review" in said

    @pytest.mark.parametrize(("line", "first", "last"), [(1, 1, 6), (5, 2, 10), (4, 1, 9), (12, 9, 12)])
    async def test_replacement_shows_the_lines_around_it(
        self, desk: Desk, file: Path, line: int, first: int, last: int
    ) -> None:
        after = [*(f"line {number}" for number in range(1, 13))]
        after[line - 1] = "new"
        shown = "".join(f"{number:6}\t{after[number - 1]}\n" for number in range(first, last + 1))
        said = (await desk.edit("str_replace", file, old_str=f"line {line}\n", new_str="new\n")).content
        assert f"a snippet of {file}:\n{shown}Review" in said

    @pytest.mark.parametrize(
        ("command", "fields", "text"),
        [
            ("create", {}, "Parameter `file_text` is required for command: create."),
            ("str_replace", {}, "Parameter `old_str` is required for command: str_replace."),
            ("insert", {"new_str": "x"}, "Parameter `insert_line` is required for command: insert."),
            ("insert", {"insert_line": 1}, "Parameter `new_str` is required for command: insert."),
        ],
    )
    async def test_missing_parameter_is_named(
        self, desk: Desk, file: Path, command: str, fields: dict[str, Any], text: str
    ) -> None:
        path = desk.folder / "new" if command == "create" else file
        assert await desk.edit(command, path, **fields) == ErrorObservation(content=f"ERROR:\n{text}")

    async def test_str_replace_refuses_a_missing_or_ambiguous_text(self, desk: Desk, file: Path) -> None:
        file.write_text("a\nb\na\na a\n")
        assert (await desk.edit("str_replace", file, old_str="x", new_str="y")).content == (
            f"ERROR:\nNo replacement was performed, old_str `x` did not appear verbatim in {file}."
        )
        assert (await desk.edit("str_replace", file, old_str="a", new_str="y")).content == (
            "ERROR:\nNo replacement was performed. Multiple occurrences of old_str `a` in lines [1, 3, 4]. "
            "Please ensure it is unique."
        )
        assert (await desk.edit("str_replace", file, old_str="b", new_str="b")).content == (
            "ERROR:\nInvalid `new_str` parameter: b. No replacement was performed. "
            "`new_str` and `old_str` must be different."
        )
        assert file.read_text() == "a\nb\na\na a\n"

    async def test_overlapping_occurrences_and_an_empty_text_are_ambiguous_as_in_v0(
        self, desk: Desk, file: Path
    ) -> None:
        file.write_text("aaa\n")
        assert "Multiple occurrences of old_str `aa`" in (await desk.edit("str_replace", file, old_str="aa")).content
        said = (await desk.edit("str_replace", file, old_str="", new_str="x")).content
        assert "Multiple occurrences of old_str `` in lines [1, 2]. Please" in said
        assert file.read_text() == "aaa\n"
        file.write_text("\n" * 2_000)
        assert "999, 1000, ...]. Please" in (await desk.edit("str_replace", file, old_str="", new_str="x")).content
        file.write_text("")
        await desk.edit("str_replace", file, old_str="", new_str="x")
        assert file.read_text() == "x"

    async def test_path_below_a_file_is_refused(self, desk: Desk, file: Path) -> None:
        path = file / "below"
        assert "does not exist. Please provide a valid path." in await desk.view(path)
        assert (await desk.edit("create", path, file_text="x")).content.startswith("ERROR:\nRan into ")
        assert (await desk.read("f.txt/below")).content == f"Not a directory: {path}"

    @pytest.mark.parametrize("line", [-1, 13])
    async def test_insert_refuses_a_line_outside_of_the_file(self, desk: Desk, file: Path, line: int) -> None:
        assert (await desk.edit("insert", file, insert_line=line, new_str="x")).content == (
            f"ERROR:\nInvalid `insert_line` parameter: {line}. It should be within the range of allowed values: [0, 12]"
        )
        await desk.edit("insert", file, insert_line=12, new_str="last")
        assert file.read_text() == lines(*range(1, 13)) + "last\n"

    async def test_create_does_not_overwrite(self, desk: Desk, file: Path) -> None:
        assert (await desk.edit("create", file, file_text="x")).content == (
            f"ERROR:\nInvalid `path` parameter: {file}. File already exists at: {file}. "
            "Cannot overwrite files using command `create`."
        )

    async def test_folder_can_only_be_viewed(self, desk: Desk) -> None:
        assert (await desk.edit("insert", desk.folder, insert_line=0, new_str="x")).content == (
            f"ERROR:\nInvalid `path` parameter: {desk.folder}. "
            f"The path {desk.folder} is a directory and only the `view` command can be used on directories."
        )

    async def test_unknown_command_is_named(self, desk: Desk, file: Path) -> None:
        assert (await desk.edit("delete", file)).content == (
            "ERROR:\nUnrecognized command delete. The allowed commands for the oh_editor tool are: "
            "view, create, str_replace, insert, undo_edit"
        )

    async def test_binary_file_is_refused(self, desk: Desk, file: Path) -> None:
        file.write_bytes(b"\0")
        assert (await desk.edit("insert", file, insert_line=0, new_str="x")).content == (
            f"ERROR:\nFile validation failed for {file}: "
            "File appears to be binary and this file type cannot be read or edited by this tool."
        )


class TestUndo:
    async def test_undo_reverts_later_changes_of_others_and_says_so(self, desk: Desk, file: Path) -> None:
        first = file.read_text()
        await desk.edit("str_replace", file, old_str="line 5\n", new_str="new\n")
        file.write_text("somebody else's\n")
        observation = await desk.edit("undo_edit", file)
        assert isinstance(observation, FileEditObservation)
        assert (observation.old_content, observation.new_content) == ("somebody else's\n", first)
        assert observation.content.startswith(f"Last edit to {file} undone successfully. Here's the result of")
        assert observation.content.endswith(
            "\nNOTE: The file had been changed since that edit; those changes are undone with it.\n"
        )
        assert file.read_text() == first

    async def test_undo_that_changes_nothing_says_so(self, desk: Desk, file: Path) -> None:
        first = file.read_text()
        await desk.edit("insert", file, insert_line=0, new_str="new")
        file.write_text(first)
        assert (await desk.edit("undo_edit", file)).content.endswith(
            "\nNOTE: The file already had this content; nothing in it has changed.\n"
        )
        assert file.read_text() == first

    async def test_undo_works_if_the_file_became_binary(self, desk: Desk, file: Path) -> None:
        first = file.read_text()
        await desk.edit("insert", file, insert_line=0, new_str="new")
        file.write_bytes(b"\0\1")
        assert isinstance(await desk.edit("undo_edit", file), FileEditObservation)
        assert file.read_text() == first

    async def test_every_path_to_a_file_has_the_same_history(self, desk: Desk, file: Path) -> None:
        first = file.read_text()
        (desk.folder / "a").mkdir()
        (desk.folder / "a/link").symlink_to("../f.txt")
        (desk.folder / "b").symlink_to("a")
        await desk.edit("insert", desk.folder / "b/link", insert_line=0, new_str="new")
        await desk.edit("undo_edit", file)
        assert file.read_text() == first
        assert (desk.folder / "a/link").is_symlink()

    async def test_undo_restores_the_exact_bytes(self, desk: Desk, file: Path) -> None:
        first = "Привет\r\nмир\n".encode("cp1251")
        file.write_bytes(first)
        await desk.edit("insert", file, insert_line=0, new_str="new")
        await desk.edit("undo_edit", file)
        assert file.read_bytes() == first

    async def test_edit_is_not_made_if_its_undo_cannot_be_stored(
        self, desk: Desk, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def no_space(self: MemoryHistory, *about: object) -> None:
            raise OSError(28, "No space left on device")

        first = file.read_text()
        monkeypatch.setattr(MemoryHistory, "push", no_space)
        observation = await desk.edit("insert", file, insert_line=0, new_str="new")
        assert observation.content == (
            f"ERROR:\nRan into [Errno 28] No space left on device: '{file}' while trying to write to {file}"
        )
        assert file.read_text() == first
        assert [item.name for item in desk.folder.iterdir()] == [file.name]

    async def test_failed_edit_leaves_no_undo_step(
        self, desk: Desk, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def read_only(*paths: object, **folders: object) -> None:
            raise OSError(30, "Read-only file system")

        with monkeypatch.context() as broken:
            broken.setattr(os, "replace", read_only)
            observation = await desk.edit("insert", file, insert_line=0, new_str="new")
        assert "Read-only file system" in observation.content
        assert (await desk.edit("undo_edit", file)).content == f"ERROR:\nNo edit history found for {file}."
        assert [item.name for item in desk.folder.iterdir()] == [file.name]


class TestRoots:
    """Paths outside the root are refused for every action, and nothing outside is changed."""

    NAMES = ["../secret", "a/../../secret", "/etc/passwd", "link", "folder/secret", "/proc/self/environ", "/dev/zero"]

    @pytest.fixture
    def desk(self, tmp_path: Path) -> Desk:
        (tmp_path / "secret").write_text("secret")
        (tmp_path / "root").mkdir()
        (tmp_path / "root/link").symlink_to("../secret")
        (tmp_path / "root/folder").symlink_to(tmp_path)
        desk = Desk(tmp_path / "root")
        desk.files = Files(lambda: str(tmp_path / "root"), 0o022, [tmp_path / "root"])
        return desk

    @pytest.mark.parametrize("name", NAMES)
    async def test_no_action_leaves_the_roots(self, desk: Desk, name: str) -> None:
        path = os.path.join(desk.folder, name)
        outcomes = [
            await desk.read(name),
            await desk.read(path, impl_source=FileReadSource.OH_ACI),
            await desk.write(name, "x"),
            await desk.edit("view", path),
            await desk.edit("create", path, file_text="x"),
            await desk.edit("create", f"{path}/new", file_text="x"),
            await desk.edit("str_replace", path, old_str="secret", new_str="x"),
            await desk.edit("insert", path, insert_line=0, new_str="x"),
            await desk.edit("undo_edit", path),
        ]
        for observation in outcomes:
            assert isinstance(observation, ErrorObservation), observation
            assert f"is outside of {desk.folder}. Use a path beneath it." in observation.content
        assert (desk.folder.parent / "secret").read_text() == "secret"
        assert sorted(item.name for item in desk.folder.parent.iterdir()) == ["root", "secret"]

    @pytest.mark.parametrize(
        "name", ["~/.ssh/id_rsa", "%2e%2e/secret", "file:///etc/passwd", "-rf", "\n", "'\"$(id)`id`"]
    )
    async def test_special_characters_in_names_have_no_meaning(self, desk: Desk, name: str) -> None:
        assert (await desk.read(name)).content.startswith("File not found: ")
        assert isinstance(await desk.write(name, "named"), FileWriteObservation)
        assert (desk.folder / os.path.normpath(name)).read_text() == "named\n"
        refused = await desk.edit("view", name)
        assert "The path should be an absolute path, starting with `/`." in refused.content
        assert [item.name for item in desk.folder.parent.iterdir() if item.name not in ("root", "secret")] == []

    @pytest.mark.parametrize(
        ("name", "why"),
        [
            ("x" * 300, "File name too long"),
            ("x/" * 3000, "File name too long"),
            ("a\0b", "has a NUL byte"),
            ("\ud800", "is not valid text"),
        ],
        ids=ascii_head,
    )
    async def test_impossible_paths_are_refused(self, desk: Desk, name: str, why: str) -> None:
        before = sorted(desk.folder.rglob("*"))
        for observation in (
            await desk.read(name),
            await desk.write(name, "x"),
            await desk.edit("create", f"{desk.folder}/{name}", file_text="x"),
            await desk.edit("view", f"{desk.folder}/{name}"),
        ):
            assert isinstance(observation, ErrorObservation), observation
            assert why in observation.content
        assert sorted(desk.folder.rglob("*")) == before

    async def test_link_out_of_the_roots_is_listed_but_not_followed(self, desk: Desk) -> None:
        shown = await desk.view(desk.folder)
        assert f"{desk.folder}/folder\n{desk.folder}/link" in shown
        assert "secret" not in shown.replace(str(desk.folder), "")


async def test_guessed_temporary_file_is_not_followed(desk: Desk, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda size: "foreseen")
    (desk.folder / "secret").write_text("secret")
    (desk.folder / f"{PREFIX}foreseen").symlink_to("secret")
    first = file.read_text()
    assert "File exists" in (await desk.edit("insert", file, insert_line=0, new_str="x")).content
    assert (file.read_text(), (desk.folder / "secret").read_text()) == (first, "secret")
