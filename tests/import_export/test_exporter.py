"""Export: complete files or none, written page by page, readable in every format."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import re
import stat
import tracemalloc
import zipfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from core.errors import UsageError
from core.events import (
    AgentFinishAction,
    CmdRunAction,
    Envelope,
    EventSource,
    LLMMetrics,
    MessageAction,
    envelope_to_dict,
)
from core.import_export import exporter
from core.import_export.asciicast import HEIGHT, WIDTH
from core.import_export.exporter import FORMATS, export
from core.import_export.markdown import code_span, fenced, quoted
from core.store.event_store import EventStore
from core.store.reader import EventReader
from core.terminal import COLUMNS, ROWS
from tests.import_export.conversations import (
    BEGAN_AT,
    HOSTILE,
    HOSTILE_TITLE,
    ORDINARY,
    RECORDING,
    home_with,
    ran,
    recorded,
)
from tui.cli import command_line

TOP = Path(__file__).parents[2]


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[EventStore]:
    async with home_with(tmp_path, ORDINARY, recording=RECORDING) as opened:
        yield opened


async def text_of(home: EventReader, format: str, said: list[str] | None = None) -> str:
    out = io.BytesIO()
    await export(home, "c", format, out, note=(said if said is not None else []).append)
    return out.getvalue().decode()


class TestFiles:
    @pytest.mark.parametrize("format", FORMATS)
    async def test_every_format_is_reproducible_and_private(
        self, format: str, home: EventStore, tmp_path: Path
    ) -> None:
        first, second = tmp_path / "first", tmp_path / "second"
        await export(home, "c", format, first)
        await export(home, "c", format, second)
        assert first.read_bytes() == second.read_bytes() != b""
        assert stat.S_IMODE(first.stat().st_mode) == 0o600
        assert sorted(os.listdir(tmp_path)) == ["first", "home", "second"]

    async def test_failed_export_keeps_the_old_file(
        self, home: EventStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = tmp_path / "there"
        file.write_text("before")
        monkeypatch.setattr(exporter, "PAGE", 3)

        class Breaking(EventReader):
            async def read_json(self, conversation_id: str, *, after: int = -1, **named: Any) -> list[str]:
                if after > 5:
                    raise OSError(28, "No space left on device")
                return await super().read_json(conversation_id, after=after, **named)

        for format in FORMATS:
            async with Breaking(home.home) as reader:
                with pytest.raises(UsageError, match="No space left on device"):
                    await export(reader, "c", format, file)
            assert file.read_text() == "before"
            assert sorted(os.listdir(tmp_path)) == ["home", "there"]

    async def test_cancelling_leaves_no_file(
        self, home: EventStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(exporter, "PAGE", 1)
        reached = asyncio.Event()

        class Telling(EventReader):
            async def read_json(self, conversation_id: str, *, after: int = -1, **named: Any) -> list[str]:
                if after == 4:
                    reached.set()
                    await asyncio.Event().wait()
                return await super().read_json(conversation_id, after=after, **named)

        async with Telling(home.home) as reader:
            exporting = asyncio.create_task(export(reader, "c", "archive", tmp_path / "never"))
            await reached.wait()
            exporting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await exporting
        assert os.listdir(tmp_path) == ["home"]

    async def test_unwritable_destination_is_refused(self, home: EventStore, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="no format word"):
            await export(home, "c", "word", tmp_path / "x")
        with pytest.raises(UsageError, match="no conversation nope"):
            await export(home, "nope", "html", tmp_path / "x")
        with pytest.raises(UsageError, match="it is a folder"):
            await export(home, "c", "html", tmp_path)
        with pytest.raises(UsageError, match="No such file"):
            await export(home, "c", "html", tmp_path / "no" / "x")
        assert os.listdir(tmp_path) == ["home"]

    async def test_link_at_the_destination_is_replaced_and_not_followed(self, home: EventStore, tmp_path: Path) -> None:
        (tmp_path / "precious").write_text("precious")
        (tmp_path / "link").symlink_to(tmp_path / "precious")
        await export(home, "c", "trajectory", tmp_path / "link")
        assert (tmp_path / "precious").read_text() == "precious"
        assert not (tmp_path / "link").is_symlink()

    @pytest.mark.parametrize("format", FORMATS)
    async def test_export_memory_does_not_grow_with_the_conversation(
        self, format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(exporter, "PAGE", 10)
        events = [(ran("yes", "y " * 25_000), EventSource.ENVIRONMENT, None)] * 300
        async with home_with(tmp_path, events) as home:
            tracemalloc.start()
            try:
                await export(home, "c", format, tmp_path / "x")
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
        assert peak < 8_000_000, f"{peak} bytes for 15 MB of events"


class TestTrajectory:
    async def test_trajectory_is_the_list_of_openhands(self, home: EventStore) -> None:
        events = json.loads(await text_of(home, "trajectory"))
        assert [event["id"] for event in events] == list(range(len(ORDINARY)))
        assert events[3]["action"] == "run"
        assert events[3]["args"]["command"] == "pytest -q"
        assert "screenshot" not in events[8]["extras"]

    async def test_conversation_without_events_is_an_empty_list(self, tmp_path: Path) -> None:
        async with home_with(tmp_path, ()) as home:
            assert json.loads(await text_of(home, "trajectory")) == []


class TestArchive:
    @pytest.fixture
    async def archive(self, home: EventStore) -> zipfile.ZipFile:
        out = io.BytesIO()
        await export(home, "c", "archive", out)
        return zipfile.ZipFile(out)

    async def test_archive_description_and_digests_are_correct(self, archive: zipfile.ZipFile) -> None:
        about = json.loads(archive.read("handloom.json"))
        assert (about["format"], about["version"]) == ("handloom-archive", 1)
        assert about["counts"] == {"events": len(ORDINARY), "blobs": 1, "recordings": len(RECORDING)}
        assert about["conversation"]["title"] == "A task"
        assert about["conversation"]["created_at"] == BEGAN_AT.isoformat()
        others = {name for name in archive.namelist() if name != "handloom.json"}
        assert about["sha256"] == {name: hashlib.sha256(archive.read(name)).hexdigest() for name in others}
        assert all(info.date_time == (1980, 1, 1, 0, 0, 0) for info in archive.infolist())

    async def test_unknown_fields_are_written_unchanged(self, tmp_path: Path) -> None:
        carried = {"strange": {"deep": [1, None, "x"]}, "args": {"new_field": True}}
        async with home_with(tmp_path, ()) as home:
            envelope = Envelope(
                conversation_id="d",
                id=0,
                timestamp=BEGAN_AT,
                source=EventSource.USER,
                event=MessageAction(content="x"),
                carried=carried,  # type: ignore[arg-type]
            )
            info = replace((await home.conversations())[0], id="d")
            from core.store.conversations import NewConversation

            await home.adopt(NewConversation("d", info.title, "", "", "import", "file"), [envelope])
            out = io.BytesIO()
            await export(home, "d", "archive", out)
        (line,) = zipfile.ZipFile(out).read("events.jsonl").decode().splitlines()
        assert json.loads(line) == envelope_to_dict(envelope)
        assert json.loads(line)["strange"] == carried["strange"]


class TestAsciicast:
    async def test_cast_has_the_recording_with_joined_characters(self, home: EventStore) -> None:
        said: list[str] = []
        header, *lines = map(json.loads, (await text_of(home, "asciicast", said)).splitlines())
        assert (header["version"], header["width"], header["height"], header["title"]) == (2, 120, 30, "A task")
        assert [line[0] for line in lines] == [0.0, 0.4, 0.7, 0.8, 12.0]
        assert {line[1] for line in lines} == {"o"}
        printed = b"".join(piece.frame.data for piece in RECORDING)
        assert "".join(line[2] for line in lines) == printed.decode()
        assert said == []

    async def test_invalid_bytes_do_not_hide_later_output(self, tmp_path: Path) -> None:
        recording = (
            recorded(0, 1, b"a\xe2\x9c"),
            recorded(0, 2, b"\xff\xfeb"),
            recorded(0, 3, b"\xc3"),
            recorded(1, 4, b"c"),
        )
        events = [(CmdRunAction(command="x"), EventSource.AGENT, None)] * 2
        async with home_with(tmp_path, events, recording=recording) as home:
            _, *lines = map(json.loads, (await text_of(home, "asciicast")).splitlines())
        assert "".join(line[2] for line in lines) == "a���b�c"

    async def test_cast_without_a_recording_has_the_observations(self, tmp_path: Path) -> None:
        said: list[str] = []
        async with home_with(tmp_path, ORDINARY) as home:
            _, *lines = map(json.loads, (await text_of(home, "asciicast", said)).splitlines())
        assert lines[0][2] == "$ pytest -q\r\nF.\r\nE   assert 7 == 6\r\n1 failed, 1 passed in 0.12s\r\n"
        assert len(lines) == 2
        assert "Some of the terminal was not recorded" in said[0]

    def test_every_terminal_size_is_written_to_the_cast(self) -> None:
        assert (COLUMNS, ROWS) == (WIDTH, HEIGHT)
        sources = [path for package in ("core", "runtime", "tui") for path in (TOP / package).rglob("*.py")]
        told = [path.name for path in sources if "/terminal/resize" in path.read_text("utf-8")]
        assert told == ["app.py"], "who asks for another size has to tell it to the recording"

    async def test_cast_times_never_decrease(self, tmp_path: Path) -> None:
        recording = (recorded(0, 5, b"a"), recorded(0, 2, b"b"), recorded(0, 6, b"c"))
        events = [(CmdRunAction(command="x"), EventSource.AGENT, None)]
        async with home_with(tmp_path, events, recording=recording) as home:
            _, *lines = map(json.loads, (await text_of(home, "asciicast")).splitlines())
        assert [line[0] for line in lines] == sorted(line[0] for line in lines)


class TestMarkdown:
    async def test_document_has_messages_actions_and_cost(self, home: EventStore) -> None:
        text = await text_of(home, "markdown")
        assert text.startswith("# A task\n")
        for part in (
            "> The test of `total` fails. **Please** look at it.",
            "▸ `$ pytest -q`",
            "<summary>✕ <code>exit code 1</code></summary>",
            "```diff\n--- a/app.py",
            "](data:image/png;base64,",
            "Models: $0.0500",
        ):
            assert part in text, part
        assert "You are an agent" not in text

    async def test_words_beside_an_action_have_a_heading_that_says_who_speaks(self, tmp_path: Path) -> None:
        said = [
            (MessageAction(content="Look."), EventSource.USER, None),
            (CmdRunAction(command="ls", thought="I look around."), EventSource.AGENT, None),
        ]
        async with home_with(tmp_path, said) as home:
            lines = [line for line in (await text_of(home, "markdown")).splitlines() if line.startswith(("## ", "> "))]
        assert lines == ["## User", "> Look.", "## Agent", "> I look around."]

    async def test_commands_have_the_heading_of_who_ran_them(self, tmp_path: Path) -> None:
        said = [
            (MessageAction(content="Look."), EventSource.USER, None),
            (CmdRunAction(command="ls"), EventSource.AGENT, None),
            (ran("ls", "a"), EventSource.AGENT, 1),
            (CmdRunAction(command="vi a"), EventSource.USER, None),
            (ran("vi a", ""), EventSource.AGENT, 3),
            (CmdRunAction(command="cat a"), EventSource.AGENT, None),
        ]
        async with home_with(tmp_path, said) as home:
            lines = [line for line in (await text_of(home, "markdown")).splitlines() if line.startswith(("## ", "▸"))]
        assert lines == ["## User", "## Agent", "▸ `$ ls`", "## User", "▸ `$ vi a`", "## Agent", "▸ `$ cat a`"]

    @pytest.mark.parametrize("format", ["markdown", "html"])
    async def test_unknown_costs_are_not_shown(self, format: str, tmp_path: Path) -> None:
        said = [(MessageAction(content="Count the <files>"), EventSource.USER, None)]
        async with home_with(tmp_path, said, title="") as home:
            text = await text_of(home, format)
        assert ("# Count the \\<files\\>" if format == "markdown" else "<h1>Count the &lt;files&gt;</h1>") in text
        assert "cost unknown" in text
        assert "$0.00" not in text

    async def test_hostile_text_adds_no_html(self, tmp_path: Path) -> None:
        async with home_with(tmp_path, HOSTILE, title=HOSTILE_TITLE) as home:
            text = await text_of(home, "markdown")
        assert_harmless(text)

    @pytest.mark.parametrize(
        "text", ["", "`", "``", "a ``` b", "````\nx", "~~~", "`" * 50, "\n```\n", "x\r\n```\r\n<b>"]
    )
    def test_text_cannot_close_its_fence_or_code_span(self, text: str) -> None:
        (fence,) = MarkdownIt().parse(fenced(text, "sh"))
        assert fence.type == "fence"
        line = text.replace("\n", " ").replace("\r", "").strip()
        if line:
            (code,) = MarkdownIt().parse(code_span(line))[1].children or []
            assert (code.type, code.content) == ("code_inline", line)

    @pytest.mark.parametrize(
        "text",
        [
            "plain <b>x</b>",
            "```\n<b>x</b>",
            "```\nx\n```\n<b>x</b>",
            "- ```\n<b>x</b>",
            "- a\n  ```\n<b>x</b>\n",
            "   ```\nx\n```\n<b>x</b>",
            "\t```\n```\n<b>x</b>\n```\n<b>",
            "`a\n` <b>x</b> `",
            "# `a\n<b>x</b>` b `",
            "\\`<b>x</b>`",
            "| ` | <b>x</b> | ` |\n|-|-|-|\n| ` | <b>x</b> | ` |",
            "&lt;b&gt; &#60;script&#62; ![a](http://x/y.png) ![a][b]\n\n[b]: http://x/y.png",
            "[a](javascript:x) [a](java&#115;cript:x)",
            "~~~ `\n<b>x</b>\n~~~\n<b>",
            "> ```\n<b>x</b>",
            "````\n```\n````\n<b>x</b>",
            "<!-- \n```\n-->\n<b>x</b>",
        ],
    )
    def test_markup_in_messages_is_escaped(self, text: str) -> None:
        assert_harmless(quoted(text))

    def test_code_in_a_message_stays_code(self) -> None:
        text = "Use `List<int>` and:\n\n```cpp\nstd::vector<int> a;\n```\nbut 1 < 2 & 3 <x>"
        assert quoted(text) == "> " + (
            "Use `List<int>` and:\n\n```cpp\nstd::vector<int> a;\n```\nbut 1 < 2 & 3 &lt;x>"
        ).replace("\n", "\n> ").replace("> \n", ">\n")


OURS = re.compile(r"</?(?:details|summary|code|sub)>|[^<]")


def assert_harmless(text: str) -> None:
    """A Markdown parser finds no HTML but Handloom's own, and nothing that is loaded or run."""
    for kind in ("commonmark", "gfm-like"):
        tokens = list(MarkdownIt(kind, {"linkify": False}).parse(text))
        while tokens:
            token = tokens.pop()
            tokens += token.children or []
            if token.type in ("html_block", "html_inline"):
                assert OURS.sub("", token.content) == "", token.content
            if token.type == "image":
                assert str(token.attrs["src"]).startswith("data:image/"), token
            if token.type == "link_open":
                assert not re.match(r"(?i)\s*(javascript|vbscript|data):", str(token.attrs["href"])), token
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b\x9b]", text)


async def test_every_format_exports_a_finished_task(tmp_path: Path) -> None:
    events = [(AgentFinishAction(final_thought="All done."), EventSource.AGENT, None)]
    async with home_with(tmp_path, events) as home:
        for format in set(FORMATS) - {"archive", "asciicast", "openhands-events"}:
            assert "All done." in await text_of(home, format)


def test_help_lists_every_format() -> None:
    assert tuple(FORMATS) == command_line.FORMATS


async def test_cost_that_is_not_known_is_zero_for_v0(tmp_path: Path) -> None:
    unpriced = MessageAction(content="Hello", llm_metrics=LLMMetrics(accumulated_cost=None))
    async with home_with(tmp_path / "home", [(unpriced, EventSource.AGENT, None)]) as home:
        await export(home, "c", "trajectory", tmp_path / "out.json")
    (event,) = json.loads((tmp_path / "out.json").read_text())
    assert event["llm_metrics"]["accumulated_cost"] == 0.0
