"""Finding text in the transcript: the hits, where they are shown, and the cost."""

from __future__ import annotations

import random

import pytest
from textual.pilot import Pilot

from core.events import AgentThinkAction, CmdRunAction, FileEditAction, FileEditObservation, MessageAction
from tests.tui.chat.events import conversation, envelope, folded, ran
from tests.tui.chat.screen import ChatApp, CountingView, dialogue, rows, say, settled, showing, with_output
from tests.tui.chat.test_reverted_turns import turn, undo
from tui.chat.chat_search import BlockSearch, Hit
from tui.chat.model import ChatModel
from tui.chat.view import ChatView
from tui.find.pane_search import Query, Tally


def query(text: str) -> Query:
    found = Query.parse(text)
    assert found is not None
    return found


def searched(model: ChatModel, text: str) -> BlockSearch:
    """A search that has gone through everything."""
    search = BlockSearch(model, query(text))
    search.work(float("inf"))
    return search


async def found(pilot: Pilot[None], view: CountingView, text: str) -> Tally:
    """Search, and wait until the search is through."""
    view.find(query(text))
    while view.tally.searching:
        await pilot.pause()
    await settled(pilot, view)
    return view.tally


def marked(view: ChatView, role: str) -> list[str]:
    """What in sight is drawn on the ground of a role."""
    ground = view.styles_used[role].bgcolor
    strips = [view.render_line(y) for y in range(view.size.height)]
    return [part.text for strip in strips for part in strip if part.style is not None and part.style.bgcolor == ground]


@pytest.mark.parametrize(
    ("text", "count"),
    [("loom", 3), ("Loom", 1), ("LOOM", 1), ("the  loom", 2), ("(x)", 1), ("loom\nthe", 1), ("[a-z]", 0)],
)
def test_query_is_smart_case_and_ignores_blank_kinds(text: str, count: int) -> None:
    assert query(text).count("Loom\nthe LOOM, f(x), the\n  loom") == count


def test_blank_query_is_none() -> None:
    assert Query.parse("") is None
    assert Query.parse("  ") is None


def test_hits_wrap_around_and_are_numbered() -> None:
    model = dialogue(10)
    search = searched(model, "line 1")
    hits = [Hit(1, 0)]
    for _ in range(search.total):
        after = search.neighbour(hits[-1], 1)
        assert after is not None
        assert search.neighbour(after, -1) == hits[-1]
        hits.append(after)
    assert hits[0] == hits[-1]
    assert [search.number(hit) for hit in hits[:-1]] == list(range(1, search.total + 1))
    assert search.nearest(0) == Hit(1, 0)
    assert search.nearest(99) == Hit(9, 0)


@pytest.mark.parametrize("seed", range(4))
def test_blocks_added_during_search_are_found(seed: int) -> None:
    generator = random.Random(seed)
    model = dialogue(300, first=300)
    search = BlockSearch(model, query("line 2"))
    oldest, newest = 300, 600
    for _ in range(60):
        match generator.randrange(3):
            case 0:
                say(model, newest, "line 2, line 2")
                newest += 1
            case 1 if oldest:
                page = [envelope(n, MessageAction(content=f"old line {n % 4}")) for n in range(oldest - 10, oldest)]
                model.prepend(page)
                oldest -= 10
            case _:
                search.work(0)
    search.work(float("inf"))
    assert search.total == searched(model, "line 2").total
    assert search.serials == searched(model, "line 2").serials


async def test_search_starts_at_nearest_hit() -> None:
    async with showing(dialogue(100)) as (app, pilot):
        assert await found(pilot, app.view, "message 98 line 1") == Tally(1, 1)
        assert marked(app.view, "hit-here") == ["message 98 line 1"]
        tally = await found(pilot, app.view, "MESSAGE 4 line 1".lower())
        assert tally == Tally(1, 1)
        assert any("message 4 line 1" in row for row in rows(app.view))
        assert marked(app.view, "hit-here") == ["message 4 line 1"]


