"""A session of another agent goes on as a conversation of ours, and only after the user has agreed."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import UsageError
from core.events import AgentState, ChangeAgentStateAction, ConsentAction, ErrorObservation
from core.import_export.agents.source import Places
from core.library.continuation import NO_RESULT, continue_session
from core.library.library import Library
from core.library.prepared_session import copy_id
from core.store.event_store import EventStore
from tests.library.diary import DIARY, write

AT = "2026-03-01T10:00:00+00:00"
SESSION = copy_id("diary", "a")


async def _continued(tmp_path: Path, upto: int) -> list[object]:
    user, home = tmp_path / "user", tmp_path / "home"
    write(
        user,
        "a",
        {"title": "Mend the pump", "at": AT},
        {"user": "Why does it drip?", "at": AT},
        {"run": "ls", "output": "one", "at": AT},
        {"agent": "A washer is worn.", "at": AT},
    )
    async with Library(home, places=Places(user), sources=(DIARY,)) as library, EventStore(home) as store:
        await library.find()
        await library.read_pending()
        await continue_session(store, library.store, SESSION, upto, id="new", workspace="/work", model="demo")
        info = await store.conversation("new")
        assert (info.title, info.workspace, info.model) == ("Mend the pump (fork)", "/work", "demo")
        assert (info.origin, info.origin_of, info.origin_event) == ("fork", SESSION, upto)
        events = await store.read("new")
        assert [event.cause for event in events[:2]] == [None, 0]
        assert [event.id for event in events] == list(range(len(events)))
        return [event.event for event in events]


async def test_fork_has_the_events_and_waits_for_consent(tmp_path: Path) -> None:
    *before, stop, consent = await _continued(tmp_path, 3)
    assert [type(event).__name__ for event in before] == [
        "MessageAction",
        "NullObservation",  # what memory answers
        "CmdRunAction",
        "CmdOutputObservation",
        "MessageAction",
    ]
    assert isinstance(stop, ChangeAgentStateAction)
    assert stop.agent_state is AgentState.STOPPED
    assert isinstance(consent, ConsentAction)
    assert not consent.given


async def test_open_action_gets_a_result(tmp_path: Path) -> None:
    events = await _continued(tmp_path, 1)
    assert [event for event in events if isinstance(event, ErrorObservation)] == [ErrorObservation(content=NO_RESULT)]


@pytest.mark.parametrize("upto", [-1, 4])
async def test_event_that_does_not_exist_is_refused(tmp_path: Path, upto: int) -> None:
    with pytest.raises(UsageError, match="no event"):
        await _continued(tmp_path, upto)
