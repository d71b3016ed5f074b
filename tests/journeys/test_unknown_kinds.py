"""A conversation that a newer version wrote, opened, continued and shown again by the real program."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from core.events import EventSource
from core.store.event_store import EventStore
from core.store.writer import Draft
from tests.doubles import FINISH, write_script
from tests.import_export.test_unknown_kinds import UNKNOWN
from tests.journeys.terminal import Terminal
from tests.program import Handloom


def begun(handloom: Handloom, folder: Path) -> str:
    """A conversation of the program, to which a newer version added unknown actions and observations; its id."""
    done = handloom("run", "begin", "--model", write_script(folder, [FINISH], "first.yaml"), "--json")

    async def add() -> None:
        async with EventStore(handloom.home) as store:
            lease = await store.acquire(done.conversation)
            await store.append(lease, [Draft(event, EventSource.AGENT) for event in UNKNOWN])
            await store.release(lease)

    asyncio.run(add())
    return done.conversation


def test_run_continues_and_keeps_unknown_events(handloom: Handloom, tmp_path: Path) -> None:
    id = begun(handloom, tmp_path)
    before = handloom.export(id)
    for kind in ("dance", "sing"):
        assert kind in [event.get("action") for event in before]
    model = write_script(tmp_path, [FINISH] * 3)  # the first of which has been played
    for word in ("more", "and more"):
        done = handloom("run", word, "--resume", id, "--model", model, "--json")
        assert done.status == 0, done.err
        assert "Traceback" not in done.err
        before += done.events
    assert handloom.export(id) == before


@pytest.mark.tmux
def test_screen_opens_and_shows_unknown_kinds(handloom: Handloom, tmp_path: Path) -> None:
    id = begun(handloom, tmp_path)
    with closing(Terminal(handloom, 120, 40)) as terminal:
        terminal.handloom("--model", write_script(tmp_path, [FINISH]), "--resume", id)
        terminal.wait_for("unknown event dance", "unknown event weather", "unknown event applause")
