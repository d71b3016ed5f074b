"""A possible secret is redacted and reported once; digests, ids and third-party source code are unchanged."""

from __future__ import annotations

import hashlib
import subprocess
import sysconfig
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from core.events import (
    CmdOutputObservation,
    EventSource,
    Frame,
    MessageAction,
    SecretMaskedObservation,
    Status,
    TerminalOutput,
    TokenDelta,
)
from core.memory.context_events import is_seen
from core.secrets import PLACEHOLDER, Redactor
from core.secrets.redacted_frames import RedactedFrames
from core.secrets.redactor import Detector
from core.secrets.token_patterns import certain, may_hold
from core.store.event_store import EventStore
from core.store.writer import Draft
from core.stream import EventStream
from tests.program import ROOT
from tests.secrets.canaries import ENVIRONMENT, FOUND, made

TELLS = SecretMaskedObservation
LOOK_LIKE_ONE = {
    "a GitHub token": FOUND[".env"],
    "a JSON web token": FOUND["jwt"],
    "a private key": FOUND["ssh"],
    "an OpenAI key": ENVIRONMENT["OPENAI_API_KEY"],
    "an Anthropic key": ENVIRONMENT["ANTHROPIC_API_KEY"],
    "a Google key": ENVIRONMENT["GEMINI_API_KEY"],
    "a GitLab token": ENVIRONMENT["GITLAB_TOKEN"],
    "an AWS key id": "AKIA" + made("id", 40).upper()[:16],
    "a Slack token": "xoxb-" + made("slack bot", 30),
}


@pytest.mark.parametrize("kind", LOOK_LIKE_ONE)
def test_keys_and_tokens_are_detected(kind: str) -> None:
    (span,) = certain(f"before\n{LOOK_LIKE_ONE[kind]}\nafter")
    assert span.kind == kind
    assert certain(f"x = '{LOOK_LIKE_ONE[kind]}'")


def test_random_value_beside_a_word_is_detected() -> None:
    assert certain(f'password = "{made("password", 20)}"')
    assert certain(f"api_key: {made('key', 40)}")
    assert certain(f"postgres://me:{made('database', 24)}@host/x")
    for harmless in ('password = "hunter2"', "token = get_token(user)", "api_key = os.environ['API_KEY']", "key: value",
                     "password = 'correct horse battery staple'", "https://user:password@example.org"):  # fmt: skip
        assert certain(harmless) == [], harmless


def test_digests_and_ids_are_not_secrets() -> None:
    for number in range(5_000):
        sha = hashlib.sha256(str(number).encode()).hexdigest()
        id = uuid.UUID(int=int(sha[:32], 16))
        text = f'commit {sha[:40]}\nkey={sha[:32]} id: {id} token: {id} sha256:{sha} etag="{sha[:32]}" auth {id}'
        assert certain(text) == [], text


def _found_in(files: Sequence[Path]) -> list[str]:
    texts = ((file, file.read_text("utf-8", "replace")) for file in files if file.is_file())
    return [
        f"{file}: {span.kind}: {text[span.start : span.end][:80]}" for file, text in texts for span in certain(text)
    ]


@pytest.mark.timeout(120)
def test_no_false_positives_in_this_repository_and_the_standard_library() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    assert _found_in([ROOT / name for name in listed if name]) == []
    library = Path(sysconfig.get_path("stdlib"))
    assert _found_in(sorted(library.glob("*.py")) + sorted(library.glob("[a-h]*/*.py"))) == []


async def _opened(store: EventStore, allowed: Sequence[str] = (), known: Sequence[str] = ()) -> EventStream:
    redactor = Redactor(known)
    return await _with(store, "c", redactor, Detector(redactor, lambda: allowed))


async def _with(store: EventStore, id: str, redactor: Redactor, detector: Detector) -> EventStream:
    lease = await store.create_conversation(id, title="", workspace="/w", model="demo")
    return EventStream(store, lease, redactor, detector=detector)


async def _told(stream: EventStream) -> list[dict[str, int]]:
    log = await stream.read()
    return [envelope.event.masked for envelope in log if isinstance(envelope.event, SecretMaskedObservation)]


async def test_detected_secret_is_redacted_before_it_is_stored(tmp_path: Path) -> None:
    token = FOUND[".env"]
    async with EventStore(tmp_path) as store:
        stream = await _opened(store)
        for _ in range(2):
            await stream.append(
                CmdOutputObservation(command="cat x", content=f"TOKEN={token}"), EventSource.ENVIRONMENT
            )
        await stream.append(MessageAction(content="in hex: " + token.encode().hex()), EventSource.USER)
        long = "x" * 100_000 + f"\n{FOUND['jwt']}"
        await stream.append(MessageAction(content=long), EventSource.USER)
        stored = [envelope.event for envelope in await stream.read()]
        assert [getattr(event, "content", "")[-24:] for event in stored if not isinstance(event, TELLS)] == [
            f"TOKEN={PLACEHOLDER}"[-24:],
            f"TOKEN={PLACEHOLDER}"[-24:],
            f"in hex: {PLACEHOLDER}"[-24:],
            f"{'x' * 100}\n{PLACEHOLDER}"[-24:],
        ]
        assert [stored.index(event) for event in stored if isinstance(event, TELLS)] == [1, 5]
        assert await _told(stream) == [{"a GitHub token": 1}, {"a JSON web token": 1}]
        await stream.aclose()


