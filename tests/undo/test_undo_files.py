"""Which files an undo restores and which it leaves alone, with a log and checkpoints in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from core.checkpoints.model import ChangeKind, Checkpoint, FileChange, Restored
from core.controller.decide import evolve
from core.controller.state import Limits, State
from core.errors import CheckpointError, UsageError
from core.events import (
    AgentState,
    AgentStateChangedObservation,
    CheckpointObservation,
    Envelope,
    EventSource,
    MessageAction,
    SystemMessageAction,
    UndoAction,
    UndoObservation,
)
from core.protocols import Checkpoints
from core.stream import EventStream, EventStreamSubscriber
from core.undo.undo import CHANGED_MEANWHILE, INTERRUPTED, MAX_NAMED_FILES, NO_CHECKPOINTS, NOT_KEPT, UndoPreview, Undos
from tests.streams import opened_stream

Files = Mapping[str, str]


class Kept:
    """Checkpoints of a workspace in memory, as far as an undo needs them; a restore leaves what `keeps` names."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.keeps: set[str] = set()
        self.restored: list[list[str]] = []
        self.compared: list[tuple[str, str]] = []
        self.broken = ""
        self._taken: list[dict[str, str]] = []

    def kept(self, files: Files) -> str:
        """The id of a checkpoint with these files; the same files have the same."""
        if files not in self._taken:
            self._taken.append(dict(files))
        return str(self._taken.index(dict(files)))

    async def take(self, label: str) -> Checkpoint:
        return Checkpoint(self.kept(self.files), label, len(self.files), 0, 0)

    async def changes(self, one: str, other: str) -> list[FileChange]:
        if self.broken == "changes":
            raise CheckpointError("No room.")
        self.compared.append((one, other))
        old, new = self._taken[int(one)], self._taken[int(other)]
        differ = sorted(path for path in {*old, *new} if old.get(path) != new.get(path))
        return [FileChange(path, _kind(path in old, path in new), 0, 0, binary=False) for path in differ]

    async def restore(self, checkpoint: str, paths: Sequence[str] | None = None) -> Restored:
        if self.broken == "restore":
            raise CheckpointError("No room.")
        before, target = await self.take("before"), self._taken[int(checkpoint)]
        self.restored.append(list(paths or ()))
        for path in set(paths or ()) - self.keeps:
            self.files.pop(path, None)
            if path in target:
                self.files[path] = target[path]
        return Restored(before, (), tuple(sorted(self.keeps & set(paths or ()))))


def _kind(was: bool, is_: bool) -> ChangeKind:
    return ChangeKind.CHANGED if was and is_ else ChangeKind.CREATED if is_ else ChangeKind.DELETED


@dataclass
class Log:
    """The log of one conversation, its checkpoints, and the state that is the fold of it."""

    stream: EventStream
    kept: Kept
    states: list[State]
    undos: Undos

    async def says(self, text: str, *, queued: bool = False, by: EventSource = EventSource.USER) -> int:
        return (await self.stream.append(MessageAction(content=text, queued=queued), by)).id

    async def is_in(self, state: AgentState) -> int:
        changed = AgentStateChangedObservation(agent_state=state)
        return (await self.stream.append(changed, EventSource.ENVIRONMENT)).id

    async def keeps(self, after: int, files: Files) -> None:
        """Record that the files were such after an event."""
        record = CheckpointObservation(checkpoint=self.kept.kept(files), after=after)
        await self.stream.append(record, EventSource.ENVIRONMENT)
        self.kept.files = dict(files)

    async def turn(self, text: str, before: Files, after: Files) -> int:
        """A turn that found such files, and left such."""
        first = await self.says(text)
        await self.keeps(first, before)
        await self.keeps(await self.is_in(AgentState.AWAITING_USER_INPUT), after)
        return first

    async def shown(self, first: int | None = None) -> tuple[list[str], list[str], list[str]]:
        """The files that an undo would change, those that others changed too, and those that it does not touch."""
        preview = await self.undos.preview(first)
        return [change.path for change in preview.changes], list(preview.disputed), list(preview.others)


@asynccontextmanager
async def logged(tmp_path: Path, *, has_checkpoints: bool = True) -> AsyncIterator[Log]:
    states, kept = [State.initial(Limits())], Kept()

    async def take(envelope: Envelope) -> None:
        states[0] = evolve(states[0], envelope)

    async with opened_stream(tmp_path) as stream:
        stream.subscribe(EventStreamSubscriber.TEST, take, "fold")
        yield Log(
            stream,
            kept,
            states,
            Undos(cast("Checkpoints", kept) if has_checkpoints else None, stream, lambda: states[0]),
        )


