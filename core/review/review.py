"""The changes of a conversation in its workspace, to be accepted or reverted by file and hunk.

Shown are the files that the agent's turns changed, from the checkpoint that was accepted last, or the first one of the
conversation, to the files as they are. Accepting moves that checkpoint and is recorded as a ReviewAction; the workspace
is not touched. Reverting is an undo of files (`core.undo.undo`): durable, finished after a crash, reported to the
model, and it can be redone. Used while the agent rests.

Lines of a hunk end only at a line feed, as for diff and git, and not where `bytes.splitlines` would end them. So
putting hunks together gives the original bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from core.checkpoints.model import ChangeKind, FileChange
from core.errors import CheckpointError, UsageError
from core.events import CheckpointObservation, EventSource, ReviewAction, UndoObservation
from core.protocols import Checkpoints
from core.store.reader import EventFilter
from core.stream import EventStream
from core.undo.undo import NO_CHECKPOINTS, UndoPreview, Undos

CONTEXT = 3
"""Lines of context."""
MAX_BYTES = 1_000_000
"""The largest file that is split into hunks."""
MAX_LINES = 20_000


@dataclass(frozen=True, slots=True)
class Hunk:
    """One difference between two texts. Positions count lines from 0."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int
    lines: tuple[str, ...]
    """The hunk with its context, as a unified diff with its `@@` line. Foreign; bytes that are not UTF-8 are replaced.
    """


def hunks(old: bytes, new: bytes) -> list[Hunk] | None:
    """The differences of two contents, in order; None if they are binary or too long."""
    before, after = split(old), split(new)
    if b"\0" in old or b"\0" in new or max(len(before), len(after)) > MAX_LINES:
        return None
    return [_hunk(before, after, piece) for piece in _pieces(before, after)]


def applied(old: bytes, new: bytes, taken: Collection[int]) -> bytes:
    """The old content with those hunks of `hunks(old, new)` that have these numbers, and without the others."""
    before, after = split(old), split(new)
    parts: list[bytes] = []
    at = 0
    for number, (old_start, old_end, new_start, new_end) in enumerate(_pieces(before, after)):
        parts += before[at:old_start]
        parts += after[new_start:new_end] if number in taken else before[old_start:old_end]
        at = old_end
    return b"".join([*parts, *before[at:]])


def split(content: bytes) -> list[bytes]:
    """The lines, each with its line feed."""
    lines = content.split(b"\n")
    return [*(line + b"\n" for line in lines[:-1]), *([lines[-1]] if lines[-1] else [])]


_Piece = tuple[int, int, int, int]
"""The range of lines in the old content, and the lines of the new one in its place."""


def _pieces(before: Sequence[bytes], after: Sequence[bytes]) -> Iterator[_Piece]:
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return (opcode[1:] for opcode in matcher.get_opcodes() if opcode[0] != "equal")


def _hunk(before: Sequence[bytes], after: Sequence[bytes], piece: _Piece) -> Hunk:
    i1, i2, j1, j2 = piece
    start, end = max(0, i1 - CONTEXT), min(len(before), i2 + CONTEXT)
    lead, tail = before[start:i1], before[i2:end]
    head = f"@@ -{start + 1},{end - start} +{j1 - len(lead) + 1},{j2 - j1 + len(lead) + len(tail)} @@"
    marked = [(" ", lead), ("-", before[i1:i2]), ("+", after[j1:j2]), (" ", tail)]
    lines = [f"{mark}{_text(line)}" for mark, part in marked for line in part]
    return Hunk(i1, i2, j1, j2, (head, *lines))


def _text(line: bytes) -> str:
    return line.removesuffix(b"\n").decode("utf-8", "replace")


NOTHING_KEPT = "There is no checkpoint of this workspace yet: no turn has begun since checkpoints were enabled."
_CHECKPOINTS = EventFilter(kinds=frozenset({"observation:checkpoint"}))
_REVIEWS = EventFilter(kinds=frozenset({"action:review"}))


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes to review. Its texts are foreign."""

    base: str
    """The checkpoint that they are compared with."""
    now: str
    """The checkpoint of the files as they are."""
    files: tuple[FileChange, ...]
    """Those of the agent's turns; others may have changed some of them as well."""
    others: tuple[str, ...] = ()
    """Those of others alone."""


