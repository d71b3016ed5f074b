"""Separate environments for the peers, in the user's cache, from locked requirements.

`python -m tests.peers --install` makes them; HANDLOOM_PEERS names another folder for them. The versions and hashes are
in `*.lock`, and in `npm/*/package-lock.json`; `--lock` resolves `*.in` and `npm/*/package.json` again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from platformdirs import user_cache_path

PYTHON = "3.12"
"""The platform of the peers' wheels."""
HERE = Path(__file__).parent
QUARANTINE = timedelta(days=8)
"""Nothing younger is locked, as in `make lock`."""
NPM_OPTIONS = ("--silent", "--no-audit", "--no-fund", "--no-update-notifier", "--omit-lockfile-registry-resolved")
"""No address of a registry gets into a lock; the hashes do."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Packages installed together: `NAME.in` names them, `NAME.lock` lists all of them."""

    name: str
    title: str
    """Its name in reports: the package and its version."""
    is_of_npm: bool = False
    """Then `npm/NAME` has `package.json` and `package-lock.json` instead."""

    @property
    def lock(self) -> Path:
        return HERE / "npm" / self.name / "package-lock.json" if self.is_of_npm else HERE / f"{self.name}.lock"

    @property
    def folder(self) -> Path:
        """Another lock is another environment."""
        folder = os.environ.get("HANDLOOM_PEERS")
        places = Path(folder) if folder else user_cache_path("handloom") / "peers"
        return places / f"{self.name}-{hashlib.sha256(self.lock.read_bytes()).hexdigest()[:12]}"

    @property
    def programs(self) -> Path:
        """The folder of its programs."""
        return self.folder / ("node_modules/.bin" if self.is_of_npm else "bin")


OPENHANDS = Peer("openhands", "openhands-ai 0.62.0")
"""The last release with the wire of V0."""
BROWSERGYM = Peer("browsergym", "browsergym-core 0.13.3")
"""The version that V0's last release depends on."""
MCP = Peer("mcp", "mcp-server-time 2026.10.19")
SWEBENCH = Peer("swebench", "swebench 5.0.2")
CLAUDE_CODE = Peer("claude-code", "Claude Code 2.1.330", is_of_npm=True)
CODEX = Peer("codex", "Codex 0.171.0", is_of_npm=True)
MINI_SWE_AGENT = Peer("mini-swe-agent", "mini-swe-agent 2.4.6")
GEMINI_CLI = Peer("gemini-cli", "Gemini CLI 0.61.0", is_of_npm=True)
OPENCODE = Peer("opencode", "opencode 1.18.33", is_of_npm=True)
CLINE = Peer("cline", "Cline CLI 3.0.65", is_of_npm=True)
AIDER = Peer("aider", "aider 0.86.2")
OPENHANDS_SDK = Peer("openhands-sdk", "OpenHands SDK 1.58.2")
INSPECT = Peer("inspect", "Inspect 0.3.285")
AGENTS = (CLAUDE_CODE, CODEX, MINI_SWE_AGENT, GEMINI_CLI, OPENCODE, CLINE, AIDER, OPENHANDS_SDK, INSPECT)
"""Those whose sessions Handloom reads."""
PEERS = (OPENHANDS, BROWSERGYM, MCP, SWEBENCH, *AGENTS)
TESTED = (OPENHANDS, BROWSERGYM, SWEBENCH)
"""Those that the tests need."""


def installed(peer: Peer) -> Path | None:
    """The interpreter of the environment, or of npm the folder of programs; None where it was not made."""
    if not (peer.folder / ".installed").exists():
        return None
    return peer.programs if peer.is_of_npm else peer.programs / "python"


def missing() -> str:
    """Why tests with peers cannot be run here; empty where they can."""
    names = [peer.title for peer in TESTED if installed(peer) is None]
    return f"there is no {' and no '.join(names)}; python -m tests.peers --install brings them" if names else ""


