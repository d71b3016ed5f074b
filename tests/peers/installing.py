"""Separate environments for the peers, in the user's cache, from locked requirements.

`python -m tests.peers --install` makes them; HANDLOOM_PEERS names another folder for them. The versions and
hashes are in `*.lock`; `--lock` resolves `*.in` again.
"""

from __future__ import annotations

import hashlib
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


@dataclass(frozen=True, slots=True)
class Peer:
    """Packages installed together: `NAME.in` names them, `NAME.lock` lists all of them."""

    name: str
    title: str
    """Its name in reports: the package and its version."""

    @property
    def lock(self) -> Path:
        return HERE / f"{self.name}.lock"

    @property
    def folder(self) -> Path:
        """Another lock is another environment."""
        folder = os.environ.get("HANDLOOM_PEERS")
        places = Path(folder) if folder else user_cache_path("handloom") / "peers"
        return places / f"{self.name}-{hashlib.sha256(self.lock.read_bytes()).hexdigest()[:12]}"


OPENHANDS = Peer("openhands", "openhands-ai 0.62.0")
"""The last release with the wire of V0."""
BROWSERGYM = Peer("browsergym", "browsergym-core 0.13.3")
"""The version that V0's last release depends on."""
MCP = Peer("mcp", "mcp-server-time 2026.10.19")
SWEBENCH = Peer("swebench", "swebench 5.0.2")
PEERS = (OPENHANDS, BROWSERGYM, MCP, SWEBENCH)
TESTED = (OPENHANDS, BROWSERGYM, SWEBENCH)
"""Those that the tests need."""


def installed(peer: Peer) -> Path | None:
    """The interpreter of the environment; None where it was not made."""
    return peer.folder / "bin/python" if (peer.folder / ".installed").exists() else None


def missing() -> str:
    """Why tests with peers cannot be run here; empty where they can."""
    names = [peer.title for peer in TESTED if installed(peer) is None]
    return f"there is no {' and no '.join(names)}; python -m tests.peers --install brings them" if names else ""


def install(peer: Peer) -> Path | None:
    """The interpreter of the environment, created if missing; None with a message if that fails."""
    if python := installed(peer):
        return python
    python = peer.folder / "bin/python"
    base = _base()
    if base is None:
        said = f"Python {PYTHON} is needed for {peer.title}. Install it, or name it in HANDLOOM_PEER_PYTHON."
        print(said, file=sys.stderr)
        return None
    print(f"installing {peer.title} into {peer.folder}", file=sys.stderr)
    shutil.rmtree(peer.folder, ignore_errors=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in (
        [base, "-m", "venv", str(peer.folder)],
        [*pip, "--require-hashes", "--no-deps", "-r", str(peer.lock)],
    ):
        if subprocess.run(command, check=False).returncode:
            print(f"{peer.title} could not be installed; the lines above say why.", file=sys.stderr)
            return None
    (peer.folder / ".installed").touch()
    return python


def lock(peer: Peer) -> int:
    """Resolve the requirements of a peer again. Returns the exit status of the resolver."""
    base = _base()
    if base is None:
        print(f"Python {PYTHON} is needed. Install it, or name it in HANDLOOM_PEER_PYTHON.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="handloom-peers-") as folder:
        subprocess.run([base, "-m", "venv", folder], check=True)
        subprocess.run([f"{folder}/bin/python", "-m", "pip", "install", "--quiet", "uv"], check=True)
        compiling = [f"{folder}/bin/uv", "pip", "compile", "--quiet", f"{peer.name}.in", "-o", f"{peer.name}.lock"]
        compiling += ["--python-version", PYTHON, "--universal", "--generate-hashes", "--no-emit-index-url"]
        compiling += ["--exclude-newer", f"{datetime.now(UTC) - QUARANTINE:%Y-%m-%d}", "--no-annotate"]
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
