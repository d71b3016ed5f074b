"""The workspace as the user drives it: every command of the table, in the real app."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

import pytest
from textual import events
from textual.app import ComposeResult

from core.controller.exit_reasons import Halt, HaltKind, HaltOption
from core.controller.state import Queued
from core.conversations.conversation_manager import ConversationManager
from core.errors import ConfigurationError, StoreBusyError, StoreVersionError
from core.events import AgentState, CmdRunAction, FileEditAction
from core.sandbox_types import Job, SandboxUsage
from core.settings.config import SandboxSettings
from core.store.conversations import ConversationInfo
from tests.tui.doubles import ManagerDouble, SessionDouble
from tests.tui.workspace.running_app import running, until
from tui.app import HandloomApp
from tui.approval.answer_list import WAYS
from tui.cli.options import StartOptions
from tui.delegation.delegate_tabs import as_tree
from tui.dialogs.dialog import ChoiceScreen, SureScreen, TextScreen
from tui.models.start_screen import StartScreen
from tui.palette.screen import PaletteScreen
from tui.sandbox.sandbox_text import sandbox_text
from tui.shortcuts.help_screen import HelpScreen
from tui.shortcuts.leader import WhichKey
from tui.workspace.tab_bar import TabItem


async def test_what_is_typed_is_sent_and_shown() -> None:
    async with running() as it:
        await it.press(*"hello", "enter")
        assert it.session.wishes == [("send", "hello")]
        assert "hello" in it.screen_text()
        assert it.app.workspace.prompt.text == ""


async def test_a_message_that_could_not_be_stored_goes_back_into_the_prompt_with_the_reason() -> None:
    async with running() as it:
        it.session.fails_with = StoreBusyError("The disk is full. Free some space and send it again.")
        await it.press(*"hello", "enter")
        assert it.app.workspace.prompt.text == "hello"
        assert "The disk is full." in it.screen_text()
        await it.press("escape")
        assert "The disk is full." not in it.screen_text()


async def test_a_mistake_of_ours_is_told_and_the_app_goes_on() -> None:
    async with running() as it:
        it.session.fails_with = ZeroDivisionError("oh")
        await it.press(*"hello", "enter")
        assert "Internal error (ZeroDivisionError: oh)" in it.screen_text()
        it.session.fails_with = None
        await it.press("enter")
        assert it.session.wishes[-1] == ("send", "hello")


# -- stopping and leaving ----------------------------------------------------------------------------------------------


async def test_escape_stops_a_running_agent() -> None:
    async with running() as it:
        await it.session.become(agent_state=AgentState.RUNNING)
        await it.settle()
        assert "esc to stop" in it.screen_text()
        await it.press("escape")
        assert it.session.wishes == [("interrupt",)]


async def test_ctrl_c_clears_the_prompt_then_stops_then_quits_on_the_second_press() -> None:
    async with running() as it:
        await it.session.become(agent_state=AgentState.RUNNING)
        await it.settle()
        await it.press(*"abc", "ctrl+c")
        assert (it.app.workspace.prompt.text, it.session.wishes) == ("", [])
        await it.press("ctrl+c")
        assert it.session.wishes == [("interrupt",)]
        await it.press("ctrl+c")
        assert "Press ctrl+c again to quit." in it.screen_text()
        it.clock.now += 2.5
        await it.press("ctrl+c")
        assert it.app.is_running
        it.clock.now += 1.0
        await it.pilot.press("ctrl+c")
    assert it.app._exit


async def test_ctrl_c_copies_what_is_selected() -> None:
    async with running() as it:
        await it.press(*"abc", "shift+left", "ctrl+c")
        assert it.app.clipboard == "c"
        assert it.app.workspace.prompt.text == "abc"


@pytest.mark.parametrize("key", ["ctrl+q", "ctrl+d"])
async def test_quitting_asks_while_an_agent_works(key: str) -> None:
    async with running() as it:
        await it.session.become(agent_state=AgentState.RUNNING)
        await it.settle()
        await it.press(key)
        assert isinstance(it.app.screen, SureScreen)
        await it.press("enter")
        assert it.shows_the_workspace
        await it.press(key)
        await it.pilot.press("2", "enter")
    assert it.manager.is_closed


async def test_ctrl_d_deletes_while_there_is_text() -> None:
    async with running() as it:
        await it.press(*"ab", "left", "ctrl+d")
        assert it.app.workspace.prompt.text == "a"


async def test_leaving_closes_every_conversation_and_no_one_listens_any_more() -> None:
    async with running() as it:
        session = it.session
        await it.press("ctrl+q")
    assert it.manager.is_closed
    assert session.stream.listeners == 0


# -- panes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "pane"), [("f2", "chat"), ("f3", "events"), ("f4", "terminal")])
async def test_a_pane_key_goes_there_then_fills_the_screen_then_restores(key: str, pane: str) -> None:
    async with running(size=(170, 40)) as it:
        panes = [it.app.workspace.pane(name) for name in ("chat", "events", "terminal")]
        await it.press(key)
        assert it.app.focused is it.app.workspace.pane(pane)
        assert [p.display for p in panes] == [True, True, True]
        await it.press(key)
        assert [p.id for p in panes if p.display] == [pane]
        await it.press(key)
        assert [p.display for p in panes] == [True, True, True]


async def test_f6_walks_through_prompt_and_panes_and_shift_f6_back() -> None:
    async with running() as it:
        seen = []
        for _ in range(5):
            await it.press("f6")
            seen.append(it.app.focused.id if it.app.focused else None)
        assert seen == ["chat", "events", "terminal", "browser", "prompt"]
        await it.press("shift+f6")
        assert it.app.focused is it.app.workspace.browser


async def test_escape_restores_a_pane_and_then_returns_to_the_prompt() -> None:
    async with running() as it:
        await it.press("f4", "f4", "escape")
        assert it.app.workspace.chat.display
        await it.press("escape")
        assert it.prompt_has_focus


async def test_ctrl_o_unfolds_and_folds_output() -> None:
    async with running() as it:
        await it.session.run("seq 40", "\n".join(f"number {n}" for n in range(40)))
        await it.settle()
        assert "number 1\n" not in it.screen_text().replace(" ", "")
        model = it.app.tabs.current.chat  # type: ignore[union-attr]
        await it.press("ctrl+o")
        assert not any(block.folded for block in model.blocks if block.can_fold)
        await it.press("ctrl+o")
        assert all(block.folded for block in model.blocks if block.can_fold)


async def test_ctrl_l_goes_to_the_live_end() -> None:
    async with running() as it:
        for n in range(60):
            await it.session.say(f"line {n}")
        await it.settle()
        await it.press("f3", "home", "ctrl+l")
        assert it.app.workspace.events_view.following


# -- palette, leader, help ---------------------------------------------------------------------------------------------


async def test_the_palette_carries_out_what_is_chosen() -> None:
    async with running() as it:
        await it.press("ctrl+p")
        assert isinstance(it.app.screen, PaletteScreen)
        await it.press(*"theme", "enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, ChoiceScreen))


@pytest.mark.parametrize("keys", [["f1"], ["question_mark"], ["ctrl+x", "question_mark"], ["f3", "question_mark"]])
async def test_help_shows_the_keys(keys: list[str]) -> None:
    async with running() as it:
        await it.press(*keys)
        assert isinstance(it.app.screen, HelpScreen)
        await it.press(*"palette")
        assert "Command palette" in it.screen_text()
        await it.press("escape")
        assert it.shows_the_workspace


async def test_a_question_mark_in_a_message_is_a_question_mark() -> None:
    async with running() as it:
        await it.press(*"why", "question_mark")
        assert it.app.workspace.prompt.text == "why?"


async def test_the_leader_takes_the_next_key_and_shows_which_there_are() -> None:
    async with running() as it:
        await it.press("ctrl+x")
        strip = it.app.workspace.query_one(WhichKey)
        strip.reveal()
        await it.pilot.pause()
        assert "New conversation" in it.screen_text()
        await it.press("escape")
        assert not it.app.leader.is_armed
        assert not strip.display
        await it.press("ctrl+x", "z")
        assert "is not a command" in it.screen_text()
        assert it.app.workspace.prompt.text == ""


async def test_the_leader_key_cuts_where_text_is_selected() -> None:
    async with running() as it:
        await it.press(*"abc", "shift+left", "ctrl+x")
        assert it.app.workspace.prompt.text == "ab"
        assert not it.app.leader.is_armed


async def test_a_theme_is_chosen_from_the_list() -> None:
    async with running() as it:
        await it.press("ctrl+x", "t", *"loom-light", "enter")
        assert it.app.theme == "loom-light"


# -- conversations -----------------------------------------------------------------------------------------------------


async def test_tabs_open_switch_and_close() -> None:
    async with running() as it:
        first = it.session
        await it.press(*"draft", "ctrl+n")
        second = it.session
        assert second is not first
        assert it.app.workspace.prompt.text == ""
        await it.press("ctrl+x", "1")
        assert (it.session, it.app.workspace.prompt.text) == (first, "draft")
        await it.press("ctrl+x", "right_square_bracket")
        assert it.session is second
        await it.press("ctrl+x", "left_square_bracket")
        assert it.session is first
        await it.press("ctrl+pagedown")
        assert it.session is second
        await it.press("ctrl+pageup", "ctrl+x", "w")
        assert it.session is second
        assert it.manager.closed == [first.info.id]
        assert it.manager.viewed == [second.info.id]
        assert first.stream.listeners == 0
        await it.press("ctrl+x", "w")
        assert it.app.tabs.current is None
        assert "no conversation" in it.screen_text()
        await it.press("ctrl+n")
        assert it.app.tabs.current is not None


async def test_closing_a_tab_asks_while_its_agent_works() -> None:
    async with running() as it:
        await it.session.become(agent_state=AgentState.RUNNING)
        await it.settle()
        await it.press("ctrl+x", "w")
        assert isinstance(it.app.screen, SureScreen)
        await it.press("down", "enter")
        assert it.app.tabs.current is None


async def test_a_hidden_tab_goes_on_collecting_and_says_that_there_is_news() -> None:
    async with running() as it:
        hidden = it.session
        await it.press("ctrl+n")
        await hidden.say("over here")
        await hidden.become(agent_state=AgentState.ERROR)
        await it.settle()
        assert "1 ◆*" in it.screen_text().splitlines()[0]
        assert "over here" not in it.screen_text()
        await it.press("ctrl+x", "1")
        assert "over here" in it.screen_text()
        assert "*" not in it.screen_text().splitlines()[0]


async def test_the_list_opens_a_conversation_and_typing_narrows_it_down() -> None:
    manager = ManagerDouble()
    other = manager.add(workspace="/elsewhere", title="Fix the parser")
    async with running(manager=manager) as it:
        await it.press("ctrl+x", "l")
        assert "Fix the parser" in it.screen_text()
        await it.press(*"pars", "enter")
        assert it.session is other


async def test_the_model_and_the_mode_can_be_changed() -> None:
    async with running() as it:
        await it.press("ctrl+x", "m", *"openai/gpt-x", "enter")
        assert it.session.active_model.name == "openai/gpt-x"
        modes = []
        for _ in range(3):
            await it.press("shift+tab")
            modes.append(it.session.approval.mode)
        assert modes == ["auto-edit", "plan", "always"]
        assert "ask before everything" in it.screen_text()


async def test_pause_lets_the_agent_stop_and_again_lets_it_go_on() -> None:
    async with running() as it:
        await it.session.become(agent_state=AgentState.RUNNING)
        await it.settle()
        await it.press("ctrl+x", "p", "ctrl+x", "p")
        assert it.session.wishes == [("pause",), ("resume",)]


# -- the start ---------------------------------------------------------------------------------------------------------


async def test_a_repository_is_for_a_new_conversation() -> None:
    manager = ManagerDouble()
    manager.add()
    async with running(manager=manager, repository="/srv/repo.git#main") as it:
        assert it.session.info.id == "c1"
        assert it.session.info.repository == "/srv/repo.git#main"


async def test_the_last_conversation_of_this_folder_is_resumed_with_its_tail() -> None:
    manager = ManagerDouble()
    mine = manager.add(workspace="/work")
    for n in range(300):
        mine.stream.store(FileEditAction(path=f"file {n}"))
    manager.add(workspace="/elsewhere")
    async with running(manager=manager) as it:
        assert it.session is mine
        assert "file 299" in it.screen_text()
        assert mine.stream.reads <= 2


async def test_a_conversation_that_cannot_be_opened_is_told_and_a_new_one_begun() -> None:
    async with running(resume="nowhere") as it:
        assert "There is no conversation nowhere." in it.screen_text()
        assert it.session.info.id == "c0"


async def test_without_a_model_the_start_screen_offers_some_and_remembers_the_choice() -> None:
    manager = ManagerDouble()
    async with running(manager=manager, model=None) as it:
        assert isinstance(it.app.screen, StartScreen)
        assert "Anthropic" in it.screen_text()
        await it.press("3", "enter")
        await until(it.pilot, lambda: it.app.tabs.current is not None)
        assert it.session.active_model.name == "demo"
        assert manager.chosen == [("demo", "")]


async def test_an_endpoint_is_asked_for_its_url_and_model() -> None:
    manager = ManagerDouble()
    async with running(manager=manager, model=None) as it:
        await it.press("4", "enter", *"qwen", "enter")
        await until(it.pilot, lambda: it.app.tabs.current is not None)
        assert manager.chosen == [("openai/qwen", "http://localhost:11434/v1")]


async def test_a_start_that_fails_is_told_and_the_app_stays_usable() -> None:
    manager = ManagerDouble(fails_with=StoreBusyError("Another Handloom has the database. Close it and press ctrl+n."))
    async with running(manager=manager) as it:
        assert "Another Handloom has the database." in it.screen_text()
        manager.fails_with = None
        await it.press("escape", "ctrl+n")
        assert it.app.tabs.current is not None


async def test_what_is_typed_and_sent_before_the_conversation_is_open_is_not_lost() -> None:
    manager, opened = ManagerDouble(), asyncio.Event()

    async def connect() -> ConversationManager:
        await opened.wait()
        return cast("ConversationManager", manager)

    app = HandloomApp(connect, StartOptions(workspace="/work", model="demo"))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press(*"quick", "enter")
        assert app.submission.early == ("quick",)
        opened.set()
        await until(pilot, lambda: bool(manager.sessions) and bool(manager.sessions["c0"].wishes))
        assert manager.sessions["c0"].wishes == [("send", "quick")]
        assert app.workspace.prompt.text == ""


async def test_keys_from_before_the_first_frame_are_heard_in_their_order() -> None:
    class Early(HandloomApp):
        def compose(self) -> ComposeResult:
            for key in ("a", "b", "ctrl+j", "c"):
                self.post_message(events.Key(key, key if len(key) == 1 else None))
            return super().compose()

    async def connect() -> ConversationManager:
        return cast("ConversationManager", ManagerDouble())

    app = Early(connect, StartOptions(workspace="/work", model="demo"))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.workspace.prompt.text == "ab\nc")


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (20, 5)], ids=str)
async def test_what_was_done_is_told_for_a_moment_where_there_is_no_line_for_hints_too(size: tuple[int, int]) -> None:
    async with running(size) as it:
        before = it.app.workspace.chat.size
        it.app.flash("Copied.")
        await it.settle()
        assert "Copied." in it.screen_text()
        assert it.app.workspace.chat.size == before, "nothing moves for it"
        it.app.workspace.flash("")
        await it.settle()
        assert "Copied." not in it.screen_text()
        assert it.app.workspace.footer.display


async def test_what_is_replaced_before_it_begins_is_closed_and_the_last_is_done() -> None:
    done: list[int] = []

    async def work(number: int) -> None:
        done.append(number)

    async with running() as it:
        attempts = [work(number) for number in range(3)]
        for attempt in attempts:
            it.app.attempt(attempt, "one at a time", exclusive=True)
        await it.settle()
        assert done == [2]
        assert [inspect.getcoroutinestate(attempt) for attempt in attempts] == [inspect.CORO_CLOSED] * 3


async def test_a_frame_that_is_due_when_the_program_ends_draws_nothing() -> None:
    async def connect() -> ConversationManager:
        return cast("ConversationManager", ManagerDouble())

    app = HandloomApp(connect, StartOptions(workspace="/work", model="demo"))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.tabs.current is not None)
    app.frames.draw()


async def test_what_is_typed_before_the_conversation_is_open_stays_in_the_prompt() -> None:
    manager, opened = ManagerDouble(), asyncio.Event()

    async def connect() -> ConversationManager:
        await opened.wait()
        return cast("ConversationManager", manager)

    app = HandloomApp(connect, StartOptions(workspace="/work", model="demo"))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press(*"half a")
        opened.set()
        await until(pilot, lambda: app.tabs.current is not None)
        assert app.workspace.prompt.text == "half a"


@pytest.mark.parametrize("where", ["connect", "create"])
async def test_a_start_that_cannot_come_to_anything_ends_with_status_2(where: str) -> None:
    manager = ManagerDouble(fails_with=ConfigurationError("There is no such model."))

    async def connect() -> ConversationManager:
        if where == "connect":
            raise StoreVersionError("Written by a newer Handloom. Install the newer one.")
        return cast("ConversationManager", manager)

    app = HandloomApp(connect, StartOptions(workspace="/work", model="nonsense"))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.return_code is not None)
    assert app.return_code == 2


# -- questions ---------------------------------------------------------------------------------------------------------


async def test_an_action_is_shown_whole_with_hidden_characters_visible() -> None:
    async with running() as it:
        await it.session.hold(CmdRunAction(command="rm -rf a \u202e b\n" + "\n".join(f"line {n}" for n in range(40))))
        await it.settle()
        assert "U+202E" in it.screen_text()
        assert it.app.workspace.question is not None
        assert it.app.workspace.question.asked.body.endswith("line 39")
        assert it.prompt_has_focus


HALTS = [
    (Halt(HaltKind.LIMIT, "iterations"), "A limit was reached"),
    (Halt(HaltKind.MODEL, "rate_limit"), "The model did not answer"),
    (Halt(HaltKind.MODEL, "context_window"), "The model did not answer"),
    (Halt(HaltKind.SANDBOX), "The sandbox has stopped"),
    (Halt(HaltKind.STUCK, "monologue", 7), "The agent seems stuck in a loop"),
]


@pytest.mark.parametrize(
    ("halt", "title", "way"),
    [(halt, title, way) for halt, title in HALTS for way in halt.options if way is not HaltOption.SWITCH_MODEL],
)
async def test_a_halt_says_what_it_is_and_offers_its_ways_out(halt: Halt, title: str, way: HaltOption) -> None:
    async with running() as it:
        await it.session.become(halt=halt, reason="what went wrong")
        await it.settle()
        assert title in it.screen_text()
        assert "what went wrong" in it.screen_text()
        assert WAYS[way] in it.screen_text()
        await it.press(str(halt.options.index(way) + 1), "enter")
        assert it.session.wishes == [("recover", way)]
        assert it.app.workspace.question is None


async def test_another_model_is_chosen_from_the_halt_of_one_that_failed() -> None:
    async with running() as it:
        await it.session.become(halt=Halt(HaltKind.MODEL, "not_found"))
        await it.settle()
        await it.press("enter")
        await until(it.pilot, lambda: not it.shows_the_workspace)
        await it.press(*"other/one", "enter")
        await it.settle()
        assert it.session.wishes == [("recover", HaltOption.SWITCH_MODEL, "other/one")]


async def test_a_question_in_a_hidden_tab_is_marked_and_comes_up_with_its_tab() -> None:
    async with running() as it:
        hidden = it.session
        await it.press("ctrl+n")
        await hidden.hold(CmdRunAction(command="ls"))
        await it.settle()
        assert it.app.workspace.question is None
        items: tuple[TabItem, ...] = it.app.workspace.tabs._items  # type: ignore[assignment]
        assert items[0].mark.word == "waiting for you"
        await it.press("ctrl+x", "1")
        assert it.app.workspace.question is not None


# -- queued messages and delegates ---------------------------------------------------------------------------------


async def test_tab_queues_what_enter_would_say_now_and_it_is_shown_until_it_is_said() -> None:
    async with running() as it:
        await it.session.become(agent_state=AgentState.RUNNING)
        await it.press(*"next", "tab")
        assert it.session.wishes == [("queue", "next")]
        assert it.app.workspace.prompt.text == ""
        await it.settle()
        assert "queued: next" in it.screen_text()
        await it.session.become(queued=())
        await it.settle()
        assert "queued:" not in it.screen_text()


async def test_what_is_queued_can_be_taken_back_into_the_prompt() -> None:
    async with running() as it:
        await it.press(*"one", "tab", *"two", "tab")
        await it.press("ctrl+x", "Q")
        assert it.session.wishes[-1] == ("unqueue", "1")
        assert it.app.workspace.prompt.text == "two"
        await it.settle()
        assert "queued: one" in it.screen_text()
        assert "queued: two" not in it.screen_text()


async def test_a_hostile_text_that_is_queued_is_shown_clean() -> None:
    async with running() as it:
        await it.session.become(queued=(Queued(0, "a\x1b[31m\u202eb\nc"),))
        await it.settle()
        assert "\x1b" not in it.screen_text()
        assert "\u202e" not in it.screen_text()


async def test_a_delegate_has_a_tab_behind_its_parents_and_asks_there() -> None:
    async with running() as it:
        parent = it.session
        child = SessionDouble(replace(parent.info, id="child", title="count", parent=parent.info.id))
        other = SessionDouble(replace(parent.info, id="other", title="measure", parent=parent.info.id))
        it.manager.sessions.update(child=child, other=other)
        parent.delegates += [child, other]
        await parent.become(agent_state=AgentState.RUNNING)
        await until(it.pilot, lambda: len(it.app.tabs.all) == 3)
        await it.settle()
        assert [tab.id for tab in it.app.tabs.all][1:] == ["child", "other"]
        assert "└ count" in it.screen_text()
        assert child.delegation.attended
        await child.become(halt=Halt(HaltKind.LIMIT, "iterations"))
        await it.press("ctrl+x", "2")
        await it.settle()
        assert it.app.workspace.question is not None
        parent.delegates.clear()
        await it.press("ctrl+x", "1")
        await until(it.pilot, lambda: len(it.app.tabs.all) == 1)


async def test_the_list_of_conversations_is_a_tree() -> None:
    def info(id: str, parent: str = "") -> ConversationInfo:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        return ConversationInfo(id, id, "/w", "m", now, now, 1, parent=parent)

    flat = [info("grandchild", "child"), info("other"), info("child", "parent"), info("parent"), info("left", "gone")]
    assert [(level, each.id) for level, each in as_tree(flat)] == [
        (0, "other"),
        (0, "parent"),
        (1, "child"),
        (2, "grandchild"),
        (0, "left"),
    ]


async def test_the_sandbox_is_told_with_what_it_uses() -> None:
    async with running() as it:
        it.session.isolation = "bubblewrap"
        it.session.used = SandboxUsage(7, 300 * 1024**2, 12.5, 5_000 * 1024**2, 60, ("512 MB of memory in all",))
        it.session.left = ["sub/.git/hooks/pre-push: git runs it as a hook"]
        await it.press("ctrl+x", "s")
        await until(it.pilot, lambda: isinstance(it.app.screen, TextScreen))
        await it.settle()
        told = it.screen_text()
        assert "Isolated by bubblewrap" in told
        assert "7 processes, 300 MB of memory" in told
        assert "512 MB of memory in all" in told
        assert "- sub/.git/hooks/pre-push: git runs it as a hook" in told


def test_why_nothing_is_separated_is_told_clean() -> None:
    text = sandbox_text("none", "no \x1b[31mbubblewrap", SandboxSettings(), None)
    assert "Reason: no" in text
    assert "\x1b" not in text


async def test_a_background_job_is_ended_after_a_second_look() -> None:
    async with running() as it:
        it.session.running = [
            Job(7, "sleep\x1b[31m 100", 0.0, 0.5, "sleeping", foreground=False),
            Job(9, "make", 1.0, 2.5, "running", foreground=True),
        ]
        await it.press("ctrl+x", "j")
        await until(it.pilot, lambda: isinstance(it.app.screen, ChoiceScreen))
        await it.settle()
        assert "\x1b" not in it.screen_text()
        assert "the agent waits for it" in it.screen_text()
        await it.press("enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, SureScreen))
        await it.press("down", "enter")
        await until(it.pilot, lambda: it.session.wishes[-1:] == [("end_job", "7")])
