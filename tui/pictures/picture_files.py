"""Pictures of a conversation as files, and the program of this machine that shows them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

EXTENSIONS = {"image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/bmp": ".bmp"}
"""By media type; any other is a PNG."""


def file_name(media_type: str, digest: str) -> str:
    """The name of a picture's file, the same for the same picture."""
    return f"picture-{digest[:8]}{EXTENSIONS.get(media_type, '.png')}"


def resolved(text: str) -> Path:
    """The path that a user typed, relative to the folder in which Handloom was started."""
    return Path.cwd() / Path(text.strip()).expanduser()


def write_new(file: Path, data: bytes) -> None:
    """Write a file that does not exist yet. Raises OSError; FileExistsError also for a symbolic link."""
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as opened:
        opened.write(data)


def temporary_copy(name: str, data: bytes) -> Path:
    """Write a picture into a new private folder, where it stays for the viewer. Raises OSError."""
    file = Path(tempfile.mkdtemp(prefix="handloom-picture-")) / name
    write_new(file, data)
    return file


def viewer(environ: Mapping[str, str] = os.environ) -> str:
    """The program that opens a file in the system's viewer; "" if there is none, or no graphical screen."""
    if sys.platform == "darwin":
        return "/usr/bin/open"
    has_screen = any(environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    return shutil.which("xdg-open", path=environ.get("PATH")) or "" if has_screen else ""


def open_file(program: str, file: Path) -> None:
    """Start the viewer, which is no child of Handloom and outlives it. Raises OSError."""
    nothing = subprocess.DEVNULL
    in_background = ["sh", "-c", '"$0" "$1" &', program, str(file)]
    subprocess.run(in_background, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True, check=False)
