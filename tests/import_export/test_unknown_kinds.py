"""A log that a newer version wrote is exported and played; what is unknown in it is shown as such."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from core.events import Envelope, UnknownAction, UnknownObservation
from core.import_export.document_text import describe
from core.import_export.exporter import export
from core.import_export.formats import FORMATS
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
async def test_every_format_takes_it_and_readable_ones_name_the_kind(format: str, tmp_path: Path) -> None:
    await tape().keep(tmp_path)
    out, said = io.BytesIO(), list[str]()
    async with EventReader(tmp_path) as reader:
        await export(reader, tape().id, format, out, note=said.append)
    assert out.tell() > 0
    if format in ("html", "markdown"):
        for kind in ("dance", "sing", "weather", "applause"):
            assert f"unknown event {kind}" in out.getvalue().decode()


async def test_it_is_played_from_everywhere(tmp_path: Path) -> None:
    made = tape()
    await made.keep(tmp_path)
    async with EventReader(tmp_path) as reader:
        timeline = Timeline(reader, made.id)
        await timeline.open()
        for target in range(timeline.count):
            assert (await timeline.state_at(target)) is not None


def test_the_panes_take_it() -> None:
    chat, terminal = ChatModel(), TerminalModel()
    for each in tape().lived:
        for pane in (chat, terminal):
            pane.apply(each) if isinstance(each, Envelope) else pane.apply_frame(each)
    titles = [block.title for block in chat.blocks]
    assert "unknown event dance I dance" in titles


@pytest.mark.parametrize("event", UNKNOWN, ids=lambda event: str(event.raw))
def test_it_has_a_name_in_words(event: UnknownAction | UnknownObservation) -> None:
    (envelope,) = [each for each in tape().lived if getattr(each, "event", None) == event]
    assert describe(envelope).title.startswith("unknown event ")  # type: ignore[arg-type]
