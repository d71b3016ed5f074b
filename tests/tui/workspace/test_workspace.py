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
from core.events import AgentState, CmdRunAction, EventSource, FileEditAction, ModeAction
from core.sandbox_types import Job, Port, SandboxUsage
from core.settings.config import SandboxSettings
from core.store.conversations import ConversationInfo
from tests.tui.doubles import ManagerDouble, SessionDouble
from tests.tui.workspace.running_app import Running, running, until
from tui.app import HandloomApp
from tui.approval.answers import WAYS
from tui.approval.commands import ModeScreen
from tui.cli.options import StartOptions
from tui.delegation.delegate_tabs import as_tree
from tui.dialogs.dialog import ChoiceScreen, SureScreen, TextScreen
from tui.models.start_screen import StartScreen
from tui.sandbox.commands import sandbox_text
from tui.shortcuts.help_screen import HelpScreen
from tui.shortcuts.leader import WhichKey
from tui.workspace.tab_bar import TabItem


async def test_message_is_sent_and_shown(it: Running) -> None:
    await it.press(*"hello", "enter")
    assert it.session.wishes == [("send", "hello")]
    assert "hello" in it.screen_text()
    assert it.app.workspace.prompt.text == ""


async def test_unstored_message_goes_back_into_the_prompt_with_the_reason(it: Running) -> None:
    it.session.fails_with = StoreBusyError("The disk is full. Free some space and send it again.")
    await it.press(*"hello", "enter")
    assert it.app.workspace.prompt.text == "hello"
    assert "The disk is full." in it.screen_text()
    await it.press("escape")
    assert "The disk is full." not in it.screen_text()


async def test_internal_error_is_reported_and_the_app_stays_usable(it: Running) -> None:
    it.session.fails_with = ZeroDivisionError("oh")
    await it.press(*"hello", "enter")
    assert "Internal error (ZeroDivisionError: oh)" in it.screen_text()
    it.session.fails_with = None
    await it.press("enter")
    assert it.session.wishes[-1] == ("send", "hello")


# -- stopping and leaving ----------------------------------------------------------------------------------------------


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


async def test_ctrl_c_copies_the_selection(it: Running) -> None:
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


async def test_ctrl_d_deletes_while_there_is_text(it: Running) -> None:
    await it.press(*"ab", "left", "ctrl+d")
    assert it.app.workspace.prompt.text == "a"


async def test_quitting_closes_every_conversation_and_unsubscribes() -> None:
    async with running() as it:
        session = it.session
        await it.press("ctrl+q")
    assert it.manager.is_closed
    assert session.stream.listeners == 0


# -- panes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "pane"), [("f2", "chat"), ("f3", "events"), ("f4", "terminal")])
async def test_pane_key_focuses_then_maximises_then_restores(key: str, pane: str) -> None:
    async with running(size=(170, 40)) as it:
        panes = [it.app.workspace.pane(name) for name in ("chat", "events", "terminal")]
        await it.press(key)
        assert it.app.focused is it.app.workspace.pane(pane)
        assert [p.display for p in panes] == [True, True, True]
        await it.press(key)
        assert [p.id for p in panes if p.display] == [pane]
        await it.press(key)
        assert [p.display for p in panes] == [True, True, True]


async def test_f6_cycles_through_prompt_and_panes(it: Running) -> None:
    seen = []
    for _ in range(5):
        await it.press("f6")
        seen.append(it.app.focused.id if it.app.focused else None)
    assert seen == ["chat", "events", "terminal", "browser", "prompt"]
    await it.press("shift+f6")
    assert it.app.focused is it.app.workspace.browser


async def test_escape_restores_a_pane_and_then_returns_to_the_prompt(it: Running) -> None:
    await it.press("f4", "f4", "escape")
    assert it.app.workspace.chat.display
    await it.press("escape")
    assert it.prompt_has_focus


@pytest.mark.parametrize("key", ["f2", "f3", "f4", "f5"])
async def test_text_typed_at_a_pane_that_has_no_use_for_it_goes_into_the_prompt(it: Running, key: str) -> None:
    await it.press(key, *"7", "1")
    assert it.app.workspace.prompt.text == "71"
    assert it.prompt_has_focus


async def test_slash_typed_at_the_chat_begins_a_command_and_letters_of_the_chat_stay_its_keys(it: Running) -> None:
    await it.press("f2", "j", "space", "slash", *"cost")
    assert it.app.workspace.prompt.text == "/cost"


