"""The event log: a row per event, read from both ends, formatted only where it is seen."""

from __future__ import annotations

import pytest
from rich.segment import Segment
from rich.style import Style
from textual.app import App, ComposeResult

from core.events import (
    AgentState,
    AgentStateChangedObservation,
    CmdOutputMetadata,
    CmdOutputObservation,
    CmdRunAction,
    ErrorObservation,
    Event,
    MessageAction,
    TokenDelta,
)
from tests.tui.doubles import StreamDouble
from tui.events import model as module
from tui.events.event_tree import shown_json
from tui.events.model import EventsModel, summarize
from tui.events.view import EventsView


def filled(count: int, *, first: int = 0) -> EventsModel:
    """A model that has taken in the events from `first` on."""
    stream = StreamDouble("c")
    for n in range(count):
        stream.store(MessageAction(content=f"message {n}"))
    model = EventsModel()
    for envelope in stream.events[first:]:
        model.apply(envelope)
    return model


def test_observation_is_under_its_action() -> None:
    stream, model = StreamDouble("c"), EventsModel()
    action = stream.store(CmdRunAction(command="ls"))
    stream.store(CmdOutputObservation(command="ls", content="a\nb", metadata=CmdOutputMetadata(exit_code=2)), cause=0)
    stream.store(CmdRunAction(command="pwd"), cause=1)
    for envelope in stream.events:
        model.apply(envelope)
    assert [(model.shown.guide(n)[0], row.is_action, row.failed, row.summary) for n, row in enumerate(model.rows)] == [
        ("", True, False, "ls"),
        ("└ ", False, True, "exit 2  a …"),
        ("", True, False, "pwd"),
    ]
    assert model.row(action.id) is model.rows[0]


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (MessageAction(content="one\ntwo"), "one …"),
        (AgentStateChangedObservation(agent_state=AgentState.RUNNING), "running"),
        (AgentStateChangedObservation(agent_state=AgentState.ERROR, reason="no key\n"), "error: no key"),
        (CmdOutputObservation(command="x", content=""), "still running"),
        (ErrorObservation(content="bad"), "bad"),
        (MessageAction(content="x" * 10_000), "x" * 239 + "…"),
    ],
)
def test_event_is_summarised_in_one_line(event: Event, line: str) -> None:
    assert summarize(event) == line


def test_known_events_and_frames_are_ignored() -> None:
    model = filled(3)
    version = model.version
    stream = StreamDouble("c")
    model.apply(stream.store(MessageAction(content="again")))
    model.apply_frame(TokenDelta(cause=0, text="x"))
    assert (len(model.rows), model.version) == (3, version)


def test_older_pages_are_prepended_without_gaps() -> None:
    stream = StreamDouble("c")
    for n in range(50):
        stream.store(MessageAction(content=f"message {n}"))
    model = EventsModel()
    for envelope in stream.events[30:]:
        model.apply(envelope)
    assert model.wants_older
    model.prepend(stream.events[10:32])
    model.prepend(stream.events[:10])
    assert [row.id for row in model.rows] == list(range(50))
    assert not model.wants_older


def test_oldest_rows_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROWS", 100)
    model = filled(250)
    assert len(model.rows) <= 100
    assert model.rows[-1].id == 249
    assert model.all.dropped == 250 - len(model.rows)


class LogApp(App[None]):
    """A log and nothing else."""

    def __init__(self, model: EventsModel) -> None:
        super().__init__()
        self.model = model
        self.older = 0

    def compose(self) -> ComposeResult:
        yield EventsView()

    def on_mount(self) -> None:
        view = self.query_one(EventsView)
        view.attach(self.model)
        view.focus()

    def on_events_view_older_wanted(self) -> None:
        self.older += 1

    @property
    def lines(self) -> list[str]:
        view = self.query_one(EventsView)
        return [view.render_line(y).text for y in range(view.size.height)]


