"""The card of an action that waits, in the real app: what it shows, which keys answer it, how far an answer reaches."""

from __future__ import annotations

import pytest
from textual.widgets import Input

from core.controller.state import Pending
from core.events import AgentState, CmdRunAction, FileWriteAction, Judged
from core.security.confirmation import NOT_WANTED
from tests.tui.frame.running import running
from tui.model.held import GUARD_S, REPEAT_S, LastKey, Listening
from tui.widgets.approval import ApprovalCard


def test_a_key_that_comes_after_a_pause_is_heard() -> None:
    card = Listening(10.0, LastKey("y", 9.9))
    card.hear("n", 10.1)
    assert not card.listens, "the card has only just come up"
    card.hear("n", 10.1 + GUARD_S + 0.01)
    assert not card.listens, "the same key may be held"
    card.hear("y", 10.2 + 3 * GUARD_S)
    assert card.listens
    held = Listening(10.0, LastKey("y", 9.9))
    for repeat in range(60):
        held.hear("y", 10.56 + repeat * 0.033)
    assert not held.listens
    held.hear("y", 20.0)
    assert held.listens


async def test_a_key_that_is_held_down_answers_nothing() -> None:
    async with running() as it:
        await it.session.hold(CmdRunAction(command="reboot"))
        await it.settle()
        it.clock.now += GUARD_S - 0.1
        await it.press("y")
        for repeat in range(40):  # after the first pause of the keyboard, then thirty times a second
            it.clock.now += 0.033 if repeat else 0.66
            await it.pilot.press("y")
        await it.settle()
        assert it.session.wishes == []
        assert "press again" in it.screen_text()
        it.clock.now += REPEAT_S + 0.1
        await it.press("y")
        assert it.session.wishes == [("confirm",)]


@pytest.mark.parametrize(("key", "scope"), [("a", "conversation"), ("p", "project"), ("w", "everywhere")])
async def test_a_yes_reaches_as_far_as_its_key_says(key: str, scope: str) -> None:
    async with running() as it:
        await it.session.hold(CmdRunAction(command="git push origin"))
        await it.settle()
        assert "A permission would allow: bash(git push *)" in it.screen_text()
        it.clock.now += GUARD_S + 0.1
        await it.press(key)
        assert it.session.wishes == [("permit", "bash(git push *)", scope, "allow"), ("confirm",)]


async def test_a_no_can_reach_as_far() -> None:
    async with running() as it:
        await it.session.hold(CmdRunAction(command="git push origin"))
        await it.settle()
        it.clock.now += GUARD_S + 0.1
        await it.press("v")
        assert "never in this project" in it.screen_text()
        await it.press("p")
        assert it.session.wishes == [("permit", "bash(git push *)", "project", "deny"), ("reject", NOT_WANTED)]


async def test_a_no_can_stop_the_agent() -> None:
    async with running() as it:
        await it.session.hold(CmdRunAction(command="ls"))
        await it.settle()
        it.clock.now += GUARD_S + 0.1
        await it.press("s")
        assert it.session.wishes == [("reject", "")]


async def test_the_pattern_can_be_changed_and_is_not_granted_where_it_does_not_cover_the_action() -> None:
    async with running() as it:
        await it.session.hold(CmdRunAction(command="git push origin && rm x"))
        await it.settle()
        it.clock.now += GUARD_S + 0.1
        await it.press("r")
        line = it.app.focused
        assert isinstance(line, Input)
        assert line.value == "bash(git push *) bash(rm x)"
        line.value = "bash(git push *)"
        await it.settle()
        assert "It does not cover this action: bash: rm x" in it.screen_text()
        await it.press("enter", "a")
        assert it.session.wishes == []
        await it.press("r")
        assert isinstance(it.app.focused, Input)
        it.app.focused.value = "bash(*)"
        await it.settle()
        assert "That is broad" in it.screen_text()
        await it.press("enter")
        await it.press("a")
        assert it.session.wishes == [("permit", "bash(*)", "conversation", "allow"), ("confirm",)]


async def test_the_rule_that_asks_is_on_the_card_and_what_asks_each_time_is_not_granted() -> None:
    judged = Judged(verdict="ask", rule="policy.toml:3 ask bash(git *)", reasons=["It \u202e leaves."], stays=True)
    async with running() as it:
        await it.session.hold(CmdRunAction(command="git push", judgement=judged))
        await it.settle()
        assert "Asked by: policy.toml:3 ask bash(git *)" in it.screen_text()
        assert "U+202E" in it.screen_text()
        it.clock.now += GUARD_S + 0.1
        await it.press("a")
        assert it.session.wishes == []
        await it.press("y")
        assert it.session.wishes == [("confirm",)]


async def test_the_end_of_a_long_command_can_be_read() -> None:
    async with running((80, 24)) as it:
        long = "echo\n" + "\n".join(f"line {n}" for n in range(400)) + "\nrm -rf ~"
        await it.session.hold(CmdRunAction(command=long))
        await it.settle()
        card = it.app.workspace.card
        assert isinstance(card, ApprovalCard)
        shown = it.screen_text()
        assert "402 lines" in shown
        assert "deny and stop" in shown, "no key is out of sight"
        assert "rm -rf ~" not in shown
        await it.press("end")
        assert "rm -rf ~" in it.screen_text()
        await it.press("home")
        assert "rm -rf ~" not in it.screen_text()


async def test_letters_that_only_look_latin_are_told() -> None:
    async with running() as it:
        await it.session.hold(CmdRunAction(command="curl https://p\u0430ypal.example"))
        await it.settle()
        assert "U+0430" in it.screen_text()


async def test_several_that_wait_are_counted_and_those_of_a_kind_answered_at_once() -> None:
    async with running() as it:
        actions = [CmdRunAction(command=f"echo {n}") for n in range(2)]
        first = len(it.session.stream.events)
        queue = [Pending(first + n, action, held=True) for n, action in enumerate(actions)]
        queue.append(Pending(first + 2, FileWriteAction(path="f", content=""), held=True))
        await it.session.stream.append_by_agent(actions[0])
        waits = AgentState.AWAITING_USER_CONFIRMATION
        await it.session.become(agent_state=waits, awaiting=first, queue=tuple(queue))
        await it.settle()
        assert "1 of 3" in it.screen_text()
        assert "all 2 alike" in it.screen_text()
        assert "deny, drop the 2 behind it, and stop" in it.screen_text()
        it.clock.now += GUARD_S + 0.1
        await it.press("l")
        assert it.session.wishes == [("alike",)]


async def test_shift_tab_walks_through_the_modes_and_back() -> None:
    async with running() as it:
        modes, kept = [], []
        for _ in range(3):
            await it.press("shift+tab")
            modes.append(it.session.confirm_mode)
            kept.append(it.session.permitting.kept)
        assert modes == ["auto-edit", "plan", "always"]
        assert kept == [("auto-edit", False), ("plan", False), ("always", True)]
        it.session.confirm_mode = "never"
        await it.press("shift+tab")
        assert it.session.confirm_mode == "always"


async def test_one_key_goes_to_the_next_conversation_that_waits() -> None:
    async with running() as it:
        first = it.app.current
        await it.press("ctrl+x", "N")
        assert "No conversation waits" in it.screen_text()
        await it.session.hold(CmdRunAction(command="ls"))
        await it.press("ctrl+n")
        assert it.app.current is not first
        await it.press("ctrl+x", "N")
        assert it.app.current is first
        await it.settle()
        assert isinstance(it.app.focused, ApprovalCard)