async def test_ctrl_o_unfolds_and_folds_output(it: Running) -> None:
    await it.session.run("seq 40", "\n".join(f"number {n}" for n in range(40)))
    await it.settle()
    assert "number 1\n" not in it.screen_text().replace(" ", "")
    model = it.app.tabs.current.chat  # type: ignore[union-attr]
    await it.press("ctrl+o")
    assert not any(block.folded for block in model.blocks if block.can_fold)
    await it.press("ctrl+o")
    assert all(block.folded for block in model.blocks if block.can_fold)


async def test_ctrl_l_goes_to_the_live_end(it: Running) -> None:
    for n in range(60):
        await it.session.say(f"line {n}")
    await it.settle()
    await it.press("f3", "home", "ctrl+l")
    await until(it.pilot, lambda: it.app.workspace.events_view.following)


async def test_taller_screen_still_follows_the_live_end(it: Running) -> None:
    for n in range(60):
        await it.session.say(f"line {n}")
    await it.settle()
    await it.press("f3", "end")
    view = it.app.workspace.events_view
    assert view.following
    for height in (50, 24, 60):
        await it.pilot.resize_terminal(100, height)
        await it.settle()
        assert view.following, height


# -- palette, leader, help ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [["f1"], ["question_mark"], ["ctrl+x", "question_mark"], ["f3", "question_mark"]])
async def test_help_shows_the_keys(it: Running, keys: list[str]) -> None:
    await it.press(*keys)
    assert isinstance(it.app.screen, HelpScreen)
    await it.press(*"palette")
    assert "Command palette" in it.screen_text()
    await it.press("escape")
    assert it.shows_the_workspace


async def test_question_mark_can_be_typed_into_a_message(it: Running) -> None:
    await it.press(*"why", "question_mark")
    assert it.app.workspace.prompt.text == "why?"


async def test_leader_waits_for_a_second_key_and_lists_them(it: Running) -> None:
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


async def test_leader_key_cuts_selected_text(it: Running) -> None:
    await it.press(*"abc", "shift+left", "ctrl+x")
    assert it.app.workspace.prompt.text == "ab"
    assert not it.app.leader.is_armed


# -- conversations -----------------------------------------------------------------------------------------------------


async def test_conversation_with_a_message_or_a_title_is_kept_when_its_tab_is_closed(it: Running) -> None:
    used = it.session
    await used.say("I look.")
    await used.run("ls", "a")
    await it.settle()
    await it.press("ctrl+n")
    named = it.session
    named.info = replace(named.info, title="mine")
    await it.press("ctrl+x", "w")
    await it.settle()
    await it.press("ctrl+x", "w")
    await it.settle()
    assert it.manager.closed == [named.info.id, used.info.id]
    assert it.manager.deleted == []


async def test_conversation_whose_mode_alone_was_changed_is_not_kept(it: Running) -> None:
    await it.session.say("I stay.")
    await it.press("ctrl+n")
    changed = it.session
    for mode in ("plan", "never", "risky"):
        await changed.stream.append(ModeAction(mode=mode), EventSource.USER)
    await it.settle()
    await it.press("ctrl+x", "w")
    await it.settle()
    assert it.manager.deleted == [changed.info.id]


async def test_tabs_open_switch_and_close(it: Running) -> None:
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
    assert it.manager.deleted == [first.info.id], "nothing was said in it"
    assert it.manager.viewed == [second.info.id]
    assert first.stream.listeners == 0
    await it.press("ctrl+x", "w")
    assert it.app.tabs.current is None
    assert "no conversation" in it.screen_text()
    await it.press("ctrl+n")
    assert it.app.tabs.current is not None


async def test_closing_a_tab_asks_while_its_agent_works(it: Running) -> None:
    await it.session.become(agent_state=AgentState.RUNNING)
    await it.settle()
    await it.press("ctrl+x", "w")
    assert isinstance(it.app.screen, SureScreen)
    await it.press("down", "enter")
    assert it.app.tabs.current is None


async def test_hidden_tab_collects_events_and_is_marked_unread(it: Running) -> None:
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


async def test_session_list_is_filtered_and_opens_a_conversation() -> None:
    manager = ManagerDouble()
    other = manager.add(workspace="/elsewhere", title="Fix the parser")
    async with running(manager=manager) as it:
        await it.press("ctrl+x", "l")
        assert "Fix the parser" in it.screen_text()
        await it.press(*"pars", "enter")
        assert it.session is other


