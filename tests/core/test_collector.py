"""What lives long costs the garbage collector nothing, and is freed when it dies."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from core import collector


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
    collector.spare()
    after = Thing()
    watched = [thing for thing in gc.get_objects() if isinstance(thing, Thing)]
    assert watched == [after]
    assert before is not after


def test_what_is_spared_is_freed_when_nobody_refers_to_it() -> None:
    thing = Thing()
    alive = weakref.ref(thing)
    collector.spare()
    del thing
    assert alive() is None


def test_rubbish_of_later_is_still_collected() -> None:
    collector.spare()
    thing = Thing()
    thing.__dict__["itself"] = thing
    alive = weakref.ref(thing)
    del thing
    gc.collect()
    assert alive() is None
