"""`python -m tests.peers`: OpenHands' published client, BrowserGym itself and MCP servers of others, with ours.

With `openhands`, `browsergym` or `mcp` only that one; with `--keep` what BrowserGym told of the pages is kept for the
tests.
Their packages go into environments of their own in the user's cache, made at the first run (some minutes). Exit status:
0 all fits, 1 something does not, 2 a peer could not be installed.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.peers import browsergym_side, mcp_side
from tests.peers.installing import OPENHANDS, install

SCRIPT = Path(__file__).with_name("openhands_client.py")
ROOT = Path(__file__).parents[2]
RUN_TIMEOUT_S = 300
PLUGINS = "agent_skills,browser,jupyter"
"""Those that the client's actions need."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.peers")
    parser.add_argument("peer", nargs="?", choices=("openhands", "browsergym", "mcp"))
    parser.add_argument("--keep", action="store_true", help="keep what BrowserGym told in tests/pages")
    options = parser.parse_args()
    statuses = []
    if options.peer in (None, "openhands"):
        statuses.append(openhands())
    if options.peer in (None, "browsergym"):
        statuses.append(browsergym_side.main(keep=options.keep))
    if options.peer in (None, "mcp"):
        statuses.append(mcp_side.main())
    return max(statuses)


def openhands() -> int:
    """OpenHands' client drives our action server over TCP."""
    python = install(OPENHANDS)
    if python is None:
        return 2
    with tempfile.TemporaryDirectory(prefix="handloom-peers-") as folder:
        outcome = Path(folder) / "outcome"
        status = run(python, Path(folder), outcome)
        rows = [json.loads(line) for line in outcome.read_text().splitlines()] if outcome.exists() else []
    for row in rows:
        print(f"{'ok ' if row['fits'] else 'BAD'}  {row['what']:<32} {row['said']}")
    failed = sum(not row["fits"] for row in rows)
    print(
        f"{OPENHANDS.requirements[0]}: {len(rows)} calls, {failed} answered otherwise than V0 answers; "
        f"its exit status was {status}"
    )
    return int(bool(failed or status or not rows))


def run(python: Path, folder: Path, outcome: Path) -> int:
    """Run the client against a server of ours; the answer is its exit status."""
    workspace, key_file, taken = folder / "workspace", folder / "key", folder / "taken"
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
        client = [str(python), "-P", str(SCRIPT), url, str(key_file), str(workspace), str(outcome)]
        with (folder / "log").open("w+") as log:
            try:
                status = subprocess.run(
                    client, stdout=log, stderr=log, cwd=folder, timeout=RUN_TIMEOUT_S, check=False
                ).returncode
            except subprocess.TimeoutExpired:
                status = -1
            if status:
                log.seek(0)
                print(*log.readlines()[-20:], sep="", file=sys.stderr)
        serving.stdin.close()
    return status


if __name__ == "__main__":
    sys.exit(main())
