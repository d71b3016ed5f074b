"""The command line as people and scripts use it: `handloom`, in a process of its own, on a home of its own.

The environment is small and said in full, so that nothing of the developer's own set-up takes part.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
HANDLOOM = (sys.executable, "-P", "-m", "tui")
"""Runs the console script from this source tree."""
NO_ISOLATION = {"HANDLOOM__SANDBOX__ISOLATION": "none"}
"""For the environment of a test that needs commands to run directly on this machine; without it, an ordinary user who
has bubblewrap gets a sandbox, and root gets none."""


@dataclass(frozen=True)
class Ended:
    """The exit status and output of a command."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of standard output; other characters at which Python would split are part of them."""
        return self.out.split("\n")[:-1]

    @property
    def events(self) -> list[dict[str, Any]]:
        """The lines of `--json`; every one has to be an object."""
        return [json.loads(line) for line in self.lines]

    @property
    def conversation(self) -> str:
        """The id that `handloom run` says on standard error."""
        found = re.search(r"^conversation (\w+)$", self.err, re.MULTILINE)
        assert found, f"no conversation in: {self.err}"
        return found[1]


def events_in_archive(file: Path) -> list[dict[str, Any]]:
    """The events of an exported archive."""
    with zipfile.ZipFile(file) as archive:
        return [json.loads(line) for line in archive.read("events.jsonl").splitlines()]


class Handloom:
    """The program on one home and one workspace."""

    def __init__(self, folder: Path, **environ: str) -> None:
        self.home = folder / "home"
        self.workspace = folder / "workspace"
        self.workspace.mkdir(parents=True, exist_ok=True)
        self.environ: Mapping[str, str] = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LANG": "C.UTF-8",
            "TERM": os.environ.get("TERM", "xterm-256color"),
            "HANDLOOM_HOME": str(self.home),
            **environ,
        }

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """Begin a command; the caller ends it. Its pipes are not buffered, so `communicate` gets all that is left."""
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen([*HANDLOOM, *arguments], bufsize=0, env=self.environ, cwd=self.workspace, **options)

    def __call__(self, *arguments: str, stdin: str = "", within_s: float = 60.0) -> Ended:
        """Run a command to its end. Its workspace is the current folder."""
        done = subprocess.run(
            [*HANDLOOM, *arguments],
            input=stdin.encode(),
            capture_output=True,
            env=self.environ,
            cwd=self.workspace,
            timeout=within_s,
            check=False,
        )
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    def export(self, conversation: str) -> list[dict[str, Any]]:
        """All events of a conversation, by an archive: the formats for V0 leave out what V0 does not know."""
        with tempfile.TemporaryDirectory(prefix="handloom-export-") as folder:
            file = Path(folder) / "archive.zip"
            done = self("export", conversation, "--format", "archive", "--allow-secrets", "-o", str(file))
            assert done.status == 0, done.err
            return events_in_archive(file)

    def conversations(self) -> list[dict[str, Any]]:
        """All conversations of this home, the newest first, by `handloom list`."""
        return [json.loads(line) for line in self("list", "--json").out.splitlines()]
