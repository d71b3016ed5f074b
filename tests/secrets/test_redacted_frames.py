"""Redacted frames: viewers see no secret, complete or split, and the recorder gets everything."""

from __future__ import annotations

import pytest

from core.events import Frame, PageShown, Status, TerminalOutput, TokenDelta
from core.secrets import PLACEHOLDER, Redactor
from core.secrets.redacted_frames import TAIL_BYTES, RedactedFrames
from core.secrets.redactor import Detector

SECRET = "tk-Qv7Zr9xLm2Pw"
TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hJ3lO6"


def shown(*frames: Frame, secrets: tuple[str, ...] = (SECRET,), detects: bool = False) -> list[Frame]:
    recorded: list[Frame] = []
    seen: list[Frame] = []
    redactor = Redactor(secrets)
    redacted = RedactedFrames(redactor, recorded.append, Detector(redactor, tuple) if detects else None)
    redacted.watch(seen.append)
    for frame in frames:
        redacted.publish(frame)
    assert recorded == list(frames)
    return seen


def output(data: bytes, cause: int = 1, *, is_echo: bool = False) -> TerminalOutput:
    return TerminalOutput(cause, data, is_echo)


@pytest.mark.parametrize(
    "frame", [output(b"x"), TokenDelta(1, "x"), Status("info", "A", "x"), PageShown(1, "http://a/", "t", b"", 1, 1)]
)
def test_frames_are_unchanged_without_secrets(frame: Frame) -> None:
    assert shown(frame, secrets=()) == [frame]


def test_split_secret_is_starred_and_nothing_else_lost() -> None:
    half = len(SECRET) // 2
    parts = [b"before " + SECRET[:half].encode(), SECRET[half:].encode() + b" after"]
    seen = shown(*map(output, parts), Status("info", "A", "the end"))
    text = b"".join(frame.data for frame in seen if isinstance(frame, TerminalOutput)).decode()
    assert text == f"before {'*' * len(SECRET)} after"
    assert seen[-1] == Status("info", "A", "the end")


def test_model_output_is_redacted_without_splitting_letters() -> None:
    seen = shown(TokenDelta(1, "é " + SECRET[:5]), TokenDelta(1, SECRET[5:] + " ü"), Status("info", "A", SECRET))
    text = "".join(frame.text for frame in seen if isinstance(frame, TokenDelta))
    assert text == f"é {'*' * len(SECRET)} ü"
    assert seen[-1] == Status("info", "A", PLACEHOLDER)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (output(SECRET[:9].encode()), output(SECRET[9:].encode(), 2)),
        (output(SECRET[:9].encode()), output(SECRET[9:].encode(), is_echo=True)),
        (TokenDelta(1, SECRET[:9]), TokenDelta(2, SECRET[9:])),
        (TokenDelta(1, SECRET[:9]), TokenDelta(1, SECRET[9:], "reasoning")),
    ],
)
def test_streams_are_redacted_separately(first: Frame, second: Frame) -> None:
    """The held-back part of the first stream is shown before the second one begins."""
    seen = shown(first, second, Status("info", "A", ""))
    assert [type(frame) for frame in seen[:-1]] == [type(first)] * (len(seen) - 1)
    data = [frame.data if isinstance(frame, TerminalOutput) else frame.text.encode() for frame in seen[:-1]]  # type: ignore[union-attr]
    assert b"".join(data).decode() == SECRET
    assert seen[0].cause == first.cause  # type: ignore[union-attr]


def test_address_and_title_of_a_page_are_redacted() -> None:
    (page,) = shown(PageShown(1, f"http://a/?{SECRET}", f"its {SECRET}", b"jpeg", 1, 1))
    assert page == PageShown(1, f"http://a/?{PLACEHOLDER}", f"its {PLACEHOLDER}", b"jpeg", 1, 1)


def test_unknown_secret_is_starred_across_frames() -> None:
    whole = shown(output(f"a {TOKEN} b\n".encode()), Status("info", "A", TOKEN), detects=True, secrets=())
    text = b"".join(frame.data for frame in whole if isinstance(frame, TerminalOutput)).decode()
    assert text == f"a {'*' * len(TOKEN)} b\n"
    assert whole[-1] == Status("info", "A", PLACEHOLDER)
    pieces = (TOKEN[:15], TOKEN[15:] + "\n", f"again {TOKEN}\n")
    seen = shown(*(output(piece.encode()) for piece in pieces), Status("info", "A", TOKEN), detects=True, secrets=())
    assert seen[-1] == Status("info", "A", PLACEHOLDER)
    apart = (TOKEN[:15], "x" * TAIL_BYTES, TOKEN[15:])
    seen = shown(*(output(piece.encode()) for piece in apart), Status("info", "A", TOKEN), detects=True, secrets=())
    assert seen[-1] == Status("info", "A", TOKEN), "it was never whole"
