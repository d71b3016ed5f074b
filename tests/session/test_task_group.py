"""The tasks of a session: a failed one cancels no other, and closing waits for all, up to a limit."""

from __future__ import annotations

import asyncio

import pytest

from core.session.session_parts import TASK_STATUS, SessionTasks
from core.stream import Frames
from tests.streams import heard


def started() -> tuple[SessionTasks, list[tuple[str, str, str]]]:
    frames = Frames()
    return SessionTasks("c", frames), heard(frames)


async def test_failed_task_is_reported_and_others_go_on() -> None:
    tasks, told = started()
    done: list[str] = []

    async def fails() -> None:
        raise ValueError("broken")

    async def works() -> None:
        done.append("worked")

    failing = tasks.spawn(fails())
    await asyncio.wait([failing])
    assert not failing.cancelled()
    await tasks.spawn(works())
    ((level, id, text),) = told
    assert (level, id, done) == ("error", TASK_STATUS, ["worked"])
    assert "ValueError: broken" in text
    await tasks.aclose(5)


async def test_closing_waits_for_tasks_and_refuses_new_ones() -> None:
    tasks, _ = started()
    may_end, done = asyncio.Event(), list[str]()

    async def works() -> None:
        await may_end.wait()
        done.append("worked")

    tasks.spawn(works())
    asyncio.get_running_loop().call_soon(may_end.set)
    await tasks.aclose(20)
    assert done == ["worked"]
    with pytest.raises(RuntimeError):
        tasks.spawn(works())


async def test_late_tasks_are_cancelled_at_close() -> None:
    tasks, told = started()
    done: list[str] = []

    async def works() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            done.append("cancelled")
            raise

    task = tasks.spawn(works())
    await asyncio.sleep(0)
    await tasks.aclose(0.01)
    assert (done, told) == (["cancelled"], [])
    assert task.cancelled()


async def test_without_tasks_the_group_closes_at_once() -> None:
    await SessionTasks("c", Frames()).aclose(20)
