"""Pictures for a message: from a path, from the clipboard; checked by their first bytes, refused with the reason."""

from __future__ import annotations

import base64
import os
import struct
from pathlib import Path

import pytest

from tests.store.test_blobs import png
from tui.prompt.attachments import (
    MAX_BYTES,
    Picture,
    RefusedError,
    picture_of,
    picture_path,
    read_clipboard,
    read_picture,
)

URL = f"data:image/png;base64,{base64.b64encode(png()).decode()}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/tmp/a.png", "/tmp/a.png"),
        ("  /tmp/a.PNG \n", "/tmp/a.PNG"),
        ("'/tmp/a b.jpg'", "/tmp/a b.jpg"),
        ("/tmp/a\\ b.webp", "/tmp/a b.webp"),
        ("file:///tmp/a%20b.gif", "/tmp/a b.gif"),
        ("pictures/a.jpeg", "/work/pictures/a.jpeg"),
        ("/tmp/a.txt", None),
        ("a.png\nb.png", None),
        ("", None),
        ("\0.png", None),
        ("~nobodyofthisname/a.png", None),
    ],
)
def test_picture_path_of_a_paste(text: str, expected: str | None) -> None:
    assert picture_path(text, "/work") == (Path(expected) if expected else None)


def test_picture_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(png())
    assert read_picture(tmp_path / "a.jpg") == Picture(URL, 3, 2), "the type is what the bytes are"


def test_other_than_regular_files_are_refused_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "folder.png").mkdir()
    for name in ("pipe.png", "folder.png"):
        with pytest.raises(RefusedError, match="is not a file"):
            read_picture(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        read_picture(tmp_path / "none.png")


def header(width: int, height: int) -> bytes:
    """The first bytes of a PNG that says that it is this large."""
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"GIF", "is not a PNG"),
        (b"BM" + b"\0" * 16 + struct.pack("<ii", 2, 2), "is not a PNG"),
        (header(50_000, 50_000), "50000 x 50000 pixels"),
        (header(0, 5), "0 x 5 pixels"),
        (header(5, 5) + b"\0" * MAX_BYTES, "larger than 10 MB"),
    ],
    ids=["cut off", "BMP", "too many pixels", "nothing", "too many bytes"],
)
def test_unsupported_picture_is_refused_by_its_header(data: bytes, why: str) -> None:
    with pytest.raises(RefusedError, match=why):
        picture_of(data, "it")


# -- the clipboard -----------------------------------------------------------------------------------------------------


class Programs:
    """Programs by their first word, with their output; records their arguments."""

    def __init__(self, **printed: bytes) -> None:
        self.printed = printed
        self.calls: list[list[str]] = []

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name.replace("-", "_") in self.printed else None

    def run(self, command: list[str]) -> bytes | None:
        self.calls.append(command)
        if command[-1] in ("--list-types", "TARGETS"):
            return self.printed.get("types", b"")
        return self.printed.get(command[0].replace("-", "_"))


@pytest.mark.parametrize(
    ("environ", "name"), [({"WAYLAND_DISPLAY": "w", "DISPLAY": ":0"}, "wl_paste"), ({"DISPLAY": ":0"}, "xclip")]
)
def test_clipboard_picture_is_read_by_its_type(environ: dict[str, str], name: str) -> None:
    programs = Programs(types=b"text/plain\nimage/jpeg\nimage/png\n", **{name: png()})
    assert read_clipboard(environ, programs.which, programs.run, "linux") == Picture(URL, 3, 2)
    assert programs.calls[-1][-1] == "image/png"


def test_clipboard_text_is_read_without_a_picture() -> None:
    programs = Programs(types=b"UTF8_STRING\n", xclip="schön".encode())
    assert read_clipboard({"DISPLAY": ":0"}, programs.which, programs.run, "linux") == "schön"
    assert read_clipboard({"DISPLAY": ":0"}, programs.which, Programs(xclip=b"").run, "linux") == ""


@pytest.mark.parametrize(
    ("environ", "missing"),
    [
        ({"WAYLAND_DISPLAY": "w"}, "Install wl-clipboard"),
        ({"DISPLAY": ":0"}, "Install xclip"),
        ({}, "No clipboard is available"),
    ],
)
def test_missing_clipboard_program_is_named(environ: dict[str, str], missing: str) -> None:
    programs = Programs()
    with pytest.raises(RefusedError, match=missing):
        read_clipboard(environ, programs.which, programs.run, "linux")


def test_clipboard_of_a_mac() -> None:
    programs = Programs(osascript=b"\xc2\xabdata PNGf" + png().hex().upper().encode() + b"\xc2\xbb\n")
    assert read_clipboard({}, programs.which, programs.run, "darwin") == Picture(URL, 3, 2)
    assert read_clipboard({}, Programs().which, Programs(pbpaste=b"text").run, "darwin") == "text"
    with_program = Programs(pngpaste=png())
    assert read_clipboard({}, with_program.which, with_program.run, "darwin") == Picture(URL, 3, 2)


def test_failing_clipboard_program_returns_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "picture").write_bytes(png())
    program = tmp_path / "xclip"
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *TARGETS*) echo image/png;; *png*) exec /bin/cat {tmp_path}/picture;; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert read_clipboard({"DISPLAY": ":0"}, platform="linux") == Picture(URL, 3, 2)
    program.write_text("#!/bin/sh\nexit 1\n")
    assert read_clipboard({"DISPLAY": ":0"}, platform="linux") == ""