async def test_model_and_mode_can_be_changed(it: Running) -> None:
    await it.press("ctrl+x", "m", *"openai/gpt-x", "enter")
    assert it.session.active_model.name == "openai/gpt-x"
    modes = []
    for _ in range(3):
        await it.press("shift+tab")
        modes.append(it.session.approval.mode)
    assert modes == ["auto-edit", "plan", "always"]
    assert "ask before everything" in it.screen_text()


async def test_mode_is_chosen_from_a_list_or_named(it: Running) -> None:
    await it.press(*"/mode", "enter")
    await until(it.pilot, lambda: isinstance(it.app.screen, ModeScreen))
    await it.settle()
    assert [part in it.screen_text() for part in ("full auto", "plan only", "ask before everything")] == [True] * 3
    await it.press(*"full", "enter")
    assert it.session.approval.mode == "never"
    await it.press(*"/mode risky", "enter")
    assert it.session.approval.mode == "risky"
    await it.press(*"/mode yolo", "enter")
    assert it.session.approval.mode == "risky"
    assert "no mode “yolo”" in it.screen_text()
    await it.press(*"/mode", "enter")
    await until(it.pilot, lambda: isinstance(it.app.screen, ModeScreen))
    await it.press("escape")
    assert it.session.approval.mode == "risky"


async def test_pause_key_pauses_then_resumes(it: Running) -> None:
    await it.session.become(agent_state=AgentState.RUNNING)
    await it.settle()
    await it.press("ctrl+x", "p", "ctrl+x", "p")
    assert it.session.wishes == [("pause",), ("resume",)]


# -- the start ---------------------------------------------------------------------------------------------------------


async def test_repository_starts_a_new_conversation() -> None:
    manager = ManagerDouble()
    manager.add()
    async with running(manager=manager, repository="/srv/repo.git#main") as it:
        assert it.session.info.id == "c1"
        assert it.session.info.repository == "/srv/repo.git#main"


async def test_instructions_start_a_new_conversation() -> None:
    manager = ManagerDouble()
    manager.add()
    async with running(manager=manager, instructions="Be brief.") as it:
        assert it.session.info.id == "c1"


async def test_last_conversation_of_this_folder_is_resumed_at_its_end() -> None:
    manager = ManagerDouble()
    mine = manager.add(workspace="/work")
    for n in range(300):
        mine.stream.store(FileEditAction(path=f"file {n}"))
    manager.add(workspace="/elsewhere")
    async with running(manager=manager) as it:
        assert it.session is mine
        assert "file 299" in it.screen_text()
        assert mine.stream.reads <= 2


async def test_conversation_with_a_message_is_opened_before_later_empty_ones() -> None:
    manager = ManagerDouble()
    worked = manager.add(title="Mend the build")
    manager.add()
    async with running(manager=manager, resume="") as it:
        assert it.session is worked
    manager = ManagerDouble()
    manager.add()
    empty = manager.add()
    async with running(manager=manager) as it:
        assert it.session is empty


async def test_unknown_conversation_is_reported_and_a_new_one_started() -> None:
    async with running(resume="nowhere") as it:
        assert "There is no conversation nowhere." in it.screen_text()
        assert it.session.info.id == "c0"


async def test_task_of_the_command_line_is_sent_to_a_new_conversation() -> None:
    manager = ManagerDouble()
    mine = manager.add(workspace="/work")
    async with running(manager=manager, task="fix the parser") as it:
        await until(it.pilot, lambda: bool(it.session.wishes))
        assert it.session is not mine
        assert it.session.wishes == [("send", "fix the parser")]


async def test_model_of_the_command_line_switches_the_conversation_of_the_folder() -> None:
    manager = ManagerDouble()
    mine = manager.add(workspace="/work", model="anthropic/claude-test")
    async with running(manager=manager, model="openai/other") as it:
        assert it.session is mine
        assert ("set_model", "openai/other") in mine.wishes
        assert "now uses openai/other; before, it used anthropic/claude-test." in it.screen_text()


async def test_without_a_model_the_start_screen_offers_some_and_stores_the_choice() -> None:
    manager = ManagerDouble()
    async with running(manager=manager, model=None) as it:
        assert isinstance(it.app.screen, StartScreen)
        assert "Anthropic" in it.screen_text()
        await it.press("5", "enter")
        await until(it.pilot, lambda: it.app.tabs.current is not None)
        assert it.session.active_model.name == "demo"
        assert manager.chosen == [("demo", "")]


