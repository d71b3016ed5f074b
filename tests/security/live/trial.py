"""A live session in a network namespace of its own, started and read from outside. Needs bubblewrap and Chromium."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from tests.program import ROOT
from tests.security.live.session import Options, Report
from tests.security.live.world import resolv_conf

SESSION_S = 280.0
ROOM = "/mnt"
"""Where the session's folder is to the session: below /tmp, everything would be a temporary file."""


def trial(folder: Path, options: Options, within_s: float = SESSION_S) -> Report:
    """Play a session in this empty folder. Returns the result. Raises if it did not end normally."""
    etc = folder / "etc"
    _copy_etc(etc)
    room = folder / "room"
    room.mkdir()
    command = [
        "bwrap", "--dev-bind", "/", "/", "--bind", str(etc), "/etc", "--unshare-net", "--cap-add", "ALL",
        "--bind", str(room), ROOM, "--die-with-parent", "--chdir", str(ROOT),
        sys.executable, "-m", "tests.security.live.session", ROOM, json.dumps(asdict(options)),
    ]  # fmt: skip
    environ = {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8", "HOME": ROOM,
    }  # fmt: skip
    done = subprocess.run(
        command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=within_s, check=False
    )
    if done.returncode:
        raise RuntimeError(f"the session ended with {done.returncode}: {done.stderr[-4000:]}")
    report = Report(**json.loads(done.stdout.splitlines()[-1]))
    report.told += done.stderr.splitlines()
    return report


def _copy_etc(to: Path) -> None:
    """A copy of /etc that may be written to, with the world's resolver."""
    with suppress(shutil.Error):  # what only root may read
        shutil.copytree("/etc", to, symlinks=True)
    resolver = to / "resolv.conf"
    resolver.unlink(missing_ok=True)
    resolver.write_text("\n".join(resolv_conf()) + "\n")


def chosen(names: Sequence[str], count: int, start: int) -> tuple[str, ...]:
    """So many different names, evenly spread, from a place on."""
    count = min(count, len(names))
    return tuple(names[(start + at * len(names) // count) % len(names)] for at in range(count))
