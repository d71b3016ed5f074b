"""Files are read, written and edited in V0's words, and wait for no command."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from core.events import (
    CmdRunAction,
    ErrorObservation,
    FileEditObservation,
    FileReadAction,
    FileReadObservation,
    FileReadSource,
    FileWriteAction,
    FileWriteObservation,
)
from tests.contract.conftest import Place, WithServer


class TestReadAndWrite:
    async def test_written_file_is_read_unchanged(self, place: Place) -> None:
        wrote = await place.do(FileWriteAction(path="sub/notes", content="eins\nzwei ü"))
        assert wrote == FileWriteObservation(path="sub/notes")
        assert (place.folder / "sub/notes").read_text() == "eins\nzwei ü\n"
        read = await place.do(FileReadAction(path="sub/notes"))
        assert read == FileReadObservation(path=str(place.folder / "sub/notes"), content="eins\nzwei ü\n")
        part = await place.get(FileReadObservation, FileReadAction(path="sub/notes", start=1, end=2))
        assert part.content == "zwei ü\n"

    async def test_relative_path_starts_in_the_folder_of_the_shell(self, place: Place) -> None:
        await place.run("mkdir sub; cd sub; echo text > f")
        assert (await place.get(FileReadObservation, FileReadAction(path="f"))).content == "text\n"

    async def test_unreadable_file_gives_v0s_message(self, place: Place) -> None:
        (place.folder / "binary").write_bytes(b"\0\1\2")
        told = {
            "none": f"File not found: {place.folder}/none. Your current working directory is {place.folder}.",
            ".": f"Path is a directory: {place.folder}. You can only read files",
            "binary": "ERROR_BINARY_FILE",
        }
        for path, text in told.items():
            assert (await place.get(ErrorObservation, FileReadAction(path=path))).content == text

    async def test_large_file_is_transferred(self, place: Place) -> None:
        text = "x" * 1_040_000
        edited = await place.edit("create", place.folder / "large", file_text=text)
        assert isinstance(edited, FileEditObservation)
        assert edited.new_content == text


class TestEditor:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return tmp_path / "code.py"

    async def test_editor_commands_run_in_order_and_can_be_undone(self, place: Place, file: Path) -> None:
        steps: list[tuple[str, dict[str, Any], str, str]] = [
            ("create", {"file_text": "a = 1\nb = 2\n"}, "File created successfully at: ", "a = 1\nb = 2\n"),
            ("str_replace", {"old_str": "a = 1", "new_str": "a = 7"}, "The file ", "a = 7\nb = 2\n"),
            ("insert", {"insert_line": 1, "new_str": "c = 3"}, "The file ", "a = 7\nc = 3\nb = 2\n"),
            ("undo_edit", {}, "Last edit to ", "a = 7\nb = 2\n"),
            ("undo_edit", {}, "Last edit to ", "a = 1\nb = 2\n"),
        ]
        for command, fields, begins, content in steps:
            observation = await place.edit(command, file, **fields)
            assert isinstance(observation, FileEditObservation), observation
            assert observation.content.startswith(f"{begins}{file}")
            assert (file.read_text(), observation.new_content) == (content, content)

    async def test_view_shows_numbered_lines(self, place: Place, file: Path) -> None:
        file.write_text("one\ntwo\n")
        shown = f"Here's the result of running `cat -n` on {file}:\n     1\tone\n     2\ttwo\n"
        asked = FileReadAction(path=str(file), impl_source=FileReadSource.OH_ACI)
        assert (await place.get(FileReadObservation, asked)).content == shown

    @pytest.mark.parametrize(
        ("command", "fields", "told"),
        [
            (
                "create",
                {"file_text": "x"},
                "File already exists at: {}. Cannot overwrite files using command `create`.",
            ),
            (
                "str_replace",
                {"old_str": "none", "new_str": "x"},
                "No replacement was performed, old_str `none` did not appear verbatim in {}.",
            ),
            ("str_replace", {"old_str": "a", "new_str": "a"}, "`new_str` and `old_str` must be different."),
            ("insert", {"insert_line": 9, "new_str": "x"}, "Invalid `insert_line` parameter: 9."),
            ("undo_edit", {}, "No edit history found for {}."),
        ],
    )
    async def test_invalid_edit_gives_v0s_message(
        self, place: Place, file: Path, command: str, fields: dict[str, Any], told: str
    ) -> None:
        file.write_text("a\na\n")
        observation = await place.edit(command, file, **fields)
        assert isinstance(observation, ErrorObservation)
        assert told.format(file) in observation.content
        assert file.read_text() == "a\na\n"


async def test_file_actions_do_not_wait_for_a_command(place: Place) -> None:
    (place.folder / "f").write_text("text")
    running = asyncio.create_task(place.do(CmdRunAction(command="echo begun; sleep 30", blocking=True)))
    await place.watcher.sees(b"begun\r\n")
    async with asyncio.timeout(20):  # the command takes longer
        assert (await place.get(FileReadObservation, FileReadAction(path="f"))).content == "text"
        assert (await place.edit("view", place.folder / "f")).content
        await place.do(FileWriteAction(path="g", content="text"))
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_edit_can_be_undone_after_a_restart(
    served: tuple[Place, WithServer], tmp_path_factory: pytest.TempPathFactory
) -> None:
    place, runtime = served
    await runtime.aclose()
    runtime.keep(tmp_path_factory.mktemp("state") / "of one conversation")
    await runtime.start()
    file = place.folder / "file"
    await place.edit("create", file, file_text="one\n")
    await place.edit("str_replace", file, old_str="one", new_str="two")
    await runtime.aclose()
    await runtime.start()
    assert isinstance(await place.edit("undo_edit", file), FileEditObservation)
    assert file.read_text() == "one\n"


async def test_file_beside_the_workspace_is_unreachable(
    served: tuple[Place, WithServer], tmp_path_factory: pytest.TempPathFactory
) -> None:
    place, _ = served
    beside = Path("/var/tmp") / f"handloom-{os.getpid()}"  # not where temporary files are worked on
    beside.write_text("secret")
    try:
        seen = await place.do(FileReadAction(path=str(beside)))
        made = await place.do(FileWriteAction(path=f"{beside}.new", content="x"))
    finally:
        beside.unlink()
    assert "secret" not in str(seen)
    assert isinstance(seen, ErrorObservation)
    assert isinstance(made, ErrorObservation) or not Path(f"{beside}.new").exists()
