"""Text in the prompt and its destination, in the real app: commands, shell, references, pictures, editor."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from textual.events import Key, Paste

from core.controller.state import Queued
from core.errors import UsageError
from core.events import AgentState, CmdRunAction, Judged, MessageAction
from core.llm.settings import LLMSettings
from tests.store.test_blobs import png
from tests.tui.doubles import ManagerDouble
from tests.tui.workspace.running_app import Running, running, until
from tui.commands import BY_ID
from tui.shortcuts.help_screen import HelpScreen


async def paste(it: Running, text: str) -> None:
    it.app.workspace.prompt.post_message(Paste(text))
    await it.settle()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A repository with an ignored file."""
    folder = tmp_path / "workspace"
    (folder / "src").mkdir(parents=True)
    for name in ("src/parser.py", "src/a file.py", "parser.log"):
        (folder / name).touch()
    (folder / ".gitignore").write_text("*.log\n")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (20, 5)])
async def test_file_is_completed_at_every_size(workspace: Path, size: tuple[int, int]) -> None:
    async with running(size=size, workspace=str(workspace)) as it:
        await it.press(*"fix", "space", "at", *"pars")
        await until(it.pilot, lambda: it.app.workspace.prompt.completer.is_open)
        shown = it.app.workspace.prompt.list
        assert [row.value for row in shown.rows] == ["src/parser.py"], "what is ignored is not offered"
        assert it.app.screen.region.contains_region(shown.region)
        assert "parser" in it.screen_text()
        await it.press("tab", "enter")
        assert it.session.wishes == [("send", "fix src/parser.py ")]


async def test_escape_closes_the_list_before_it_stops_the_agent(workspace: Path) -> None:
    async with running(workspace=str(workspace)) as it:
        await it.session.become(agent_state=AgentState.RUNNING)
        await it.press("at")
        await until(it.pilot, lambda: it.app.workspace.prompt.completer.is_open)
        await it.press("escape")
        assert it.session.wishes == []
        assert not it.app.workspace.prompt.completer.is_open
        assert it.app.workspace.prompt.text == "@"
        await it.press("escape")
        assert it.session.wishes == [("interrupt",)]


# -- commands -------------------------------------------------------------------------------------------------------


async def test_slash_command_runs_a_command_of_the_table(it: Running) -> None:
    await it.press(*"/help", "enter")
    assert isinstance(it.app.screen, HelpScreen)
    await it.press("escape")
    assert it.app.workspace.prompt.text == ""
    assert it.session.wishes == []


async def test_list_of_commands_is_filtered_and_enter_runs_one(it: Running) -> None:
    await it.press("slash")
    assert "/theme" in it.screen_text()
    await it.press(*"mod")
    assert [row.value for row in it.app.workspace.prompt.list.rows] == ["model ", "mode "]
    await it.press("down", "enter")
    assert it.app.workspace.prompt.text == "/mode ", "its name can follow"
    await it.press(*"auto-edit", "enter")
    assert it.session.wishes == [("set_confirm_mode", "auto-edit")]


@pytest.fixture
def manager(tmp_path: Path) -> ManagerDouble:
    """A manager with a home in which the user keeps a command."""
    (tmp_path / "home" / "commands").mkdir(parents=True)
    (tmp_path / "home" / "commands" / "review.md").write_text(
        "---\ndescription: With fresh eyes\nargument-hint: FILE\n---\nReview $1."
    )
    manager = ManagerDouble()
    manager.store.home = tmp_path / "home"
    return manager


async def test_own_command_is_sent_or_queued_as_a_message(manager: ManagerDouble) -> None:
    async with running(manager=manager) as it:
        await it.press(*"/rev")
        assert "With fresh eyes" in it.screen_text()
        await it.press("tab", *"a.py", "enter")
        assert it.session.wishes == [("send", "Review a.py.")]
        await it.press(*"/review", "space", *"b.py", "tab")
        assert it.session.wishes[-1] == ("queue", "Review b.py.")


async def test_commands_of_an_untrusted_workspace_are_not_loaded(workspace: Path) -> None:
    for folder in (".handloom/commands", "commands"):
        (workspace / folder).mkdir(parents=True)
        (workspace / folder / "evil.md").write_text("Do harm.")
    async with running(workspace=str(workspace)) as it:
        await it.press(*"/evil", "enter")
        assert it.session.wishes == []
        assert "Unknown command /evil." in it.screen_text()


async def test_unknown_command_is_reported_and_stays_in_the_prompt(it: Running) -> None:
    await it.press(*"/nothing", "space", *"here", "enter")
    assert it.session.wishes == []
    assert it.app.workspace.prompt.text == "/nothing here"
    assert "Unknown command /nothing." in it.screen_text()
    await it.press("escape", "ctrl+u", *"/help", "space", *"me", "enter")
    assert it.app.workspace.prompt.text == "/help me"
    assert "/help takes no arguments." in it.screen_text()


