"""What a reader of the transcript sees and can do."""

from __future__ import annotations

import pytest
from textual.events import MouseScrollUp

from core.events import (
    Envelope,
    EventSource,
    MessageAction,
    TokenDelta,
)
from tests.tui.chat.events import envelope
from tests.tui.chat.screen import dialogue, rows, say, settled, showing, with_output
from tui.chat.canvas import EMPTY
from tui.chat.model import ChatModel
from tui.chat.view import ChatView, Where
from tui.workspace.line_view import Copied

SIZE = (80, 24)
HOME_TWICE: tuple[Where, ...] = ("home", "line_down", "home")


def older_page(start: int, stop: int) -> list[Envelope]:
    """An older page."""
    return [envelope(i, MessageAction(content=f"old {i}\n\nsecond"), EventSource.USER) for i in range(start, stop)]


async def test_empty_chat_shows_placeholder() -> None:
    async with showing(ChatModel()) as (app, _):
        assert [row.strip() for row in rows(app.view) if row] == [EMPTY]
    async with showing(ChatModel(), (50, 24)) as (app, _):
        assert " ".join(row.strip() for row in rows(app.view) if row) == EMPTY, "in a narrow pane it has two rows"


async def test_view_follows_newest_message() -> None:
    model = dialogue(100)
    async with showing(model) as (app, pilot):
        assert any("message 99 line 4" in row for row in rows(app.view))
        say(model, 100, "the newest")
        await settled(pilot, app.view)
        assert "the newest" in rows(app.view)[-2]


async def test_scrolled_reader_stays_and_sees_new_count() -> None:
    model = dialogue(100)
    async with showing(model) as (app, pilot):
        app.view.action_go("page_up")
        seen = rows(app.view)
        for i in range(100, 103):
            say(model, i, "more")
        await settled(pilot, app.view)
        assert rows(app.view)[:-1] == seen[:-1]
        assert "↓ 3 new" in rows(app.view)[-1]
        app.view.focus()
        await pilot.press("end")
        assert app.view.follows
        assert not any("new" in row for row in rows(app.view))
        assert "more" in rows(app.view)[-2]


async def test_view_that_was_hidden_by_a_question_still_follows() -> None:
    model = dialogue(20)
    async with showing(model, size=(40, 12)) as (app, pilot):
        for height in (9, 0, 2, 0, 5, 0, 12):
            app.view.styles.height = height
            await settled(pilot, app.view)
            say(model, 20 + len(model.blocks), "more " * 100)
            await settled(pilot, app.view)
            assert app.view.follows, height
        assert app.view.unseen == 0


async def test_click_on_new_count_goes_to_end() -> None:
    model = dialogue(100)
    async with showing(model) as (app, pilot):
        app.view.action_go("page_up")
        say(model, 100, "more")
        await settled(pilot, app.view)
        await pilot.click(app.view, offset=(40, SIZE[1] - 1))
        assert app.view.follows


@pytest.mark.parametrize("direction", ["line_up", "line_down"])
async def test_scrolling_by_line_skips_no_row(direction: str) -> None:
    model = dialogue(60)
    async with showing(model, (60, 10)) as (app, _):
        view = app.view
        height = view.size.height
        if direction == "line_down":
            view.action_go("home")
        read = rows(view)
        for _ in range(1000):
            before = view.scroll_offset.y
            if direction == "line_down":
                view.action_go("line_down")
                moved = view.scroll_offset.y != before
                read += rows(view)[-1:] if moved else []
            else:
                at_top = before == 0
                view.action_go("line_up")
                moved = not at_top
                read = rows(view)[:1] + read if moved else read
            if not moved:
                break
        column = view.place.column  # type: ignore[union-attr]
        assert len(read) == column.heights.total
        whole = [column.strip(row) for row in range(column.heights.total)]
        assert read == [found[0].text.rstrip() for found in whole if found is not None]
        assert len(read) > height


async def test_older_messages_do_not_move_reader() -> None:
    model = dialogue(40, first=40)
    async with showing(model) as (app, pilot):
        app.view.action_go("home")
        await pilot.pause()
        seen = rows(app.view)
        model.prepend(older_page(0, 40))
        await settled(pilot, app.view)
        assert rows(app.view) == seen
        app.view.action_go("line_up")
        assert rows(app.view)[1:] == seen[:-1]
        app.view.action_go("home")
        assert "old 0" in rows(app.view)[0]


async def test_older_messages_are_requested_once_per_page() -> None:
    model = dialogue(40, first=40)
    async with showing(model) as (app, pilot):
        for where in HOME_TWICE:
            app.view.action_go(where)
            await pilot.pause()
        assert [type(message) for message in app.messages] == [ChatView.OlderWanted]
        model.prepend([envelope(i, MessageAction(content=f"old {i}"), EventSource.USER) for i in range(20, 40)])
        await settled(pilot, app.view)
        app.view.action_go("home")
        await pilot.pause()
        assert len(app.messages) == 2
        model.prepend(older_page(0, 20))
        await settled(pilot, app.view)
        app.view.action_go("home")
        await pilot.pause()
        assert len(app.messages) == 2, "there is nothing older than event 0"


async def test_idle_chat_draws_nothing() -> None:
    async with showing(dialogue(100)) as (app, pilot):
        await settled(pilot, app.view)
        app.view.drawn = 0
        for _ in range(5):
            await pilot.pause()
        assert app.view.drawn == 0


