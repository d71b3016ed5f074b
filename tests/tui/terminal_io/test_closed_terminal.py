"""A terminal that is gone keeps nobody waiting."""

from __future__ import annotations

import io
import threading

from textual.drivers._writer_thread import MAX_QUEUED_WRITES, WriterThread

from tui.terminal_io.textual_patches import patch_closed_terminals


class Gone(io.StringIO):
    """A terminal that was closed."""

    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")


def test_writing_to_closed_terminal_does_not_block() -> None:
    patch_closed_terminals()
    writer = WriterThread(Gone())
    writer.start()

    def write() -> None:
        for _number in range(3 * MAX_QUEUED_WRITES):
            writer.write("x")
        writer.stop()

    writing = threading.Thread(target=write, daemon=True)
    writing.start()
    writing.join(10)
    assert not writing.is_alive()
    assert not writer.is_alive()