async def test_preview_separates_files_of_turns_and_of_others(tmp_path: Path) -> None:
    async with logged(tmp_path) as log:
        first = await log.turn("one", {"a": "0"}, {"a": "1", "b": "1"})
        assert await log.shown() == (["a", "b"], [], [])
        log.kept.files = {"a": "user", "b": "1", "c": "user"}
        assert await log.shown() == (["a", "b"], ["a"], ["c"])
        second = await log.turn("two", log.kept.files, {"a": "user", "b": "2"})
        assert await log.shown() == (["b", "c"], [], [])
        assert await log.shown(first) == (["a", "b"], ["a"], []), "the user's own between turns is no turn's"
        preview = await log.undos.preview(second)
        assert (preview.first, preview.text, preview.events) == (second, "two", log.stream.latest_id + 1 - second)
        assert (preview.before, preview.checkpoint) == (log.kept.kept(log.kept.files), log.kept.kept(
            {"a": "user", "b": "1", "c": "user"}
        ))  # fmt: skip


async def test_earlier_checkpoint_counts_if_the_turn_has_none(tmp_path: Path) -> None:
    async with logged(tmp_path) as log:
        bare = await log.says("nothing was kept")
        assert (await log.undos.preview(bare)).why_no_files == NOT_KEPT
        await log.is_in(AgentState.AWAITING_USER_INPUT)
        await log.turn("one", {"a": "0"}, {"a": "1"})
        assert (await log.undos.preview(bare)).why_no_files == NOT_KEPT
        second = await log.says("two")
        await log.keeps(await log.is_in(AgentState.FINISHED), {"a": "2"})
        assert await log.shown(second) == (["a"], [], [])
        assert (await log.undos.preview(second)).checkpoint == log.kept.kept({"a": "1"})


@pytest.mark.parametrize(
    ("how", "is_ours"),
    [
        ("a message while it works", True),
        ("a queued message", True),
        ("its own message", True),
        ("it goes on running", True),
        ("a message at rest", False),
        ("it runs again after a rest", False),
    ],
)
async def test_changes_without_a_rest_belong_to_the_agent(tmp_path: Path, how: str, is_ours: bool) -> None:
    async with logged(tmp_path) as log:
        await log.keeps(first := await log.says("one"), {"a": "0"})
        if "rest" in how:
            await log.keeps(await log.is_in(AgentState.AWAITING_USER_INPUT), {"a": "0"})
        if "run" in how:
            moment = await log.is_in(AgentState.RUNNING)
        else:
            by = EventSource.AGENT if "own" in how else EventSource.USER
            moment = await log.says("two", queued="queued" in how, by=by)
        await log.keeps(moment, {"a": "1"})
        changes, _, others = await log.shown(first)
        assert (changes, others) == ((["a"], []) if is_ours else ([], ["a"]))


async def test_changes_by_undo_do_not_belong_to_others(tmp_path: Path) -> None:
    async with logged(tmp_path) as log:
        first = await log.turn("one", {"a": "0"}, {"a": "1"})
        log.kept.files = {"a": "1", "c": "user"}
        before, after = log.kept.kept(log.kept.files), log.kept.kept({"a": "undone", "c": "user"})
        await log.stream.append(UndoObservation(before=before, after=after), EventSource.ENVIRONMENT)
        log.kept.files = {"a": "undone", "c": "user"}
        assert await log.shown(first) == (["a"], [], ["c"])
        await log.stream.append(UndoObservation(), EventSource.ENVIRONMENT)
        assert await log.shown(first) == (["a"], [], ["c"]), "one of the chat alone says nothing of files"


async def test_changed_files_of_turns_are_cached(tmp_path: Path) -> None:
    async with logged(tmp_path) as log:
        assert await log.undos.changed_by_turns() == set()
        await log.turn("one", {"a": "0"}, {"a": "1"})
        assert await log.undos.changed_by_turns() == {"a"}
        await log.turn("two", {"a": "1", "mine": "user"}, {"a": "0", "mine": "user", "b": "2"})
        assert await log.undos.changed_by_turns() == {"a", "b"}
        compared = len(log.kept.compared)
        assert await log.undos.changed_by_turns() == {"a", "b"}
        assert len(log.kept.compared) == compared


async def test_turns_exclude_queued_and_undone_messages(tmp_path: Path) -> None:
    async with logged(tmp_path) as log:
        said = [await log.says(str(n), queued=n % 10 == 0) for n in range(130)]
        assert len(await log.undos.turns()) == 117
        assert [turn.text for turn in await log.undos.turns(limit=3)] == ["129", "128", "127"]
        await log.says("of the agent", by=EventSource.AGENT)
        asked = await log.stream.append(UndoAction(first=said[5], chat=True, files=False), EventSource.USER)
        await log.stream.append(UndoObservation(), EventSource.ENVIRONMENT, asked.id)
        assert [(turn.id, turn.text) for turn in await log.undos.turns()] == [(said[n], str(n)) for n in (4, 3, 2, 1)]