def install(peer: Peer) -> Path | None:
    """As `installed`, but created if missing; None with a message if that fails."""
    if found := installed(peer):
        return found
    commands = _npm_commands(peer) if peer.is_of_npm else _pip_commands(peer)
    if not commands:
        return None
    print(f"installing {peer.title} into {peer.folder}", file=sys.stderr)
    shutil.rmtree(peer.folder, ignore_errors=True)
    if peer.is_of_npm:
        shutil.copytree(peer.lock.parent, peer.folder)
    for command in commands:
        if subprocess.run(command, check=False).returncode or not _is_locked(peer):
            print(f"{peer.title} could not be installed; the lines above say why.", file=sys.stderr)
            return None
    (peer.folder / ".installed").touch()
    return installed(peer)


def _pip_commands(peer: Peer) -> list[list[str]]:
    base = _base()
    if base is None:
        said = f"Python {PYTHON} is needed for {peer.title}. Install it, or name it in HANDLOOM_PEER_PYTHON."
        print(said, file=sys.stderr)
        return []
    pip = [str(peer.programs / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return [
        [base, "-m", "venv", str(peer.folder)],
        [*pip, "--require-hashes", "--no-deps", "-r", str(peer.lock)],
    ]


def _npm_commands(peer: Peer) -> list[list[str]]:
    npm = shutil.which("npm")
    if npm is None:
        print(f"npm is needed for {peer.title}. Install Node.js.", file=sys.stderr)
        return []
    here = [*NPM_OPTIONS, "--prefix", str(peer.folder)]
    names = json.loads(peer.lock.with_name("package.json").read_text())["dependencies"]
    # Not `npm ci`: it fails if a package for another machine, which its registry did not have, is not in the lock.
    return [[npm, "install", *here, "--ignore-scripts"], [npm, "rebuild", *here, *names]]


def _is_locked(peer: Peer) -> bool:
    """Whether npm installed nothing but what is in the lock; tells what else there is."""
    if not peer.is_of_npm:
        return True
    allowed, packages = (
        {(path, package.get("integrity")) for path, package in json.loads(file.read_text())["packages"].items()}
        for file in (peer.lock, peer.folder / "node_modules/.package-lock.json")
    )
    for path, integrity in packages - allowed:
        print(f"{path} is not in {peer.lock.relative_to(HERE)} with the hash {integrity}", file=sys.stderr)
    return packages <= allowed


def lock(peer: Peer) -> int:
    """Resolve the requirements of a peer again. Returns the exit status of the resolver."""
    youngest = f"{datetime.now(UTC) - QUARANTINE:%Y-%m-%d}"
    if peer.is_of_npm:
        resolving = ["npm", "install", *NPM_OPTIONS, "--package-lock-only", "--before", youngest]
        peer.lock.unlink(missing_ok=True)
        return subprocess.run(resolving, cwd=peer.lock.parent, check=False).returncode
    base = _base()
    if base is None:
        print(f"Python {PYTHON} is needed. Install it, or name it in HANDLOOM_PEER_PYTHON.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="handloom-peers-") as folder:
        subprocess.run([base, "-m", "venv", folder], check=True)
        subprocess.run([f"{folder}/bin/python", "-m", "pip", "install", "--quiet", "uv"], check=True)
        compiling = [f"{folder}/bin/uv", "pip", "compile", "--quiet", f"{peer.name}.in", "-o", f"{peer.name}.lock"]
        compiling += ["--python-version", PYTHON, "--universal", "--generate-hashes", "--no-emit-index-url"]
        compiling += ["--exclude-newer", youngest, "--no-annotate"]
        compiling += ["--custom-compile-command", "python -m tests.peers --lock"]
        return subprocess.run(compiling, cwd=HERE, check=False).returncode


def _base() -> str | None:
    return next(filter(None, map(_path_of, _candidates())), None)


def _candidates() -> Iterator[str]:
    yield os.environ.get("HANDLOOM_PEER_PYTHON", "")
    yield f"python{PYTHON}"
    yield from map(str, sorted((Path.home() / ".pyenv/versions").glob(f"{PYTHON}.*/bin/python")))


def _path_of(candidate: str) -> str | None:
    """A candidate that runs and has the correct version: a shim may be on the path without its interpreter."""
    path = shutil.which(candidate)
    if path is None:
        return None
    asked = [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False)
    return path if answer.stdout.strip() == PYTHON else None
