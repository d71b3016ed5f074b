"""The output of a conversation's shell: live bytes as they arrive, and stored outputs after a reopening.

Live frames come first. Observations add what happened before (`prepend`) and outputs whose frames were never seen.
Nothing is emulated until a view asks, so a hidden tab only queues bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from core.events.base import Status, TerminalOutput
from tui.terminal_io.emulator import Emulator
from tui.terminal_io.pyte_emulator import PyteEmulator
from tui.workspace.pane import PaneModel

if TYPE_CHECKING:
    from core.events import Envelope, Event, Frame

WAITING_FOR_INPUT = "STATUS$WAITING_FOR_INPUT"


class TerminalModel(PaneModel):
    """One conversation's terminal."""

    emulator_type: type[Emulator] = PyteEmulator
    """The emulator of models that are made from now on."""

    def __init__(self) -> None:
        self.version = 0
        """Increases with every change, so that a view knows whether it is up to date."""
        self.emulator = self.emulator_type()
        self._live: set[int] = set()
        """Actions whose bytes came as frames, so their observation adds nothing."""
        self._refilled = False
        self.waits = False
        """Whether the running command waits for input."""
        self.on_reply: Callable[[bytes], None] | None = None
        """Receives the terminal's replies to programs; None while nobody may type."""
        self.used = False
        """Whether anything was ever printed."""

    def apply(self, envelope: Envelope) -> None:
        """Show a stored output, unless its bytes were seen live."""
        if type(envelope.event).kind == "run" and getattr(envelope.event, "exit_code", -1) != -1:
            self.waits = False
        if envelope.cause in self._live:
            self._live.discard(envelope.cause)
            return
        self._write(_output(envelope.event))

    def apply_frame(self, frame: Frame) -> None:
        if isinstance(frame, TerminalOutput):
            if frame.cause >= 0:
                self._live.add(frame.cause)
            self._write(frame.data)
        elif isinstance(frame, Status) and frame.id == WAITING_FOR_INPUT:
            self.waits = bool(frame.message)

    def prepend(self, envelopes: Sequence[Envelope]) -> None:
        """Fill an empty terminal from the last stored page. Older pages change nothing."""
        if not self._refilled and not self.used:
            self._refilled = True
            for envelope in envelopes:
                self._write(_output(envelope.event))

    def work(self) -> bool:
        """Emulate for at most one frame's budget. Returns whether the cells changed."""
        changed = self.emulator.work()
        if (replies := self.emulator.take_replies()) and self.on_reply is not None:
            self.on_reply(replies)
        if changed:
            self._touch()
        return changed

    def switch_emulator(self, emulator_type: type[Emulator]) -> None:
        """Replace pyte's emulator by one of another type that shows the newest of its output."""
        if isinstance(before := self.emulator, PyteEmulator):
            self.emulator = emulator_type(before.screen.columns, before.screen.lines)
            if before.tail:
                self.emulator.write(before.tail)
                while self.emulator.work():
                    self.emulator.take_replies()
            self._touch()

    def _touch(self) -> None:
        self.version += 1
        self.notify()

    def _write(self, data: bytes) -> None:
        if data:
            self.used = True
            self.emulator.write(data)
            self._touch()


def _output(event: Event) -> bytes:
    """Return a stored command and its output as a terminal would have shown them; nothing for any other event."""
    command, content = getattr(event, "command", None), getattr(event, "content", None)
    if type(event).kind != "run" or not isinstance(command, str) or not isinstance(content, str):
        return b""
    if getattr(event, "hidden", False):
        return b""
    text = f"$ {command}\n{content}".rstrip("\n") + "\n"
    return text.replace("\r\n", "\n").replace("\n", "\r\n").encode("utf-8", "replace")
