"""Undo, redo, forks and consent as the user meets them: the real app on real conversations in a real folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from textual.pilot import Pilot
from textual.widgets import OptionList

from core.conversations.conversation_manager import ConversationManager
from core.events import ConsentAction, MessageAction
from core.session.agent_session import AgentSession
from core.settings.screen_settings import ScreenSettings
from core.store.conversations import NewConversation
from tests.checkpoints.test_turns import read
from tests.doubles import write_script
from tests.tui.workspace.running_app import until
from tests.workspaces.test_forks import TURNS, manager_of, said
from tui.app import HandloomApp
from tui.cli.options import StartOptions
from tui.dialogs.dialog import ChoiceScreen, SureScreen
from tui.undo.commands import UndoScreen


@dataclass
class Shown:
    """The app on a real manager."""

    app: HandloomApp
    pilot: Pilot[None]
    manager: ConversationManager
    workspace: Path

    @property
    def session(self) -> AgentSession:
        assert self.app.tabs.conversation is not None
        return self.app.tabs.conversation.session

    async def say(self, text: str) -> None:
        await self.session.send(text)
        await self.session.settled()
        self.app.frames.draw()
        await self.pilot.pause()

    def text(self) -> str:
        lines = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in lines)

    async def leader(self, key: str, screen: type) -> None:
        await self.pilot.press("ctrl+x", key)
        await until(self.pilot, lambda: isinstance(self.app.screen, screen))

    async def sees(self, text: str) -> None:
        async with asyncio.timeout(30):
            await until(self.pilot, lambda: text in self.text())


@asynccontextmanager
async def shown(tmp_path: Path, resume: str | None = None, *, guard_ms: int = 0) -> AsyncIterator[Shown]:
    async with manager_of(tmp_path) as manager:

        async def connect() -> ConversationManager:
            return manager

        model = write_script(tmp_path, TURNS)
        screen = ScreenSettings(question_guard_ms=guard_ms)
        options = StartOptions(workspace=str(tmp_path / "workspace"), model=model, resume=resume, screen=screen)
        app = HandloomApp(connect, options)
        async with app.run_test(size=(100, 34)) as pilot:
            await until(pilot, lambda: app.tabs.current is not None)
            yield Shown(app, pilot, manager, tmp_path / "workspace")


async def test_undo_shows_files_and_returns_the_message_to_the_prompt(tmp_path: Path) -> None:
    async with shown(tmp_path) as it:
        await it.say("the first task")
        await it.say("the second task")
        before = read(it.workspace)
        await it.leader("u", UndoScreen)
        await it.sees("~ a  reverted  +1 −1")
        await it.sees("− b  deleted  +0 −1")
        assert read(it.workspace) == before, "nothing is written while it is shown"
        await it.pilot.press("enter")
        await until(it.pilot, lambda: it.app.workspace.prompt.text == "the second task")
        assert read(it.workspace) == {"a": "1\n"}
        await it.sees("undone: ")
        await it.leader("R", UndoScreen)
        await it.sees("b  restored  +1 −0")
        await it.pilot.press("enter")
        await until(it.pilot, lambda: it.app.workspace.prompt.text == "")
        assert read(it.workspace) == before


async def test_early_keys_and_clicks_undo_nothing(tmp_path: Path) -> None:
    async with shown(tmp_path, guard_ms=5_000) as it:
        await it.say("the first task")
        await it.say("the second task")
        before = read(it.workspace)
        await it.leader("u", UndoScreen)
        await it.sees("b  deleted")
        await it.pilot.press("enter", "down", "enter")
        await it.sees("b  deleted")
        await it.pilot.click(OptionList, offset=(5, 1))
        await it.sees("a  deleted")
        await it.pilot.click(OptionList, offset=(5, 1))
        assert isinstance(it.app.screen, UndoScreen)
        await it.pilot.press("escape")
        await until(it.pilot, lambda: it.app.screen is it.app.workspace)
        assert read(it.workspace) == before


async def test_turn_and_scope_are_selected_and_esc_changes_nothing(tmp_path: Path) -> None:
    async with shown(tmp_path) as it:
        await it.say("the first task")
        await it.say("the second task")
        before = read(it.workspace)
        log = await it.session.stream.read()
        await it.leader("u", UndoScreen)
        await it.sees("b  deleted")
        await it.pilot.press("escape")
        await until(it.pilot, lambda: it.app.screen is it.app.workspace)
        assert await it.session.stream.read() == log
        await it.leader("u", UndoScreen)
        await it.pilot.press("down")
        await it.sees("a  deleted")
        await it.pilot.press("tab")
        await it.sees("Files do not change.")
        await it.pilot.press("enter")
        await until(it.pilot, lambda: it.app.workspace.prompt.text == "the first task")
        assert read(it.workspace) == before


async def test_u_on_a_chat_message_undoes_from_there(tmp_path: Path) -> None:
    async with shown(tmp_path) as it:
        await it.say("the first task")
        await it.say("the second task")
        it.app.workspace.show_pane("chat")
        await it.pilot.press("home")
        while it.app.workspace.chat.cursor is None or it.app.workspace.chat.cursor.text != "the first task":
            await it.pilot.press("up")
        await it.pilot.press("u")
        await until(it.pilot, lambda: isinstance(it.app.screen, UndoScreen))
        await it.sees("a  deleted")
        await it.pilot.press("enter")
        await until(it.pilot, lambda: it.app.workspace.prompt.text == "the first task")
        assert read(it.workspace) == {}


async def test_fork_opens_in_a_new_tab(tmp_path: Path) -> None:
    async with shown(tmp_path) as it:
        await it.say("the first task")
        await it.say("the second task")
        second = said(await it.session.stream.read())[1]
        it.app.workspace.show_pane("events")
        it.app.workspace.events_view.go_to(second)
        await it.leader("f", ChoiceScreen)
        await it.sees(f"Fork from event {second}")
        await it.pilot.press("enter")
        await until(it.pilot, lambda: it.session.info.title == "the first task (fork)")
        assert len(it.app.tabs.all) == 2
        assert read(Path(it.session.info.workspace)) == {"a": "1\n"}


async def test_imported_conversation_asks_before_the_first_message(tmp_path: Path) -> None:
    async with manager_of(tmp_path) as manager:
        session = await manager.create(workspace=str(tmp_path / "workspace"), model=write_script(tmp_path, TURNS))
        await session.send("of somebody else")
        await session.settled()
        log = await session.stream.read()
        new = NewConversation(
            "i" * 32, "", session.info.workspace, session.info.model, "import", "evil\x1b[2J\x9b.json"
        )  # fmt: skip
        await manager.store.adopt(new, log)
    async with shown(tmp_path, resume="i" * 32) as it:
        it.app.workspace.prompt.put("go on")
        it.app.workspace.prompt.focus()
        await it.pilot.press("enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, SureScreen))
        await it.sees("was imported from")
        await it.pilot.press("enter")
        await until(it.pilot, lambda: it.app.workspace.prompt.text == "go on")
        assert len(await it.session.stream.read()) == len(log)
        await it.pilot.press("enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, SureScreen))
        await it.pilot.press("down", "enter")
        async with asyncio.timeout(30):
            while len(await it.session.stream.read()) < len(log) + 2:
                await it.pilot.pause()
        await it.session.settled()
        kinds = [type(e.event) for e in (await it.session.stream.read())[len(log) :]]
        assert kinds[:2] == [ConsentAction, MessageAction]