class Review:
    """The review of one conversation. Call it while the agent rests and no message is sent."""

    def __init__(self, checkpoints: Checkpoints | None, stream: EventStream, undos: Undos) -> None:
        self._checkpoints = checkpoints
        self._stream = stream
        self._undos = undos

    async def changes(self) -> Changes:
        """The changes that are not accepted. Raises UsageError, CheckpointError, StoreError."""
        checkpoints = self._required()
        base = await self._base()
        now = (await checkpoints.take("before a review")).id
        found = await checkpoints.changes(base, now)
        agent_paths = await self._undos.changed_by_turns()
        return Changes(
            base,
            now,
            tuple(change for change in found if change.path in agent_paths),
            tuple(change.path for change in found if change.path not in agent_paths),
        )

    async def hunks(self, changes: Changes, path: str) -> list[Hunk] | None:
        """The hunks of a file; None if it is binary or too large.

        Raises CheckpointError.
        """
        contents = await self._contents(changes, path)
        return None if contents is None else await asyncio.to_thread(hunks, *contents)

    async def accept(self, changes: Changes, path: str | None = None, numbers: Collection[int] | None = None) -> None:
        """Accept these changes: all of them, those of a file, or these hunks of it.

        Raises UsageError if the files have changed since, CheckpointError, StoreError.
        """
        await self._check_unchanged(changes)
        base = changes.now
        if path is not None:
            content = await self._partly_changed(changes, path, numbers)
            base = (await self._required().amend(changes.base, {path: content}, "accepted")).id
        review = ReviewAction(checkpoint=base, path=path or "", hunks=sorted(numbers or ()))
        await self._stream.append(review, EventSource.USER)

    async def revert(
        self, changes: Changes, path: str | None = None, numbers: Collection[int] | None = None
    ) -> UndoObservation:
        """Revert these changes in the workspace: all of them, those of a file, or these hunks of it.

        Returns the result. Raises as `accept`.
        """
        await self._check_unchanged(changes)
        chosen = [change for change in changes.files if path in (None, change.path)]
        wanted = changes.base
        if path is not None and numbers is not None:
            content = await self._partly_changed(changes, path, numbers, without=True)
            wanted = (await self._required().amend(changes.now, {path: content}, "reverted")).id
        others = await self._required().changes(changes.now, wanted)
        return await self._undos.carry_out(
            UndoPreview(
                first=self._stream.latest_id + 1,
                text="",
                events=0,
                changes=tuple(chosen),
                others=tuple(c.path for c in others if c.path not in {change.path for change in chosen}),
                before=changes.now,
                checkpoint=wanted,
            ),
            chat=False,
            files=True,
            overwrite=True,
        )

    # -- checkpoints and contents --------------------------------------------------------------------------------------

    def _required(self) -> Checkpoints:
        if self._checkpoints is None:
            raise UsageError(NO_CHECKPOINTS)
        return self._checkpoints

    async def _base(self) -> str:
        """The checkpoint that was accepted last, or the first of the conversation."""
        reviewed = await self._stream.page(limit=1, where=_REVIEWS)
        if reviewed and isinstance(reviewed[-1].event, ReviewAction):
            return reviewed[-1].event.checkpoint
        first = await self._stream.read(limit=1, where=_CHECKPOINTS)
        if not first or not isinstance(first[0].event, CheckpointObservation):
            raise UsageError(NOTHING_KEPT)
        return first[0].event.checkpoint

    async def _check_unchanged(self, changes: Changes) -> None:
        """Raise UsageError if the files have changed since."""
        now = (await self._required().take("before a review")).id
        if now != changes.now and await self._required().changes(changes.now, now):
            raise UsageError("Files have changed since this was shown. Review it again.")

    async def _contents(self, changes: Changes, path: str) -> tuple[bytes, bytes] | None:
        """A file before and after; None if it is too large."""
        checkpoints = self._required()
        try:
            old = await checkpoints.read(changes.base, path, MAX_BYTES)
            new = await checkpoints.read(changes.now, path, MAX_BYTES)
        except CheckpointError:
            return None
        return old or b"", new or b""

    async def _partly_changed(
        self, changes: Changes, path: str, numbers: Collection[int] | None, *, without: bool = False
    ) -> bytes | None:
        """The content of a file with these of its hunks, or all, or `without` them; None if it does not exist."""
        change = next((change for change in changes.files if change.path == path), None)
        if change is None:
            raise UsageError("This file has not changed. Review it again.")
        if numbers is None:
            return await self._required().read(changes.now, path, 1 << 62)
        contents = await self._contents(changes, path)
        found = None if contents is None else await asyncio.to_thread(hunks, *contents)
        if contents is None or found is None:
            raise UsageError("This file cannot be reviewed change by change. Accept or revert all of it.")
        chosen = set(range(len(found))) - set(numbers) if without else numbers
        content = await asyncio.to_thread(applied, *contents, chosen)
        missing = {ChangeKind.CREATED: contents[0], ChangeKind.DELETED: contents[1]}.get(change.kind)
        return None if content == missing else content


def comment(path: str, hunk: Sequence[str], text: str) -> tuple[str, str]:
    """The message for the agent about a file that it changed, and for the model alone the hunk."""
    context = f"About this change of {path}:\n```diff\n" + "\n".join(hunk) + "\n```" if hunk else ""
    return f"{path}: {text}", context
