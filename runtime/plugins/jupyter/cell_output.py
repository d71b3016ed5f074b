"""What one cell printed and showed: text for the model, live bytes for who looks on, pictures. Bounded in each.

The texts are those of OpenHands V0 (`openhands/runtime/plugins/jupyter/execute_server.py`). Of the representations of
an object the plain text is taken, and a picture; HTML, JavaScript and widgets are for a browser, which nobody has here.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping
from typing import Any

from core.events import TerminalOutput
from core.events.output import OutputBuffer
from core.image_types import HEAD_BYTES, described
from runtime.server import hints
from runtime.server.outputs import Output, Outputs

NO_OUTPUT = "[Code executed successfully with no output]"
PRINTED_LATER = "[Printed after the cell before had ended:]\n"
MAX_IMAGES = 20
MAX_IMAGE_CHARS = 16 * 1024 * 1024
"""Of all pictures of a cell, in base64; the wire takes four times as much."""
LIVE_BYTES = 256 * 1024
"""Live bytes that wait for a slow reader before the kernel is made to wait."""
_PICTURES = {"image/png": "PNG", "image/jpeg": "JPEG"}

Message = Mapping[str, Any]
"""Of a kernel: `msg_type`, `parent_header`, `content`; what a cell shows can be anything."""


class Cell:
    """Takes the messages of one cell. Belongs to one loop."""

    def __init__(self, action_id: int, outputs: Outputs) -> None:
        self._action_id = action_id
        self._outputs = outputs
        self._output: Output | None = None
        self._text = OutputBuffer()
        self._live = bytearray()
        self._at_line_start = True
        self._is_late = False
        self._left_out = 0
        self._image_chars = 0
        self._can_take = asyncio.Event()
        self._can_take.set()
        self._is_listened_to = True
        self.image_urls: list[str] = []
        self.begun = asyncio.Event()
        """Set when the kernel has begun with it: from then on an interrupt reaches it."""
        self.printed = asyncio.Event()
        """Set when live bytes wait."""

    async def take(self, message: Message, is_mine: bool) -> None:
        """Keep what a message says; waits while live bytes are not taken, so that the kernel does."""
        self.keep(message, is_mine)
        await self._can_take.wait()

    def keep(self, message: Message, is_mine: bool) -> None:
        """Keep what a message says, of this cell or one before."""
        kind, content = message["msg_type"], message["content"]
        if kind == "execute_input" and is_mine:
            self._begin()
        elif kind == "stream":
            self._announce_late(is_mine)
            self._print(str(content.get("text", "")))
        elif kind in ("execute_result", "display_data"):
            self._announce_late(is_mine)
            self._show(content.get("data") or {})
        elif kind == "error":
            self._announce_late(is_mine)
            self._show({"text/plain": "\n".join(map(str, content.get("traceback") or ()))})

    def take_live(self) -> TerminalOutput | None:
        """The live bytes that have gathered; None where there are none."""
        self.printed.clear()
        if not self._live:
            return None
        data = bytes(self._live).replace(b"\n", b"\r\n")
        self._live.clear()
        self._can_take.set()
        return TerminalOutput(self._action_id, data)

    def stop_listening(self) -> None:
        """Nobody takes live bytes any more, and nothing waits for that."""
        self._is_listened_to = False
        self._live.clear()
        self._can_take.set()

    def close(self) -> None:
        """Nothing more comes."""
        self.stop_listening()
        if self._output is not None:
            self._output.finish()

    def told(self, *notes: str) -> str:
        """What the model reads: the text, its middle left out where it is long, and the notes in lines of their own."""
        text = self._text.take()
        if not text and not notes:
            text = NO_OUTPUT
        if self._text.was_cut and (output := self._output) is not None:
            where = output.path if output.is_written else ""
            text += hints.kept_output(output.number, where, output.lines, output.size_bytes, output.loss)
        if self._left_out:
            notes = (*notes, f"[{self._left_out} more images are not shown: too many, too large, or damaged.]")
        return "\n".join(filter(None, (text, *notes)))

    def _begin(self) -> None:
        self.begun.set()
        if self._is_late:
            self._end_line()

    def _announce_late(self, is_mine: bool) -> None:
        """Say where what comes is from, once, when it belongs to a cell that has ended."""
        if not is_mine and not self.begun.is_set() and not self._is_late:
            self._is_late = True
            self._print(PRINTED_LATER)

    def _show(self, data: Mapping[str, Any]) -> None:
        """An object by its representations, in lines of its own."""
        if text := str(data.get("text/plain", "")):
            self._end_line()
            self._print(text)
            self._end_line()
        for kind in _PICTURES.keys() & data.keys():
            self._show_picture(kind, str(data[kind]).strip())

    def _show_picture(self, kind: str, data: str) -> None:
        fits = len(self.image_urls) < MAX_IMAGES and self._image_chars + len(data) <= MAX_IMAGE_CHARS
        if not fits or not _is_picture(kind, data):
            self._left_out += 1
            return
        self._image_chars += len(data)
        self.image_urls.append(f"data:{kind};base64,{data}")

    def _end_line(self) -> None:
        if not self._at_line_start:
            self._print("\n")

    def _print(self, text: str) -> None:
        if not text:
            return
        self._at_line_start = text.endswith("\n")
        data = text.encode("utf-8", "replace")
        self._text.feed(data)
        if self._output is None:
            self._output = self._outputs.begin()
        self._output.feed(data)
        if self._is_listened_to:
            self._live += data
            self.printed.set()
            if len(self._live) > LIVE_BYTES:
                self._can_take.clear()


def _is_picture(kind: str, data: str) -> bool:
    """Whether base64 that a cell calls a picture is one."""
    head = data[: HEAD_BYTES // 3 * 4].replace("\n", "")
    try:
        base64.b64decode(data, validate="\n" not in data)
        about = described(base64.b64decode(head[: len(head) // 4 * 4]))
    except (binascii.Error, ValueError):
        return False
    return about is not None and about.startswith(f"a {_PICTURES[kind]} ")