async def test_log_reports_each_secret_once_and_contains_none(tmp_path: Path) -> None:
    two, key = [f"ghp_{made(name)}" for name in "ab"], FOUND["ssh"]
    async with EventStore(tmp_path) as store:
        stream = await _opened(store, known=[ENVIRONMENT["GITHUB_TOKEN"]])
        said = MessageAction(content=f"{two[0]} {two[1]} {two[0]}\n{key}{ENVIRONMENT['GITHUB_TOKEN']}")
        drafts = [Draft(said, EventSource.USER), Draft(MessageAction(content="and"), EventSource.USER)]
        assert [envelope.id for envelope in await stream.append_all(drafts)] == [0, 1]
        assert stream.latest_id == 2
        for line in key.split("\n"):
            await stream.append(MessageAction(content=line), EventSource.USER)
        assert await _told(stream) == [{"a GitHub token": 2, "a private key": 1}]
        told = (await stream.read())[2].event
        assert isinstance(told, SecretMaskedObservation)
        assert "handloom secrets allow 'a private key'" in told.content
        assert "(2 of them)" in told.content
        assert not is_seen(told)
        await stream.aclose()
    everything = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert not [value for value in (*two, *key.split("\n")[1:-2]) if value.encode() in everything]


async def test_other_conversation_reports_the_same_secret(tmp_path: Path) -> None:
    redactor = Redactor()
    detector = Detector(redactor, lambda: ())
    async with EventStore(tmp_path) as store:
        for id in ("one", "other"):
            stream = await _with(store, id, redactor, detector)
            await stream.append(MessageAction(content=FOUND[".env"]), EventSource.USER)
            assert await _told(stream) == [{"a GitHub token": 1}]
            await stream.aclose()


async def test_allowed_kind_is_shown(tmp_path: Path) -> None:
    async with EventStore(tmp_path) as store:
        stream = await _opened(store, ["a GitHub token"])
        envelope = await stream.append(MessageAction(content=FOUND[".env"]), EventSource.USER)
        assert isinstance(envelope.event, MessageAction)
        assert envelope.event.content == FOUND[".env"]
        assert await _told(stream) == []
        await stream.aclose()


def test_live_output_is_redacted_and_recorded_unchanged() -> None:
    secret, recorded, shown = "tk-canary-value", list[Frame](), list[Frame]()
    frames = RedactedFrames(Redactor([secret]), recorded.append)
    frames.watch(shown.append)
    for piece in ("one tk-can", "ary-va", "lue two"):
        frames.publish(TerminalOutput(1, piece.encode()))
        frames.publish(TokenDelta(2, piece))
    frames.publish(TerminalOutput(3, b"tk-canary"))
    frames.publish(Status("info", "X", f"said {secret}"))
    terminal = [frame for frame in shown if isinstance(frame, TerminalOutput)]
    assert b"".join(frame.data for frame in terminal) == b"one *************** twotk-canary"
    assert terminal[-1] == TerminalOutput(3, b"tk-canary")
    assert "".join(frame.text for frame in shown if isinstance(frame, TokenDelta)) == "one *************** two"
    assert shown[-1] == Status("info", "X", f"said {PLACEHOLDER}")
    assert len(recorded) == 8


@pytest.mark.parametrize("pieces", [1, 2])
def test_unknown_secret_is_redacted_live(pieces: int) -> None:
    redactor, shown, value = Redactor(), list[Frame](), FOUND[".env"]
    frames = RedactedFrames(redactor, lambda _: None, Detector(redactor, tuple))
    frames.watch(shown.append)
    line = f"TOKEN={value}\r\n"
    cut = len(line) // 2 if pieces == 2 else len(line)
    for piece in filter(None, (line[:cut], line[cut:])):
        frames.publish(TerminalOutput(1, piece.encode()))
    terminal = b"".join(frame.data for frame in shown if isinstance(frame, TerminalOutput)).decode()
    assert terminal.startswith("TOKEN=")
    assert value not in terminal
    assert terminal.endswith("*" * (len(line) - 2 - max(cut, 6) if pieces == 2 else len(value)) + "\r\n")


@pytest.mark.parametrize("kind", LOOK_LIKE_ONE)
def test_may_hold_finds_every_certain_secret(kind: str) -> None:
    assert may_hold(LOOK_LIKE_ONE[kind])
    assert not may_hold("120 files were compiled in 3 s; 2 warnings\n")
