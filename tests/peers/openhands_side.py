"""OpenHands' published client beside us: it drives our action server over TCP, and says what each call came to."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.peers.installing import OPENHANDS, install
from tests.program import ROOT

SCRIPT = Path(__file__).with_name("openhands_client.py")
RUN_TIMEOUT_S = 300
PLUGINS = "agent_skills,browser,jupyter"
"""Programs that the client's actions need."""


@dataclass(frozen=True)
class Row:
    """One call: the request, the response, and whether V0 answers alike."""

    what: str
    said: str
    fits: bool


@dataclass(frozen=True)
class Outcome:
    """A run of the client: its exit status, its calls, and the last lines of its log."""

    status: int
    rows: tuple[Row, ...]
    log: str


def main() -> int:
    """Exit status: 0 all fits, 1 something does not, 2 the client could not be installed."""
    python = install(OPENHANDS)
    if python is None:
        return 2
    with tempfile.TemporaryDirectory(prefix="handloom-peers-") as folder:
        outcome = run(python, Path(folder))
    for row in outcome.rows:
        print(f"{'ok ' if row.fits else 'BAD'}  {row.what:<32} {row.said}")
    failed = sum(not row.fits for row in outcome.rows)
    if outcome.status:
        print(outcome.log, file=sys.stderr)
    print(
        f"{OPENHANDS.title}: {len(outcome.rows)} calls, {failed} answered otherwise than V0 answers; "
        f"its exit status was {outcome.status}"
    )
    return int(bool(failed or outcome.status or not outcome.rows))


def run(python: Path, folder: Path) -> Outcome:
    """Run the client against a server that works in `folder`."""
    workspace, key_file, taken, rows = (folder / name for name in ("workspace", "key", "taken", "rows"))
    workspace.mkdir()
    key = secrets.token_hex(32)
    key_file.write_text(key)
    taken.write_text(key)
    server = [sys.executable, "-P", "-m", "runtime.server", "--stdin-lifeline", "--port", "0"]
    server += ["--working-dir", str(workspace), "--key-file", str(taken), "--plugins", PLUGINS]
    # The client writes into the shell's ~/.bashrc, which is not to be the user's.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(workspace)}
    with subprocess.Popen(server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as serving:
        assert serving.stdin is not None
        assert serving.stdout is not None
        url = serving.stdout.readline().removeprefix("ready ").strip()
        client = [str(python), "-P", str(SCRIPT), url, str(key_file), str(workspace), str(rows)]
        with (folder / "log").open("w+") as log:
            try:
                status = subprocess.run(
                    client, stdout=log, stderr=log, cwd=folder, timeout=RUN_TIMEOUT_S, check=False
                ).returncode
            except subprocess.TimeoutExpired:
                status = -1
            log.seek(0)
            last = "".join(log.readlines()[-20:])
        serving.stdin.close()
    lines = rows.read_text().splitlines() if rows.exists() else []
    return Outcome(status, tuple(Row(**json.loads(line)) for line in lines), last)
