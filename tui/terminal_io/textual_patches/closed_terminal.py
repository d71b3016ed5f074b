"""A terminal that is gone, such as a window that was closed, keeps nobody waiting.

Textual writes from a thread that dies of the first write that fails, and whoever writes next waits for room in its
queue without end: the signal that says that the terminal is gone would never be answered. `install` has that thread
take what comes and drop it, so that conversations are closed and the program ends. The system also continues (SIGCONT)
whoever loses their terminal; only a program that was stopped takes that as leave to draw again.
"""

from __future__ import annotations

import os

from textual.drivers._writer_thread import WriterThread
from textual.drivers.linux_driver import LinuxDriver

_MARK = "_handloom_drops"


def install() -> None:
    """Have every terminal's writer outlive its terminal. May be called twice."""
    if getattr(WriterThread.run, _MARK, False):
        return
    run = WriterThread.run

    def outliving_run(self: WriterThread) -> None:
        try:
            run(self)
        except OSError:
            while self._queue.get() is not None:
                pass

    resume = LinuxDriver._sigcont_application

    def checked_resume(self: LinuxDriver, *arguments: object) -> None:
        draws = self._key_thread is not None and self._key_thread.is_alive()
        if not draws and not self._app._exit and os.isatty(self.fileno):
            resume(self, *arguments)

    setattr(outliving_run, _MARK, True)
    WriterThread.run = outliving_run  # type: ignore[method-assign]
    LinuxDriver._sigcont_application = checked_resume  # type: ignore[method-assign]