async def test_start_screen_asks_for_url_and_model_of_an_endpoint() -> None:
    manager = ManagerDouble()
    async with running(manager=manager, model=None) as it:
        await it.press("3", "enter", "enter", *"qwen", "enter", "enter")
        await until(it.pilot, lambda: it.app.tabs.current is not None)
        assert manager.chosen == [("openai/qwen", "http://localhost:11434/v1")]


async def test_failed_start_is_reported_and_the_app_stays_usable() -> None:
    manager = ManagerDouble(fails_with=StoreBusyError("Another Handloom has the database. Close it and press ctrl+n."))
    async with running(manager=manager) as it:
        assert "Another Handloom has the database." in it.screen_text()
        manager.fails_with = None
        await it.press("escape", "ctrl+n")
        assert it.app.tabs.current is not None


def app_on(
    manager: ManagerDouble, opened: asyncio.Event | None = None, kind: type[HandloomApp] = HandloomApp
) -> HandloomApp:
    """An app that gets its manager once `opened` is set."""

    async def connect() -> ConversationManager:
        if opened is not None:
            await opened.wait()
        return cast("ConversationManager", manager)

    return kind(connect, StartOptions(workspace="/work", model="demo"))


@pytest.mark.parametrize(
    ("keys", "sent", "left"), [(["enter"], ("quick",), ""), ([], (), "quick")], ids=["sent", "unsent"]
)
async def test_text_from_before_the_conversation_is_open_is_kept(
    keys: list[str], sent: tuple[str, ...], left: str
) -> None:
    manager, opened = ManagerDouble(), asyncio.Event()
    app = app_on(manager, opened)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press(*"quick", *keys)
        assert app.submission.early == sent
        opened.set()
        await until(pilot, lambda: app.tabs.current is not None)
        wishes = manager.sessions["c0"].wishes
        await until(pilot, lambda: len(wishes) == len(sent))
        assert (wishes, app.workspace.prompt.text) == ([("send", text) for text in sent], left)


async def test_keys_from_before_the_first_frame_are_handled_in_order() -> None:
    class Early(HandloomApp):
        def compose(self) -> ComposeResult:
            for key in ("a", "b", "ctrl+j", "c"):
                self.post_message(events.Key(key, key if len(key) == 1 else None))
            return super().compose()

    app = app_on(ManagerDouble(), kind=Early)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.workspace.prompt.text == "ab\nc")


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (20, 5)], ids=str)
async def test_flash_is_shown_even_without_a_line_for_hints(size: tuple[int, int]) -> None:
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


async def test_exclusive_work_replaces_work_that_has_not_started() -> None:
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


async def test_frame_after_the_end_draws_nothing() -> None:
    app = app_on(ManagerDouble())
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.tabs.current is not None)
    app.frames.draw()


@pytest.mark.parametrize("where", ["connect", "create"])
async def test_unusable_store_or_model_ends_the_start_with_status_2(where: str) -> None:
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


async def test_question_shows_the_whole_action_and_hidden_characters(it: Running) -> None:
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
async def test_halt_shows_its_reason_and_its_options(it: Running, halt: Halt, title: str, way: HaltOption) -> None:
    await it.session.become(halt=halt, reason="what went wrong")
    await it.settle()
    assert title in it.screen_text()
    assert "what went wrong" in it.screen_text()
    assert WAYS[way] in it.screen_text()
    await it.press(str(halt.options.index(way) + 1), "enter")
    assert it.session.wishes == [("recover", way)]
    assert it.app.workspace.question is None


async def test_halt_of_a_model_offers_another_model(it: Running) -> None:
    await it.session.become(halt=Halt(HaltKind.MODEL, "not_found"))
    await it.settle()
    await it.press("enter")
    await until(it.pilot, lambda: not it.shows_the_workspace)
    await it.press(*"other/one", "enter")
    await it.settle()
    assert it.session.wishes == [("recover", HaltOption.SWITCH_MODEL, "other/one")]


async def test_question_of_a_hidden_tab_is_marked_and_shown_with_its_tab(it: Running) -> None:
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


async def test_tab_queues_the_message_and_shows_it_until_it_is_sent(it: Running) -> None:
    await it.session.become(agent_state=AgentState.RUNNING)
    await it.press(*"next", "tab")
    assert it.session.wishes == [("queue", "next")]
    assert it.app.workspace.prompt.text == ""
    await it.settle()
    assert "queued: next" in it.screen_text()
    await it.session.become(queued=())
    await it.settle()
    assert "queued:" not in it.screen_text()


