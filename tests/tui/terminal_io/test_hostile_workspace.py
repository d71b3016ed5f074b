"""The terminal-escape suite: with hostile text in every field of every event, only own sequences reach the terminal."""

from __future__ import annotations

import re

import pytest

from core.events import Action, Observation
from tests.tui.terminal_io.hostile_app import HOSTILE
from tests.tui.terminal_io.hostile_events import hostile_events, unfilled
from tests.tui.terminal_io.test_strip_filter import leaks, raw_output_of
from tui.terminal_io.escapes import QUERY_IMAGES
from tui.terminal_io.graphics.kitty import QUERY

OURS = re.compile(
    r"\x1b\[[0-9;:]*m"  # colours
    r"|\x1b\[[0-9;]*[HJ]"  # places
    r"|\x1b\[\?(?:25|7|1000|1003|1004|1006|1015|1049|2004|2026|2048)[hl]"  # modes, at the start and at the end
    r"|\x1b\[\?(?:2026|2048)\$p"  # questions about modes
    r"|\x1b\[[<>][0-9]*u"  # the keyboard protocol
    r"|\x1b\[2[23];2t"  # the title, kept and given back
    r"|\x1b\]2;[^\x00-\x1f\x7f-\x9f]*\x1b\\"  # the title
    r"|\x1b\]52;c;(?!U0VDUkVU)[A-Za-z0-9+/=]*(?:\x07|\x1b\\)"  # copied by the user, but not from an event
    r"|\x1b\]22;[a-z-]*\x07"  # the shape of the mouse pointer
    r"|\x1b\]8;id=[0-9-]*;(?:https?://[\x21-\x7e]*)?\x1b\\"  # links, and their end
    r"|\x1b\]8;;\x1b\\"
    r"|\x07"  # the bell
    rf"|{re.escape(QUERY + QUERY_IMAGES)}"  # which pictures it draws, asked when a page is to be drawn
)
"""All sequences that the program may write. The rest must be text."""
ACTING = re.compile("[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def test_hostile_events_cover_every_string() -> None:
    events = hostile_events(HOSTILE)
    assert {type(event) for event in events} == {*Action.kinds.values(), *Observation.kinds.values()}
    assert unfilled(events, HOSTILE) == set()


@pytest.mark.parametrize("how", ["live", "page"])
def test_hostile_events_write_no_foreign_sequence(how: str) -> None:
    raw = raw_output_of(how, "hostile_workspace", rows=40)
    assert raw.count(b"SECRET") > 500, "little was drawn"
    assert leaks(raw) == []
    rest = OURS.sub("", raw.decode("utf-8"))  # strictly: a lone surrogate or a cut character is a fault
    found = {rest[max(0, match.start() - 20) : match.end() + 30] for match in ACTING.finditer(rest)}
    assert found == set()
    assert max(map(len, re.findall("\u0335+", rest))) <= 32


def test_grammar_detects_foreign_sequences() -> None:
    rest = OURS.sub("", f"\x1b[1;2H\x1b[38;2;1;2;3mtext\x1b[0m{HOSTILE}")
    assert rest.startswith("text")
    assert len(ACTING.findall(rest)) > 20
