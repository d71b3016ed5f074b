"""The command /compact without a screen, and the condensation that follows."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.events import CondensationAction, EventSource, NullAction
from core.memory.compaction import compact_argument, last_condensation
from tests.doubles import FINISH
from tests.session.test_session import conversation


@pytest.mark.parametrize(
    ("text", "keep"),
    [
        ("/compact", ""),
        (" /compact \n", ""),
        ("/compact the names  of files", "the names  of files"),
        ("/compacted", None),
        ("compact", None),
        ("please /compact", None),
        ("", None),
    ],
)
def test_a_wish_says_what_to_keep_and_all_else_is_a_message(text: str, keep: str | None) -> None:
    assert compact_argument(text) == keep


async def test_the_newest_condensation_after_an_event_is_what_came_of_it(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH]) as session:
        made = [CondensationAction(forgotten_event_ids=[1], summary=s, summary_offset=1) for s in ("first", "second")]
        first, second = [await session.stream.append(event, EventSource.ENVIRONMENT) for event in made]
        await session.stream.append(NullAction(), EventSource.ENVIRONMENT)
        assert await last_condensation(session.stream, first.id - 1) == made[1]
        assert await last_condensation(session.stream, first.id) == made[1]
        assert await last_condensation(session.stream, second.id) is None
