"""Completer: what the list over the transcript offers for the word at the cursor, and what taking it does.

Sources say what there is, asynchronously; an answer that comes after the word has changed is dropped. A word whose list
was sent away stays without one until another word begins. Quick hands are waited for: Enter and Tab right behind a
word mean the list that belongs to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Literal

from tui.prompt.completion_list import Row
from tui.prompt.triggers import Kind, Trigger, trigger_at

if TYPE_CHECKING:
    from tui.prompt.view import Prompt

Source = Callable[[str], Awaitable[Sequence[Row]]]
"""The rows for what was typed so far. Does not raise; what goes wrong it tells by itself."""

WAIT_S = 0.5
"""How long Enter and Tab wait for the list of the word; what takes longer is not what was meant."""


class Completer:
    """The list of one prompt."""

    def __init__(self, prompt: Prompt) -> None:
        self._prompt = prompt
        self.sources: dict[Kind, Source] = {}
        self._trigger: Trigger | None = None
        self._left: tuple[Kind, int, int] | None = None
        """The word whose list was sent away."""
        self._shown: Trigger | None = None
        """The word whose rows are in the list."""
        self._answered = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """Whether the list is to be seen."""
        return self._shown is not None and self._prompt.list.display

    def look(self) -> None:
        """Look at the word at the cursor again. Cheap where nothing changed."""
        trigger = self._word()
        if trigger == self._trigger:
            return
        self._trigger = trigger
        if trigger is None or trigger.kind not in self.sources:
            self._left = None
            self._hide()
        elif _place(trigger) != self._left:
            self._left = None
            self._answered.clear()
            self._prompt.run_worker(self._ask(trigger), group="list", exclusive=True, exit_on_error=False)

    def _word(self) -> Trigger | None:
        prompt = self._prompt
        if not prompt.has_focus or not prompt.selection.is_empty or not prompt.text:
            return None
        row, column = prompt.cursor_location
        return trigger_at(prompt.document[0], prompt.document[row], row, column)

    async def _ask(self, trigger: Trigger) -> None:
        rows = await self.sources[trigger.kind](trigger.query)
        if trigger != self._trigger or self._left is not None:
            return
        self._shown = trigger if rows else None
        if rows:
            self._prompt.list.show(rows, self._prompt.room_above, query=trigger.query)
        else:
            self._prompt.list.hide()
        self._answered.set()

    def _hide(self) -> None:
        if self._shown is not None:
            self._shown = None
            self._prompt.list.hide()

    def leave(self) -> bool:
        """Send the list away and keep the text. Answers whether there was one."""
        if not self.is_open:
            return False
        self.rest()
        return True

    def rest(self) -> None:
        """Offer nothing for the word at the cursor: it was put there whole, or its list is not wanted."""
        self._trigger = self._word()
        self._left = _place(self._trigger) if self._trigger is not None else None
        self._hide()

    async def take(self, key: Literal["enter", "tab", "click"]) -> bool:
        """Put the row under the cursor in the place of the word. False where the key means what it means without."""
        trigger = self._trigger
        if trigger is None or self._left is not None or trigger.kind not in self.sources:
            return False
        if trigger.kind is Kind.COMMAND and key == "enter" and self._shown != trigger:
            return False  # a whole name needs no list
        try:
            async with asyncio.timeout(WAIT_S):
                await self._answered.wait()
        except TimeoutError:
            return False
        row = self._prompt.list.current
        if row is None or self._shown != trigger:
            return False
        if key == "enter" and trigger.kind is not Kind.COMMAND and row.value == trigger.query:
            return False  # nothing is left to complete
        self._put(trigger, row, runs=key != "tab" and trigger.kind is Kind.COMMAND and not row.value.endswith(" "))
        return True

    def _put(self, trigger: Trigger, row: Row, *, runs: bool) -> None:
        text = row.value.rstrip()
        match trigger.kind:
            case Kind.FILE:
                text = f'"{text}" ' if " " in text else f"{text} "
            case Kind.EVENT:
                text = f"#{text} "
            case Kind.COMMAND:
                text = f"/{text}" + ("" if runs else " ")
        self._hide()
        prompt = self._prompt
        result = prompt.replace(
            text, (trigger.row, trigger.start), prompt.cursor_location, maintain_selection_offset=False
        )
        prompt.move_cursor(result.end_location)
        if runs:
            prompt.submit()


def _place(trigger: Trigger) -> tuple[Kind, int, int]:
    """Which word it is, whatever of it has been typed."""
    return trigger.kind, trigger.row, trigger.start