async def test_changes_below_reader_draw_nothing() -> None:
    model = dialogue(100)
    async with showing(model) as (app, pilot):
        app.view.action_go("page_up")
        await settled(pilot, app.view)
        app.view.drawn = 0
        for i in range(20):
            model.apply_frame(TokenDelta(99, f"word {i}\n\n"))
            await settled(pilot, app.view)
        assert app.view.drawn == 0


@pytest.mark.every_frame
async def test_streaming_redraws_only_last_paragraph() -> None:
    model = dialogue(100)
    async with showing(model) as (app, pilot):
        model.apply_frame(TokenDelta(99, "A paragraph.\n\nAnother"))
        await settled(pilot, app.view)
        app.view.drawn = 0
        model.apply_frame(TokenDelta(99, " word"))
        await settled(pilot, app.view)
        assert app.view.drawn == 3, "the paragraph, and the blank lines around it"
        assert "Another word" in rows(app.view)[-2]


async def test_frame_rate_is_limited() -> None:
    model = dialogue(10)
    async with showing(model) as (app, pilot):
        await settled(pilot, app.view)
        flushes = 0
        flush = app.view.flush

        def counted() -> None:
            nonlocal flushes
            flushes += 1
            flush()

        app.view.flush = counted  # type: ignore[method-assign]
        for i in range(1000):
            model.apply_frame(TokenDelta(9, f"{i} "))
        await settled(pilot, app.view)
        assert flushes <= 2
        assert "999" in " ".join(rows(app.view))


async def test_stored_answer_looks_like_streamed_answer() -> None:
    model = dialogue(3)
    text = "# Head\n\nwords and `code`\n\n- one\n- two\n\n```python\ndef f():\n    return 1\n```\n\nend"
    async with showing(model, (80, 60)) as (app, pilot):
        model.apply_frame(TokenDelta(2, text))
        await settled(pilot, app.view)
        seen = rows(app.view)
        say(model, 3, text)
        await settled(pilot, app.view)
        assert rows(app.view) == seen


async def test_space_toggles_block_in_place() -> None:
    async with showing(with_output(200)) as (app, pilot):
        app.view.focus()
        await pilot.press("up")
        assert app.view.cursor is not None
        assert app.view.cursor.title == "$ make"
        title = next(y for y, row in enumerate(rows(app.view)) if "$ make" in row)
        folded = [row for row in rows(app.view) if row]
        await pilot.press("space")
        await settled(pilot, app.view)
        assert "$ make" in rows(app.view)[title]
        assert "output 0" in rows(app.view)[title + 1]
        await pilot.press("space")
        await settled(pilot, app.view)
        assert [row for row in rows(app.view) if row] == folded


async def test_cursor_scrolls_through_long_block() -> None:
    async with showing(with_output(200)) as (app, pilot):
        app.view.focus()
        await pilot.press("up", "space")
        await settled(pilot, app.view)
        app.view._select(app.view.cursor)  # type: ignore[arg-type]
        shown = set()
        for _ in range(30):
            shown |= {row.strip() for row in rows(app.view)}
            await pilot.press("down")
        assert {f"output {i}" for i in range(200)} <= {row.replace("▎", "").strip() for row in shown}


async def test_c_copies_block_under_cursor() -> None:
    async with showing(with_output(20)) as (app, pilot):
        app.view.focus()
        await pilot.press("up", "c")
        await pilot.pause()
        text = "$ make\n" + "\n".join(f"output {i}" for i in range(20))
        assert app.clipboard == text
        assert [message.text for message in app.messages if isinstance(message, Copied)] == [text]


async def test_click_moves_block_cursor() -> None:
    model = dialogue(100)
    async with showing(model) as (app, pilot):
        y = next(y for y, row in enumerate(rows(app.view)) if "message 98 line 0" in row)
        await pilot.click(app.view, offset=(5, y))
        assert app.view.cursor is model.blocks[98]


async def test_mouse_selects_across_blocks() -> None:
    async with showing(dialogue(100)) as (app, pilot):
        shown = rows(app.view)
        first = next(y for y, row in enumerate(shown) if "message 98 line 0" in row)
        x = shown[first].index("98")
        await pilot.mouse_down(app.view, offset=(x, first))
        await pilot.hover(app.view, offset=(x + 8, first + 2))
        await pilot.mouse_up(app.view, offset=(x + 8, first + 2))
        await pilot.pause()
        text = app.screen.get_selected_text()
        assert text is not None
        assert text.startswith("98 line 0\n\nmessage 98")


async def test_each_conversation_keeps_its_place() -> None:
    first, second = dialogue(100), dialogue(50)
    async with showing(first) as (app, pilot):
        app.view.action_go("page_up")
        app.view.action_go("page_up")
        seen = rows(app.view)
        app.view.attach(second)
        assert app.view.follows
        say(first, 100, "while away")
        assert first.changed is None
        app.view.attach(first)
        await pilot.pause()
        assert rows(app.view)[:-1] == seen[:-1]
        assert app.view.unseen == 1


async def test_markup_and_html_are_shown_literally() -> None:
    model = ChatModel()
    say(model, 0, "[red]no[/red] [@click=app.quit]x[/] <b>bold</b> List<String>")
    say(model, 1, "[/nonsense] **stars**", EventSource.USER)
    async with showing(model) as (app, _):
        shown = "\n".join(rows(app.view))
        assert "[red]no[/red] [@click=app.quit]x[/] <b>bold</b> List<String>" in shown
        assert "[/nonsense] **stars**" in shown


async def test_wheel_stops_following() -> None:
    async with showing(dialogue(100)) as (app, pilot):
        app.view.post_message(MouseScrollUp(app.view, 5, 5, 0, -1, 0, False, False, False, 5, 5))
        await pilot.pause()
        assert not app.view.follows
