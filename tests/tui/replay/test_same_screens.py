"""A replay draws exactly what the live conversation drew: every pane, text and styles, at every event."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from core.events import (
    AgentFinishAction,
    AgentState,
    AgentThinkAction,
    BrowserOutputObservation,
    Envelope,
    MessageAction,
    TaskTrackingAction,
    TaskTrackingObservation,
)
from core.replay.timeline import Item
from tests.doubles import FINISH, call, write_script
from tests.tapes import SANDBOX, Tape
from tests.tui.replay.screens import Cells, as_it_was, drawn, go, live, replay, replaying, settle
from tests.tui.workspace.running_app import WITHIN_S, until


def a_session() -> Tape:
    """One with something for every pane."""
    tape = Tape(pace_s=0.5)
    tape.become(AgentState.AWAITING_USER_INPUT)
    tape.say("Build it, **please**.")
    tape.become(AgentState.RUNNING)
    tape.at += 1
    tape.add(AgentThinkAction(thought="First a look around."))
    tape.run("ls --color", "\x1b[34msrc\x1b[0m  \x1b[1;32mmake.sh\x1b[0m\nREADME\n")
    plan = [{"id": "1", "title": "Look", "status": "done"}, {"id": "2", "title": "Build", "status": "in_progress"}]
    told = tape.add(TaskTrackingAction(command="plan", task_list=plan))
    tape.at += 3
    tape.add(TaskTrackingObservation(content="", command="plan", task_list=plan), SANDBOX, told)
    tape.run("make", "".join(f"\x1b[33mstep {n}\x1b[0m of 60\r\n" for n in range(60)), took_s=5)
    tape.add(
        BrowserOutputObservation(content="RootWebArea 'Docs'", url="http://docs/", trigger_by_action="browse"), SANDBOX
    )
    tape.add(MessageAction(content="It is built.\n\n- one\n- two\n"))
    tape.say("And now?")
    tape.fail("The model said nothing.")
    tape.run("printf 'no end of line'", "no end of line", records=False)
    tape.add(AgentFinishAction(final_thought="Done."))
    tape.become(AgentState.FINISHED)
    return tape


def same(seen: Cells, replayed: Cells, event: int) -> None:
    assert set(seen) == set(replayed), f"other panes at event {event}"
    for pane in seen:
        assert replayed[pane] == seen[pane], f"{pane} at event {event}"


@pytest.mark.parametrize("width", [160, 80])
async def test_stepping_shows_the_live_screens(tmp_path: Path, width: int) -> None:
    tape = a_session()
    await tape.keep(tmp_path)
    seen = await as_it_was(tape.lived, width)
    async with replaying(tmp_path, tape.id, (width, 44)) as it:
        for event, cells in enumerate(seen):
            await it.pilot.press("right")
            await until(it.pilot, lambda at=event: replay(it).player.latest_id == at)  # type: ignore[misc]
            await settle(it)
            same(cells, drawn(it.app), event)


@pytest.mark.parametrize("page", [100, 8])
async def test_seeking_shows_the_live_screens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: int) -> None:
    monkeypatch.setattr(
        "core.replay.timeline.PAGE", page
    )  # with short pages, longer-lasting state comes from before them
    tape = a_session()
    await tape.keep(tmp_path)
    seen = await as_it_was(tape.lived)
    async with replaying(tmp_path, tape.id) as it:
        for event in reversed(range(len(seen))):
            same(seen[event], await go(it, event), event)


async def test_playing_shows_the_live_screens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tape = a_session()
    await tape.keep(tmp_path)
    seen = await as_it_was(tape.lived)
    compared = set()
    async with replaying(tmp_path, tape.id) as it:
        tab = replay(it)
        now, told, show, wrong = [0.0], list[Item](), tab._apply_items, list[AssertionError]()

        def listening(items: Sequence[Item]) -> None:
            told.extend(items)
            show(items)

        monkeypatch.setattr(tab, "_apply_items", listening)

        async def sleep(seconds: float) -> None:
            await settle(it)
            if told and isinstance(told[-1], Envelope):
                try:
                    same(seen[told[-1].id], drawn(it.app), told[-1].id)
                except AssertionError as error:  # raised here it would end the player and not the test
                    wrong.append(error)
                compared.add(told[-1].id)
            now[0] += seconds

        tab.player._clock, tab.player._sleep = (lambda: now[0]), sleep
        await it.pilot.press("space")
        async with asyncio.timeout(WITHIN_S):
            while tab.playing and not wrong:  # without Pilot, since `settle` would wait for what that waits for
                await asyncio.sleep(0.05)
        assert wrong == []
        await settle(it)
        same(seen[-1], drawn(it.app), len(seen) - 1)
    assert len(compared) == len(seen) - 1


COLOURS = "for n in 1 2 3; do printf '\\033[3%dmline %d\\033[0m\\n' $n $n; done"


async def test_output_of_a_real_shell_is_replayed_byte_for_byte(tmp_path: Path) -> None:
    turns = [
        {"text": "First some **colours**.", "tool_calls": [call("execute_bash", command=COLOURS)]},
        {"text": "And a bar.", "tool_calls": [call("execute_bash", command="printf '10%%\\r50%%\\r100%%\\n'; false")]},
        FINISH,
    ]
    (tmp_path / "work").mkdir()
    id, lived = await live(tmp_path / "home", tmp_path / "work", write_script(tmp_path, turns), ["Go on."])
    seen = await as_it_was(lived)
    async with replaying(tmp_path / "home", id) as it:
        assert replay(it).player.count == len(seen)
        for event in (*range(len(seen)), *reversed(range(len(seen)))):
            same(seen[event], await go(it, event), event)
        await go(it, len(seen) - 1)
        assert "line 3" in it.screen_text()
