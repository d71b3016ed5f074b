"""A session that somebody made to do harm does not keep the library from listing and reading the others."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import core.library.prepared_session
from core.import_export.agents.source import AgentSession, Places, Source
from core.import_export.agents.transcript import Transcript
from core.import_export.bounded_json import Fault
from core.library.library import Library, chosen_sources
from core.library.prepared_session import WHY_CHARS, copy_id
from core.secrets import Redactor
from tests.library.agents import CLAUDE_ID, write_claude
from tests.library.diary import DIARY, write

PROMPT: dict[str, Any] = {
    "type": "user", "uuid": "u", "message": {"role": "user", "content": "Why?"}, "timestamp": "2026-01-01T00:00:00Z",
}  # fmt: skip
GOOD = copy_id("claude-code", CLAUDE_ID)


@pytest.fixture
def user(tmp_path: Path) -> Path:
    user = tmp_path / "user"
    write_claude(user, tmp_path / "project")
    return user


def _library(tmp_path: Path, user: Path, *sources: Source, keeps: bool = True) -> Library:
    places = Places(user, {}, "linux", projects=(tmp_path / "project",))
    return Library(tmp_path / "home", places=places, sources=sources or chosen_sources(), keeps=keeps)


def _write(user: Path, name: bytes, *lines: bytes) -> Path:
    folder = user / ".claude/projects/evil"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / os.fsdecode(name)
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def _name_that_is_no_utf8(user: Path) -> None:
    _write(user, b"\xff\xfe.jsonl", json.dumps(PROMPT).encode())


def _parent_that_is_no_text(user: Path) -> None:
    _write(user, b"x.jsonl", json.dumps({**PROMPT, "sessionId": "\ud800"}).encode())


def _infinite_number(user: Path) -> None:
    _write(user, b"x.jsonl", json.dumps(PROMPT).encode(), b'{"type": "odd", "x": 1e999}')


def _changed_far_away(user: Path) -> None:
    path = _write(user, b"x.jsonl", b'{"type": "user", "uuid": "u", "message": {"content": "Why?"}}')
    os.utime(path, (1, 15_000_000_000))


def _begun_far_away(user: Path) -> None:
    path = user.parent / "project/.aider.chat.history.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "# aider chat started at {year}-01-01 00:00:00\n\n#### Why?  \n\nBecause.\n\n"
    path.write_text(text.format(year=9999) + text.format(year=2026))


@pytest.mark.parametrize(
    "evil", [_name_that_is_no_utf8, _parent_that_is_no_text, _infinite_number, _changed_far_away, _begun_far_away]
)
async def test_others_are_read(tmp_path: Path, user: Path, evil: Any) -> None:
    evil(user)
    async with _library(tmp_path, user) as library:
        await library.find()
        await library.read_pending()
        records = await library.records()
        assert records[GOOD].was_read
        assert len(records) > 1
        assert all(record.was_read for record in records.values())


async def test_reader_that_fails_is_told_with_its_session(tmp_path: Path, user: Path) -> None:
    def read(session: AgentSession) -> Transcript:
        if session.id == "bad":
            raise KeyError("surprise")
        return DIARY.read(session)

    for name in ("bad", "good"):
        write(user, name, {"user": "Why?", "at": "2026-03-01T10:00:01+00:00"})
    async with _library(tmp_path, user, Source("diary", "Diary", DIARY.discover, read)) as library:
        await library.find()
        await library.read_pending()
        records = await library.records()
    assert records[copy_id("diary", "bad")].wrong == "its reader failed (KeyError)"
    assert records[copy_id("diary", "good")].was_read


async def test_parser_that_panics_is_told_with_its_session(tmp_path: Path, user: Path) -> None:
    class PanicException(BaseException):
        pass

    def read(session: AgentSession) -> Transcript:
        raise PanicException

    write(user, "bad", {"user": "Why?", "at": "2026-03-01T10:00:01+00:00"})
    async with _library(tmp_path, user, Source("diary", "Diary", DIARY.discover, read)) as library:
        await library.find()
        await library.read_pending()
        assert (await library.records())[copy_id("diary", "bad")].wrong == "its reader failed (PanicException)"


async def test_copies_stay_if_the_list_fails(tmp_path: Path, user: Path) -> None:
    def discover(places: Places) -> Iterator[AgentSession]:
        yield from DIARY.discover(places)
        if (user / "evil").exists():
            raise KeyError("surprise")

    write(user, "a", {"user": "Why?", "at": "2026-03-01T10:00:01+00:00"})
    async with _library(tmp_path, user, Source("diary", "Diary", discover, DIARY.read), keeps=False) as library:
        await library.find()
        await library.read_pending()
        for path in user.rglob("a*"):
            if path.is_file():
                path.unlink()
        (user / "evil").touch()
        await library.find()
        record = (await library.records())[copy_id("diary", "a")]
        assert not record.is_gone
        assert await library.store.conversations(conversation_id=record.id)
        (user / "evil").unlink()
        await library.find()
        assert not await library.records()


async def test_session_of_a_repository_does_not_replace_one_of_the_user(tmp_path: Path) -> None:
    run = {"messages": [{"role": "user", "content": "{text}"}], "trajectory_format": "mini-swe-agent-1.1"}
    user, project = tmp_path / "user", tmp_path / "project"
    for folder, text in ((user / ".config/mini-swe-agent", "mine"), (project, "evil")):
        folder.mkdir(parents=True)
        (folder / "last_mini_run.traj.json").write_text(json.dumps(run).replace("{text}", text))
    async with _library(tmp_path, user) as library:
        await library.find()
        (record,) = (await library.records()).values()
        assert record.session.title == "mine"


async def test_branches_are_bounded_together(tmp_path: Path, user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core.library.prepared_session, "MAX_BRANCH_BYTES", 100)
    answers = [{**PROMPT, "uuid": f"u{number}", "parentUuid": "u"} for number in range(10)]
    _write(user, b"x.jsonl", *(json.dumps(record).encode() for record in ({**PROMPT, "uuid": "u"}, *answers)))
    async with _library(tmp_path, user) as library:
        await library.find()
        await library.read_pending()
        assert len(await library.store.descendants(copy_id("claude-code", "x"))) == 1


async def test_secrets_are_redacted_in_folders_and_models(tmp_path: Path, user: Path) -> None:
    answer = {"type": "assistant", "uuid": "v", "message": {"id": "1", "model": "hunter2hunter2", "content": []}}
    prompt = {**PROMPT, "cwd": "/work/hunter2hunter2"}
    _write(user, b"x.jsonl", json.dumps(prompt).encode(), json.dumps(answer).encode())
    places, redactor = Places(user, {}, "linux"), Redactor(["hunter2hunter2"])
    async with Library(tmp_path / "home", places=places, sources=chosen_sources(), redactor=redactor) as library:
        await library.find()
        await library.read_pending()
        (info,) = await library.store.conversations(conversation_id=copy_id("claude-code", "x"))
    assert "hunter2" not in info.workspace + info.model
    assert all(b"hunter2hunter2" not in path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file())


def test_branch_has_the_id_of_no_session() -> None:
    ids = [copy_id("diary", "a"), copy_id("diary", "a", 1), copy_id("diary", "a\n1"), copy_id("diary", 'a", 1, "')]
    assert len(set(ids)) == len(ids)


async def test_beginning_of_a_tree_with_many_branches_is_read_at_once(tmp_path: Path, user: Path) -> None:
    def line(name: str, parent: str) -> bytes:
        return json.dumps({**PROMPT, "uuid": name, "parentUuid": parent}).encode()

    trunk = [line(f"t{number}", f"t{number - 1}") for number in range(1000)]
    _write(user, b"x.jsonl", *trunk, *(line(f"b{number}", "t999") for number in range(50)))
    async with _library(tmp_path, user) as library:
        await library.find()
        record = (await library.records())[copy_id("claude-code", "x")]
        source = chosen_sources(["claude-code"])[0]
        assert source.read(replace(record.session, first_bytes=1_000_000)).branches == []
        assert len(source.read(record.session).branches) == 49


async def test_numbers_that_no_column_takes_keep_no_other_session_from_being_stored(tmp_path: Path, user: Path) -> None:
    def answer(number: int) -> bytes:
        usage = {"input_tokens": 2**53 - 1, "output_tokens": 1}
        message = {"id": f"m{number}", "content": [{"type": "text", "text": "Because."}], "usage": usage}
        links = {"uuid": f"a{number}", "parentUuid": f"a{number - 1}" if number else "u"}
        return json.dumps(
            {"type": "assistant", "timestamp": 1_800_000_000 + number, **links, "message": message}
        ).encode()

    _write(user, b"x.jsonl", json.dumps(PROMPT).encode(), *map(answer, range(1100)))
    async with _library(tmp_path, user) as library:
        await library.find()
        await library.read_pending()
        records = await library.records()
    assert records[GOOD].was_read
    assert records[copy_id("claude-code", "x")].tokens == 2**63 - 1


async def test_session_that_cannot_be_stored_says_so_and_others_are_stored(tmp_path: Path, user: Path) -> None:
    def read(session: AgentSession) -> Transcript:
        found = DIARY.read(session)
        if session.id == "bad":
            found.forms[0]["cause"] = 2**70
        return found

    write(user, "bad", {"user": "Why?", "at": 1})
    write(user, "good", {"user": "Why?", "at": 1})
    async with _library(tmp_path, user, Source("diary", "Diary", DIARY.discover, read)) as library:
        await library.find()
        await library.read_pending()
        records = await library.records()
        assert records[copy_id("diary", "good")].was_read
        assert records[copy_id("diary", "bad")].wrong == "it cannot be stored (OverflowError)"
        assert (await library.find()).pending == 0


async def test_reason_why_a_session_cannot_be_read_is_short(tmp_path: Path, user: Path) -> None:
    def read(session: AgentSession) -> Transcript:
        raise Fault("it is cut off at " + "x" * 100_000)

    write(user, "a", {"user": "Why?", "at": 1})
    async with _library(tmp_path, user, Source("diary", "Diary", DIARY.discover, read)) as library:
        await library.find()
        assert len((await library.read_now(copy_id("diary", "a"))).wrong) == WHY_CHARS
