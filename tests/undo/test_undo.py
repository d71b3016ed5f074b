"""Undo and redo of a turn in the chat, in the files or in both, with real folders and checkpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from core.checkpoints.model import ChangeKind, Checkpoint, Restored
from core.controller.decide import fold
from core.conversations.conversation_manager import ConversationManager
from core.errors import CheckpointError, UsageError
from core.events import (
    AgentState,
    CmdOutputObservation,
    Envelope,
    EventSource,
    MessageAction,
    UndoAction,
    UndoObservation,
)
from core.memory.view import View
from core.session.agent_session import AgentSession
from core.snapshots.state_snapshots import state_from_json, state_to_json
from core.undo.undo import INTERRUPTED, NO_CHECKPOINTS
from runtime.checkpoints.checkpoint_store import WorkspaceCheckpoints
from tests.checkpoints.test_turns import FREE, conversation, read, rested
from tests.doubles import FINISH, ScriptedRuntime, bash, write_script
from tests.warm_servers import WarmRuntime

TURNS = [
    {"tool_calls": [bash("echo 1 > a")]},
    FINISH,
    {"tool_calls": [bash("echo 2 > a; rm mine; echo 2 > b")]},
    FINISH,
    {"text": "Answer of the third turn."},
]


async def two_turns(session: AgentSession, workspace: Path) -> list[Envelope]:
    """After it: `a` is 2, `b` is 2, `mine` is gone; before the second turn `a` was 1 and `mine` was there."""
    (workspace / "mine").write_text("of the user")
    for text in ("one", "two"):
        await session.send(text)
        await rested(session)
    return await session.stream.read()


def seen(log: Sequence[Envelope]) -> list[str]:
    """The user's messages that the model sees."""
    return [e.event.content for e in View.of(log).events if isinstance(e.event, MessageAction)]


async def is_consistent(session: AgentSession) -> None:
    """The live state equals the fold of the log, and a snapshot round-trips."""
    log = await session.stream.read()
    assert fold(log, session.state.limits) == session.state
    assert state_from_json(state_to_json(session.state)) == session.state


