"""Sizes: useful at 80x24, complete at 160x48, and no crash at 20x5."""

from __future__ import annotations

import re

import pytest

from core.events import AgentState, CmdRunAction, Judged
from tests.campaign.keystrokes import KINDS
from tests.tui.workspace.running_app import Running, running
from tui.dialogs.answer_list import AnswerRow
from tui.workspace.layout import Arrangement, arrange

ALL = frozenset({"chat", "events", "terminal"})


@pytest.mark.parametrize(
    ("width", "looked_at", "side", "maximised", "expected"),
    [
        (99, "chat", "terminal", False, Arrangement(frozenset({"chat"}), tabs=True)),
        (99, "events", "events", True, Arrangement(frozenset({"events"}), tabs=True)),
        (100, "chat", "terminal", False, Arrangement(frozenset({"chat", "terminal"}), tabs=False)),
        (159, "events", "events", False, Arrangement(frozenset({"chat", "events"}), tabs=False)),
        (159, "events", "events", True, Arrangement(frozenset({"events"}), tabs=False)),
        (160, "chat", "terminal", False, Arrangement(ALL, tabs=False)),
        (160, "terminal", "terminal", True, Arrangement(frozenset({"terminal"}), tabs=False)),
    ],
)
def test_panes_that_fit_are_shown(
    width: int, looked_at: str, side: str, maximised: bool, expected: Arrangement
) -> None:
    assert arrange(width, looked_at, side, maximised) == expected


@pytest.mark.parametrize("size", [(160, 48), (100, 30), (80, 24), (60, 15), (40, 10), (20, 5)])
async def test_prompt_and_isolation_warning_work_at_every_size(size: tuple[int, int]) -> None:
    async with running(size=size) as it:
        await it.session.become(agent_state=AgentState.RUNNING)
        await it.press(*"hey")
        prompt = it.app.workspace.prompt
        assert prompt.region.height >= 1
        assert it.app.screen.region.contains_region(prompt.region)
        text = it.screen_text()
        assert "hey" in text
        assert "NO SANDBOX" in text


@pytest.mark.parametrize("size", [(80, 24), (40, 10)])
async def test_question_works_at_small_sizes(size: tuple[int, int]) -> None:
    async with running(size=size) as it:
        await it.session.hold(CmdRunAction(command="make all"))
        await it.settle()
        assert "make all" in it.screen_text()
        assert "NO SANDBOX" in it.screen_text()
        await it.press("1", "enter")
        assert it.session.wishes == [("confirm",)]


@pytest.mark.parametrize("size", [(20, 5), (20, 12), (80, 9), (60, 15)])
async def test_question_keeps_prompt_and_highlighted_row_visible(size: tuple[int, int]) -> None:
    async with running(size=size) as it:
        for begin in KINDS.values():
            await begin(it)
            await it.settle()
            it.app.workspace.prompt.put("")
            question = it.app.workspace.question
            assert question is not None
            question.say("The key was not taken. " * 4)
            for keys in ((), ("2",), (*"no",)):
                await it.press(*keys)
                prompt, seen = it.app.workspace.prompt, it.app.screen.region
                assert prompt.region.height >= 1
                assert seen.contains_region(prompt.region)
                rows = [row for row in question.query(AnswerRow) if row.has_class("-at")]
                assert len(rows) == 1
                assert rows[0] in it.app.screen._compositor.visible_widgets
            await it.session.become(awaiting=None, halt=None, planning=False, queue=())


@pytest.mark.parametrize("size", [(20, 5), (40, 7), (40, 12)])
async def test_highlighted_row_is_complete_at_the_smallest_sizes(size: tuple[int, int]) -> None:
    async with running(size=(160, 48)) as it:
        await it.session.hold(CmdRunAction(command="make all"))
        await it.settle()
        await it.press("4")
        await it.pilot.resize_terminal(*size)
        await it.settle()
        shown = " ".join(re.sub("[▁-█▌]", " ", it.screen_text()).split())
        assert "❯ 4 Deny and stop the agent" in shown
        assert "make all" in shown
        assert it.app.screen.region.contains_region(it.app.workspace.prompt.region)


async def test_layout_survives_many_resizes() -> None:
    async with running(size=(160, 48)) as it:
        for n in range(30):
            await it.session.run(f"echo {n}", f"{n}\n")
        for size in [(1, 1), (500, 200), (20, 5), (99, 29), (3, 40), (200, 2), (100, 30), (160, 48)]:
            await it.pilot.resize_terminal(*size)
        await it.settle()
        assert [it.app.workspace.pane(name).display for name in sorted(ALL)] == [True, True, True]
        assert "echo 29" in it.screen_text()


async def test_isolated_runtime_shows_no_warning(it: Running) -> None:
    it.session.isolation = "docker"
    await it.settle()
    assert "NO SANDBOX" not in it.screen_text()


@pytest.mark.parametrize("size", [(160, 48), (100, 30), (80, 24), (60, 18), (40, 12), (20, 5)])
async def test_longest_question_keeps_prompt_and_highlighted_row_visible(size: tuple[int, int]) -> None:
    async with running(size=size) as it:
        reasons = [f"reason-{number} " + "to think twice " * 18 for number in range(5)]
        judgement = Judged(verdict="ask", rule="mode always", risk="low", reasons=reasons)
        await it.session.hold(CmdRunAction(command="ls " + "long-name " * 38, judgement=judgement))
        await it.settle()
        question = it.app.workspace.question
        assert question is not None
        for keys in ((), ("2",), ("enter",), ("3",), ("4",), ("escape",), ("5",), ("enter",), ("2",)):
            await it.press(*keys)
            seen = it.app.screen.region
            assert seen.contains_region(it.app.workspace.prompt.region)
            rows = [row for row in question.query(AnswerRow) if row.has_class("-at")]
            assert len(rows) == 1
            assert rows[0] in it.app.screen._compositor.visible_widgets
            assert "\u276f" in it.screen_text(), "the highlight is in sight"
        for _page in range(40):
            await it.press("pagedown")
            if "reason-4" in it.screen_text():
                break
        else:
            assert size == (20, 5), "the last reason can be read"


async def test_message_that_does_not_fit_ends_with_an_ellipsis() -> None:
    async with running((40, 12)) as it:
        it.app.flash("The agent edits files in the workspace without asking")
        await it.settle()
        assert "The agent edits files in the workspac…" in it.screen_text()
