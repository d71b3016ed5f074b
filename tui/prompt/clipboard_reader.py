"""The clipboard, read by the user's own programs: wl-paste, xclip, pngpaste or osascript, where one is there.

A terminal hands over text when it pastes, and never a picture, so that one has to be asked for. Blocking: for a thread.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping

from tui.i18n import _
from tui.prompt.attachments import MAX_BYTES, RefusedError, picture_of
from tui.prompt.chips import Picture

TIMEOUT_S = 3.0
"""Who owns the clipboard answers in milliseconds, or not at all."""
TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")
NAME = _("The image in the clipboard")

Run = Callable[[list[str]], bytes | None]
"""What a program prints; None where it failed."""
Which = Callable[[str], str | None]


def read_clipboard(
    environ: Mapping[str, str], which: Which = shutil.which, run: Run | None = None, platform: str = sys.platform
) -> Picture | str:
    """The image in the clipboard, else its text. Raises RefusedError, which names what is missing."""
    run = run or _run
    if platform == "darwin":
        return _on_a_mac(which, run)
    if environ.get("WAYLAND_DISPLAY") and which("wl-paste"):
        listed, taken = ["wl-paste", "--list-types"], ["wl-paste", "--no-newline", "--type"]
    elif environ.get("DISPLAY") and which("xclip"):
        xclip = ["xclip", "-selection", "clipboard", "-o", "-t"]
        listed, taken = [*xclip, "TARGETS"], xclip
    elif environ.get("WAYLAND_DISPLAY"):
        raise RefusedError(_("Cannot read the clipboard. Install wl-clipboard, or paste the path of the image."))
    elif environ.get("DISPLAY"):
        raise RefusedError(_("Cannot read the clipboard. Install xclip, or paste the path of the image."))
    else:
        raise RefusedError(
            _("No clipboard is available here. Use your terminal's paste, or paste the path of an image.")
        )
    types = (run(listed) or b"").decode("utf-8", "replace").split()
    if wanted := next((kind for kind in TYPES if kind in types), None):
        return picture_of(run([*taken, wanted]) or b"", NAME)
    text = next((kind for kind in ("text/plain;charset=utf-8", "UTF8_STRING", "text/plain") if kind in types), None)
    return (run([*taken, text]) or b"").decode("utf-8", "replace") if text else ""


def _on_a_mac(which: Which, run: Run) -> Picture | str:
    if which("pngpaste"):
        data = run(["pngpaste", "-"])
    else:
        told = run(["osascript", "-e", "get the clipboard as «class PNGf»"]) or b""
        found = re.search(rb"PNGf([0-9A-Fa-f]+)", told)
        data = bytes.fromhex(found[1].decode()) if found else None
    if data:
        return picture_of(data, NAME)
    return (run(["pbpaste"]) or b"").decode("utf-8", "replace")


def _run(command: list[str]) -> bytes | None:
    try:
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/"
        ) as process:
            return _read(process)
    except OSError:
        return None


def _read(process: subprocess.Popen[bytes]) -> bytes | None:
    """What it prints, up to a little more than may be sent, so that too much is seen to be too much."""
    import threading

    assert process.stdout is not None
    ending = threading.Timer(TIMEOUT_S, process.kill)
    ending.start()
    try:
        data = process.stdout.read(2 * MAX_BYTES + 4096)  # osascript writes two digits for a byte
        process.stdout.close()
        return data if process.wait() == 0 or len(data) > MAX_BYTES else None
    finally:
        ending.cancel()
