"""Undone turns are one line, however the log is paged."""

from __future__ import annotations

import pytest

from core.events import CmdRunAction, Envelope, MessageAction, UndoAction, UndoObservation
from tests.tui.chat.events import AGENT, ENVIRONMENT, USER, envelope, folded, ran, summaries
from tests.tui.chat.screen import ChatApp, rows, settled
from tui.chat.blocks import Block, Kind, Mark
from tui.chat.model import ChatModel


def turn(first: int, text: str) -> list[Envelope]:
    """A message, a command and its output: three events, two blocks."""
    return [
        envelope(first, MessageAction(content=text), USER),
        envelope(first + 1, CmdRunAction(command=f"do {text}"), AGENT, first),
        envelope(first + 2, ran("x", f"did {text}"), AGENT, first + 1),
    ]


def undo(id: int, first: int, *, redoes: int | None = None, done: bool = True, chat: bool = True) -> list[Envelope]:
    answer = UndoObservation(done=done, why="" if done else "No room.")
    return [
        envelope(id, UndoAction(first=first, redoes=redoes, chat=chat), USER),
        envelope(id + 1, answer, ENVIRONMENT, id),
    ]


ONE, TWO = turn(0, "one"), turn(3, "two")


def shown(model: ChatModel) -> list[str]:
    return [block.title or block.text for block in model.blocks]


def behind(block: Block) -> list[str]:
    return [inner.title or inner.text for inner in block.undone]


def test_undone_turn_is_one_line() -> None:
    model = folded([*ONE, *TWO, *undo(6, 3)])
    assert shown(model) == ["one", "$ do one", "undone: 3 events"]
    line = model.blocks[-1]
    assert (line.kind, line.can_fold, line.folded) == (Kind.UNDONE, True, True)
    assert not any("did two" in piece.text for piece in line.pieces())
    model.toggle(line)
    assert any("did two" in piece.text for piece in line.pieces())
    assert [block.serial for block in model.blocks] == [0, 1, 2]


def test_redo_restores_blocks() -> None:
    model = folded([*ONE, *TWO, *undo(6, 3), *undo(8, 3, redoes=6)])
    assert summaries(model) == summaries(folded([*ONE, *TWO]))
    assert [block.serial for block in model.blocks] == [0, 1, 2, 3]


def test_new_blocks_follow_undone_line() -> None:
    model = folded([*ONE, *TWO, *undo(6, 3), *turn(8, "three")])
    assert shown(model) == ["one", "$ do one", "undone: 3 events", "three", "$ do three"]
    assert [block.serial for block in model.blocks] == [0, 1, 2, 3, 4]


def test_wider_undo_includes_previous_line() -> None:
    log = [*ONE, *TWO, *undo(6, 3), *undo(8, 0)]
    model = folded(log)
    assert shown(model) == ["undone: 8 events"]
    assert behind(model.blocks[0]) == ["one", "$ do one", "undone: 3 events"]
    assert summaries(folded([*log, *undo(10, 0, redoes=8)])) == summaries(folded(log[:8]))


def test_failed_and_file_undo_hide_nothing() -> None:
    model = folded([*ONE, *undo(3, 0, done=False)])
    assert summaries(model)[2:] == [(Kind.NOTE, "Undo failed", "", Mark.FAILED, "No room.")]
    assert shown(folded([*ONE, *undo(3, 0, chat=False)])) == ["one", "$ do one"]


LOGS = {
    "undone": [*ONE, *TWO, *undo(6, 3), *turn(8, "three")],
    "had again": [*ONE, *TWO, *undo(6, 3), *undo(8, 3, redoes=6), *turn(10, "three")],
    "twice": [*ONE, *TWO, *undo(6, 3), *undo(8, 0), *turn(10, "three")],
    "twice, one had again": [*ONE, *TWO, *undo(6, 3), *undo(8, 0), *undo(10, 0, redoes=8), *turn(12, "three")],
    "not done": [*ONE, *TWO, *undo(6, 3, done=False), *turn(8, "three")],
}


@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS)
def test_undo_is_same_for_any_page_size(log: list[Envelope]) -> None:
    whole = folded(log)
    for size in range(1, len(log)):
        model, rest = folded(log[-size:]), log[:-size]
        while rest:
            model.prepend(rest[-size:])
            rest = rest[:-size]
        assert shown(model) == shown(whole), size
        assert list(map(behind, model.blocks)) == list(map(behind, whole.blocks)), size
        serials = [block.serial for block in model.blocks]
        assert serials == list(range(serials[0], serials[0] + len(serials))), size


def test_live_redo_restores_older_pages() -> None:
    log = LOGS["undone"][:8]
    for size in range(1, len(log)):
        model, rest = folded(log[-size:]), log[:-size]
        while rest:
            model.prepend(rest[-size:])
            rest = rest[:-size]
        for item in undo(8, 3, redoes=6):
            model.apply(item)
        assert shown(model) == ["one", "$ do one", "two", "$ do two"], size


async def test_undo_and_redo_draw_like_fresh_view() -> None:
    log = [*ONE, *TWO, *undo(6, 3), *undo(8, 3, redoes=6), *undo(10, 0), *turn(12, "three")]
    model = folded(log[:6])
    async with ChatApp(model).run_test(size=(60, 20)) as pilot:
        app = pilot.app
        assert isinstance(app, ChatApp)
        await settled(pilot, app.view)
        app.view.action_move_cursor(-1)  # a cursor on a block that goes away
        for item in log[6:]:
            model.apply(item)
            await settled(pilot, app.view)
            async with ChatApp(folded(log[: item.id + 1])).run_test(size=(60, 20)) as fresh:
                assert isinstance(fresh.app, ChatApp)
                await settled(fresh, fresh.app.view)
                expected = [row.lstrip("▎▌ ") for row in rows(fresh.app.view)]
            assert [row.lstrip("▎▌ ") for row in rows(app.view)] == expected, item.id
        app.view.action_move_cursor(-1)
        app.view.action_fold()


async def test_undo_of_unseen_blocks_leaves_no_negative_count() -> None:
    model = folded([event for number in range(20) for event in turn(3 * number, f"t{number}")])
    async with ChatApp(model).run_test(size=(60, 12)) as pilot:
        app = pilot.app
        assert isinstance(app, ChatApp)
        await settled(pilot, app.view)
        app.view.action_go("page_up")
        for item in undo(60, 30):
            model.apply(item)
        await settled(pilot, app.view)
        app.view.action_go("home")
        await settled(pilot, app.view)
        assert app.view.unseen == 0
        assert "new" not in rows(app.view)[-1]
        for item in turn(62, "after"):
            model.apply(item)
        await settled(pilot, app.view)
        assert app.view.unseen == 2
        assert "↓ 2 new" in rows(app.view)[-1]
