"""The event log as the user works with it: filtered, gone through by cause, copied."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.events import Key
from textual.widgets import Input

from core.events import (
    AgentThinkAction,
    CmdOutputMetadata,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    ErrorObservation,
    EventSource,
    MessageAction,
    RecallAction,
    RecallObservation,
    RecallType,
    UnknownAction,
)
from core.store.reader import EventFilter
from tests.tui.doubles import SessionDouble, StreamDouble
from tests.tui.workspace.running_app import Running, running
from tui.events import model as model_module
from tui.events.event_filter import parse
from tui.events.model import EventsModel, Row


def commands(stream: StreamDouble, count: int) -> None:
    """Store commands with their results; every third fails."""
    for n in range(count):
        action = stream.store(CmdRunAction(command=f"make {n}"))
        result = CmdOutputObservation(
            command=f"make {n}", content=f"said {n}\nsecond {n}", metadata=CmdOutputMetadata(exit_code=2 * (n % 3 == 0))
        )
        stream.store(result, EventSource.ENVIRONMENT, action.id)


def shape(model: EventsModel) -> list[tuple[Row, str]]:
    """The rows and the lines that lead to them."""
    return [(row, model.shown.guide(n)[0]) for n, row in enumerate(model.rows)]


def fed(events: Sequence[Envelope], live_from: int, page: int, query: str = "") -> EventsModel:
    """A model to which the newest events came live and the older ones by page."""
    model = EventsModel()
    if query:
        model.set_filter(parse(query))
    for envelope in events[live_from:]:
        model.apply(envelope)
    while live_from > 0:
        model.prepend(events[max(0, live_from - page) : live_from])
        live_from -= page
    return model


@given(st.integers(0, 40), st.integers(1, 15), st.sampled_from(["", "failed", 'exit=0 text~"SECOND 1"'.lower()]))
def test_rows_are_same_live_and_by_page(live_from: int, page: int, query: str) -> None:
    stream = StreamDouble("c")
    commands(stream, 20)
    live_from = min(live_from, len(stream.events) - 1)
    assert shape(fed(stream.events, live_from, page, query)) == shape(fed(stream.events, 0, 1, query))


def test_effects_are_under_causes_but_decisions_are_not() -> None:
    stream = StreamDouble("c")
    stream.store(MessageAction(content="hello"), EventSource.USER)
    stream.store(RecallAction(recall_type=RecallType.WORKSPACE_CONTEXT, query="x"), EventSource.USER, 0)
    stream.store(RecallObservation(recall_type=RecallType.WORKSPACE_CONTEXT), EventSource.ENVIRONMENT, 1)
    stream.store(ErrorObservation(content="no model"), EventSource.ENVIRONMENT, 0)
    stream.store(AgentThinkAction(thought="so"), EventSource.AGENT, 3)
    model = fed(stream.events, 0, 1)
    assert [guide for _, guide in shape(model)] == ["", "├ ", "│ └ ", "└ ", ""]


def test_row_names_distant_cause() -> None:
    stream = StreamDouble("c")
    stream.store(CmdRunAction(command="sleep 9"))
    stream.store(MessageAction(content="and then?"), EventSource.USER)
    stream.store(CmdOutputObservation(command="sleep 9", content=""), EventSource.ENVIRONMENT, 0)
    model = fed(stream.events, 0, 1)
    assert model.shown.guide(2) == ("└ ", False)
    model.set_filter(parse("observation"))
    assert model.shown.guide(0) == ("└ ", False)


def test_unknown_kind_is_a_row() -> None:
    stream = StreamDouble("c")
    stream.store(UnknownAction(raw={"action": "dance", "args": {"step": "left"}, "message": "I dance"}))
    model = fed(stream.events, 0, 1, "type:dance text~left")
    assert [row.kind for row in model.rows] == ["dance"]


async def test_filter_searches_stored_and_new_events() -> None:
    stream, model = StreamDouble("c"), EventsModel()
    commands(stream, 1_000)
    for envelope in stream.events[-100:]:
        model.apply(envelope)
    model.set_filter(parse('failed text~"second 3"'))
    searched: list[int] = []
    await model.search(stream, lambda: searched.append(model.searched))
    expected = [n for n in range(0, 1_000, 3) if str(n).startswith("3")]
    assert [row.summary for row in model.rows] == [f"exit 2  said {n} …" for n in expected]
    assert searched == sorted(searched, reverse=True)
    assert len(searched) > 3
    assert not model.is_searching
    stream.store(CmdOutputObservation(command="x", content="second 3", metadata=CmdOutputMetadata(exit_code=1)))
    model.apply(stream.events[-1])
    assert model.rows[-1].id == 2_000


async def test_search_reads_only_possible_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_module, "MAX_PAGE", 50)
    stream, model = StreamDouble("c"), EventsModel()
    for n in range(5_000):
        stream.store(MessageAction(content=str(n)), EventSource.USER if n % 1_000 == 0 else EventSource.AGENT)
    for envelope in stream.events[-10:]:
        model.apply(envelope)
    model.set_filter(parse("source:user id>500"))
    await model.search(stream, lambda: None)
    assert [row.id for row in model.rows] == [1_000, 2_000, 3_000, 4_000]
    assert stream.reads == 1


async def test_search_ends_when_filter_changes() -> None:
    stream, model = StreamDouble("c"), EventsModel()
    commands(stream, 1_000)
    for envelope in stream.events[-10:]:
        model.apply(envelope)
    model.set_filter(parse("said"))
    await model.search(stream, lambda: model.set_filter(None))
    assert stream.reads == 1


class SlowStream(StreamDouble):
    """A stream during whose reads the user types another filter."""

    def __init__(self, model: EventsModel) -> None:
        super().__init__("c")
        self._model = model

    async def page(
        self, *, before: int | None = None, limit: int = 100, where: EventFilter | None = None
    ) -> list[Envelope]:
        page = await super().page(before=before, limit=limit, where=where)
        self._model.set_filter(parse("said"))
        return page


async def test_page_of_previous_filter_is_ignored() -> None:
    model = EventsModel()
    stream = SlowStream(model)
    commands(stream, 1_000)
    for envelope in stream.events[-10:]:
        model.apply(envelope)
    model.set_filter(parse("type:message"))
    await model.search(stream, lambda: None)
    assert model.searched == 2_000


def test_page_that_leaves_gap_is_ignored() -> None:
    stream = StreamDouble("c")
    commands(stream, 20)
    model = fed(stream.events[:30], 20, 50)
    model.all.drop(25)
    model.prepend(stream.events[5:15])
    assert [row.id for row in model.rows] == list(range(25, 30))


# -- on the screen -----------------------------------------------------------------------------------------------------


async def filled(it: Running, count: int = 200) -> SessionDouble:
    """A conversation with many events, of which the last page is loaded, and the log in front."""
    session = it.manager.add()
    commands(session.stream, count)
    await it.app.tabs.add(session)  # type: ignore[arg-type]
    await it.press("f3")
    return session


async def test_filter_is_applied_shown_in_title_and_cleared() -> None:
    async with running(size=(160, 40)) as it:
        await filled(it)
        await it.press("slash", *"exit!=0", "enter")
        view = it.app.workspace.events_view
        assert it.app.focused is view
        assert len(it.app.tabs.current.events.rows) == 67  # type: ignore[union-attr]
        assert "exit!=0 · 67" in it.screen_text()
        assert "exit 0" not in it.screen_text()
        await it.press("escape")
        assert "exit!=0 · 67" not in it.screen_text()
        assert it.app.focused is view
        assert "exit 0" in it.screen_text()


async def test_keys_right_after_slash_are_typed() -> None:
    async with running(size=(160, 40)) as it:
        await filled(it)
        for key in "/failed":
            it.app.post_message(Key("slash" if key == "/" else key, key))
        await it.settle()
        assert it.app.workspace.filter_bar.query_one(Input).value == "failed"


async def test_wrong_filter_stays_open_with_error() -> None:
    async with running(size=(160, 40)) as it:
        await filled(it)
        await it.press("slash", *"failed sorce=x", "enter")
        assert "Column 8: Unknown field sorce." in it.screen_text()
        assert it.app.workspace.filter_bar.is_open
        assert it.app.tabs.current.events.filter is None  # type: ignore[union-attr]
        await it.press("escape")
        assert it.app.focused is it.app.workspace.events_view
        assert not it.app.workspace.filter_bar.display


async def test_tab_completes_and_up_recalls_filter() -> None:
    async with running(size=(160, 40)) as it:
        await filled(it)
        await it.press("slash", *"ty", "tab", *"run_", "tab", "enter")
        assert str(it.app.tabs.current.events.filter) == "type=run_ipython"  # type: ignore[union-attr]
        assert "No events match." in it.screen_text()
        await it.press("escape", "slash", "up", "enter")
        assert str(it.app.tabs.current.events.filter) == "type=run_ipython"  # type: ignore[union-attr]


async def test_escape_clears_filter_before_stopping_agent() -> None:
    async with running(size=(160, 40)) as it:
        session = await filled(it)
        await session.resume()
        await it.settle()
        await it.press("slash", *"failed", "enter", "escape")
        assert it.app.tabs.current.events.filter is None  # type: ignore[union-attr]
        assert ("interrupt",) not in session.wishes
        await it.press("escape")
        assert ("interrupt",) in session.wishes


async def test_cursor_stays_on_event_when_filter_changes() -> None:
    async with running(size=(160, 40)) as it:
        await filled(it)
        view = it.app.workspace.events_view
        view.go_to(361)
        await it.press("slash", *"failed", "enter")
        assert view.row is not None
        assert view.row.id == 361
        await it.press("escape")
        assert view.row.id == 361


async def test_o_jumps_between_action_and_result() -> None:
    async with running(size=(160, 40)) as it:
        await filled(it)
        view = it.app.workspace.events_view
        view.go_to(351)
        await it.press("o")
        assert view.row is not None
        assert view.row.id == 350
        await it.press("o")
        assert view.row.id == 351


async def test_o_without_result_says_so() -> None:
    async with running(size=(160, 40)) as it:
        session = await filled(it, 2)
        await session.stream.append_by_agent(CmdRunAction(command="sleep 9"))
        await it.settle()
        await it.press("end", "o")
        assert "It has no result yet." in it.screen_text()


async def test_go_to_event_reads_back() -> None:
    async with running(size=(160, 40)) as it:
        await filled(it, 500)
        await it.press("slash", *"failed", "enter")
        await it.press("ctrl+x", "#", *"12", "enter")
        view = it.app.workspace.events_view
        assert view.row is not None
        assert view.row.id == 12
        assert "make 6" in it.screen_text()
        await it.press("ctrl+x", "#", *"9999", "enter")
        assert "Enter a number from 0 to 999." in it.screen_text()


async def test_log_and_chat_do_not_duplicate_rows() -> None:
    async with running(size=(160, 40)) as it:
        await filled(it, 300)
        tab = it.app.tabs.current
        assert tab is not None
        await tab.read_log_back()
        await tab.read_back()
        await tab.read_back()
        assert [row.id for row in tab.events.rows] == list(range(300, 600))


async def test_c_copies_event_as_stored() -> None:
    async with running(size=(160, 40)) as it:
        await filled(it)
        it.app.workspace.events_view.go_to(350)
        await it.press("c")
        copied = json.loads(it.app.clipboard)
        assert (copied["id"], copied["args"]["command"]) == (350, "make 175")
        assert "Copied event 350 as JSON" in it.screen_text()