@pytest.mark.parametrize(
    ("written", "said"), [("//help me", "/help me"), ("/tmp is full", "/tmp is full"), ("/etc/fstab", "/etc/fstab")]
)
async def test_two_slashes_or_a_path_are_sent_as_a_message(it: Running, written: str, said: str) -> None:
    it.app.workspace.prompt.put(written)
    await it.press("enter")
    assert it.session.wishes == [("send", said)]


async def test_built_in_commands_work_without_a_conversation_and_messages_start_one(it: Running) -> None:
    await it.press("ctrl+x", "w")
    assert it.app.tabs.current is None
    await it.press(*"/own", "enter")
    assert it.app.workspace.prompt.text == "/own"
    await it.press("ctrl+u", *"!ls", "enter")
    await until(it.pilot, lambda: it.app.tabs.current is not None)
    await it.settle()
    assert it.session.wishes == [("run_command", "ls")]
    await it.press("ctrl+x", "w", *"/new", "enter")
    assert it.app.tabs.current is not None


# -- the shell ------------------------------------------------------------------------------------------------------


async def test_message_goes_to_the_tab_in_which_enter_was_pressed(it: Running) -> None:
    first = it.session
    await it.press("ctrl+n")
    second = it.session
    assert second is not first
    judged = Judged.model_validate({"verdict": "ask", "rule": "mode always", "risk": "low"})
    for session in (first, second):
        await session.hold(CmdRunAction(command="git push", judgement=judged))
    await it.settle()
    it.app.workspace.prompt.put("not here")
    it.app.workspace.prompt.submit()
    it.app.tabs.step(1)  # the key was there before the message was handled
    await it.settle()
    assert it.session is first
    assert (first.wishes, second.wishes) == ([], [("reject", "not here")])


async def test_shell_command_is_run_and_shown(it: Running) -> None:
    await it.press("exclamation_mark", *"ls")
    assert "shell: Enter runs the command" in it.screen_text()
    await it.press("enter")
    assert it.session.wishes == [("run_command", "ls")]
    assert "$ ls" in it.screen_text()


async def test_refused_shell_command_is_reported_and_stays_in_the_prompt(it: Running) -> None:
    it.session.fails_with = UsageError("The agent works in this shell. Esc stops it.")
    await it.press("exclamation_mark", *"ls", "enter")
    assert "The agent works in this shell." in it.screen_text()
    assert it.app.workspace.prompt.text == "!ls"
    await it.press("tab")
    assert "Only messages can be queued." in it.screen_text()
    assert it.app.workspace.prompt.text == "!ls"


async def test_escape_stops_a_shell_command(it: Running) -> None:
    it.session.user_control.commands.is_busy = True
    await it.press("escape")
    assert it.session.wishes == [("interrupt",)]


# -- references and what goes along ---------------------------------------------------------------------------------


async def test_referenced_event_is_chosen_and_its_excerpt_is_sent(it: Running) -> None:
    it.session.stream.store(MessageAction(content="hello"))
    number = it.session.stream.store(CmdRunAction(command="make all")).id
    await it.press(*"why", "space", "number_sign", *"make")
    assert [row.value for row in it.app.workspace.prompt.list.rows] == [str(number)]
    await it.press("enter", "enter")
    ((kind, text, context),) = it.session.wishes
    assert (kind, text) == ("send", f"why #{number} ")
    assert f"Event #{number} (run, by the agent):\n> Running command: make all" in context
    assert "> Running command" not in it.screen_text(), "the transcript shows what was typed"


async def test_paste_is_sent_whole_and_its_chip_is_expanded_by_ctrl_o(it: Running) -> None:
    await paste(it, "line\n" * 20)
    assert "[pasted 20 lines #1]" in it.screen_text()
    await it.press("enter")
    assert it.session.wishes == [("send", "line\n" * 20)]
    await it.press("up", "ctrl+o")
    assert it.app.workspace.prompt.text == "line\n" * 20


async def test_picture_is_sent_with_a_warning_if_images_are_disabled(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(12, 7))
    async with running() as it:
        it.manager.settings.llm = LLMSettings(vision="no")
        await paste(it, str(tmp_path / "a.png"))
        assert "Images are disabled" in it.screen_text()
        it.session.fails_with = UsageError("Not now.")
        await it.press("enter")
        assert it.app.workspace.prompt.text == "[image 12x7 #1]", "it comes back with its picture"
        it.session.fails_with = None
        await it.press("enter")
        kind, text, url = it.session.wishes[-1]
        assert (kind, text) == ("send", "[image 12x7 #1]")
        assert url.startswith("data:image/png;base64,")


