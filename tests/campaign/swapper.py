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

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
PAIRS = (("d", "d-link"), ("d/f", "d/f-link"), ("d", "d-link"), ("e", "e-link"))
"""What changes places, in one round and as often as it stands here."""


def prepare(base: Path) -> None:
    """A root with two folders, what lies outside, and the links that are swapped in."""
    (base / "outside").mkdir(parents=True)
    (base / "outside/SECRET").touch()
    (base / "outside/f").write_text("SECRET\n" * 100)
    for name in ("d", "e"):
        (base / "root" / name).mkdir(parents=True)
        (base / "root" / name / "f").write_text("0\n" * 100)
        (base / "root" / f"{name}-link").symlink_to("../outside" if name == "d" else base / "outside")
    (base / "root/d/f-link").symlink_to("../../outside/f")


def swap(base: Path) -> None:
    """For ever. A pair that is not whole, because its folder is the link just then, is left out."""
    libc = ctypes.CDLL(None)
    pairs = [[os.fsencode(base / "root" / name) for name in pair] for pair in PAIRS]
    while True:
        for one, other in pairs:
            libc.renameat2(_AT_FDCWD, one, _AT_FDCWD, other, _RENAME_EXCHANGE)


if __name__ == "__main__":
    threading.Thread(target=swap, args=[Path(sys.argv[1])], daemon=True).start()
    sys.stdout.write("swapping\n")
    sys.stdout.flush()
    sys.stdin.read()
    os._exit(0)
