"""A log written by a newer version is exported and replayed; unknown parts are shown as such."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from core.events import Envelope, UnknownAction, UnknownObservation
from core.import_export.exporter import FORMATS, export
from core.replay.timeline import Timeline
from core.store.reader import EventReader
from tests.tapes import Tape
from tui.chat.model import ChatModel
from tui.terminal.model import TerminalModel

UNKNOWN = (
    UnknownAction(raw={"action": "dance", "args": {"step": "left"}, "message": "I dance"}),
    UnknownAction(raw={"action": "sing", "args": {}}),
    UnknownObservation(raw={"observation": "weather", "content": "sunny", "extras": {"degrees": 21}}),
    UnknownObservation(raw={"observation": "applause"}),
)


def tape() -> Tape:
    made = Tape()
    made.say("Go on, please")
    for event in UNKNOWN:
        made.add(event)
    made.run("echo one", "one\n")
    return made


@pytest.mark.parametrize("format", FORMATS)
async def test_every_format_exports_unknown_events(format: str, tmp_path: Path) -> None:
    await tape().keep(tmp_path)
    out, said = io.BytesIO(), list[str]()
    async with EventReader(tmp_path) as reader:
        await export(reader, tape().id, format, out, note=said.append)
    assert out.tell() > 0
    if format in ("html", "markdown"):
        for kind in ("dance", "sing", "weather", "applause"):
            assert f"unknown event {kind}" in out.getvalue().decode()


async def test_unknown_events_are_replayed(tmp_path: Path) -> None:
    made = tape()
    await made.keep(tmp_path)
    async with EventReader(tmp_path) as reader:
        timeline = Timeline(reader, made.id)
        await timeline.open()
        for target in range(timeline.count):
            assert (await timeline.state_at(target)) is not None


def test_panes_show_unknown_events() -> None:
    chat, terminal = ChatModel(), TerminalModel()
    for each in tape().lived:
        for pane in (chat, terminal):
            pane.apply(each) if isinstance(each, Envelope) else pane.apply_frame(each)
    titles = [block.title for block in chat.blocks]
    assert "unknown event dance I dance" in titles
