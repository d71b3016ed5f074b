"""Swaps folders and files for links to the outside, as fast as it can, until its standard input ends.

    python -m tests.campaign.swapper BASE

In BASE/root, `d` and `e` change places with links to BASE/outside, and so do the files in them.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from pathlib import Path

_RENAME_EXCHANGE = 2
PAIRS = (("", "d"), ("d", "f"), ("", "d"), ("", "e"))
"""Folder and name of what is exchanged with its link in one round; a pair that is listed twice is exchanged twice."""


def prepare(base: Path) -> None:
    """Create the root with two folders, the files outside, and the links that take their places."""
    (base / "outside").mkdir(parents=True)
    (base / "outside/SECRET").touch()
    (base / "outside/f").write_text("SECRET\n" * 100)
    for name in ("d", "e"):
        (base / "root" / name).mkdir(parents=True)
        (base / "root" / name / "f").write_text("0\n" * 100)
        (base / "root" / f"{name}-link").symlink_to("../outside" if name == "d" else base / "outside")
    (base / "root/d/f-link").symlink_to("../../outside/f")


def swap(base: Path) -> None:
    """Exchange the pairs without end. A pair whose folder is a link at that moment is skipped.

    The folder is opened first, because an exchange by paths could change files outside.
    """
    libc = ctypes.CDLL(None)
    pairs = [(base / "root" / folder, name.encode(), f"{name}-link".encode()) for folder, name in PAIRS]
    while True:
        for folder, name, link in pairs:
            try:
                fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                continue
            libc.renameat2(fd, name, fd, link, _RENAME_EXCHANGE)
            os.close(fd)


if __name__ == "__main__":
    threading.Thread(target=swap, args=[Path(sys.argv[1])], daemon=True).start()
    sys.stdout.write("swapping\n")
    sys.stdout.flush()
    sys.stdin.read()
    os._exit(0)
