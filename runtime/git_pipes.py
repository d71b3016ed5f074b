"""Keeps git from waiting for a FIFO that lies in place of a file of patterns.

git opens every `.gitignore` and `.gitattributes` that it comes to, and waits at a FIFO until another process opens it
for writing. While git runs, `released` opens each of them for an instant and writes nothing, so that git reads an empty
file and goes on. Folders are searched only while git takes longer than it usually does. Links are not followed. Used
wherever git reads a workspace.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE_S = 0.2
"""git lists most workspaces in less."""
PAUSE_S = 0.005
"""Between two attempts to open the FIFOs that are known."""
SEARCH_EVERY_S = 2.0
"""A search of 100,000 files takes a quarter of a second."""
_NAMES = (".gitignore", ".gitattributes")
_WRITE = os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC


@contextmanager
def released(folder: str) -> Iterator[None]:
    """As long as this is entered, no FIFO below the folder holds up a git that reads its patterns."""
    is_done = threading.Event()
    thread = threading.Thread(target=_release, args=(folder, is_done), name="git-pipes", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()


def _release(folder: str, is_done: threading.Event) -> None:
    pause_s = PATIENCE_S
    while not is_done.wait(pause_s):
        pipes = []
        for pipe in _pipes(folder, is_done):
            pipes.append(pipe)
            _open_for_an_instant(pipe)
        attempts = int(SEARCH_EVERY_S / PAUSE_S) if pipes else 0
        for _ in range(attempts):  # git opens the same file several times, and the next one after that
            for pipe in pipes:
                _open_for_an_instant(pipe)
            if is_done.wait(PAUSE_S):
                return
        pause_s = PAUSE_S if pipes else SEARCH_EVERY_S


def _pipes(folder: str, is_done: threading.Event) -> Iterator[str]:
    """The FIFOs with such a name. Ends early when git has ended."""
    waiting = [folder]
    while waiting and not is_done.is_set():
        above = waiting.pop()
        try:
            with os.scandir(above) as entries:
                for entry in entries:
                    if entry.name in _NAMES and stat.S_ISFIFO(entry.stat(follow_symlinks=False).st_mode):
                        yield entry.path
                    elif entry.name != ".git" and entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue


def _open_for_an_instant(pipe: str) -> None:
    """Let a process that waits for a writer go on; nothing happens where none waits."""
    try:
        opened = os.open(pipe, _WRITE)
    except OSError:
        return
    os.close(opened)
