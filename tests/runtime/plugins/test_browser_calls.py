"""Parsing of browser calls, names of downloads, and the observation text: pure functions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.async_api import Download

from runtime.plugins.browser import observation_text
from runtime.plugins.browser.functions import MAX_CALLS, Call, parse
from runtime.plugins.browser.worker import FOLDER, MAX_FILE_BYTES, DownloadError, keep_download, safe_name
from tests.repeated import leaves_nothing_running


@pytest.mark.parametrize(
    ("step", "calls"),
    [
        ("click('a51')", [Call("click", ("a51",), {})]),
        (
            "click('48', button='middle', modifiers=['Shift'])",
            [Call("click", ("48",), {"button": "middle", "modifiers": ["Shift"]})],
        ),
        (
            "fill('1', 'a) b')\n\tpress('1', \"Enter\")",
            [Call("fill", ("1", "a) b"), {}), Call("press", ("1", "Enter"), {})],
        ),
        ("noop() noop(500)", [Call("noop", (), {}), Call("noop", (500,), {})]),
        ("# click('1')\nscroll(-50.2, -100.5)", [Call("scroll", (-50.2, -100.5), {})]),
        ("I will press it: click('1'). Then wait.", [Call("click", ("1",), {})]),
        ("```python\ngoto('http://x/')\n```", [Call("goto", ("http://x/",), {})]),
        ("fill('1', '''two\nlines''')", [Call("fill", ("1", "two\nlines"), {})]),
        ("upload_file('5', ['a', 'b'],)", [Call("upload_file", ("5", ["a", "b"]), {})]),
        ("page.click('1')", [Call("click", ("1",), {})]),
    ],
)
def test_calls_are_parsed_like_browsergym(step: str, calls: list[Call]) -> None:
    assert parse(step) == calls


@pytest.mark.parametrize(
    "step", ["", "nothing", "click(", "click(x)", "click(*['1'])", "f(**{'a': 1})", "click('1'", "((("]
)
def test_text_without_calls_is_an_empty_action(step: str) -> None:
    with pytest.raises(ValueError, match="Received an empty action"):
        parse(step)


def test_length_and_number_of_calls_are_limited() -> None:
    with pytest.raises(ValueError, match="Received 101 actions at once"):
        parse("noop()\n" * (MAX_CALLS + 1))
    with pytest.raises(ValueError, match="Received an action of 1000000 characters"):
        parse("x" * 1_000_000)


@given(st.text(alphabet="click('1\", )[]{}#\n\\ab=*-.", max_size=60))
def test_any_text_is_parsed_or_refused(step: str) -> None:
    refused = ""
    try:
        refused = "" if parse(step) else "no call"
    except ValueError as error:
        refused = str(error)
    assert refused in {"", "Received an empty action."}


@pytest.mark.parametrize(
    ("suggested", "name"),
    [
        ("report.pdf", "report.pdf"),
        ("../../.ssh/authorized_keys", "authorized_keys"),
        ("..\\..\\x.exe", "x.exe"),
        (".bashrc", "bashrc"),
        ("..", "file"),
        ("", "file"),
        ("a\x1b[31m\nb.txt", "a__31m_b.txt"),
        ("x" * 300 + ".gz", "x" * 100 + ".gz"),
    ],
)
def test_download_name_is_one_visible_path_component(suggested: str, name: str) -> None:
    assert safe_name(suggested) == name


def test_observation_text_is_that_of_v0() -> None:
    assert observation_text.after_browsing("http://x/", "", "# T\n") == (
        "[Current URL: http://x/]\n============== BEGIN webpage content ==============\n# T\n\n"
        "============== END webpage content ==============\n"
    )
    assert observation_text.after_browsing("u", "Error: no", "") == (
        "[Current URL: u]\n================ BEGIN error message ===============\n"
        "The following error occurred when trying to visit the URL:\nError: no\n"
        "================ END error message ===============\n"
        "============== BEGIN webpage content ==============\n\n============== END webpage content ==============\n"
    )
    assert observation_text.after_interacting(
        "u", "Error: no", "tree", ["a note"], focused="7", screenshot_path="/p.png"
    ) == (
        "[Current URL: u]\n[Focused element bid: 7]\n[Screenshot saved to: /p.png]\n\n"
        "================ BEGIN error message ===============\n"
        "The following error occurred when executing the last action:\nError: no\n"
        "================ END error message ===============\n[a note]\n"
        "Accessibility tree of the COMPLETE webpage:\n"
        "Note: [bid] is the unique alpha-numeric identifier at the beginning of lines for each element in the AXTree. "
        "Always use bid to refer to elements in your actions.\n"
        "============== BEGIN accessibility tree ==============\ntree\n"
        "============== END accessibility tree ==============\n"
    )
    assert "[Action executed successfully.]\n" in observation_text.after_interacting("u", "", "tree")


def test_long_text_is_truncated_with_a_count() -> None:
    assert observation_text.cut("x" * 200_000) == "x" * 200_000
    assert (
        observation_text.cut("x" * 200_001) == "x" * 200_000 + "\n[... truncated: 1 more characters are not shown ...]"
    )


class Arrived:
    """A download that has arrived in a file of the browser's."""

    def __init__(self, file: Path, name: str = "report.pdf") -> None:
        self.suggested_filename = name
        self._file = file

    async def path(self) -> Path:
        return self._file


async def kept(file: Path, workspace: Path) -> str:
    return await keep_download(cast(Download, Arrived(file)), workspace)


async def test_download_does_not_overwrite_files(tmp_path: Path) -> None:
    for number, name in enumerate(("report.pdf", "report-2.pdf", "report-3.pdf")):
        (tmp_path / "arrived").write_text(str(number))
        path = Path(await kept(tmp_path / "arrived", tmp_path))
        assert (path, path.read_text()) == (tmp_path / FOLDER / name, str(number))
        assert not (tmp_path / "arrived").exists()


async def test_too_large_download_is_removed_and_reported(tmp_path: Path) -> None:
    arrived = tmp_path / "arrived"
    arrived.touch()
    os.truncate(arrived, MAX_FILE_BYTES + 1)
    with pytest.raises(DownloadError, match=f"has {MAX_FILE_BYTES + 1} bytes, and the limit is {MAX_FILE_BYTES}"):
        await kept(arrived, tmp_path)
    assert list(tmp_path.iterdir()) == []


async def test_downloads_leave_nothing_open(tmp_path: Path) -> None:
    async def download() -> None:
        (tmp_path / "arrived").write_text("x")
        os.unlink(await kept(tmp_path / "arrived", tmp_path))

    await leaves_nothing_running(download)
