"""A replay on the screen: its keys, its bar, what it refuses, and that it cannot act."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.events import AgentState, CmdOutputObservation, CmdRunAction, EventSource, ModeAction, NullAction
from core.store.bookmarks import Bookmarks
from tests.tapes import SANDBOX, Tape, long_tape
from tests.tui.replay.screens import go, replay, replaying, settle
from tests.tui.workspace.running_app import Running, running, until
from tui.commands import COMMANDS
from tui.replay.commands import NEEDS_WORKSPACE, NO_WORKSPACE, WHY_NOT, seconds_of
from tui.replay.replay_start import open_replay
from tui.workspace.commands import close_current
from tui.workspace.conversation_status import Mark


def a_tape() -> Tape:
    tape = Tape(pace_s=1.0)
    tape.say("First thing.")
    tape.become(AgentState.RUNNING)
    tape.run("echo one", "one\n", cost=0.25)
    tape.become(AgentState.AWAITING_USER_INPUT)
    tape.say("Second thing, with a fox.")
    tape.become(AgentState.RUNNING)
    tape.run("echo two", "two\n", cost=0.5)
    tape.fail("It broke.")
    tape.become(AgentState.ERROR)
    return tape


async def press(it: Running, *keys: str) -> int:
    """Press keys. Returns the event of the new position."""
    await it.pilot.press(*keys)
    await it.pilot.pause()
    await until(it.pilot, lambda: replay(it).target is None and not replay(it).playing)
    await settle(it)
    return replay(it).player.latest_id


async def test_keys_step_by_events_turns_and_tenths(tmp_path: Path) -> None:
    await a_tape().keep(tmp_path)
    async with replaying(tmp_path, "tape") as it:
        assert await press(it, "right", "right") == 1
        assert await press(it, "left") == 0
        assert await press(it, "shift+right") == 5
        assert await press(it, "shift+right") == 10, "behind the last turn is the end"
        assert await press(it, "shift+left") == 5
        assert await press(it, "shift+left") == 0
        assert await press(it, "end") == 10
        assert await press(it, "right") == 10
        assert await press(it, "home") == 0
        assert await press(it, "5") == 5
        assert await press(it, "g", *"11", "enter") == 10
        assert await press(it, "g", *"0:05", "enter") == 4


async def test_keys_pressed_quickly_all_count(tmp_path: Path) -> None:
    await long_tape(40).keep(tmp_path)
    async with replaying(tmp_path, "long") as it:
        assert await press(it, *["right"] * 30) == 29
        assert await press(it, *["left"] * 12) == 17


async def test_playing_stops_at_the_end_and_restarts_from_there(tmp_path: Path) -> None:
    await a_tape().keep(tmp_path)
    async with replaying(tmp_path, "tape") as it:
        await it.pilot.press(*["plus"] * 9, "s")
        assert (replay(it).player.speed, replay(it).player.skips_waiting) == (64.0, True)
        assert await press(it, "space") == 10
        assert "ended" in it.screen_text()
        await it.pilot.press(*["minus"] * 20, "space")
        assert (replay(it).player.speed, replay(it).playing) == (0.25, True)
        assert await press(it, "space") < 10


async def test_footer_shows_state_and_cost_of_the_position(tmp_path: Path) -> None:
    await a_tape().keep(tmp_path)
    async with replaying(tmp_path, "tape") as it:
        await go(it, 4)
        assert (replay(it).facts.state, replay(it).facts.cost) == ("waiting for you", 0.25)
        assert "$0.25" in it.screen_text()
        await go(it, 10)
        assert (replay(it).facts.mark, replay(it).facts.cost) == (Mark.WAITING, 0.5)
        await go(it, 0)
        assert replay(it).facts.cost == 0.0


@pytest.mark.parametrize("events_between", [0, 150])
async def test_footer_shows_the_mode_of_the_position(tmp_path: Path, events_between: int) -> None:
    tape = Tape(pace_s=1.0)
    tape.say("First thing.")
    chosen = tape.add(ModeAction(mode="plan"), EventSource.USER)
    for _number in range(events_between):  # more than a page
        tape.add(NullAction())
    tape.say("Second thing.")
    last = tape.add(ModeAction(mode="always", own=True), EventSource.USER)
    await tape.keep(tmp_path)
    async with replaying(tmp_path, "tape") as it:
        modes = []
        for event in (0, chosen, last - 1, last):
            await go(it, event)
            modes.append(replay(it).facts.confirm_mode)
        assert modes == ["", "plan", "plan", ""]


async def test_footer_shows_the_iterations_of_the_position(tmp_path: Path) -> None:
    tape = Tape()
    asked = tape.say("Count.")
    for number in range(3):
        asked = tape.add(CmdRunAction(command=f"echo {number}"), cause=asked)
        asked = tape.add(CmdOutputObservation(content=str(number), command=""), SANDBOX, asked)
    await tape.keep(tmp_path)
    async with replaying(tmp_path, "tape") as it:
        await until(it.pilot, lambda: bool(replay(it).highlights.answers))
        for event, told in ((6, "3/—"), (3, "2/—"), (1, "1/—")):
            await go(it, event)
            assert told in it.screen_text()
        await go(it, 0)
        assert "/—" not in it.screen_text().splitlines()[-2]


async def test_tab_title_names_the_replay(tmp_path: Path) -> None:
    await a_tape().keep(tmp_path)
    async with replaying(tmp_path, "tape") as it:
        assert "↺ Replay: A tape" in it.screen_text().splitlines()[0]
        assert not it.app.workspace.prompt.display
        assert it.app.focused is it.app.workspace.transport


async def test_bookmarks_are_set_stored_and_visited(tmp_path: Path) -> None:
    await a_tape().keep(tmp_path)
    async with replaying(tmp_path, "tape") as it:
        assert await press(it, "apostrophe") == -1
        assert "No event is marked" in it.screen_text()
        await go(it, 3)
        await press(it, "m")
        await go(it, 8)
        await press(it, "m")
        assert Bookmarks(tmp_path).read("tape") == [3, 8]
        assert await press(it, "apostrophe") == 3, "after the last comes the first"
        await press(it, "m")
        assert Bookmarks(tmp_path).read("tape") == [8]
    async with replaying(tmp_path, "tape") as it:
        assert replay(it).bookmarks == [8]


async def test_search_steps_through_hits(tmp_path: Path) -> None:
    await a_tape().keep(tmp_path)
    async with replaying(tmp_path, "tape") as it:
        assert await press(it, "slash", *"thing", "enter") == 0
        assert await press(it, "n") == 5
        assert await press(it, "n") == 0
        assert await press(it, "N") == 5
        assert "/thing 2/2" in it.screen_text()
        assert await press(it, "slash", "ctrl+u", *"gnu", "enter") == 5
        assert "“gnu” is not in this conversation." in it.screen_text()


async def test_click_on_the_timeline_seeks(tmp_path: Path) -> None:
    await a_tape().keep(tmp_path)
    async with replaying(tmp_path, "tape") as it:
        bar = it.app.workspace.transport
        await it.pilot.click(bar, offset=(bar.content_region.x - bar.region.x + bar.content_size.width // 2, 2))
        assert await press(it) == 5


async def test_timeline_shows_errors_and_turns(tmp_path: Path) -> None:
    await a_tape().keep(tmp_path)
    async with replaying(tmp_path, "tape") as it:
        await until(it.pilot, lambda: bool(replay(it).highlights.errors))
        await settle(it)
        (line,) = (line for line in it.screen_text().splitlines() if "┃" in line)
        assert line.count("┃") >= 1
        assert "✕" in line


async def test_filter_and_plan_are_kept_while_seeking(tmp_path: Path) -> None:
    await a_tape().keep(tmp_path)
    async with replaying(tmp_path, "tape") as it:
        await go(it, 10)
        await it.pilot.press("f3", "slash", *"type:run", "enter")
        await settle(it)
        await go(it, 8)
        assert str(replay(it).events.filter) == "type=run"


async def test_acting_command_is_refused_with_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await a_tape().keep(tmp_path)
    async with replaying(tmp_path, "tape", (80, 24)) as it:
        told: list[str] = []
        monkeypatch.setattr(it.app, "flash", told.append)
        for command in (command.id for command in COMMANDS if command.acts):
            told.clear()
            await it.app.do(command)
            assert told == [WHY_NOT], command


async def test_command_without_its_workspace_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await a_tape().keep(tmp_path)
    async with replaying(tmp_path, "tape", (80, 24)) as it:
        told: list[str] = []
        monkeypatch.setattr(it.app, "flash", told.append)
        for command in sorted(NEEDS_WORKSPACE | {"replay.live", "replay.fork"}):
            told.clear()
            await it.app.do(command)
            await settle(it)
            assert told == [NO_WORKSPACE], command


async def test_replay_opens_beside_a_conversation_and_restores_the_prompt(tmp_path: Path) -> None:
    await a_tape().keep(tmp_path)
    async with running() as it:
        prompt = it.app.workspace.prompt
        await it.pilot.press(*"draft")
        await open_replay(it.app, "tape", 5, home=tmp_path)
        await press(it)
        assert (prompt.display, it.app.focused) == (False, it.app.workspace.transport)
        await it.pilot.press("ctrl+pagedown")
        await settle(it)
        assert (prompt.display, it.app.focused, prompt.text) == (True, prompt, "draft")
        assert not it.app.workspace.transport.display
        await it.pilot.press("ctrl+pagedown")
        await press(it)
        assert replay(it).player.latest_id == 5
        close_current(it.app)
        await until(it.pilot, lambda: len(it.app.tabs.all) == 1)
        await settle(it)
        assert it.app.focused is prompt


async def test_opening_the_conversation_closes_the_replay(tmp_path: Path) -> None:
    async with running() as it:
        tape = a_tape()
        tape.id = it.session.info.id
        await tape.keep(tmp_path)
        await open_replay(it.app, tape.id, 5, home=tmp_path)
        await press(it)
        await it.pilot.press("b")
        await until(it.pilot, lambda: len(it.app.tabs.all) == 1)
        await settle(it)
        assert it.app.tabs.current is it.app.tabs.conversation
        assert "Replay" not in it.screen_text()


async def test_fork_is_made_at_the_shown_event(tmp_path: Path) -> None:
    await a_tape().keep(tmp_path)
    async with running() as it:
        await open_replay(it.app, "tape", 3, home=tmp_path)
        await press(it)
        await it.pilot.press("f")
        await until(it.pilot, lambda: "Fork from event 3: use which files?" in it.screen_text())
        await it.pilot.press("enter")
        await until(it.pilot, lambda: bool(it.manager.forked))
        assert it.manager.forked == [("tape", 3, True)]


def test_times_are_parsed_as_shown() -> None:
    assert [seconds_of(text) for text in ("0:07", "12:45", "1:02:03", "12", "", "a:b", ":", "1:2:3:4")] == [
        7, 765, 3723, None, None, None, None, None,
    ]  # fmt: skip


async def test_hidden_widgets_never_have_the_focus(tmp_path: Path) -> None:
    await a_tape().keep(tmp_path)
    async with replaying(tmp_path, "tape") as it:
        workspace = it.app.workspace
        workspace.prompt.focus()  # as if it had begun before the replay was shown
        await settle(it)
        assert it.app.focused is workspace.transport
        assert await press(it, "home", "right") == 1
