"""What the machine that runs the tests can do: the requirements that a test may name as its marker.

One entry a requirement: why it cannot be met here, or an empty text. Each is looked for once, when the first test that
needs it comes up.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Mapping, MutableMapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from core.errors import HandloomError, RuntimeUnavailableError
from core.store.database import sqlite3
from runtime.docker.engine import connect
from tests.peers import installing

OWN_ENGINE = Path(os.environ.get("HANDLOOM_ENGINE_DIR", "/var/lib/handloom-engine")) / "docker.sock"
"""Where the engine of `make engine` listens."""


def _succeeds(*command: str, within_s: float = 20.0) -> bool:
    try:
        done = subprocess.run(command, capture_output=True, timeout=within_s, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _browser() -> str:
    names = ("chromium", "chromium-browser", "google-chrome")
    places = [Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")]
    own = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH", Path.home() / ".cache" / "ms-playwright"))
    if any(map(shutil.which, names)) or any(p.exists() for p in places) or any(own.glob("chromium*")):
        return ""
    return "Chromium was not found; on Debian: apt-get install chromium"


def _docker() -> str:
    try:
        connect().close()
    except RuntimeUnavailableError:
        return "no container engine answers; make engine starts one on Debian"
    from tests.containers import sandbox_image  # slow, and only useful with an engine

    try:
        sandbox_image()
    except HandloomError as error:
        return f"there is no image for containers: {error}"
    return ""


def _tmux() -> str:
    return "" if shutil.which("tmux") else "there is no tmux; on Debian: apt-get install tmux"


def _strace() -> str:
    if shutil.which("strace") is None:
        return "there is no strace; on Debian: apt-get install strace"
    return "" if _succeeds("strace", "-f", "-o", os.devnull, "true") else "strace may not trace processes here"


def _mount() -> str:
    command = ("unshare", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/tmp")
    return "" if _succeeds(*command) else "no file system can be mounted in a namespace of one's own here"


def _bubblewrap() -> str:
    if shutil.which("bwrap") is None:
        return "there is no bubblewrap; on Debian: apt-get install bubblewrap"
    root = os.getuid() == 0  # root needs no user namespace
    command = ("bwrap", "--unshare-pid", *(() if root else ("--unshare-user",)), "--ro-bind", "/", "/", "true")
    return "" if _succeeds(*command) else "bubblewrap may not make namespaces here"


def _ssh() -> str:
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    missing = [name for name in ("ssh", "ssh-keygen", "sshd") if shutil.which(name, path=path) is None]
    return f"there is no {', '.join(missing)}; on Debian: apt-get install openssh-server" if missing else ""


def _xterm() -> str:
    missing = [name for name in ("Xvfb", "xterm", "xdotool", "script") if shutil.which(name) is None]
    return f"there is no {', '.join(missing)}; on Debian: apt-get install xvfb xterm xdotool" if missing else ""


def _documents() -> str:
    missing = [name for name in ("docx", "openpyxl", "pptx", "pdfminer") if find_spec(name) is None]
    return f"{', '.join(missing)} cannot be imported; pip install 'handloom[documents]' brings them" if missing else ""


def _ray() -> str:
    return "" if find_spec("ray") else "Ray is not installed; make cluster adds it to .venv"


REQUIREMENTS: Mapping[str, Callable[[], str]] = {
    "browser": cache(_browser),
    "docker": cache(_docker),
    "tmux": cache(_tmux),
    "strace": cache(_strace),
    "mount": cache(_mount),
    "bubblewrap": cache(_bubblewrap),
    "documents": cache(_documents),
    "ssh": cache(_ssh),
    "xterm": cache(_xterm),
    "ray": cache(_ray),
    "peers": cache(installing.missing),
}
"""By the marker's name: why it cannot be had here."""


def name_the_engine(environ: MutableMapping[str, str]) -> None:
    """Set DOCKER_HOST to the engine of `make engine`, if it exists and none is set."""
    if OWN_ENGINE.exists():
        environ.setdefault("DOCKER_HOST", f"unix://{OWN_ENGINE}")


def required(environ: Mapping[str, str]) -> frozenset[str]:
    """The requirements that must be met, from HANDLOOM_REQUIRE. Raises ValueError for an unknown one."""
    names = frozenset(name.strip() for name in environ.get("HANDLOOM_REQUIRE", "").split(",") if name.strip())
    if unknown := names - REQUIREMENTS.keys():
        raise ValueError(f"HANDLOOM_REQUIRE names {', '.join(sorted(unknown))}; known: {', '.join(REQUIREMENTS)}")
    return names


def described() -> str:
    """The machine in one line, for figures that are published with it."""
    python = f"Python {platform.python_version()}, SQLite {'.'.join(map(str, sqlite3.sqlite_version_info))}"
    return f"{os.cpu_count()} cores, {platform.system()} {platform.release()} {platform.machine()}, {python}"
