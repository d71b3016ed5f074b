"""Copying: blocks, code, words and mouse selections, without decorations."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from core.events import CmdRunAction, EventSource, FileEditAction, FileEditObservation, MessageAction
from tests.tui.chat.events import conversation, folded, ran
from tests.tui.chat.screen import CountingView, rows, say, settled, showing, with_output
from tui.chat.model import ChatModel
from tui.chat.text_pieces import fences
from tui.chat.view import ChatView
from tui.workspace.line_view import Copied

SIZE = (80, 30)
TWO = "Use\n\n```python\nx = 1\n\ny = 2\n```\n\nor\n\n~~~\nls\n~~~\n"


def place_of(view: ChatView, text: str) -> tuple[int, int]:
    """The position of a text on the screen."""
    shown = [view.render_line(y).text for y in range(view.size.height)]
    y = next(y for y, row in enumerate(shown) if text in row)
    return shown[y].index(text), y


async def dragged(pilot: Pilot[None], view: CountingView, start: tuple[int, int], end: tuple[int, int]) -> str:
    """The text selected by dragging the mouse."""
    await pilot.mouse_down(view, offset=start)
    await pilot.hover(view, offset=end)
    await pilot.mouse_up(view, offset=end)
    await pilot.pause()
    return pilot.app.screen.get_selected_text() or ""


def test_fences_returns_code_in_order() -> None:
    assert fences(TWO) == ["x = 1\n\ny = 2", "ls"]
    assert fences("  ```\n    a\n  b\n") == ["  a\nb"]
    assert fences("```\n```\nno code") == []
    assert fences("````\n```\n````") == ["```"]


async def test_y_copies_visible_code_then_next_of_block() -> None:
    model = ChatModel()
    say(model, 0, TWO)
    say(model, 1, "and this")
    async with showing(model, SIZE) as (app, pilot):
        app.view.focus()
        await pilot.press("y")
        assert app.clipboard == "ls", "the lowest, without a cursor"
        await pilot.press("up", "up", "y")
        assert app.clipboard == "x = 1\n\ny = 2"
        await pilot.press("y")
        assert app.clipboard == "ls"
        notes = [message.note for message in app.messages if isinstance(message, Copied)]
        assert notes[-1] == "Copied code 2 of 2; y copies the next one"


async def test_y_on_command_copies_its_output() -> None:
    async with showing(with_output(20), SIZE) as (app, pilot):
        app.view.focus()
        await pilot.press("up", "y")
        assert app.clipboard == "\n".join(f"output {i}" for i in range(20))


async def test_y_without_code_leaves_clipboard() -> None:
    model = ChatModel()
    say(model, 0, "words")
    async with showing(model, SIZE) as (app, pilot):
        app.view.focus()
        await pilot.press("y")
        await pilot.pause()
        assert [message.note for message in app.messages if isinstance(message, Copied)]
        assert app.clipboard == ""


async def test_long_code_is_copied_whole() -> None:
    code = "\n".join(f"line {n}" for n in range(100))
    model = ChatModel()
    say(model, 0, f"```\nfirst\n```\n```\n{code}\n```")
    async with showing(model, SIZE) as (app, pilot):
        app.view.focus()
        await pilot.press("y")
        assert app.clipboard == code


async def test_selection_excludes_gutters() -> None:
    model = ChatModel()
    say(model, 0, "one\ntwo", EventSource.USER)
    say(model, 1, "```\ncode\n  more\n```")
    async with showing(model, SIZE) as (app, pilot):
        app.view.focus()
        await pilot.press("up", "up")  # the mark of the block cursor is none of the text
        (_, top), (_, bottom) = place_of(app.view, "one"), place_of(app.view, "more")
        assert await dragged(pilot, app.view, (0, top), (60, bottom)) == "one\ntwo\n\ncode\n  more"


@pytest.mark.parametrize(("width", "side", "taken"), [(80, "new", "old\nnew\nlast"), (140, "new", "first\nnew\nlast"),
                                                       (140, "old", "first\nold\nlast")])  # fmt: skip
async def test_selection_in_diff_copies_one_side(width: int, side: str, taken: str) -> None:
    edit = FileEditObservation(path="a.txt", old_content="first\nold\nlast", new_content="first\nnew\nlast")
    async with showing(folded(conversation(FileEditAction(path="a.txt"), (edit, 0))), (width, 20)) as (app, pilot):
        await settled(pilot, app.view)
        shown = rows(app.view)
        first = next(y for y, row in enumerate(shown) if ("old" if width == 80 else "first") in row)
        last = next(y for y, row in enumerate(shown) if "last" in row)
        x = shown[first].rindex("first") if width == 140 and side == "new" else 0
        assert await dragged(pilot, app.view, (x, first), (width - 3, last)) == taken


async def test_double_click_selects_word_and_triple_click_line() -> None:
    model = ChatModel()
    say(model, 0, "look at /etc/hosts-old.txt, please")
    async with showing(model, SIZE) as (app, pilot):
        x, y = place_of(app.view, "hosts")
        await pilot.click(app.view, offset=(x, y), times=2)
        assert app.screen.get_selected_text() == "/etc/hosts-old.txt"
        await pilot.click(app.view, offset=(x, y), times=3)
        assert app.screen.get_selected_text() == "look at /etc/hosts-old.txt, please"


async def test_second_click_on_title_toggles_fold() -> None:
    model = folded(conversation(CmdRunAction(command="x"), (ran("x", "\n".join("abcdefgh")), 0)))
    async with showing(model, SIZE) as (app, pilot):
        at = place_of(app.view, "$ x")
        (block,) = model.blocks
        for folds in (True, False, True):
            await pilot.click(app.view, offset=at)
            await settled(pilot, app.view)
            assert block.folded is folds
        await pilot.click(app.view, offset=place_of(app.view, "h"))
        assert block.folded, "only its title is a button"


@pytest.mark.parametrize("width", [80, 40])
async def test_click_on_line_of_hidden_lines_unfolds(width: int) -> None:
    model = folded(conversation(CmdRunAction(command="x"), (ran("x", "\n".join("abcdefgh")), 0)))
    async with showing(model, (width, 24)) as (app, pilot):
        await pilot.click(app.view, offset=place_of(app.view, "… 4 more lines"))
        await settled(pilot, app.view)
        shown = [row.strip() for row in rows(app.view) if row.strip()]
        assert [row[-1] for row in shown] == list("xabcdefgh")


async def test_d_toggles_side_by_side_diffs() -> None:
    edit = FileEditObservation(path="a.txt", old_content="first\nold\nlast", new_content="first\nnew\nlast")
    model = folded(conversation(MessageAction(content="do"), FileEditAction(path="a.txt"), (edit, 1)))
    for width, split in ((140, True), (100, False)):
        async with showing(model, (width, 20)) as (app, pilot):
            app.view.focus()
            for is_split in (split, not split, split):
                assert any("old" in row and "new" in row for row in rows(app.view)) is is_split
                await pilot.press("d")


async def test_narrow_pane_never_splits_diffs() -> None:
    edit = FileEditObservation(path="a.txt", old_content="old", new_content="new")
    async with showing(folded(conversation(FileEditAction(path="a.txt"), (edit, 0))), (50, 20)) as (app, pilot):
        app.view.focus()
        await pilot.press("d")
        assert not any("old" in row and "new" in row for row in rows(app.view))