async def test_last_turn_is_undone_and_redone(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    async with conversation(tmp_path, TURNS) as (session, _):
        await two_turns(session, workspace)
        before, finished = read(workspace), session.state
        preview = await session.undo.preview()
        assert preview.text == "two"
        shown = [(change.path, change.kind, change.added, change.removed) for change in preview.changes]
        assert shown == [
            ("a", ChangeKind.CHANGED, 1, 1),
            ("b", ChangeKind.DELETED, 0, 1),
            ("mine", ChangeKind.CREATED, 1, 0),
        ]
        assert read(workspace) == before, "a preview changes nothing"
        assert (await session.undo.undo(preview)).changed == 3
        assert read(workspace) == {"a": "1\n", "mine": "of the user"}
        assert session.state.agent_state is AgentState.AWAITING_USER_INPUT
        assert seen(await session.stream.read()) == ["one"]
        assert [turn.text for turn in await session.undo.turns()] == ["one"]
        await is_consistent(session)
        assert (await session.undo.redo()).changed == 3
        assert read(workspace) == before
        assert session.state.agent_state is finished.agent_state is AgentState.FINISHED
        assert seen(await session.stream.read()) == ["one", "two"]
        await is_consistent(session)


async def test_turns_are_undone_and_redone_one_by_one(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    async with conversation(tmp_path, TURNS) as (session, _):
        await two_turns(session, workspace)
        at_the_end = read(workspace)
        await session.undo.undo()
        before_two = read(workspace)
        await session.undo.undo()
        assert read(workspace) == {"mine": "of the user"}
        assert session.state.first_message_id is None
        with pytest.raises(UsageError, match="nothing to undo"):
            await session.undo.undo()
        await session.undo.redo()
        assert read(workspace) == before_two
        await session.undo.redo()
        assert read(workspace) == at_the_end
        with pytest.raises(UsageError, match="nothing to redo"):
            await session.undo.redo()
        await is_consistent(session)


async def test_several_turns_are_undone_at_once(tmp_path: Path) -> None:
    async with conversation(tmp_path, TURNS) as (session, _):
        await two_turns(session, tmp_path / "workspace")
        *_, first = await session.undo.turns()
        await session.undo.undo(first.id)
        assert read(tmp_path / "workspace") == {"mine": "of the user"}
        assert seen(await session.stream.read()) == []


async def test_undoing_the_first_turn_makes_the_next_message_the_first(tmp_path: Path) -> None:
    async with conversation(tmp_path, TURNS) as (session, _):
        await session.send("one")
        await rested(session)
        await session.undo.undo()
        await session.send("anew")
        log = await rested(session)
        context = [e.event for e in View.of(log).events if e.event.kind == "recall"]
        assert [event.recall_type for event in context] == ["workspace_context"] * 2  # type: ignore[attr-defined]
        assert seen(log) == ["anew"]


async def test_chat_and_files_can_be_undone_separately(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    async with conversation(tmp_path, TURNS) as (session, _):
        await two_turns(session, workspace)
        before = read(workspace)
        await session.undo.undo(files=False)
        assert read(workspace) == before
        assert seen(await session.stream.read()) == ["one"]
        await session.undo.redo()
        done = await session.undo.undo(chat=False)
        assert read(workspace) == {"a": "1\n", "mine": "of the user"}
        assert seen(await session.stream.read()) == ["one", "two"]
        assert done.content == "[The user has undone your changes to these files: a, b, mine]"
        await session.undo.redo()
        assert read(workspace) == before
        await is_consistent(session)


async def test_new_message_prevents_redo(tmp_path: Path) -> None:
    async with conversation(tmp_path, TURNS) as (session, _):
        await two_turns(session, tmp_path / "workspace")
        await session.undo.undo()
        await session.send("three")
        log = await rested(session)
        assert seen(log) == ["one", "three", "Answer of the third turn."]
        with pytest.raises(UsageError, match="nothing to redo"):
            await session.undo.redo()
        assert [turn.text for turn in await session.undo.turns()] == ["three", "one"]


async def test_files_changed_by_others_are_kept_unless_overwritten(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    async with conversation(tmp_path, TURNS) as (session, _):
        await two_turns(session, workspace)
        (workspace / "a").write_text("edited by the user")
        (workspace / "notes").write_text("of the user alone")
        preview = await session.undo.preview()
        assert (preview.disputed, preview.others) == (("a",), ("notes",))
        await session.undo.undo(preview)
        spared = {"a": "edited by the user", "notes": "of the user alone", "mine": "of the user"}
        assert read(workspace) == spared
        await session.undo.redo()
        await session.undo.undo(overwrite=True)
        assert read(workspace) == {**spared, "a": "1\n"}
        await session.undo.redo()
        assert read(workspace)["a"] == "edited by the user"


async def test_user_changes_between_turns_are_not_undone(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    async with conversation(tmp_path, TURNS) as (session, _):
        await session.send("one")
        await rested(session)
        (workspace / "between").write_text("of the user")
        await session.send("two")
        await rested(session)
        *_, first = await session.undo.turns()
        preview = await session.undo.preview(first.id)
        assert [change.path for change in preview.changes] == ["a", "b"]
        await session.undo.undo(preview)
        assert read(workspace) == {"between": "of the user"}


async def test_changes_before_a_message_during_work_belong_to_the_agent(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    turns = [{"tool_calls": [bash("echo 1 > a")]}, {"tool_calls": [bash("while [ ! -e go ]; do :; done")]}, FINISH]
    async with conversation(tmp_path, turns) as (session, _):
        await session.send("one")
        async with asyncio.timeout(30):
            while not any("go" in str(waiting.action) for waiting in session.state.queue):
                await session.changed()
        await session.send("one more thing")
        (workspace / "go").touch()
        await rested(session)
        *_, first = await session.undo.turns()
        preview = await session.undo.preview(first.id)
        assert "a" in [change.path for change in preview.changes]
        assert "a" not in preview.disputed


async def test_files_changed_after_the_preview_stop_the_undo(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    async with conversation(tmp_path, TURNS) as (session, _):
        await two_turns(session, workspace)
        preview = await session.undo.preview()
        (workspace / "a").write_text("meanwhile")
        before = read(workspace)
        done = await session.undo.undo(preview)
        assert not done.done
        assert "changed since the list was shown" in done.why
        assert read(workspace) == before
        assert seen(await session.stream.read()) == ["one", "two"]
        await is_consistent(session)


async def test_undo_is_refused_while_the_agent_works(tmp_path: Path) -> None:
    runtime = ScriptedRuntime(lambda action: None)
    async with conversation(tmp_path, [{"tool_calls": [bash("sleep 9")]}], make_runtime=lambda _: runtime) as (s, _):
        await s.send("one")
        async with asyncio.timeout(20):
            await runtime.started.wait()
        for wish in (s.undo.preview(), s.undo.undo(), s.undo.redo()):
            with pytest.raises(UsageError, match="Press Esc to stop it"):
                await wish
        await s.interrupt()
        await rested(s)
        await s.undo.undo()
        assert seen(await s.stream.read()) == []


async def test_undo_stops_waiting_actions(tmp_path: Path) -> None:
    async with conversation(tmp_path, [{"tool_calls": [bash("touch never")]}]) as (session, _):
        session.approval.set_mode("always")
        await session.send("one")
        log = await rested(session)
        assert session.state.awaiting is not None
        await session.undo.undo()
        assert session.state.agent_state is AgentState.AWAITING_USER_INPUT
        assert not session.state.queue
        assert read(tmp_path / "workspace") == {}
        assert seen(await session.stream.read()) == []
        assert not any(isinstance(e.event, CmdOutputObservation) for e in log)
        await is_consistent(session)


async def test_without_checkpoints_only_the_chat_is_undone(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    async with ConversationManager(tmp_path / "home", FREE, make_runtime=WarmRuntime, environ={}) as manager:
        session = await manager.create(workspace=str(tmp_path / "workspace"), model=write_script(tmp_path, TURNS))
        await session.send("one")
        await rested(session)
        preview = await session.undo.preview()
        assert (preview.changes, preview.why_no_files) == ((), NO_CHECKPOINTS)
        with pytest.raises(UsageError, match="checkpoints are switched off"):
            await session.undo.undo(chat=False)
        await session.undo.undo()
        assert seen(await session.stream.read()) == []
        assert read(tmp_path / "workspace") == {"a": "1\n"}


class Dying(WorkspaceCheckpoints):
    """Dies in a restore as a process that is killed does: nothing comes after it. `does` says how far it gets."""

    does = "nothing"

    async def restore(self, checkpoint: str, paths: Sequence[str] | None = None) -> Restored:
        if self.does == "all":
            await super().restore(checkpoint, paths)
        elif self.does == "half":
            await super().restore(checkpoint, list(paths or [])[:1])
        raise asyncio.CancelledError

    async def take(self, label: str) -> Checkpoint:
        if label == "after an undo":
            raise asyncio.CancelledError
        return await super().take(label)


@pytest.mark.parametrize("does", ["nothing", "half", "all"])
async def test_undo_interrupted_by_a_crash_is_finished_or_not_done(tmp_path: Path, does: str) -> None:
    home, workspace, dies = tmp_path / "home", tmp_path / "workspace", [True]
    workspace.mkdir()

    def checkpoints(folder: str, id: str) -> WorkspaceCheckpoints:
        made = (Dying if dies else WorkspaceCheckpoints)(home, folder, id)
        if isinstance(made, Dying):
            made.does = does
        return made

    named: Any = {"make_runtime": WarmRuntime, "make_checkpoints": checkpoints, "environ": {}}
    async with ConversationManager(home, FREE, **named) as manager:
        session = await manager.create(workspace=str(workspace), model=write_script(tmp_path, TURNS))
        await two_turns(session, workspace)
        with pytest.raises(asyncio.CancelledError):
            await session.undo.undo()
    dies.clear()
    (workspace / "notes").write_text("of the user alone")
    async with ConversationManager(home, FREE, **named) as manager:
        session = await manager.open(session.id)
        (workspace / "notes").unlink()
        log = await session.stream.read()
        (asked,) = [e.id for e in log if isinstance(e.event, UndoAction)]
        (answer,) = [e for e in log if isinstance(e.event, UndoObservation)]
        assert isinstance(answer.event, UndoObservation)
        assert answer.cause == asked
        if does == "nothing":
            assert answer.event.why == INTERRUPTED
            assert read(workspace) == {"a": "2\n", "b": "2\n"}
            assert seen(log) == ["one", "two"]
            await session.undo.undo()
        assert read(workspace) == {"a": "1\n", "mine": "of the user"}
        assert seen(await session.stream.read()) == ["one"]
        await session.undo.redo()
        assert read(workspace) == {"a": "2\n", "b": "2\n"}
        await is_consistent(session)


async def test_undo_without_files_is_finished_after_a_crash(tmp_path: Path) -> None:
    home, workspace, dies = tmp_path / "home", tmp_path / "workspace", [True]
    workspace.mkdir()

    def checkpoints(folder: str, id: str) -> WorkspaceCheckpoints:
        return (Dying if dies else WorkspaceCheckpoints)(home, folder, id)

    named: Any = {"make_runtime": WarmRuntime, "make_checkpoints": checkpoints, "environ": {}}
    async with ConversationManager(home, FREE, **named) as manager:
        session = await manager.create(workspace=str(workspace), model=write_script(tmp_path, TURNS))
        await two_turns(session, workspace)
        edited = dict.fromkeys(("a", "b", "mine"), "edited by the user")
        for name, text in edited.items():
            (workspace / name).write_text(text)
        with pytest.raises(asyncio.CancelledError):
            await session.undo.undo()
    dies.clear()
    async with ConversationManager(home, FREE, **named) as manager:
        session = await manager.open(session.id)
        log = await session.stream.read()
        (answer,) = [e.event for e in log if isinstance(e.event, UndoObservation)]
        assert (answer.done, answer.why, answer.changed) == (True, "", 0)
        assert (read(workspace), seen(log)) == (edited, ["one"])


async def test_queued_message_is_no_turn(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    held = {
        "tool_calls": [bash("touch held; until [ -e gate ]; do sleep 0.01; done")]
    }  # at rest it would be said at once
    async with conversation(tmp_path, [*TURNS[:4], held, FINISH, {"text": "Of the fourth turn."}]) as (session, _):
        await two_turns(session, workspace)
        await session.send("three")
        async with asyncio.timeout(60):
            while not (workspace / "held").exists():
                await asyncio.sleep(0.01)
        await session.stream.append(MessageAction(content="four", queued=True), EventSource.USER)
        assert [turn.text for turn in await session.undo.turns()] == ["three", "two", "one"]
        (workspace / "gate").touch()
        await rested(session)


async def test_changes_during_an_undo_belong_to_others(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"

    class Disturbed(WorkspaceCheckpoints):
        """Others write a file when the undo has been done, before the turns look at the files again."""

        async def take(self, label: str) -> Checkpoint:
            taken = await super().take(label)
            if label == "after an undo":
                (workspace / "late").write_text("of others")
            return taken

    async with conversation(tmp_path, TURNS, make=Disturbed) as (session, _):
        await two_turns(session, workspace)
        *_, first = await session.undo.turns()
        await session.undo.undo()
        await rested(session)
        preview = await session.undo.preview(first.id)
        assert "late" not in [change.path for change in preview.changes]
        assert preview.others == ("late",)


async def test_checkpoint_error_stops_the_undo(tmp_path: Path) -> None:
    class Failing(WorkspaceCheckpoints):
        async def restore(self, checkpoint: str, paths: Sequence[str] | None = None) -> Restored:
            raise CheckpointError("No room. Make some.")

    async with conversation(tmp_path, TURNS, make=Failing) as (session, _):
        await two_turns(session, tmp_path / "workspace")
        done = await session.undo.undo()
        assert (done.done, done.why) == (False, "No room. Make some.")
        assert seen(await session.stream.read()) == ["one", "two"]
        await is_consistent(session)


async def test_undo_survives_a_restart(tmp_path: Path) -> None:
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    workspace.mkdir()
    named: Any = {
        "make_runtime": WarmRuntime,
        "make_checkpoints": lambda folder, id: WorkspaceCheckpoints(home, folder, id),
        "environ": {},
    }
    async with ConversationManager(home, FREE, **named) as manager:
        session = await manager.create(workspace=str(workspace), model=write_script(tmp_path, TURNS))
        await two_turns(session, workspace)
        await session.undo.undo()
    async with ConversationManager(home, FREE, **named) as manager:
        session = await manager.open(session.id)
        assert read(workspace) == {"a": "1\n", "mine": "of the user"}
        await is_consistent(session)
        await session.undo.redo()
        assert read(workspace) == {"a": "2\n", "b": "2\n"}
        await is_consistent(session)


class Breaking(WorkspaceCheckpoints):
    """Takes no checkpoint that is called so."""

    label = ""

    async def take(self, label: str) -> Checkpoint:
        if label == self.label:
            raise CheckpointError("No room. Make some.")
        return await super().take(label)


async def test_chat_is_undone_alone_if_files_cannot_be_read(tmp_path: Path) -> None:
    why = "The files cannot be restored. No room. Make some."
    async with conversation(tmp_path, TURNS, make=Breaking) as (session, store):
        assert isinstance(store, Breaking)
        await two_turns(session, tmp_path / "workspace")
        with pytest.raises(UsageError, match="There is nothing to redo"):
            await session.undo.preview_redo()
        store.label = "before an undo"
        preview = await session.undo.preview()
        assert (preview.text, preview.changes, preview.why_no_files) == ("two", (), why)
        with pytest.raises(UsageError, match="No room"):
            await session.undo.undo(preview, chat=False)
        store.label = ""
        assert (await session.undo.undo()).done
        store.label = "before a redo"
        again = await session.undo.preview_redo()
        assert (again.text, again.changes, again.why_no_files, again.chat) == ("two", (), why, True)
        assert again.redoes is not None
        store.label = ""
        assert [change.path for change in (await session.undo.preview_redo()).changes] == ["a", "b", "mine"]
        await is_consistent(session)


async def test_turns_are_listed_newest_first(tmp_path: Path) -> None:
    async with conversation(tmp_path, TURNS) as (session, _):
        with pytest.raises(UsageError, match="There is nothing to undo yet"):
            await session.undo.preview()
        events = await two_turns(session, tmp_path / "workspace")
        said = [(e.id, e.event.content) for e in events if isinstance(e.event, MessageAction)]
        assert [(turn.id, turn.text) for turn in await session.undo.turns()] == said[::-1]
        assert [turn.text for turn in await session.undo._undos.turns(limit=1)] == ["two"]
        with pytest.raises(UsageError, match="There is no such turn"):
            await session.undo.preview(said[1][0] + 1)
        first = await session.undo.preview(said[0][0])
        assert (first.first, first.text, first.events) == (said[0][0], "one", session.stream.latest_id + 1 - said[0][0])