async def test_log_follows_end_until_cursor_leaves() -> None:
    model = filled(100)
    app = LogApp(model)
    async with app.run_test(size=(80, 10)) as pilot:
        await pilot.pause()
        assert "message 99" in app.lines[-1]
        await pilot.press("k")
        stream = StreamDouble("c")
        stream.events = [None] * 100  # type: ignore[list-item]
        model.apply(stream.store(MessageAction(content="news")))
        app.query_one(EventsView).sync()
        assert "message 99" in app.lines[-1]
        await pilot.press("G")
        assert "news" in app.lines[-1]


@pytest.mark.parametrize("count", [18, 100])
async def test_log_follows_end_after_view_grows_and_shrinks(count: int) -> None:
    """A question above the prompt takes lines from the log, and gives them back."""
    model = filled(count)
    app = LogApp(model)
    async with app.run_test(size=(80, 15)) as pilot:
        await pilot.pause()
        await pilot.resize_terminal(80, 24)
        await pilot.resize_terminal(80, 15)
        stream = StreamDouble("c")
        stream.events = [None] * count  # type: ignore[list-item]
        model.apply(stream.store(MessageAction(content="news")))
        app.query_one(EventsView).sync()
        assert "news" in app.lines[-1]


async def test_growing_view_does_not_follow_for_reader_above() -> None:
    app = LogApp(filled(30))
    async with app.run_test(size=(80, 15)) as pilot:
        await pilot.press("k", "k")
        await pilot.resize_terminal(80, 40)
        await pilot.resize_terminal(80, 15)
        assert not app.query_one(EventsView).following


async def test_reading_back_requests_page_once_and_keeps_place() -> None:
    model = filled(200, first=100)
    app = LogApp(model)
    async with app.run_test(size=(80, 10)) as pilot:
        await pilot.press("g")
        await pilot.pause()
        assert app.older == 1
        assert "message 100" in app.lines[0]
        stream = StreamDouble("c")
        for n in range(100):
            stream.store(MessageAction(content=f"message {n}"))
        model.prepend(stream.events)
        app.query_one(EventsView).sync()
        await pilot.pause()
        assert "message 100" in app.lines[0]
        assert model.rows[app.query_one(EventsView).cursor].id == 100
        assert app.older == 1


async def test_only_visible_rows_are_formatted(monkeypatch: pytest.MonkeyPatch) -> None:
    app = LogApp(filled(20_000))
    seen: list[int] = []
    original = EventsView._segments

    def counting(self: EventsView, index: int, base: Style) -> list[Segment]:
        seen.append(index)
        return original(self, index, base)

    monkeypatch.setattr(EventsView, "_segments", counting)
    async with app.run_test(size=(80, 10)) as pilot:
        await pilot.pause()
        assert len(set(seen)) <= 20


async def test_hostile_text_is_shown_clean() -> None:
    stream, model = StreamDouble("c"), EventsModel()
    model.apply(stream.store(MessageAction(content="\x1b]52;c;aGk=\x07 \u202e [/red] [@click=app.quit]x[/]")))
    app = LogApp(model)
    async with app.run_test(size=(100, 5)) as pilot:
        await pilot.pause()
        assert "\x1b" not in app.lines[0]
        assert "[/red] [@click=app.quit]x[/]" in app.lines[0]


@pytest.mark.parametrize("width", [8, 20, 40, 56, 200])
async def test_lines_fit_every_width(width: int) -> None:
    app = LogApp(filled(5))
    async with app.run_test(size=(width, 5)) as pilot:
        await pilot.pause()
        view = app.query_one(EventsView)
        assert {view.render_line(y).cell_length for y in range(5)} == {view.width} == {width - 1}


async def test_empty_log_shows_placeholder() -> None:
    app = LogApp(EventsModel())
    async with app.run_test(size=(50, 5)) as pilot:
        await pilot.pause()
        assert "No events yet" in app.lines[0]


def test_shown_json_is_clean_and_bounded() -> None:
    text = shown_json(StreamDouble("c").store(MessageAction(content="\x9b31m" + "x" * 500_000)))
    assert "\x9b" not in text
    assert len(text) < 201_000
    assert text.rstrip().endswith("to see all ...]")