async def test_queued_message_can_be_taken_back(it: Running) -> None:
    await it.press(*"one", "tab", *"two", "tab")
    await it.press("ctrl+x", "Q")
    assert it.session.wishes[-1] == ("unqueue", "1")
    assert it.app.workspace.prompt.text == "two"
    await it.settle()
    assert "queued: one" in it.screen_text()
    assert "queued: two" not in it.screen_text()


async def test_queued_text_is_sanitised(it: Running) -> None:
    await it.session.become(queued=(Queued(0, "a\x1b[31m\u202eb\nc"),))
    await it.settle()
    assert "\x1b" not in it.screen_text()
    assert "\u202e" not in it.screen_text()


async def test_delegate_has_a_tab_after_its_parent_and_asks_there(it: Running) -> None:
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


async def test_conversations_form_a_tree() -> None:
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


async def test_sandbox_dialog_shows_isolation_and_usage(it: Running) -> None:
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


def test_memory_of_the_sandbox_is_a_chart() -> None:
    def chart(*sizes: int) -> str:
        history = tuple((10.0 * (len(sizes) - n), size) for n, size in enumerate(sizes))
        usage = SandboxUsage(1, 5, 0.1, 10**9, 60, memory_history=history)
        return sandbox_text("bubblewrap", "", SandboxSettings(), usage)

    assert "Memory while" not in chart(100 * 1024**2)
    text = chart(0, 100 * 1024**2, 350 * 1024**2, 700 * 1024**2, 0, 0, 0)
    assert "in the last 1 min; at most 700 MB:\n▁▂▄█▁▁▁\n" in text
    long = chart(*range(1000)).partition("MB:\n")[2].splitlines()[0]
    assert len(long) == 60
    assert list(long) == sorted(long)
    assert chart(0, 0).partition("MB:\n")[2].startswith("▁▁\n")


def test_reason_for_missing_isolation_is_sanitised() -> None:
    text = sandbox_text("bubblewrap", "", SandboxSettings(), None, opened=("a.example", "b.example:81"))
    assert "Hosts that you have allowed: a.example, b.example:81." in text
    text = sandbox_text("none", "no \x1b[31mbubblewrap", SandboxSettings(), None)
    assert "Reason: no" in text
    assert "\x1b" not in text


async def test_port_of_the_sandbox_is_forwarded_and_its_address_shown(it: Running) -> None:
    it.session.listening = [Port(3000, 7, "node\x1b[31m server.js"), Port(8000, 9, "python3 -m http.server")]
    await it.press("ctrl+x", "O")
    await until(it.pilot, lambda: isinstance(it.app.screen, ChoiceScreen))
    await it.settle()
    assert "server.js" in it.screen_text()
    assert "\x1b" not in it.screen_text()
    await it.press("down", "enter")
    await until(it.pilot, lambda: isinstance(it.app.screen, TextScreen))
    await it.settle()
    assert "http://127.0.0.1:8001/" in it.screen_text()
    assert it.app.clipboard == "http://127.0.0.1:8001/"


async def test_editor_of_the_sandbox_is_forwarded_with_its_token(it: Running) -> None:
    await it.press("ctrl+x", "V")
    await until(it.pilot, lambda: "There is no editor." in it.screen_text())
    assert it.session.wishes == [("prepare",)]
    it.session.editor_address = "http://example.org:4000/?tkn=abc&folder=/w\x1b[2J"
    await it.press("escape", "ctrl+x", "V")
    await until(it.pilot, lambda: isinstance(it.app.screen, TextScreen))
    assert it.app.clipboard.startswith("http://127.0.0.1:4001/?tkn=abc&folder=/w")
    assert "\x1b" not in it.app.clipboard


async def test_background_job_is_ended_after_a_question(it: Running) -> None:
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


async def test_sandbox_variable_is_set_and_removed_in_the_prompt(it: Running) -> None:
    await it.press(*"/env A=b =c", "enter")
    await until(it.pilot, lambda: "A is set from the next command on." in it.screen_text())
    await it.press(*"/env A", "enter")
    await until(it.pilot, lambda: "A is removed from the next command on." in it.screen_text())
    assert it.session.wishes == [("set_environment", "{'A': 'b =c'}"), ("set_environment", "{'A': None}")]
    await it.press(*"/env ", "enter")
    await until(it.pilot, lambda: "Write /env NAME=VALUE" in it.screen_text())
