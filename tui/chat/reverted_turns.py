"""Replaces the blocks of undone turns by one line, and puts them back after a redo.

The result depends on the events alone, in whatever pages they are loaded: a page of older events gets what newer events
say about it. Knows no terminal.
"""

from __future__ import annotations

from core.events import Envelope, UndoAction, UndoObservation
from tui.chat.blocks import Block, Kind
from tui.i18n import counted


class RevertedTurns:
    """The undone turns of one model. Changes the list of its blocks in place."""

    def __init__(self) -> None:
        self.moves = 0
        """The number of changes of the list."""
        self._actions: dict[int, UndoAction] = {}
        self._done: set[int] = set()
        """Undos that succeeded and whose action is in an older page."""
        self._redone: set[int] = set()
        """Undos that were redone and whose action is in an older page."""
        self._lines: dict[int, Block] = {}
        """The line of each undo, which hides blocks from its event on."""

    def for_older_page(self) -> RevertedTurns:
        older = RevertedTurns()
        older._done, older._redone = self._done, self._redone
        return older

    def fold(self, blocks: list[Block], envelope: Envelope) -> None:
        """Apply an undo or its observation; any other event changes nothing."""
        match envelope.event:
            case UndoAction() as action:
                self._actions[envelope.id] = action
                if envelope.id in self._done:
                    self._settle(blocks, envelope.id)
            case UndoObservation(done=True) if envelope.cause is not None:
                if envelope.cause in self._actions:
                    self._settle(blocks, envelope.cause)
                else:
                    self._done.add(envelope.cause)

    def _settle(self, blocks: list[Block], id: int) -> None:
        action = self._actions[id]
        if action.redoes is not None:
            line = self._lines.pop(action.redoes, None)
            if line is not None and line in blocks:
                self.moves += 1
                _restore(blocks, line)
            else:
                self._redone.add(action.redoes)
        elif action.chat and id not in self._redone:
            self.moves += 1
            self._hide(blocks, id, action.first)

    def _hide(self, blocks: list[Block], id: int, first: int) -> None:
        start = next((index for index, block in enumerate(blocks) if block.event_id >= first), len(blocks))
        title = counted(id - first, "undone: {n} event", "undone: {n} events")
        line = Block(Kind.UNDONE, title, event_id=first, undone=tuple(blocks[start:]))
        line.serial = blocks[start].serial if line.undone else blocks[-1].serial + 1 if blocks else 0
        blocks[start:] = [line]
        for block in line.undone:
            block.serial = line.serial  # a cursor on one of them is then on the line
        line.touch()
        self._lines[id] = line

    def absorb(self, page: list[Block], older: RevertedTurns) -> set[Block]:
        """Hide what an older page has of undone turns, each block behind the innermost line.

        Returns the changed lines.
        """
        touched = set[Block]()
        lines = sorted(self._lines.values(), key=lambda line: line.event_id)
        for line in reversed(lines):  # of two that begin with one event, the later first
            start = next((index for index, block in enumerate(page) if block.event_id >= line.event_id), len(page))
            if start < len(page):
                line.undone = (*page[start:], *line.undone)
                del page[start:]
                line.touch()
                touched.add(line)
        self._lines |= older._lines
        self._actions |= older._actions
        return touched


def _restore(blocks: list[Block], line: Block) -> None:
    start = blocks.index(line)
    blocks[start : start + 1] = line.undone
    for number, block in enumerate(blocks[start:]):
        block.serial = line.serial + number
        block.touch()