async def test_each_letter_searches_from_start_position() -> None:
    async with showing(dialogue(100)) as (app, pilot):
        app.view.go_to_row(app.view.virtual_size.height // 2)
        await found(pilot, app.view, "message 2")
        assert app.view.hit is not None
        assert app.view.hit.serial < 30
        await found(pilot, app.view, "message")
        assert app.view.hit is not None
        assert app.view.hit.serial > 40


async def test_n_keys_step_through_marked_hits() -> None:
    async with showing(dialogue(100)) as (app, pilot):
        app.view.focus()
        first = await found(pilot, app.view, "line 4")
        assert first.total == 20
        await pilot.press("n")
        assert app.view.tally.here == first.here % 20 + 1
        await pilot.press("N", "N")
        assert app.view.tally.here == (first.here - 2) % 20 + 1
        assert marked(app.view, "hit-here") == ["line 4"]
        assert len(marked(app.view, "hit")) == sum("line 4" in row for row in rows(app.view)) - 1
        app.view.find(None)
        await pilot.press("n")
        assert not marked(app.view, "hit-here") + marked(app.view, "hit")


async def test_folded_hit_unfolds_block() -> None:
    model = with_output(200)
    model.apply(envelope(6, AgentThinkAction(thought="Hm.\n\nA needle in my thoughts.")))
    async with showing(model) as (app, pilot):
        await found(pilot, app.view, "output 77")
        assert marked(app.view, "hit-here") == ["output 77"]
        assert not model.blocks[4].folded
        await found(pilot, app.view, "needle")
        assert marked(app.view, "hit-here") == ["needle"]


async def test_title_hit_keeps_block_folded() -> None:
    model = with_output(200)
    async with showing(model) as (app, pilot):
        await found(pilot, app.view, "$ make")
        assert marked(app.view, "hit-here") == ["$ make"]
        assert model.blocks[4].folded


async def test_wrapped_hit_is_marked_on_both_rows() -> None:
    model = ChatModel()
    say(model, 0, "word " * 30 + "left right " + "word " * 30)
    app = ChatApp(model)
    for width in range(30, 50, 4):
        async with app.run_test(size=(width, 20)) as pilot:
            assert await found(pilot, app.view, "left right") == Tally(1, 1)
            assert "".join(marked(app.view, "hit-here")).split() in (["left", "right"], ["leftright"])
            app.view.find(None)
        app = ChatApp(model)


@pytest.mark.parametrize("width", [80, 160])
async def test_hit_in_diff_excludes_gutter(width: int) -> None:
    old = "\n".join(f"value {n} = one" for n in range(400))
    edit = FileEditObservation(path="a.txt", old_content=old, new_content=old.replace("one", "two"))
    async with showing(folded(conversation(FileEditAction(path="a.txt"), (edit, 0))), (width, 30)) as (app, pilot):
        assert (await found(pilot, app.view, "value 321 = two")).total == 1
        assert "".join(marked(app.view, "hit-here")) == "value 321 = two"


async def test_scrollbar_marks_hits() -> None:
    model = dialogue(200)
    for event_id in (200, 201):
        say(model, event_id, "needle")
    async with showing(model) as (app, pilot):
        await found(pilot, app.view, "needle")
        assert app.view._hit_cells(24) == {23}
        await found(pilot, app.view, "message 0 line 0")
        assert app.view._hit_cells(24) == {0}
        bar = app.view.vertical_scrollbar
        lines = ["".join(segment.text for segment in bar.render_line(y)) for y in range(24)]
        assert [y for y, line in enumerate(lines) if "━" in line] == [0]


async def test_scrollbar_marks_hit_inside_long_block() -> None:
    output = "\n".join("needle" if n == 500 else f"line {n}" for n in range(1000))
    model = folded(conversation(CmdRunAction(command="x"), (ran("x", output), 0)))
    async with showing(model) as (app, pilot):
        model.toggle(model.blocks[0])
        await settled(pilot, app.view)
        await found(pilot, app.view, "needle")
        (cell, *more) = sorted(app.view._hit_cells(24))
        assert cell in (11, 12)
        assert len(more) <= 1


async def test_new_result_is_searched_and_marked() -> None:
    log = conversation(CmdRunAction(command="echo needle"), (ran("x", "\n" * 30 + "needle", 1), 0))
    model = folded(log[:1])
    async with showing(model) as (app, pilot):
        assert (await found(pilot, app.view, "needle")).total == 1
        assert app.view._hit_cells(24) == {0}
        model.apply(log[1])
        await settled(pilot, app.view)
        assert app.view.tally.total == 2
        assert app.view._hit_cells(24) == {0, 22}


async def test_new_message_is_searched() -> None:
    model = dialogue(20)
    async with showing(model) as (app, pilot):
        assert (await found(pilot, app.view, "needle")) == Tally()
        app.view.action_go("home")
        say(model, 20, "a needle")
        await settled(pilot, app.view)
        assert app.view.tally == Tally(0, 1), "the reader is not taken away"
        app.view.go_to_hit(1)
        assert app.view.tally == Tally(1, 1)


async def test_stepping_before_first_hit_loads_older_events() -> None:
    model = dialogue(40, first=40)
    async with showing(model) as (app, pilot):
        tally = await found(pilot, app.view, "message 50 line 0")
        assert "earlier events are not loaded" in str(tally)
        app.messages.clear()
        app.view.go_to_hit(-1)
        await pilot.pause()
        assert [type(message) for message in app.messages] == [ChatView.OlderWanted]
        model.prepend([envelope(n, MessageAction(content=f"message 50 line 0, before {n}")) for n in range(40)])
        await settled(pilot, app.view)
        assert any("before 39" in row for row in rows(app.view))
        assert app.view.tally == Tally(40, 41)


async def test_pages_are_loaded_until_hit() -> None:
    model = dialogue(10, first=90)
    async with showing(model) as (app, pilot):
        assert (await found(pilot, app.view, "needle")).total == 0
        app.view.go_to_hit(-1)
        for first in (80, 70, 60):
            await pilot.pause()
            assert [type(message) for message in app.messages] == [ChatView.OlderWanted]
            assert app.view.tally.searching
            app.messages.clear()
            text = "a needle" if first == 60 else "hay"
            model.prepend([envelope(n, MessageAction(content=f"{text} {n}")) for n in range(first, first + 10)])
            await settled(pilot, app.view)
        assert app.view.tally == Tally(10, 10, False, app.view.tally.note)
        assert any("a needle 69" in row for row in rows(app.view))


async def test_search_stops_at_first_event() -> None:
    model = dialogue(10, first=10)
    async with showing(model) as (app, pilot):
        await found(pilot, app.view, "message 12 line 0")
        app.view.go_to_hit(-1)
        model.prepend([envelope(n, MessageAction(content="hay")) for n in range(10)])
        await settled(pilot, app.view)
        assert app.view.tally == Tally(1, 1)


async def test_search_continues_in_another_conversation() -> None:
    other = dialogue(3)
    say(other, 3, "a needle, and a needle")
    async with showing(dialogue(20)) as (app, pilot):
        assert (await found(pilot, app.view, "needle")).total == 0
        app.view.attach(other)
        await settled(pilot, app.view)
        assert app.view.tally.total == 2


async def test_undo_and_redo_begin_the_search_again() -> None:
    model = folded([*turn(0, "loom"), *turn(3, "loom"), *turn(6, "loom")])
    async with showing(model) as (app, pilot):
        view = app.view
        before = (await found(pilot, view, "loom")).total
        totals = []
        for happens in (undo(9, 3), undo(11, 3, redoes=9)):
            view.go_to_hit(-1)  # to a block that is gone next
            for event in happens:
                model.apply(event)
            assert view._hit_cells(24) == set(), "they are not known yet"
            await settled(pilot, view)
            totals.append(view.tally.total)
            assert view._hit_cells(24)
            view.go_to_hit(1)
            assert view.tally.here
        assert totals[0] < before == totals[1]


async def test_long_conversation_is_searched_in_slices() -> None:
    async with showing(dialogue(20_000)) as (app, pilot):
        assert app.view.renderer is not None
        app.view.find(query("message"))
        assert app.view.tally.searching, "the first portion is not all"
        while app.view.tally.searching:
            await pilot.pause()
        assert app.view.tally.total == 60_000
        before = app.view.renderer.renders
        app.view.go_to_hit(1)
        app.view._hit_cells(24)
        assert app.view.renderer.renders - before < 30