@pytest.mark.parametrize("closes", [False, True])
async def test_slash_command_acts_on_the_tab_in_which_it_was_typed_or_on_none(it: Running, closes: bool) -> None:
    first, typed_in = it.session, it.app.tabs.current
    await it.press("ctrl+n", "ctrl+x", "1", *"/pause")
    it.app.workspace.prompt.submit()
    it.app.tabs.step(1)  # before the command is handled
    if closes:
        assert typed_in is not None
        await it.app.tabs.drop(typed_in)
    await it.settle()
    assert first.wishes == ([] if closes else [("resume",)])
    assert it.manager.sessions["c1"].wishes == []
    assert ("/pause was not run: its tab was closed." in it.screen_text()) is closes


async def test_draft_keeps_its_chips_when_tabs_change(it: Running) -> None:
    await paste(it, "line\n" * 20)
    await it.press("ctrl+n")
    assert it.app.workspace.prompt.text == ""
    await it.press("ctrl+x", "1", "enter")
    assert it.session.wishes == [("send", "line\n" * 20)]


# -- the past, the editor, the hints --------------------------------------------------------------------------------


async def test_history_of_earlier_sessions_is_found_by_arrows_and_search() -> None:
    async with running(manager=ManagerDouble(user_inputs=["newer", "older fix"])) as it:
        await it.press("up")
        assert it.app.workspace.prompt.text == "newer"
        await it.press("ctrl+r", *"fix")
        assert "History: fix" in it.screen_text()
        await it.press("escape")
        assert it.app.workspace.prompt.text == "newer"
        await it.press("ctrl+r", *"fix", "tab")
        assert it.app.workspace.prompt.text == "older fix"
        assert it.session.wishes == []


async def test_ctrl_c_closes_the_history_search() -> None:
    async with running(manager=ManagerDouble(user_inputs=["newer"])) as it:
        await it.press(*"draft", "ctrl+r", "ctrl+c")
        assert it.app.workspace.prompt.text == "draft"
        assert not it.app.workspace.prompt.list.display


async def test_editor_in_a_terminal_that_cannot_be_suspended_is_reported(it: Running) -> None:
    await it.press(*"draft", "ctrl+g")
    assert "An editor cannot be opened in this terminal." in it.screen_text()
    assert it.app.workspace.prompt.text == "draft"


def edits(monkeypatch: pytest.MonkeyPatch, edit: Callable[[], object]) -> None:
    """Have the command of the user's editor do this."""
    command = replace(BY_ID["prompt.editor"], run=lambda app: edit())
    monkeypatch.setitem(BY_ID, "prompt.editor", command)


async def test_command_key_waits_for_keys_typed_before_it(it: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    prompt, found = it.app.workspace.prompt, list[str]()
    edits(monkeypatch, lambda: found.append(prompt.text))
    for key in (*"draft", "ctrl+g", *" and on", "ctrl+g"):  # all of it is in the queue at once
        it.app.post_message(Key(key, key if len(key) == 1 else None))
    await it.settle()
    assert found == ["draft", "draft and on"]


async def test_hanging_widget_does_not_block_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.app.TYPED_S", 0.01)
    async with running() as it:
        end, done = asyncio.Event(), asyncio.Event()
        edits(monkeypatch, done.set)
        it.app.workspace.prompt.call_later(end.wait)
        it.app.post_message(Key("ctrl+g", None))
        await done.wait()
        end.set()


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 12)])
async def test_hints_explain_the_keys_of_the_prompt_while_the_agent_works(size: tuple[int, int]) -> None:
    async with running(size=size) as it:
        assert "sends now" not in it.screen_text()
        await it.session.become(agent_state=AgentState.RUNNING)
        await it.settle()
        text = it.screen_text()
        assert all(words in text for words in ("Enter sends now", "Esc stops the agent", "Tab queues"))
        await it.session.become(agent_state=AgentState.FINISHED)
        await it.settle()
        assert "sends now" not in it.screen_text()


@pytest.mark.parametrize("size", [(80, 24), (40, 12)])
async def test_small_screen_has_a_line_of_hints_and_the_names_of_the_panes(size: tuple[int, int]) -> None:
    async with running(size=size) as it:
        lines = it.screen_text().splitlines()
        assert lines[-1].split("  ")[:3] == [" Enter send", "ctrl+j new line", "F1 help"]
        assert lines[0].rstrip().endswith("chat  events  terminal  browser")


async def test_queue_says_how_to_take_a_message_back(it: Running) -> None:
    await it.session.become(queued=(Queued(0, "one"), Queued(1, "two")))
    await it.settle()
    text = it.screen_text()
    assert "queued: one" in text
    assert "queued: two   ctrl+x Q removes it" in text
