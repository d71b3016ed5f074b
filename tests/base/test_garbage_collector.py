"""What lives long costs the garbage collector nothing, and is freed when it dies."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from core import garbage_collector
from core.conversations.conversation_manager import ConversationManager
from core.settings.config import Settings
from tests.doubles import FINISH, ScriptedRuntime, write_script


class Thing:
    """Something that the collector watches."""


@pytest.fixture(autouse=True)
def the_collector_of_before() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.set_threshold(*threshold)
    gc.unfreeze()


def test_what_is_spared_is_never_looked_at_again() -> None:
    before, after = Thing(), None
    garbage_collector.freeze()
    after = Thing()
    watched = [thing for thing in gc.get_objects() if isinstance(thing, Thing)]
    assert watched == [after]
    assert before is not after


def test_what_is_spared_is_freed_when_nobody_refers_to_it() -> None:
    thing = Thing()
    alive = weakref.ref(thing)
    garbage_collector.freeze()
    del thing
    assert alive() is None


def test_rubbish_of_later_is_still_collected() -> None:
    garbage_collector.freeze()
    thing = Thing()
    thing.__dict__["itself"] = thing
    alive = weakref.ref(thing)
    del thing
    gc.collect()
    assert alive() is None


def test_what_was_spared_in_a_cycle_is_freed_once_conversations_have_closed() -> None:
    thing = Thing()
    thing.__dict__["itself"] = thing
    alive = weakref.ref(thing)
    garbage_collector.freeze()
    del thing
    gc.collect()
    assert alive() is not None, "it is spared"
    for _ in range(garbage_collector.CLOSED):
        garbage_collector.conversation_closed()
    assert alive() is None


async def test_conversations_that_are_closed_are_let_go_of(tmp_path: Path) -> None:
    model, alive = write_script(tmp_path, [FINISH]), []
    async with ConversationManager(
        tmp_path / "home", Settings(), make_runtime=lambda *_given: ScriptedRuntime(), environ={}
    ) as manager:
        for _ in range(2 * garbage_collector.CLOSED):
            session = await manager.create(workspace=str(tmp_path), model=model)
            alive.append(weakref.ref(session))
            await manager.close(session.id)
            del session
    assert sum(each() is not None for each in alive) <= garbage_collector.CLOSED
