"""Environments of their own for the peers, in the user's cache, made when a job asks for them the first time."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

PYTHON = "3.12"
"""What the peers' wheels are for."""


@dataclass(frozen=True, slots=True)
class Peer:
    """What is installed together; the first requirement gives the environment its name."""

    requirements: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return user_cache_path("handloom") / "peers" / re.sub(r"[^\w.]+", "-", self.requirements[0])


OPENHANDS = Peer(("openhands-ai==0.62.0",))
"""The last release with the wire of V0."""
BROWSERGYM = Peer(("browsergym-core==0.13.3", "browsergym-miniwob==0.13.3", "miniwob==1.1.0"))
"""The version that V0's last release depends on."""


def installed(peer: Peer) -> Path | None:
    """The interpreter of the environment; None where it was not made."""
    return peer.folder / "bin/python" if (peer.folder / ".installed").exists() else None


def install(peer: Peer) -> Path | None:
    """The interpreter of the environment, which is made where it is missing; None where it cannot be, which is said."""
    if python := installed(peer):
        return python
    name, python = peer.requirements[0], peer.folder / "bin/python"
    base = next(filter(None, map(_path_of, _candidates())), None)
    if base is None:
        print(f"Python {PYTHON} is needed for {name}. Install it, or name it in HANDLOOM_PEER_PYTHON.", file=sys.stderr)
        return None
    print(f"installing {name} into {peer.folder}", file=sys.stderr)
    shutil.rmtree(peer.folder, ignore_errors=True)
    make = [base, "-m", "venv", str(peer.folder)]
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *peer.requirements]
    for command in (make, install):
        if subprocess.run(command, check=False).returncode:
            print(f"{name} could not be installed; the lines above say why.", file=sys.stderr)
            return None
    (peer.folder / ".installed").touch()
    return python


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
