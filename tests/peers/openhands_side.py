"""OpenHands' published client beside us: it drives our action server over TCP, and V0's own in the same run."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from playwright.async_api import async_playwright

from runtime.plugins.browser import chromium
from tests.bench.page import publish_peers
from tests.peers.installing import OPENHANDS, install
from tests.program import ROOT

SCRIPT = Path(__file__).with_name("openhands_client.py")
RUN_TIMEOUT_S = 300
READY_WITHIN_S = 120
PLUGINS = "agent_skills,browser,jupyter"
"""Programs that the client's actions need."""
WHERE_SHELLS_ARE = (
    "import pathlib, sys; from playwright.sync_api import sync_playwright\n"
    "with sync_playwright() as p: print(p.chromium.executable_path)"
)


@dataclass(frozen=True)
class Row:
    """One call: the request, the response, whether V0 answers alike, and how long it took."""

    what: str
    said: str
    fits: bool
    seconds: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """A run of the client: its exit status, its calls, and the last lines of its log."""

    status: int
    rows: tuple[Row, ...]
    log: str
    ready_s: float = 0.0
    """How long the server took until it answered."""


def main(*, publishes: bool = False) -> int:
    """Compare; `publishes` writes the times into the manual's page on performance.

    Exit status: 0 all fits here, 1 something does not, 2 the client could not be installed.
    """
    python = install(OPENHANDS)
    if python is None:
        return 2
    with tempfile.TemporaryDirectory(prefix="handloom-peers-") as folder:
        ours = run(python, Path(folder))
    with tempfile.TemporaryDirectory(prefix="handloom-peers-") as folder:
        theirs = run_own(python, Path(folder))
    for line in table(ours, theirs):
        print(line)
    if publishes and theirs.rows:
        known = {row.what: row.seconds * 1000 for row in theirs.rows}
        rows = [{"call": row.what, "ours": row.seconds * 1000, "theirs": known.get(row.what)} for row in ours.rows]
        publish_peers(rows, {"ours": ours.ready_s, "theirs": theirs.ready_s})
    failed = sum(not row.fits for row in ours.rows)
    for outcome in (ours, theirs):
        if outcome.status:
            print(outcome.log, file=sys.stderr)
    return int(bool(failed or ours.status or not ours.rows))


def table(ours: Outcome, theirs: Outcome) -> Iterator[str]:
    """Each call at both servers: whether its answer is as V0's documentation and tests say, and how long it took."""
    known = {row.what: row for row in theirs.rows}
    yield f"{'call':<32} {'Handloom':>14} {'V0 itself':>14}   Handloom's answer"
    for row in ours.rows:
        yield f"{row.what:<32} {_cell(row):>14} {_cell(known.get(row.what)):>14}   {row.said[:60]}"
    for name, outcome in (("Handloom", ours), ("V0's own server", theirs)):
        fitting = sum(row.fits for row in outcome.rows)
        yield (
            f"{name}: {fitting} of {len(ours.rows)} calls as expected, ready after {outcome.ready_s:.1f} s, "
            f"exit status of the client {outcome.status}"
        )


def _cell(row: Row | None) -> str:
    return "–" if row is None else f"{'ok' if row.fits else 'BAD'} {row.seconds * 1000:,.0f} ms"


def run(python: Path, folder: Path) -> Outcome:
    """Run the client against a server of ours that works in `folder`."""
    with _ours(folder) as (url, ready_s):
        return _driven(python, folder, url, ready_s)


def run_own(python: Path, folder: Path) -> Outcome:
    """Run the client against V0's own server, on this machine without a container. Needs tmux and Chromium."""
    try:
        with _theirs(python, folder) as (url, ready_s):
            return _driven(python, folder, url, ready_s)
    except TimeoutError:
        log = (folder / "server.log").read_text(errors="replace")
        return Outcome(-1, (), f"V0's own server did not become ready:\n{log[-2_000:]}")


