"""A secret that is known only when a conversation leaves, and that colours split, leaves in no format."""

from __future__ import annotations

import io
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from core.events import TerminalOutput
from core.import_export.formats import FORMATS
from core.import_export.secret_scan import FrameJoiner, Patterns, redact_in
from core.secrets import PLACEHOLDER
from core.secrets.token_patterns import certain
from core.store.recordings import RecordedFrame
from tests.import_export.test_secret_scan import SECRET
from tests.program import HANDLOOM, Handloom
from tests.tapes import BEGAN_AT, Tape

VALUE = "plain-words-of-somebody"
_CODES = re.compile(r"(?:\x1b|\\+u001b|\\+x1b|\\+e|&#27;)\[[0-9;]*m")


def coloured(value: str) -> str:
    """Each letter in another colour, as `lolcat` prints it."""
    return "".join(f"\x1b[3{number % 8}m{letter}\x1b[0m" for number, letter in enumerate(value))


def readable(data: bytes) -> str:
    """All texts of an export, without colours."""
    if data.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            data = b"\n".join(archive.read(name) for name in archive.namelist())
    return _CODES.sub("", data.decode("utf-8", "replace"))


@pytest.mark.parametrize("format", FORMATS)
async def test_it_is_redacted_in_exports_of_every_format(format: str, tmp_path: Path) -> None:
    made = Tape()
    made.say("Show them")
    made.run("show", f"one {coloured(VALUE)} two {coloured(SECRET)} three\n")
    await made.keep(tmp_path / "home")
    handloom = Handloom(tmp_path, MY_API_KEY=VALUE)
    found = {
        option: readable(
            subprocess.run(
                [*HANDLOOM, "export", made.id, "--format", format, option],
                capture_output=True,
                env=handloom.environ,
                check=True,
            ).stdout
        )
        for option in ("--mask", "--allow-secrets")
    }
    for value in (VALUE, SECRET):
        assert value not in found["--mask"]
        if format not in ("asciicast", "html"):  # whose frames end within it
            assert value in found["--allow-secrets"]


def test_known_values_and_shapes_are_found_between_colours_and_the_rest_stays() -> None:
    patterns = Patterns({"MY_API_KEY": VALUE})
    for value in (VALUE, SECRET):
        assert redact_in(f"a {coloured(value)} b", patterns) == f"a {coloured(value)[:5]}{PLACEHOLDER}\x1b[0m b"
        assert redact_in(f"a {value} b", patterns) == f"a {PLACEHOLDER} b"
    assert len(certain(f"x {coloured(SECRET)}\n")) == 1
    moved = f"{SECRET[:9]}\x1b[5;5H{SECRET[9:]}"
    assert certain(moved) == [], "another place on the screen"


@pytest.mark.parametrize("cut", range(1, len(coloured(VALUE))))
def test_frames_that_end_within_it_are_joined(cut: int) -> None:
    whole = f"one {coloured(VALUE)} two".encode()
    pieces = [whole[: cut + 4], whole[cut + 4 :]]
    joined = FrameJoiner()
    frames = joined.take([RecordedFrame(1, BEGAN_AT, TerminalOutput(1, piece)) for piece in pieces]) + joined.rest()
    assert b"".join(frame.frame.data for frame in frames) == whole
    assert sum(coloured(VALUE).encode() in frame.frame.data for frame in frames) == 1
