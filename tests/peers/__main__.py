"""`python -m tests.peers`: OpenHands' published client drives our action server over TCP, and every answer is compared.

Its packages go into an environment of their own in the user's cache, made at the first run (some minutes). Exit status:
0 all fits, 1 something does not, 2 the client could not be installed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from platformdirs import user_cache_path

PEER = "openhands-ai==0.62.0"
"""The last release with the wire of V0; its wheel is for Python 3.12."""
PYTHON = "3.12"
SCRIPT = Path(__file__).with_name("openhands_client.py")
ROOT = Path(__file__).parents[2]
RUN_TIMEOUT_S = 300


def main() -> int:
    python = peer_python()
    if python is None:
        return 2
    with tempfile.TemporaryDirectory(prefix="handloom-peers-") as folder:
        outcome = Path(folder) / "outcome"
        status = run(python, Path(folder), outcome)
        rows = [json.loads(line) for line in outcome.read_text().splitlines()] if outcome.exists() else []
    for row in rows:
        print(f"{'ok ' if row['fits'] else 'BAD'}  {row['what']:<32} {row['said']}")
    failed = sum(not row["fits"] for row in rows)
    print(f"{PEER}: {len(rows)} calls, {failed} answered otherwise than V0 answers; its exit status was {status}")
    return int(bool(failed or status or not rows))


def peer_python() -> Path | None:
    """The interpreter of the environment with the client in it, which is made where it is missing."""
    environment = user_cache_path("handloom") / "peers" / re.sub(r"[^\w.]+", "-", PEER)
    python, stamp = environment / "bin/python", environment / ".installed"
    if stamp.exists():
        return python
    base = next(filter(None, map(_path_of, _candidates())), None)
    if base is None:
        print(f"Python {PYTHON} is needed for {PEER}. Install it, or name it in HANDLOOM_PEER_PYTHON.", file=sys.stderr)
        return None
    print(f"installing {PEER} into {environment}", file=sys.stderr)
    shutil.rmtree(environment, ignore_errors=True)
    make = [base, "-m", "venv", str(environment)]
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PEER]
    for command in (make, install):
        if subprocess.run(command, check=False).returncode:
            print(f"{PEER} could not be installed; the lines above say why.", file=sys.stderr)
            return None
    stamp.touch()
    return python


def run(python: Path, folder: Path, outcome: Path) -> int:
    """Run the client against a server of ours; the answer is its exit status."""
    workspace, key_file, taken = folder / "workspace", folder / "key", folder / "taken"
    workspace.mkdir()
    key = secrets.token_hex(32)
    key_file.write_text(key)
    taken.write_text(key)
    server = [sys.executable, "-P", "-m", "runtime.server", "--stdin-lifeline", "--port", "0"]
    server += ["--working-dir", str(workspace), "--key-file", str(taken)]
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


def _candidates() -> Iterator[str]:
    yield os.environ.get("HANDLOOM_PEER_PYTHON", "")
    yield f"python{PYTHON}"
    yield from map(str, sorted((Path.home() / ".pyenv/versions").glob(f"{PYTHON}.*/bin/python")))


def _path_of(candidate: str) -> str | None:
    """A candidate that runs and is of the right version: a shim may be on the path without what it stands for."""
    path = shutil.which(candidate)
    if path is None:
        return None
    asked = [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False)
    return path if answer.stdout.strip() == PYTHON else None


if __name__ == "__main__":
    sys.exit(main())