def _driven(python: Path, folder: Path, url: str, ready_s: float) -> Outcome:
    workspace, rows = folder / "workspace", folder / "rows"
    client = [str(python), "-P", str(SCRIPT), url, str(folder / "key"), str(workspace), str(rows)]
    with (folder / "log").open("w+") as log:
        try:
            status = subprocess.run(
                client, stdout=log, stderr=log, cwd=folder, timeout=RUN_TIMEOUT_S, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            status = -1
        log.seek(0)
        last = "".join(log.readlines()[-20:])
    lines = rows.read_text().splitlines() if rows.exists() else []
    return Outcome(status, tuple(Row(**json.loads(line)) for line in lines), last, ready_s)


def _folders(folder: Path) -> str:
    """Make the workspace and the file with the key; the key."""
    (folder / "workspace").mkdir()
    key = secrets.token_hex(32)
    (folder / "key").write_text(key)
    return key


@contextmanager
def _ours(folder: Path) -> Iterator[tuple[str, float]]:
    """The address of a server of ours, and how long it took to be ready."""
    workspace, taken = folder / "workspace", folder / "taken"
    taken.write_text(_folders(folder))
    server = [sys.executable, "-P", "-m", "runtime.server", "--stdin-lifeline", "--port", "0"]
    server += ["--working-dir", str(workspace), "--key-file", str(taken), "--plugins", PLUGINS]
    # The client writes into the shell's ~/.bashrc, which is not to be the user's.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(workspace)}
    begun = time.monotonic()
    with subprocess.Popen(server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as serving:
        assert serving.stdin is not None
        assert serving.stdout is not None
        yield serving.stdout.readline().removeprefix("ready ").strip(), time.monotonic() - begun
        serving.stdin.close()


@contextmanager
def _theirs(python: Path, folder: Path) -> Iterator[tuple[str, float]]:
    """The address of V0's own server, and how long it took to be ready. Raises TimeoutError."""
    workspace, key, user = folder / "workspace", _folders(folder), pwd.getpwuid(os.getuid())
    packages = next((python.parent.parent / "lib").glob("python3*/site-packages"))
    environment = {
        **os.environ,
        "HOME": str(folder),
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "SESSION_API_KEY": key,
        "LOCAL_RUNTIME_MODE": "1",
        "OPENHANDS_REPO_PATH": str(packages),
        "PLAYWRIGHT_BROWSERS_PATH": str(folder / "browsers"),
        "TMUX_TMPDIR": str(folder),  # its tmux is not the user's, and stays when it ends
    }
    asyncio.run(_lend_chromium(python, environment))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = [str(python), "-m", "openhands.runtime.action_execution_server", str(port)]
    server += ["--working-dir", str(workspace), "--plugins", "agent_skills", "jupyter"]
    server += ["--username", user.pw_name, "--user-id", str(user.pw_uid)]
    begun, url = time.monotonic(), f"http://127.0.0.1:{port}"
    with (folder / "server.log").open("wb") as log:
        serving = subprocess.Popen(
            server,
            stdout=log,
            stderr=log,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            while not _answers(url):
                if time.monotonic() - begun > READY_WITHIN_S or serving.poll() is not None:
                    raise TimeoutError
                time.sleep(0.05)
            yield url, time.monotonic() - begun
        finally:
            with suppress(ProcessLookupError):
                os.killpg(serving.pid, 9)
            serving.wait()
            subprocess.run(["tmux", "kill-server"], env=environment, capture_output=True, check=False)


async def _lend_chromium(python: Path, environment: Mapping[str, str]) -> None:
    """Put our Chromium where V0's playwright looks for its own."""
    async with async_playwright() as playwright:
        ours = chromium.find(playwright)
    found = subprocess.run(
        [str(python), "-c", WHERE_SHELLS_ARE], env=dict(environment), capture_output=True, text=True, check=True
    )
    wanted = Path(found.stdout.strip())
    number = next(part for part in wanted.parts if part.startswith("chromium-")).removeprefix("chromium-")
    shell = Path(environment["PLAYWRIGHT_BROWSERS_PATH"], f"chromium_headless_shell-{number}")
    for place in (
        wanted,
        shell / "chrome-headless-shell-linux64/chrome-headless-shell",
        shell / "chrome-linux/headless_shell",
    ):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(ours)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/alive", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
