"""The transcript works at any size, length and theme, with any content in any order."""

from __future__ import annotations

import random

import pytest

from core.events import (
    CmdOutputMetadata,
    CmdOutputObservation,
    CmdRunAction,
    EventSource,
    FileEditObservation,
    Status,
    TokenDelta,
)
from tests.tui.chat.events import envelope, folded
from tests.tui.chat.screen import ChatApp, dialogue, rows, say, settled, showing, with_output
from tui.chat.model import ChatModel
from tui.chat.view import ChatView, Where
from tui.find.pane_search import Query

SIZE = (80, 24)
GOING: tuple[Where, ...] = ("line_up", "line_down", "page_up", "page_down", "end", "end")


async def test_100_000_blocks_draw_only_visible_rows() -> None:
    async with showing(dialogue(100_000)) as (app, pilot):
        await settled(pilot, app.view)
        for row in (0, 50_000, 123_456):
            app.view.go_to_row(row)
        await pilot.pause()
        assert app.view.renderer is not None
        assert app.view.renderer.renders < 200


async def test_unfolded_10_mb_line_is_cut() -> None:
    model = ChatModel()
    model.apply(envelope(0, CmdRunAction(command="x")))
    huge = CmdOutputObservation(command="x", content="A" * 10_000_000, metadata=CmdOutputMetadata(exit_code=0))
    model.apply(envelope(1, huge, EventSource.AGENT, 0))
    model.toggle(model.blocks[0])
    async with showing(model) as (app, _):
        assert app.view.virtual_size.height < 500
        assert any("more characters" in row for row in rows(app.view))


async def test_any_terminal_size_works() -> None:
    model = with_output(100)
    say(model, 6, "| a | b |\n|---|---|\n| 漢字 | long words here |\n\n- x\n\n```py\nx = '漢字'\n```")
    app = ChatApp(model)
    sizes = [(1, 1), (500, 200), (2, 3), (3, 50), (7, 2), (80, 24)]
    generator = random.Random(1)
    sizes += [(generator.randint(1, 200), generator.randint(1, 60)) for _ in range(30)]
    async with app.run_test(size=SIZE) as pilot:
        for size in [*sizes, SIZE]:
            await pilot.resize_terminal(*size)
            width, height = app.view.scrollable_content_region.size
            for y in range(height if width else 0):
                assert app.view.render_line(y).cell_length == width
        assert any("long words here" in row for row in rows(app.view))


async def test_resize_keeps_top_row() -> None:
    async with showing(dialogue(200)) as (app, pilot):
        app.view.action_go("page_up")
        app.view.action_go("page_up")
        top = next(row for row in rows(app.view) if row)
        await pilot.resize_terminal(50, 20)
        assert top.strip() in [row.strip() for row in rows(app.view)][:2]


@pytest.mark.parametrize("theme", ["textual-light", "nord", "ansi-dark"])
async def test_theme_change_redraws_everything(theme: str) -> None:
    async with showing(with_output(3)) as (app, pilot):
        text, styles = rows(app.view), [segment.style for segment in app.view.render_line(0)]
        app.theme = theme
        await pilot.pause()
        await settled(pilot, app.view)
        assert rows(app.view) == text
        assert [segment.style for segment in app.view.render_line(0)] != styles


async def test_16_colours_show_diffs_and_hits_without_tints() -> None:
    old = "\n".join(f"value {n} = one" for n in range(3))
    edit = FileEditObservation(path="a.txt", old_content=old, new_content=old.replace("1 = one", "1 = two"))
    async with showing(folded([envelope(0, edit, EventSource.AGENT, 9)])) as (app, pilot):
        app.theme = "ansi-dark"
        await pilot.pause()
        await settled(pilot, app.view)
        app.view.find(Query.parse("value"))
        await settled(pilot, app.view)
        parts = [part for y in range(SIZE[1]) for part in app.view.render_line(y) if part.style is not None]
        styles = {part.text.strip(): part.style for part in parts if part.style is not None}
        for sign in "+-":
            background = styles[sign].bgcolor
            assert background is None or background.is_default
        assert styles["two"].underline
        assert styles["value"].reverse


async def test_reading_column_is_centered() -> None:
    model = ChatModel()
    say(model, 0, "word " * 100)
    async with showing(model, (161, 10)) as (app, _):
        row = app.view.render_line(0).text
        assert row[:30].strip() == ""
        assert row[30:130].strip().startswith("word")
        assert row[130:].strip() == ""


async def test_wide_characters_are_not_split() -> None:
    model = ChatModel()
    say(model, 0, "漢字" * 200)
    say(model, 1, "a" + "漢字" * 200, EventSource.USER)
    async with showing(model, (43, 60)) as (app, _):
        shown = "".join(rows(app.view))
        assert shown.count("漢") == shown.count("字") == 400


def random_change(model: ChatModel, view: ChatView, random: random.Random) -> None:
    """Something that happens to a conversation or that its reader does."""
    newest = model.blocks[-1].serial + 10_000
    match random.randrange(11):
        case 0:
            source = random.choice([EventSource.USER, EventSource.AGENT])
            say(model, newest, "word " * random.randrange(60), source)
        case 1:
            thought = random.choice(["", "I look."])
            model.apply(envelope(newest, CmdRunAction(command="ls", thought=thought)))
        case 2:
            output = said_output(random.randrange(30))
            model.apply(envelope(newest, output, EventSource.AGENT, newest - random.randrange(3)))
        case 3 | 4:
            text = random.choice(["word ", "\n\n", "\n- item\n", "\n```py\nx = 1\n"])
            model.apply_frame(TokenDelta(0, text))
        case 5:
            model.apply_frame(Status("info", "STATUS$X", random.choice(["", "one", "two"])))
        case 6:
            model.toggle(random.choice(model.blocks[-4:]))
        case 7:
            view.action_go(random.choice(GOING))
        case 8:
            view.find(Query.parse(random.choice(["", "word", "output 1", "x ="])))
        case 9:
            view.go_to_hit(random.choice([-1, 1]))
        case 10:
            old = "\n".join(f"line {n}" for n in range(random.randrange(1, 60)))
            edit = FileEditObservation(path="a.py", old_content=old, new_content=old.replace("1", "one"))
            model.apply(envelope(newest, edit, EventSource.AGENT, newest - 1))
            view.action_toggle_sides()


def said_output(lines: int) -> CmdOutputObservation:
    return CmdOutputObservation(
        command="ls",
        content="\n".join(f"output {i}" for i in range(lines)),
        metadata=CmdOutputMetadata(exit_code=lines % 2),
    )


@pytest.mark.parametrize("seed", range(4))
async def test_partial_redraw_leaves_nothing_stale(seed: int) -> None:
    generator = random.Random(seed)
    model = with_output(10)
    async with showing(model, (70, 15)) as (app, pilot):
        for _ in range(60):
            for _ in range(generator.randrange(3)):
                random_change(model, app.view, generator)
            app.view.flush()
            await settled(pilot, app.view)
            painted = [strip.text.rstrip() for strip in app.view.render_lines(app.view.size.region)]
            assert painted == rows(app.view)