# -- doing it ----------------------------------------------------------------------------------------------------------

WAS = {"a": "0", "b": "0", "c": "0"}
IS = {"a": "1", "b": "1", "c": "1", "d": "1"}


async def to_undo(log: Log, was: Files = WAS, is_: Files = IS, **more: Any) -> UndoPreview:
    """What to carry out, in a conversation at rest whose workspace is such."""
    await log.stream.append(SystemMessageAction(content="x"), EventSource.AGENT)
    await log.stream.settle()
    log.kept.files = dict(is_)
    before, checkpoint = log.kept.kept(is_), log.kept.kept(was)
    changes = tuple(await log.kept.changes(before, checkpoint))
    return replace(UndoPreview(0, "one", 3, changes=changes, before=before, checkpoint=checkpoint), **more)


@pytest.mark.parametrize(
    ("more", "overwrite", "after"),
    [
        ({}, False, WAS),
        ({"disputed": ("a",)}, False, {**WAS, "a": "1"}),
        ({"disputed": ("a",)}, True, WAS),
        ({"disputed": ("a",), "others": ("d",)}, True, {**WAS, "d": "1"}),
        ({"disputed": ("a", "b", "c"), "others": ("d",)}, False, IS),
    ],
)
async def test_disputed_files_are_kept_unless_overwritten(
    tmp_path: Path, more: dict[str, Any], overwrite: bool, after: Files
) -> None:
    async with logged(tmp_path) as log:
        preview = await to_undo(log, **more)
        done = await log.undos.carry_out(preview, chat=False, files=True, overwrite=overwrite)
        changed = sum(IS.get(path) != after.get(path) for path in {*IS, *after})
        assert (log.kept.files, done.done, done.changed) == (after, True, changed)
        assert (done.before, done.after) == (log.kept.kept(IS), log.kept.kept(after))
        assert len(log.kept.restored) == bool(changed)
        *_, asked, answer = await log.stream.read()
        assert isinstance(asked.event, UndoAction)
        assert (answer.event, answer.cause, log.states[0].undoing) == (done, asked.id, None)


@pytest.mark.parametrize(
    ("count", "chat", "redoes", "told"),
    [
        (2, False, None, "[The user has undone your changes to these files: 0, 1]"),
        (2, True, None, ""),
        (MAX_NAMED_FILES, False, None, ", 98, 99]"),
        (MAX_NAMED_FILES + 2, False, None, " and 2 more]"),
    ],
)
async def test_model_gets_the_file_names_of_an_undo_of_files(
    tmp_path: Path, count: int, chat: bool, redoes: int | None, told: str
) -> None:
    files = {f"{n:>{len(str(count - 1))}}".replace(" ", ""): "1" for n in range(count)}
    async with logged(tmp_path) as log:
        preview = await to_undo(log, {}, files)
        preview = replace(preview, changes=tuple(sorted(preview.changes, key=lambda change: int(change.path))))
        done = await log.undos.carry_out(preview, chat=chat, files=True, overwrite=False)
        assert done.content == told if not told or told[0] == "[" else done.content.endswith(told[-8:])
        assert done.changed == count


async def test_redo_notice_has_printable_file_names(tmp_path: Path) -> None:
    async with logged(tmp_path) as log:
        preview = await to_undo(log, {"\udcff": "1"}, {})
        undone = await log.undos.carry_out(preview, chat=False, files=True, overwrite=False)
        assert undone.content == "[The user has undone your changes to these files: ?]"
        action = log.states[0].undone[-1].id
        back = replace(preview, before=preview.checkpoint, checkpoint=preview.before, redoes=action)
        again = await log.undos.carry_out(back, chat=False, files=True, overwrite=False)
        assert again.content == "[The user has taken that undo back. These files have your changes again: ?]"


async def test_files_kept_by_the_restore_are_reported(tmp_path: Path) -> None:
    async with logged(tmp_path) as log:
        preview = await to_undo(log)
        log.kept.keeps = {"b"}
        done = await log.undos.carry_out(preview, chat=False, files=True, overwrite=False)
        assert (done.kept, done.changed) == (["b"], 3)
        assert "b" not in done.content.split(": ")[1]


