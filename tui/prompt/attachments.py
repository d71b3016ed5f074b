"""What goes with a message besides the typed text: long pastes and pictures, each shown as a chip in the prompt.

A chip is a token such as `[pasted 240 lines #1]`. It is ordinary text of the draft, so tabs, history and undo keep it;
`Chips` has the content for each token. A number is used once, so a token never changes its meaning.

Pictures are recognised by a pasted path, or read from the clipboard by the user's own programs (wl-paste, xclip,
pngpaste or osascript), because a terminal pastes text only. Only the first bytes are checked, for kind and size. What
reads files or the clipboard blocks and runs in a thread. No Textual.

`#123` in a message refers to event 123 of the conversation: the text stays as typed, and a bounded excerpt of the event
goes with the message for the model.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from tui.i18n import _

if TYPE_CHECKING:
    from core.events import Envelope

# -- chips -------------------------------------------------------------------------------------------------------------

LONG_LINES = 10
LONG_CHARS = 1000
"""A paste with more lines or characters is shown as a chip."""
HELD_CHARS = 64 * 1024 * 1024
"""The most that `Chips` keeps. Beyond it the oldest content is dropped, and its token becomes plain text."""

LINES, CHARACTERS, IMAGE = _("pasted {n} lines"), _("pasted {n} characters"), _("image {size}")
_KINDS = "|".join(re.sub(r"\\\{\w+\\\}", r"[\\d,x]+", re.escape(kind)) for kind in (LINES, CHARACTERS, IMAGE))
_TOKEN = re.compile(rf"\[(?:{_KINDS}) #\d+\]")


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that goes with a message."""

    url: str
    """A `data:` URL."""
    width: int
    height: int


def is_long(text: str) -> bool:
    return len(text) > LONG_CHARS or text.count("\n") >= LONG_LINES


class Chips:
    """The contents of all tokens."""

    def __init__(self) -> None:
        self._contents: dict[str, str | Picture] = {}
        self._last_number = 0

    def paste(self, text: str) -> str:
        """The token for a pasted text."""
        lines = text.removesuffix("\n").count("\n") + 1
        label = LINES.format(n=f"{lines:,}") if lines > 1 else CHARACTERS.format(n=f"{len(text):,}")
        return self._add(label, text)

    def attach(self, picture: Picture) -> str:
        return self._add(IMAGE.format(size=f"{picture.width}x{picture.height}"), picture)

    def _add(self, label: str, content: str | Picture) -> str:
        self._last_number += 1
        token = f"[{label} #{self._last_number}]"
        self._contents[token] = content
        room = HELD_CHARS - sum(map(_size, self._contents.values()))
        while room < 0 and len(self._contents) > 1:
            room += _size(self._contents.pop(next(iter(self._contents))))
        return token

    def spans(self, line: str) -> list[tuple[int, int]]:
        """The start and end of each token in a line."""
        if "[" not in line:
            return []
        return [found.span() for found in _TOKEN.finditer(line) if found[0] in self._contents]

    def pasted_text(self, token: str) -> str | None:
        """The text of a token; None for a picture's."""
        content = self._contents.get(token)
        return content if isinstance(content, str) else None

    def expanded(self, text: str) -> str:
        """The text with pastes instead of their tokens. Tokens of pictures stay, so the model can tell them apart."""
        return _TOKEN.sub(lambda found: self.pasted_text(found[0]) or found[0], text)

    def without_tokens(self, text: str) -> str:
        """Only what the user typed."""
        return _TOKEN.sub("", text)

    def pictures(self, text: str) -> list[Picture]:
        """The pictures whose tokens are in the text, each once, in order."""
        contents = (self._contents.get(token) for token in dict.fromkeys(_TOKEN.findall(text)))
        return [content for content in contents if isinstance(content, Picture)]

    def drop_pictures(self, text: str) -> None:
        """Free the pictures of a message that has been sent."""
        for token in _TOKEN.findall(text):
            if isinstance(self._contents.get(token), Picture):
                del self._contents[token]


def _size(content: str | Picture) -> int:
    return len(content if isinstance(content, str) else content.url)


# -- pictures ----------------------------------------------------------------------------------------------------------

