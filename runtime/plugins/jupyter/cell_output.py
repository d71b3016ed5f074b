"""The output of one cell: text for the model, live bytes for the terminal view, and images. Each is limited.

The texts are those of OpenHands V0 (`openhands/runtime/plugins/jupyter/execute_server.py`). Of an object's
representations the plain text and an image are used; HTML, JavaScript and widgets would need a browser.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping
from typing import Any

from core.events import TerminalOutput, truncate_middle
from core.events.output import OutputBuffer
from core.image_types import HEAD_BYTES, described
from runtime.server.outputs import Output, Outputs

NO_OUTPUT = "[Code executed successfully with no output]"
LATE_OUTPUT = "[Printed after the cell before had ended:]\n"
MAX_IMAGES = 20
MAX_IMAGE_CHARS = 16 * 1024 * 1024
"""Limit for all images of a cell, in base64; the protocol's limit is four times as high."""
MAX_EXCEPTION_CHARS = 500
LIVE_BYTES = 256 * 1024
"""Limit for unread live bytes, above which the kernel has to wait for the reader."""
_PICTURES = {"image/png": "PNG", "image/jpeg": "JPEG"}

Message = Mapping[str, Any]
"""A kernel's message with `msg_type`, `parent_header` and `content`, which is not trusted."""


class Cell:
    """Collects the messages of one cell. Belongs to one event loop."""

    def __init__(self, action_id: int, outputs: Outputs) -> None:
        self._action_id = action_id
        self._outputs = outputs
        self._output: Output | None = None
        self._text = OutputBuffer()
        self._live = bytearray()
        self._at_line_start = True
        self._has_late_output = False
        self._omitted_images = 0
        self._image_chars = 0
        self._can_take = asyncio.Event()
        self._can_take.set()
        self._has_listener = True
        self.image_urls: list[str] = []
        self.exception = ""
        """The exception that ended the cell, in one line; empty if there was none."""
        self.begun = asyncio.Event()
        """Set when the kernel has begun the cell; from then on it can be interrupted."""
        self.printed = asyncio.Event()
        """Set when there are live bytes."""

    async def take(self, message: Message, is_mine: bool) -> None:
        """Add a message. Waits while there are too many unread live bytes, which makes the kernel wait."""
        self.keep(message, is_mine)
        await self._can_take.wait()

    def keep(self, message: Message, is_mine: bool) -> None:
        """Add a message of this cell (`is_mine`) or of an earlier one."""
        kind, content = message["msg_type"], message["content"]
        if kind == "execute_input" and is_mine:
            self.begun.set()
            if self._has_late_output:
                self._end_line()
            return
        if kind not in ("stream", "execute_result", "display_data", "error"):
            return
        if not is_mine and not self.begun.is_set() and not self._has_late_output:
            self._has_late_output = True
            self._print(LATE_OUTPUT)
        if kind == "stream":
            self._print(str(content.get("text", "")))
        elif kind == "error":
            if is_mine:
                self.exception = _exception_line(content)
            self._show({"text/plain": "\n".join(map(str, content.get("traceback") or ()))})
        else:
            self._show(content.get("data") or {})

    def take_live(self) -> TerminalOutput | None:
        """Return and clear the live bytes; None if there are none."""
        self.printed.clear()
        if not self._live:
            return None
        data = bytes(self._live).replace(b"\n", b"\r\n")
        self._live.clear()
        self._can_take.set()
        return TerminalOutput(self._action_id, data)

    def stop_listening(self) -> None:
        """Discard live bytes from now on, and never make the kernel wait."""
        self._has_listener = False
        self._live.clear()
        self._can_take.set()

    def close(self) -> None:
        """Finish the output; no messages may follow."""
        self.stop_listening()
        if self._output is not None:
            self._output.finish()

    def content(self, *notes: str) -> str:
        """Return the text for the model, truncated in the middle if it is long, followed by a line for each note."""
        text = self._text.take()
        if not text and not notes:
            text = NO_OUTPUT
        if self._text.was_cut and (output := self._output) is not None:
            text += output.storage_note()
        if self._omitted_images:
            notes = (*notes, f"[{self._omitted_images} more images are not shown: too many, too large, or damaged.]")
        return "\n".join(filter(None, (text, *notes)))

    def _show(self, data: Mapping[str, Any]) -> None:
        """Add an object by its representations, beginning on a new line."""
        if text := str(data.get("text/plain", "")):
            self._end_line()
            self._print(text)
            self._end_line()
        for kind in _PICTURES.keys() & data.keys():
            self._show_picture(kind, str(data[kind]).strip())

    def _show_picture(self, kind: str, data: str) -> None:
        fits = len(self.image_urls) < MAX_IMAGES and self._image_chars + len(data) <= MAX_IMAGE_CHARS
        if not fits or not _is_picture(kind, data):
            self._omitted_images += 1
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
        self._text.feed(data.replace(b"\n", b"\r\n"))
        if self._output is None:
            self._output = self._outputs.begin()
        self._output.feed(data)
        if self._has_listener:
            self._live += data
            self.printed.set()
            if len(self._live) > LIVE_BYTES:
                self._can_take.clear()


def _exception_line(content: Message) -> str:
    """Return the name of an exception and the first line of what it says."""
    name, says = (str(content.get(key) or "").strip().partition("\n")[0] for key in ("ename", "evalue"))
    line = f"{name or 'Exception'}: {says}" if says else name or "Exception"
    return truncate_middle(line, MAX_EXCEPTION_CHARS)


def _is_picture(kind: str, data: str) -> bool:
    head = data[: HEAD_BYTES // 3 * 4].replace("\n", "")
    try:
        base64.b64decode(data, validate="\n" not in data)
        about = described(base64.b64decode(head[: len(head) // 4 * 4]))
    except (binascii.Error, ValueError):
        return False
    return about is not None and about.startswith(f"a {_PICTURES[kind]} ")
