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


def test_frozen_objects_are_not_collected() -> None:
    before, after = Thing(), None
    garbage_collector.freeze()
    after = Thing()
    watched = [thing for thing in gc.get_objects() if isinstance(thing, Thing)]
    assert watched == [after]
    assert before is not after


def test_frozen_objects_are_freed_by_reference_counting() -> None:
    thing = Thing()
    alive = weakref.ref(thing)
    garbage_collector.freeze()
    del thing
    assert alive() is None


def test_later_garbage_is_collected() -> None:
    garbage_collector.freeze()
    thing = Thing()
    thing.__dict__["itself"] = thing
    alive = weakref.ref(thing)
    del thing
    gc.collect()
    assert alive() is None


def test_frozen_cycles_are_collected_after_conversations_closed() -> None:
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


async def test_closed_conversations_are_released(tmp_path: Path) -> None:
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
