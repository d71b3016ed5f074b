"""UndoneTurns: the blocks of turns that were undone give their places to one line, and have them again by a redo.

Follows from the events alone, in whatever pages they come: a page of older events is told what newer ones have said of
it. Knows no terminal.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.events import Envelope, UndoAction, UndoObservation
from tui.chat.blocks import Block, Kind
from tui.i18n import counted


@dataclass(eq=False, slots=True)
class _Span:
    """What one undo has put behind a line."""

    first: int
    line: Block


class UndoneTurns:
    """Of one model. Changes the list of its blocks in place."""

    def __init__(self) -> None:
        self.moves = 0
        """How often it has."""
        self._asked: dict[int, UndoAction] = {}
        self._done: set[int] = set()
        """Undos that came to be, and whose action is in an older page."""
        self._redone: set[int] = set()
        """Those that were taken back, and whose action is in an older page."""
        self._spans: dict[int, _Span] = {}

    def of_older(self) -> UndoneTurns:
        """For a page of older events."""
        older = UndoneTurns()
        older._done, older._redone = self._done, self._redone
        return older

    def fold(self, blocks: list[Block], envelope: Envelope) -> None:
        """Take in an undo or its observation; any other event changes nothing."""
        match envelope.event:
            case UndoAction() as action:
                self._asked[envelope.id] = action
                if envelope.id in self._done:
                    self._settle(blocks, envelope.id)
            case UndoObservation(done=True) if envelope.cause is not None:
                if envelope.cause in self._asked:
                    self._settle(blocks, envelope.cause)
                else:
                    self._done.add(envelope.cause)

    def _settle(self, blocks: list[Block], id: int) -> None:
        action = self._asked[id]
        if action.redoes is not None:
            span = self._spans.pop(action.redoes, None)
            if span is not None and span.line in blocks:
                self.moves += 1
                _put_back(blocks, span.line)
            else:
                self._redone.add(action.redoes)
        elif action.chat and id not in self._redone:
            self.moves += 1
            self._put_away(blocks, id, action.first)

    def _put_away(self, blocks: list[Block], id: int, first: int) -> None:
        start = next((index for index, block in enumerate(blocks) if block.event_id >= first), len(blocks))
        title = counted(id - first, "undone: {n} event", "undone: {n} events")
        line = Block(Kind.UNDONE, title, event_id=first, behind=tuple(blocks[start:]))
        line.serial = blocks[start].serial if line.behind else blocks[-1].serial + 1 if blocks else 0
        blocks[start:] = [line]
        for block in line.behind:
            block.serial = line.serial  # a cursor that is on one of them is on the line
        line.touch()
        self._spans[id] = _Span(first, line)

    def absorb(self, page: list[Block], older: UndoneTurns) -> set[Block]:
        """Put away what an older page has of the turns that are undone, each behind the innermost line it is of."""
        touched = set[Block]()
        spans = sorted(self._spans.values(), key=lambda span: span.first)
        for span in reversed(spans):
            start = next((index for index, block in enumerate(page) if block.event_id >= span.first), len(page))
            if start < len(page):
                span.line.behind = (*page[start:], *span.line.behind)
                del page[start:]
                span.line.touch()
                touched.add(span.line)
        self._spans |= older._spans
        self._asked |= older._asked
        return touched


def _put_back(blocks: list[Block], line: Block) -> None:
    start = blocks.index(line)
    blocks[start : start + 1] = line.behind
    for number, block in enumerate(blocks[start:]):
        block.serial = line.serial + number
        block.touch()
