"""Deleting a conversation: refusals, order, and that other conversations are unaffected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.conversations.conversation_manager import ConversationManager
from core.errors import CheckpointError, StoreBusyError, UsageError
from core.events import AgentState
from core.settings.config import Settings
from core.store.bookmarks import Bookmarks
from core.store.conversations import ConversationInfo
from core.store.event_store import EventStore
from tests.doubles import FINISH, ScriptedRuntime, bash, write_script


class Outside:
    """Stored data of conversations outside the database; raises `fails` once if it is set."""

    def __init__(self) -> None:
        self.forgotten: list[str] = []
        self.fails: Exception | None = None

    async def forget(self, info: ConversationInfo, *, later: bool) -> None:
        failure, self.fails = self.fails, None
        if failure is not None:
            raise failure
        self.forgotten.append(info.id)


@pytest.fixture
def outside() -> Outside:
    return Outside()


@pytest.fixture
async def manager(tmp_path: Path, outside: Outside) -> AsyncIterator[ConversationManager]:
    script = write_script(tmp_path, [{"tool_calls": [bash("work")]}, FINISH])
    async with ConversationManager(
        tmp_path / "home",
        Settings(model=script),
        make_runtime=lambda workspace: ScriptedRuntime(lambda action: None),
        forget=outside.forget,
        environ={},
    ) as manager:
        yield manager


async def ids(manager: ConversationManager) -> set[str]:
    return {info.id for info in await manager.store.conversations()}


async def test_resting_open_conversation_is_closed_before_deletion(
    manager: ConversationManager, outside: Outside, tmp_path: Path
) -> None:
    session = await manager.create(workspace=str(tmp_path))
    marks = Bookmarks(manager.store.home)
    await asyncio.to_thread(marks.write, session.id, [0])
    await manager.delete(session.id)
    assert await asyncio.to_thread(marks.read, session.id) == []
    assert not manager.is_open(session.id)
    assert outside.forgotten == [session.id]
    assert await ids(manager) == set()


async def test_deleting_a_working_conversation_is_refused(
    manager: ConversationManager, outside: Outside, tmp_path: Path
) -> None:
    session = await manager.create(workspace=str(tmp_path))
    await session.send("go")
    while session.state.agent_state is not AgentState.RUNNING:
        await session.changed()
    with pytest.raises(UsageError, match="still working"):
        await manager.delete(session.id)
    assert manager.is_open(session.id)
    assert outside.forgotten == []
    await session.interrupt()


async def test_delegates_are_deleted_before_their_parent(
    manager: ConversationManager, outside: Outside, tmp_path: Path
) -> None:
    store = manager.store
    for id, parent in (("top", ""), ("child", "top"), ("grandchild", "child"), ("other", "")):
        await store.release(
            await store.create_conversation(id, title="", workspace=str(tmp_path), model="m", parent=parent)
        )
    await manager.delete("top")
    assert outside.forgotten == ["grandchild", "child", "top"]
    assert await ids(manager) == {"other"}


async def test_failed_deletion_can_be_repeated(manager: ConversationManager, outside: Outside, tmp_path: Path) -> None:
    session = await manager.create(workspace=str(tmp_path))
    outside.fails = CheckpointError("git is not there. Install it.")
    with pytest.raises(CheckpointError):
        await manager.delete(session.id)
    assert await ids(manager) == {session.id}
    await manager.delete(session.id)
    assert await ids(manager) == set()


async def test_deleting_a_conversation_open_elsewhere_changes_nothing(
    manager: ConversationManager, outside: Outside, tmp_path: Path
) -> None:
    async with EventStore(tmp_path / "home") as elsewhere:
        await elsewhere.create_conversation("theirs", title="", workspace=str(tmp_path), model="m")
        assert await manager.open_elsewhere(["theirs"]) == {"theirs"}
        with pytest.raises(StoreBusyError, match="is open in"):
            await manager.delete("theirs")
        assert outside.forgotten == []
    assert await manager.open_elsewhere(["theirs"]) == set()
    await manager.delete("theirs")
    assert outside.forgotten == ["theirs"]


async def test_renaming_works_for_open_and_closed_conversations(manager: ConversationManager, tmp_path: Path) -> None:
    session = await manager.create(workspace=str(tmp_path))
    await manager.rename(session.id, "open")
    assert session.info.title == "open"
    await manager.close(session.id)
    await manager.rename(session.id, "closed")
    (info,) = await manager.store.conversations(conversation_id=session.id)
    assert info.title == "closed"
    with pytest.raises(UsageError):
        await manager.rename("nope", "x")