@pytest.mark.parametrize(
    ("chat", "files", "more", "why"),
    [
        (False, False, {}, "No file would change"),
        (False, True, {"changes": ()}, "No file would change"),
        (False, True, {"changes": (), "why_no_files": NOT_KEPT}, "were not kept"),
    ],
)
async def test_undo_of_nothing_is_refused(
    tmp_path: Path, chat: bool, files: bool, more: dict[str, Any], why: str
) -> None:
    async with logged(tmp_path) as log:
        preview = await to_undo(log, **more)
        with pytest.raises(UsageError, match=why):
            await log.undos.carry_out(preview, chat=chat, files=files, overwrite=False)
        assert not any(isinstance(e.event, UndoAction) for e in await log.stream.read())


async def test_undo_of_the_chat_touches_no_files(tmp_path: Path) -> None:
    async with logged(tmp_path) as log:
        preview = await to_undo(log, disputed=("a",))
        assert await log.undos.carry_out(preview, chat=True, files=False, overwrite=False) == UndoObservation()
        (action,) = [e.event for e in await log.stream.read() if isinstance(e.event, UndoAction)]
        assert action == UndoAction(first=0, chat=True, files=False)
        assert (log.kept.files, log.kept.restored) == (IS, [])


def changes_one(log: Log) -> None:
    log.kept.files["a"] = "meanwhile"


def breaks_restoring(log: Log) -> None:
    log.kept.broken = "restore"


def breaks_comparing(log: Log) -> None:
    log.kept.broken = "changes"


def works(log: Log) -> None:
    log.states[0] = replace(log.states[0], agent_state=AgentState.RUNNING)


@pytest.mark.parametrize(
    ("meanwhile", "why"),
    [
        (changes_one, CHANGED_MEANWHILE),
        (breaks_restoring, "No room."),
        (breaks_comparing, "No room."),
        (works, "The agent was at work. Stop it; then undo."),
    ],
)
async def test_impossible_undo_gives_a_reason_and_touches_no_files(
    tmp_path: Path, meanwhile: Callable[[Log], None], why: str
) -> None:
    async with logged(tmp_path) as log:
        preview = await to_undo(log)
        meanwhile(log)
        before = dict(log.kept.files)
        done = await log.undos.carry_out(preview, chat=True, files=True, overwrite=False)
        assert (done, log.kept.files) == (UndoObservation(done=False, why=why), before)
        assert log.states[0].undoing is None


@pytest.mark.parametrize(
    ("found", "has_checkpoints", "why", "after"),
    [
        (IS, True, INTERRUPTED, IS),
        ({**IS, "other": "x"}, True, INTERRUPTED, {**IS, "other": "x"}),
        ({**IS, "a": "0"}, True, "", WAS),
        ({**WAS, "other": "x"}, True, "", {**WAS, "other": "x"}),
        (IS, False, NO_CHECKPOINTS, IS),
    ],
)
async def test_undo_of_a_dead_process_is_finished_or_not_done(
    tmp_path: Path, found: Files, has_checkpoints: bool, why: str, after: Files
) -> None:
    async with logged(tmp_path, has_checkpoints=has_checkpoints) as log:
        await log.undos.finish_interrupted()
        preview = await to_undo(log)
        assert len(await log.stream.read()) == 1, "nothing was begun, so nothing is finished"
        action = UndoAction(first=0, chat=True, files=True, before=preview.before, checkpoint=preview.checkpoint)
        asked = await log.stream.append(action, EventSource.USER)
        await log.stream.settle()
        log.kept.files = dict(found)
        await log.undos.finish_interrupted()
        *_, answer = await log.stream.read()
        assert isinstance(answer.event, UndoObservation)
        assert (answer.cause, answer.event.done, answer.event.why) == (asked.id, not why, why)
        assert (log.kept.files, log.states[0].undoing) == (after, None)


async def test_redo_preview_shows_changes_of_others(tmp_path: Path) -> None:
    async with logged(tmp_path) as log:
        with pytest.raises(UsageError, match="nothing to redo"):
            await log.undos.preview_redo()
        await log.undos.carry_out(await to_undo(log), chat=True, files=False, overwrite=False)
        alone = await log.undos.preview_redo()
        assert (alone.changes, alone.chat, alone.why_no_files) == ((), True, "")
        preview = await to_undo(log)
        await log.undos.carry_out(preview, chat=False, files=True, overwrite=False)
        log.kept.files = {**WAS, "a": "user", "e": "user"}
        redo = await log.undos.preview_redo()
        assert [change.path for change in redo.changes] == ["a", "b", "c", "d"]
        assert (redo.disputed, redo.others) == (("a",), ("e",))
        assert (redo.before, redo.checkpoint) == (log.kept.kept(log.kept.files), preview.before)
        action = log.states[0].undone[-1]
        assert (redo.redoes, redo.chat, redo.first, redo.events) == (action.id, False, 0, action.id)
        log.kept.broken = "changes"
        assert (await log.undos.preview_redo()).why_no_files == "The files cannot be restored. No room."
