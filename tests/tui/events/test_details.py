"""An event in full: taken apart, as a tree beside the log or over it, and as JSON."""

from __future__ import annotations

import json
import time

import pytest

from core.events import CmdRunAction, MessageAction, envelope_to_dict
from tests.tui.doubles import StreamDouble
from tests.tui.workspace.running_app import Running, running
from tui.dialogs.dialog import TextScreen
from tui.events.event_tree import MANY, EventScreen, EventTree, Part, copy_text, describe, parts_of

pytestmark = pytest.mark.every_frame

REFERENCE = "blob:image/png;640x480;12345;" + "ab" * 32


@pytest.mark.parametrize(
    ("value", "preview", "note", "opens"),
    [
        ({"a": 1, "b": 2}, "", "2 keys", True),
        ({}, "", "0 keys", False),
        ([1], "", "1 element", True),
        ("short", "short", "", False),
        ("", '""', "", False),
        ("one\ntwo", "one", "2 lines, 7 characters", True),
        ("x" * 100 + " ", ("x" * 100), "101 characters", True),
        (True, "true", "", False),
        (None, "null", "", False),
        (1.5, "1.5", "", False),
        (REFERENCE, "abababababab…", "image stored with the event: image/png, 640×480, 12,345 bytes", False),
        (
            "data:image/png;base64," + "A" * 200,
            "data:image/png;base64,AAAAAAAAAAAAAAAAAA…",
            "image/png, 222 characters",
            True,
        ),
        ("QUJD" * 50, "QUJD" * 10 + "…", "base64, 200 characters", True),
    ],
)
def test_value_is_described_by_kind(value: object, preview: str, note: str, opens: bool) -> None:
    shown_part = describe(Part("key", value))
    assert (shown_part.preview.rstrip(), shown_part.note, shown_part.can_open) == (preview, note, opens)


def test_long_text_opens_into_lines() -> None:
    text = "one\n\n" + "x" * 50 + "\nlast"
    assert [part.value for part in parts_of(Part("content", text), 30)] == ["one", "", "x" * 30, "x" * 20, "last"]


def test_huge_value_opens_in_groups() -> None:
    def leaves(part: Part) -> list[object]:
        return [
            leaf
            for inner in parts_of(part, 40)
            for leaf in (leaves(inner) if inner.end >= 0 and inner.key else [inner.value])
        ]

    numbers: list[object] = list(range(MANY * MANY + 5))
    assert leaves(Part("list", numbers)) == numbers
    assert len(parts_of(Part("list", numbers))) <= MANY
    lines = [f"line {n}" for n in range(1_000)]
    assert leaves(Part("content", "\n".join(lines))) == lines


def test_copied_part_is_as_stored() -> None:
    assert copy_text(Part("content", "a\x1b[0m")) == "a\x1b[0m"
    assert json.loads(copy_text(Part("args", {"a": [1, None]}))) == {"a": [1, None]}


def test_previews_are_clean() -> None:
    shown_part = describe(Part("k\x1b]0;x\x07", "v\x1b[31m\u202e"))
    assert "\x1b" not in shown_part.key + shown_part.preview
    assert "\u202e" not in shown_part.preview


async def opened(it: Running, content: str) -> EventTree:
    """An event with this text, opened from the log."""
    await it.session.say(content)
    await it.settle()
    await it.press("f3", "enter")
    assert isinstance(it.app.screen, EventScreen)
    return it.app.screen.query_one(EventTree)


def shown(tree: EventTree) -> str:
    """The visible tree."""
    return "\n".join(tree.render_line(y).text for y in range(tree.size.height))


async def test_enter_opens_event_and_arrows_fold_parts() -> None:
    async with running(size=(100, 30)) as it:
        tree = await opened(it, "first line\nsecond line")
        text = shown(tree)
        assert "source  agent" in text
        assert "content  first line  2 lines, 22 characters" in text
        assert "second line" not in text
        tree.move_cursor(next(node for node in tree.root.children if str(node.label) == "args"))
        await it.press("down", "right")
        assert "second line" in shown(tree)
        await it.press("left")
        assert "second line" not in shown(tree)
        await it.press("escape")
        assert it.app.focused is it.app.workspace.events_view


async def test_c_copies_part_or_whole_text() -> None:
    async with running(size=(100, 30)) as it:
        tree = await opened(it, "first line\nsecond line")
        args = next(node for node in tree.root.children if str(node.label) == "args")
        tree.move_cursor(args)
        await it.press("c")
        assert json.loads(it.app.clipboard)["content"] == "first line\nsecond line"
        await it.press("down", "right", "down", "down", "c")
        assert it.app.clipboard == "first line\nsecond line"


async def test_r_shows_stored_json() -> None:
    async with running(size=(100, 30)) as it:
        await opened(it, "hello")
        await it.press("r")
        assert isinstance(it.app.screen, TextScreen)
        assert '"content": "hello"' in it.screen_text()


async def test_wide_screen_shows_event_beside_log() -> None:
    async with running(size=(140, 30)) as it:
        for n in range(3):
            await it.session.run(f"echo {n}", f"{n}\n")
        await it.settle()
        detail = it.app.workspace.detail
        assert not detail.display
        await it.press("f3", "f3")
        assert detail.event_id == 5
        await it.press("k")
        assert "echo 2" in shown(detail)
        await it.press("enter")
        assert detail.has_focus
        await it.press("escape")
        assert it.app.workspace.events_view.has_focus
        await it.press("f3")
        assert not detail.display


async def test_event_beside_log_follows_tab() -> None:
    async with running(size=(110, 30)) as it:
        await it.session.say("of the first")
        await it.settle()
        await it.press("f3", "f3", "ctrl+n")
        await it.session.say("of the second")
        await it.settle()
        await it.press("f3", "f3")
        await it.pilot.resize_terminal(140, 30)
        await it.settle()
        detail = it.app.workspace.detail
        assert (detail.event_id, "of the second" in shown(detail)) == (0, True)
        await it.press("ctrl+x", "1")
        assert (detail.event_id, "of the first" in shown(detail)) == (0, True)


def test_megabyte_event_is_described_quickly() -> None:
    envelope = StreamDouble("c").store(MessageAction(content="word " * 200_000))
    began = time.thread_time()
    event = envelope_to_dict(envelope)
    for part in parts_of(Part("", event)):
        describe(part)
        for inner in parts_of(part, 80):
            describe(inner)
            parts_of(inner, 80)
    assert time.thread_time() - began < 0.2


async def test_hostile_event_is_shown_clean() -> None:
    async with running(size=(100, 30)) as it:
        await it.session.stream.append_by_agent(
            CmdRunAction(command="\x1b]52;c;aGk=\x07 [red]x[/] \u202e\nsecond \x9b31m")
        )
        await it.settle()
        await it.press("f3", "enter")
        tree = it.app.screen.query_one(EventTree)
        tree.move_cursor(next(node for node in tree.root.children if str(node.label) == "args"))
        await it.press("down", "right")
        text = shown(tree)
        assert "[red]x[/]" in text
        assert not {"\x1b", "\x9b", "\u202e"} & set(text)
