"""Secrets are found before anything is exported, listed, and redacted; ordinary work raises no alarm."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import random
import re
import string
import subprocess
import time
import uuid
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.events import CmdRunAction, Event, EventSource, MessageAction, TerminalOutput, ToolCallMetadata
from core.import_export.exporter import FORMATS, Page, export
from core.import_export.secret_scan import Cleaner, Findings, FrameJoiner, Patterns, redact_secrets, scan
from core.secrets import PLACEHOLDER
from core.secrets.token_patterns import certain
from core.store.recordings import RecordedFrame
from tests.import_export.conversations import (
    AGENT,
    ENVIRONMENT,
    ORDINARY,
    RECORDING,
    USER,
    home_with,
    picture,
    ran,
    recorded,
)
from tests.program import HANDLOOM, Handloom
from tests.tapes import BEGAN_AT, Tape

NOTHING = Patterns({})


def made(alphabet: str, count: int, seed: int = 7) -> str:
    """A made-up value: the patterns below must not appear literally in a source file."""
    return "".join(random.Random(seed).choices(alphabet, k=count))


LETTERS = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
KEY_BLOCK = "-----BEGIN {0}PRIVATE KEY-----\n{1}\n-----END {0}PRIVATE KEY-----"
SHAPES = {
    "an Anthropic key": "sk-ant-" + "api03-" + made(LETTERS, 40),
    "an OpenAI key": "sk-proj-" + made(LETTERS, 40),
    "a Google key": "AI" + "za" + made(LETTERS, 35),
    "an AWS key id": "AK" + "IA" + made(UPPER, 16),
    "a GitHub token": "gh" + "p_" + made(LETTERS, 36),
    "a GitLab token": "gl" + "pat-" + made(LETTERS, 20),
    "a Slack token": "xo" + "xb-" + made(string.digits, 12) + "-" + made(LETTERS, 24),
    "a Stripe key": "sk" + "_live_" + made(LETTERS, 24),
    "a Hugging Face token": "h" + "f_" + made(LETTERS, 34),
    "an npm token": "np" + "m_" + made(LETTERS, 36),
    "a JSON web token": ".".join(("eyJ" + made(LETTERS, 20), "eyJ" + made(LETTERS, 40), made(LETTERS, 43))),
    "a private key": KEY_BLOCK.format("OPENSSH ", "\n".join(made(LETTERS, 64, n) for n in range(5))),
}
BESIDE = {
    "export DB_PASSWORD=hunter2!": ("a password", "hunter2!"),
    'password: "correct horse"': ("a password", "correct horse"),
    "mysql://root:s3cr3tpw@db/x": ("a password in an address", "s3cr3tpw"),
    "curl -H 'Authorization: Bearer abcdef1234567890'": ("an Authorization header", "abcdef1234567890"),
    f"service_token = {made(LETTERS, 32)}": ("a value called service_token", made(LETTERS, 32)),
    f'"apiKey": "{made(LETTERS, 40)}"': ("a value called apiKey", made(LETTERS, 40)),
    f"api_key={hashlib.sha256(b'x').hexdigest()}": ("a value called api_key", hashlib.sha256(b"x").hexdigest()),
}


@pytest.mark.parametrize(("kind", "secret"), SHAPES.items(), ids=list(SHAPES))
def test_key_is_found_by_pattern_in_every_field(kind: str, secret: str) -> None:
    for text in (secret, f"x={secret};", f"\x1b[1m{secret}\x1b[0m\r\n", f'{{"a": "{secret}"}}', f"see ({secret})."):
        (span,) = NOTHING.secrets(text)
        assert text[span.start : span.end] == secret
        assert span.kind == kind


@pytest.mark.parametrize("text", BESIDE)
def test_secret_is_found_by_the_word_beside_it(text: str) -> None:
    kind, secret = BESIDE[text]
    (span,) = NOTHING.secrets(text)
    assert (span.kind, text[span.start : span.end]) == (kind, secret)


def test_field_named_like_a_secret_is_found() -> None:
    findings = Findings(NOTHING)
    findings.search(made(LETTERS, 30), 3, "args.arguments.api_key", "api_key")
    (found,) = findings.secrets
    assert (found.event_id, found.where) == (3, "args.arguments.api_key")


def test_values_of_the_environment_are_found_under_their_names() -> None:
    patterns = Patterns({"MY_API_KEY": "plain-words-here", "PATH": "/usr/bin:/bin", "PIN_TOKEN": "1234"})
    (span,) = patterns.secrets("it said plain-words-here, and 1234 /usr/bin:/bin")
    assert span.kind == "the value of MY_API_KEY"


ORDINARY_TEXTS = [
    hashlib.sha256(b"x").hexdigest(),
    f"sha256:{hashlib.sha256(b'x').hexdigest()}",
    f"commit {hashlib.sha1(b'x').hexdigest()} key: {hashlib.md5(b'x').hexdigest()}",
    f"cache_key = {hashlib.sha256(b'x').hexdigest()}",
    f"id={uuid.UUID(int=7)} token: {uuid.UUID(int=8)}",
    "tool_call_id: call_" + made(LETTERS, 24),
    "key = os.environ['OPENAI_API_KEY']",
    "password = getpass.getpass('Password: ')",
    "password=password, token=token, secret=self.secret",
    "def login(user: str, password: str) -> None: ...",
    "api_key: ${OPENAI_API_KEY}  token=<your-token-here>  password=********",
    "PASSWORD=$(cat /run/secrets/db)",
    "Authorization: Bearer $TOKEN",
    "Authorization: Bearer <token>",
    "prompt_tokens=12345 completion_tokens: 678 max_tokens = 100000",
    "sk-ant-xxxxxxxxxxxxxxxxxxxxxxxx",
    "the keyboard has a key for that; a tokenizer makes tokens; passwords are secret",
    "postgres://user@localhost:5432/db http://localhost:8000/a:b@c git@github.com:o/r.git",
    "from tokenizers import Tokenizer\nkey=lambda item: item.created_at_timestamp_utc",
    "token = tokenizer.convert_tokens_to_string_representation",
    "integrity sha512-" + base64.b64encode(hashlib.sha512(b"x").digest()).decode(),
    "ssh-ed25519 " + base64.b64encode(bytes(range(51))).decode() + " user@host",
    "-----BEGIN PUBLIC KEY-----\n" + made(LETTERS, 64) + "\n-----END PUBLIC KEY-----",
    "key: /home/me/.cache/some/Long/Path/Name42/file.py",
    picture("#123456"),
    "PASSED tests/test_secret_key.py::test_token_is_hidden[password-12345]",
]


@pytest.mark.parametrize("text", ORDINARY_TEXTS, ids=range(len(ORDINARY_TEXTS)))
def test_ordinary_text_raises_no_alarm(text: str) -> None:
    assert [text[span.start : span.end] for span in NOTHING.secrets(text)] == []


async def test_ordinary_conversations_raise_no_alarm(tmp_path: Path) -> None:
    called = ToolCallMetadata(
        function_name="execute_bash",
        tool_call_id="toolu_" + made(LETTERS, 24),
        model_response={"id": "chatcmpl-" + made(LETTERS, 29), "system_fingerprint": "fp_" + made(LETTERS, 10)},
    )
    events: list[tuple[Event, EventSource, int | None]] = [
        *ORDINARY,
        (CmdRunAction(command="git log").model_copy(update={"tool_call_metadata": called}), AGENT, None),
        (ran("git log", "\n".join(ORDINARY_TEXTS)), ENVIRONMENT, None),
    ]
    async with home_with(tmp_path, events, recording=RECORDING) as home:
        assert (await scan(home, "c", NOTHING, FORMATS["archive"])).all == []


SECRET = SHAPES["a GitHub token"]


def leaking() -> list[tuple[Event, EventSource, int | None]]:
    """A conversation that says a token in many places."""
    return [
        (MessageAction(content=f"take {SECRET}", image_urls=[picture("#000000", 10, 10)]), USER, None),
        (CmdRunAction(command=f"export TOKEN={SECRET}\ncat /home/ada/notes"), AGENT, 0),
        (ran("env", f"PASSWORD=hunter2!\nTOKEN={SECRET}\nHOME=/home/ada\n"), ENVIRONMENT, 1),
    ]


PIECES = (
    recorded(1, 5, b"\x1b[32mTOKEN=" + SECRET[:9].encode()),
    recorded(1, 6, SECRET[9:20].encode()),
    recorded(1, 7, SECRET[20:].encode() + b"\r\n$ "),
    recorded(1, 8, "ü\xff".encode("latin-1") + b" done /home/ada"),
)
ADA = Patterns({}, "/home/ada", "ada")


async def test_finding_is_listed_once_and_masked(tmp_path: Path) -> None:
    async with home_with(tmp_path, leaking(), recording=PIECES, title=f"about {SECRET}") as home:
        findings = await scan(home, "c", ADA, FORMATS["archive"])
    first, second = findings.secrets
    assert (first.kind, first.event_id, first.where, first.count) == ("a GitHub token", None, "title", 5)
    assert (second.kind, second.event_id, second.where, second.count) == ("a password", 2, "content", 1)
    (place,) = [finding for finding in findings.all if not finding.is_secret]
    assert (place.kind, place.count) == ("your home folder", 3)
    told = "\n".join(map(str, findings.all))
    assert SECRET not in told
    assert SECRET[8:16] not in told
    assert "hunter2" not in told
    assert "(40 characters)" in told


@pytest.mark.parametrize(
    ("format", "count"),
    [("archive", 3), ("trajectory", 2), ("html", 3), ("markdown", 3), ("asciicast", 0)],
)
async def test_unsearched_pictures_are_counted_once(format: str, count: int, tmp_path: Path) -> None:
    said = MessageAction(
        content=f"see {picture('red')}, {picture('red')}", image_urls=[picture("red"), picture("blue")]
    )
    async with home_with(tmp_path, [*ORDINARY, (said, USER, None)]) as home:
        assert len((await scan(home, "c", NOTHING, FORMATS[format])).pictures) == count


@pytest.mark.parametrize("format", FORMATS)
async def test_redacted_export_contains_no_secret(format: str, tmp_path: Path) -> None:
    out = io.BytesIO()
    async with home_with(tmp_path, leaking(), recording=PIECES, title=f"about {SECRET}") as home:
        await export(home, "c", format, out, cleaner=Cleaner(ADA))
    texts = [out.getvalue()]
    if texts[0].startswith(b"PK"):
        archive = zipfile.ZipFile(out)
        texts = [archive.read(name) for name in archive.namelist()]
    if format == "archive":
        lines = [json.loads(line) for line in archive.read("recordings.jsonl").splitlines()]
        texts.append(printed := b"".join(base64.b64decode(line["data"]) for line in lines))
        assert printed == b"\x1b[32mTOKEN=<secret_hidden>\r\n$ \xfc\xff done ~"
        events: list[dict[str, Any]] = [json.loads(line) for line in archive.read("events.jsonl").splitlines()]
        assert events[0]["args"]["content"] == f"take {PLACEHOLDER}"
        assert events[0]["args"]["image_urls"][0].startswith("blob:image/png;10x10;")
    for text in texts:
        for part in (SECRET, SECRET[10:20], "hunter2", "/home/ada"):
            assert part.encode() not in text, part


def test_held_back_word_is_redacted_before_other_output() -> None:
    printed = [
        recorded(1, 1, f"one TOKEN={SECRET[:20]}".encode()),
        recorded(1, 2, SECRET[20:].encode()),
        recorded(2, 3, b"two /home/ada"),
        replace(recorded(2, 4, b"typed"), frame=TerminalOutput(2, b"typed", is_echo=True)),
    ]
    cleaner = Cleaner(ADA)
    left = [frame.frame for each in printed for frame in cleaner.page(Page(frames=[each])).frames]
    assert [*left, *(last.frame for last in cleaner.rest())] == [
        TerminalOutput(1, b"one "),
        TerminalOutput(1, b"TOKEN=<secret_hidden>"),
        TerminalOutput(2, b"two "),
        TerminalOutput(2, b"~"),
        TerminalOutput(2, b"typed", is_echo=True),
    ]
    assert cleaner.rest() == []


async def test_unredacted_export_is_unchanged(tmp_path: Path) -> None:
    out = io.BytesIO()
    async with home_with(tmp_path, leaking()) as home:
        await export(home, "c", "trajectory", out)
    assert SECRET.encode() in out.getvalue()


def test_large_text_is_scanned_quickly() -> None:
    for text in ("a" * 2_000_000, "key=" * 300_000, "-----BEGIN PRIVATE KEY-----\n" * 20_000, "eyJ" * 500_000):
        began = time.thread_time()
        NOTHING.secrets(text)
        assert time.thread_time() - began < 5, text[:30]


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
async def test_secret_split_by_colours_is_redacted_in_every_format(format: str, tmp_path: Path) -> None:
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


def test_known_values_and_patterns_are_found_between_colour_codes() -> None:
    patterns = Patterns({"MY_API_KEY": VALUE})
    for value in (VALUE, SECRET):
        assert redact_secrets(f"a {coloured(value)} b", patterns) == f"a {coloured(value)[:5]}{PLACEHOLDER}\x1b[0m b"
        assert redact_secrets(f"a {value} b", patterns) == f"a {PLACEHOLDER} b"
    assert len(certain(f"x {coloured(SECRET)}\n")) == 1
    moved = f"{SECRET[:9]}\x1b[5;5H{SECRET[9:]}"
    assert certain(moved) == [], "another place on the screen"


@pytest.mark.parametrize("cut", range(1, len(coloured(VALUE))))
def test_frames_that_end_inside_a_secret_are_joined(cut: int) -> None:
    whole = f"one {coloured(VALUE)} two".encode()
    pieces = [whole[: cut + 4], whole[cut + 4 :]]
    joined = FrameJoiner()
    frames = joined.take([RecordedFrame(1, BEGAN_AT, TerminalOutput(1, piece)) for piece in pieces]) + joined.rest()
    assert b"".join(frame.frame.data for frame in frames) == whole
    assert sum(coloured(VALUE).encode() in frame.frame.data for frame in frames) == 1