MAX_BYTES = 10 * 1024 * 1024
MAX_PIXELS = 25_000_000
"""Every provider refuses larger pictures or scales them down."""
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif")
_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WebP": "image/webp"}
_PATH_CHARS = 4096


class RefusedError(Exception):
    """A picture cannot be attached; the message says why."""


def picture_path(text: str, folder: str) -> Path | None:
    """The path in a pasted text, in any of the forms that terminals use; None if it names no picture."""
    text = text.strip()
    if not text or "\n" in text or len(text) > _PATH_CHARS or "\0" in text:
        return None
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    elif text.startswith("file://"):
        text = unquote(urlsplit(text).path)
    else:
        text = re.sub(r"\\(.)", r"\1", text)
    if not text.lower().endswith(SUFFIXES):
        return None
    try:
        return Path(folder, Path(text).expanduser())
    except RuntimeError:  # the home of an unknown user
        return None


def read_picture(path: Path) -> Picture:
    """Read a picture file. Raises FileNotFoundError and RefusedError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(str(path)) from error
    except OSError as error:
        raise RefusedError(_unreadable(path, error)) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise RefusedError(_("{name} is not a file.").format(name=path.name))
        with open(descriptor, "rb", closefd=False) as file:
            return picture_of(file.read(MAX_BYTES + 1), path.name)
    except OSError as error:
        raise RefusedError(_unreadable(path, error)) from error
    finally:
        os.close(descriptor)


def _unreadable(path: Path, error: OSError) -> str:
    return _("Cannot read {name}: {why}.").format(name=path.name, why=error.strerror or error)


def picture_of(data: bytes, name: str) -> Picture:
    """Check the bytes of a picture. Raises RefusedError, which calls the picture `name`."""
    from core.image_types import HEAD_BYTES, measured  # not before the first frame

    if len(data) > MAX_BYTES:
        message = _("{name} is larger than {n} MB. Reduce its size and attach it again.")
        raise RefusedError(message.format(name=name, n=MAX_BYTES // 2**20))
    found = measured(data[:HEAD_BYTES])
    if found is None or found[0] not in _TYPES:
        raise RefusedError(_("{name} was not attached: it is not a PNG, JPEG, WebP or GIF image.").format(name=name))
    kind, width, height = found
    if not 0 < width * height <= MAX_PIXELS:
        message = _("{name} has {width} x {height} pixels; the limit is {n} million.")
        raise RefusedError(message.format(name=name, width=width, height=height, n=MAX_PIXELS // 10**6))
    return Picture(f"data:{_TYPES[kind]};base64,{base64.b64encode(data).decode('ascii')}", width, height)


# -- clipboard ---------------------------------------------------------------------------------------------------------

TIMEOUT_S = 3.0
"""The owner of the clipboard answers within milliseconds, or never."""
IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")
TEXT_TYPES = ("text/plain;charset=utf-8", "UTF8_STRING", "text/plain")
CLIPBOARD_IMAGE = _("The image in the clipboard")

Run = Callable[[list[str]], bytes | None]
"""Runs a program. Returns its output; None if it failed."""
Which = Callable[[str], str | None]


def read_clipboard(
    environ: Mapping[str, str], which: Which = shutil.which, run: Run | None = None, platform: str = sys.platform
) -> Picture | str:
    """The image in the clipboard, else its text. Raises RefusedError, which names the program to install."""
    run = run or _run
    if platform == "darwin":
        return _read_mac_clipboard(which, run)
    if environ.get("WAYLAND_DISPLAY") and which("wl-paste"):
        list_types, read_type = ["wl-paste", "--list-types"], ["wl-paste", "--no-newline", "--type"]
    elif environ.get("DISPLAY") and which("xclip"):
        read_type = ["xclip", "-selection", "clipboard", "-o", "-t"]
        list_types = [*read_type, "TARGETS"]
    elif environ.get("WAYLAND_DISPLAY"):
        raise RefusedError(_("Cannot read the clipboard. Install wl-clipboard, or paste the path of the image."))
    elif environ.get("DISPLAY"):
        raise RefusedError(_("Cannot read the clipboard. Install xclip, or paste the path of the image."))
    else:
        raise RefusedError(
            _("No clipboard is available here. Use your terminal's paste, or paste the path of an image.")
        )
    types = (run(list_types) or b"").decode("utf-8", "replace").split()
    if image_type := next((kind for kind in IMAGE_TYPES if kind in types), None):
        return picture_of(run([*read_type, image_type]) or b"", CLIPBOARD_IMAGE)
    text_type = next((kind for kind in TEXT_TYPES if kind in types), None)
    return (run([*read_type, text_type]) or b"").decode("utf-8", "replace") if text_type else ""


def _read_mac_clipboard(which: Which, run: Run) -> Picture | str:
    if which("pngpaste"):
        data = run(["pngpaste", "-"])
    else:
        output = run(["osascript", "-e", "get the clipboard as «class PNGf»"]) or b""
        found = re.search(rb"PNGf([0-9A-Fa-f]+)", output)
        data = bytes.fromhex(found[1].decode()) if found else None
    if data:
        return picture_of(data, CLIPBOARD_IMAGE)
    return (run(["pbpaste"]) or b"").decode("utf-8", "replace")


def _run(command: list[str]) -> bytes | None:
    """The output, cut a little above the size limit, so that `picture_of` still sees that it is too large."""
    import threading

    try:
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/"
        ) as process:
            assert process.stdout is not None
            timer = threading.Timer(TIMEOUT_S, process.kill)
            timer.start()
            try:
                data = process.stdout.read(2 * MAX_BYTES + 4096)  # osascript writes two digits for a byte
                process.stdout.close()
                return data if process.wait() == 0 or len(data) > MAX_BYTES else None
            finally:
                timer.cancel()
    except OSError:
        return None


MAX_REFERENCES = 10
EXCERPT_CHARS = 1500
"""The most of one event."""
INTRODUCTION = "[Handloom adds what the message refers to by number, from the log of this conversation:]"

_REFERENCE = re.compile(r"(?:^|(?<=[\s(]))#(\d{1,9})(?![\w#])")
_INTERNAL = frozenset(
    {"system", "recall", "null", "change_agent_state", "agent_state_changed", "condensation_request", "loop_recovery"}
)
"""Kinds that nobody refers to: messages between the controller and the memory."""


def referenced_ids(text: str) -> list[int]:
    """The event ids in a text, each once, at most MAX_REFERENCES."""
    return list(dict.fromkeys(int(number) for number in _REFERENCE.findall(text)))[:MAX_REFERENCES]


def reference_context(events: Iterable[Envelope]) -> str:
    """What the model reads behind a message that refers to these events; empty without events."""
    excerpts = [event_excerpt(envelope) for envelope in events]
    return "\n\n".join([INTRODUCTION, *excerpts]) if excerpts else ""


def event_excerpt(envelope: Envelope) -> str:
    """The number, kind and quoted text of an event; a long text is cut in the middle."""
    text = event_text(envelope)
    if len(text) > EXCERPT_CHARS:
        half = EXCERPT_CHARS // 2
        text = f"{text[:half]}\n[… {len(text) - 2 * half:,} characters …]\n{text[-half:]}"
    quoted = "\n".join(f"> {line}" for line in text.splitlines()) or "> (no text)"
    return f"Event #{envelope.id} ({_label(envelope)}, by the {envelope.source}):\n{quoted}"


def _label(envelope: Envelope) -> str:
    """The kind of the event, in English for the model."""
    return f"result of {envelope.event.kind}" if is_result(envelope) else envelope.event.kind


def is_result(envelope: Envelope) -> bool:
    """Whether the event is an observation, which has the kind of its action."""
    return not hasattr(envelope.event, "acts")


def event_text(envelope: Envelope) -> str:
    """The content of an event, else its summary."""
    return str(getattr(envelope.event, "content", "") or envelope.event.message)


def reference_candidates(page: Sequence[Envelope]) -> list[Envelope]:
    """The events of a page that a message may refer to, the newest first."""
    shown = [e for e in page if e.event.kind not in _INTERNAL and not getattr(e.event, "hidden", False)]
    return shown[::-1]


def reference_matches(envelope: Envelope, query: str) -> bool:
    """Whether an event matches the text behind the `#`: its number starts with it, or its kind or text contains it."""
    if not query:
        return True
    if query.isdigit():
        return str(envelope.id).startswith(query)
    query = query.lower()
    return query in _label(envelope) or query in event_text(envelope)[:EXCERPT_CHARS].lower()
