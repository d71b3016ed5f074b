"""The protocol of actions that outlast their connection: carried out once, in order, and with a time limit."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from core.events import Action, CmdRunAction, NullObservation, Observation, TerminalOutput
from runtime.protocol import AFTER_HEADER, KEY_HEADER, RESUME_HEADER, encode_frame, encode_observation
from runtime.server import answer_cache
from runtime.server.action_executor import Emit
from runtime.server.answer_cache import AnswerCache, CachedAnswer, Reader, Times
from tests.runtime.action_server import KEY, Server
from tests.runtime.conftest import serving

TOKEN = "t" * 32
LONG = Times(keep_s=60, turn_s=60, beat_s=60)
TIMES = Times(keep_s=0.6, turn_s=0.3, beat_s=0.1)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path, TIMES) as server:
        yield server


class Caller:
    """Asks as a client does, one request at a time."""

    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        self._url = url
        self._http = http

    def begin(self, command: str, token: str = TOKEN) -> Any:
        action = {"action": "run", "args": {"command": command, "blocking": True}, "timeout": 60, "id": 1}
        headers = {KEY_HEADER: KEY, RESUME_HEADER: token}
        return self._http.post(f"{self._url}/execute_action", json={"action": action}, headers=headers)

    def read(self, after: int | str, token: str = TOKEN) -> Any:
        return self._http.get(f"{self._url}/actions/{token}?after={after}", headers={KEY_HEADER: KEY})

    def let_go(self, token: str = TOKEN) -> Any:
        return self._http.delete(f"{self._url}/actions/{token}", headers={KEY_HEADER: KEY})


@pytest.fixture
def caller(server: Server, http: aiohttp.ClientSession) -> Caller:
    return Caller(server.url, http)


async def lines(response: aiohttp.ClientResponse) -> list[dict[str, Any]]:
    """The lines of an answer without keep-alive lines."""
    return [json.loads(line) for line in (await response.text()).splitlines() if line]


async def test_repeated_request_runs_the_action_once(caller: Caller, tmp_path: Path) -> None:
    answers = []
    for _ in range(2):
        async with caller.begin("echo x >> effects; echo done") as response:
            assert (response.status, response.headers[AFTER_HEADER]) == (200, "0")
            answers.append(await lines(response))
    assert answers[0] == answers[1]
    assert answers[0][-1]["content"] == "done"
    assert (tmp_path / "effects").read_text() == "x\n"


async def test_reading_continues_after_any_frame(caller: Caller) -> None:
    async with caller.begin("for i in 1 2 3; do echo $i; sleep 0.05; done") as response:
        whole = await lines(response)
    for after in range(len(whole)):
        async with caller.read(after) as response:
            assert response.headers[AFTER_HEADER] == str(after)
            assert await lines(response) == whole[after:]


@pytest.mark.parametrize("after", ["1000", "-1", "x", "", "9" * 30])
async def test_position_of_a_frame_that_was_not_sent_is_refused(caller: Caller, after: str) -> None:
    async with caller.begin("true") as response:
        await response.read()
    async with caller.read(after) as response:
        assert response.status == 400


async def test_new_reader_replaces_the_previous_one(caller: Caller, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    async with caller.begin("cat go; echo done") as first, caller.read(0) as second:
        await asyncio.to_thread((tmp_path / "go").write_text, "")
        assert (await lines(second))[-1]["content"] == "done"
        assert "observation" not in (await lines(first))[-1]


async def test_response_ends_after_its_turn_and_sends_empty_lines_while_quiet(caller: Caller) -> None:
    async with caller.begin("sleep 100") as response:
        text = await response.text()
    assert text.endswith("\n\n")
    assert "observation" not in text
    async with caller.let_go() as response:
        assert response.status == 200


async def test_action_without_requests_is_interrupted_and_forgotten(caller: Caller) -> None:
    async with caller.begin("sleep 100"):
        pass
    text = ""
    async with asyncio.timeout(60), caller.begin("echo usable", "u" * 32) as response:
        text += await response.text()
    while "usable" not in text:  # it waits for the end of the first
        async with asyncio.timeout(60), caller.read(0, "u" * 32) as response:
            text = await response.text()
    async with caller.read(0) as response:
        assert response.status == 404


async def test_deleted_action_is_interrupted_and_not_run_again(caller: Caller, tmp_path: Path) -> None:
    async with caller.begin("echo begun; sleep 100; echo x > late"), caller.let_go() as response:
        assert response.status == 200
    for token in (TOKEN, "never-seen-before"):
        async with caller.let_go(token) as response:
            assert response.status == 404
        async with caller.read(0, token) as response:
            assert response.status == 404
        async with caller.begin("echo x > late", token) as response:
            assert response.status == 410
    assert not (tmp_path / "late").exists()


@pytest.mark.parametrize("token", ["", "short", "x" * 65, "a b" * 10, "é" * 20])
async def test_invalid_token_is_refused(caller: Caller, token: str, tmp_path: Path) -> None:
    async with caller.begin("echo x > done", token) as response:
        assert response.status == 400
    assert not (tmp_path / "done").exists()


async def test_number_of_kept_answers_is_limited(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_cache, "MAX_KEPT", 2)
    async with caller.begin("true", "a" * 32) as response:
        await response.read()
    async with caller.begin("sleep 100", "b" * 32), caller.begin("sleep 100", "c" * 32) as made_room:
        assert made_room.status == 200
        async with caller.read(0, "a" * 32) as oldest_that_had_ended:
            assert oldest_that_had_ended.status == 404
        async with caller.begin("true", "d" * 32) as one_too_many:
            assert one_too_many.status == 429


async def test_number_of_remembered_tokens_is_limited(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_cache, "MAX_REMEMBERED", 2)
    for token in ("a" * 32, "b" * 32, "c" * 32):
        async with caller.let_go(token):
            pass
    for token, status in (("b" * 32, 410), ("c" * 32, 410), ("a" * 32, 200)):
        async with caller.begin("true", token) as response:
            assert response.status == status


class TestFrames:
    """One answer and its readers, without a wire between."""

    @pytest.fixture(autouse=True)
    def bounds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        line_bytes = len(encode_frame(frame(1))) + 1
        monkeypatch.setattr(answer_cache, "FRAMES_BYTES", 3 * line_bytes)
        monkeypatch.setattr(answer_cache, "AHEAD_BYTES", 2 * line_bytes)

    async def test_late_reader_starts_with_the_newest_frames(self) -> None:
        answer = CachedAnswer()
        assert (answer.last, answer.is_complete, answer.reader(0).position) == (0, False, 0)
        answer = CachedAnswer()
        for number in range(1, 6):
            await answer.add(frame(number))
        assert answer.last == 5
        for after, position, numbers in ((0, 2, (3, 4, 5)), (2, 2, (3, 4, 5)), (3, 3, (4, 5)), (5, 5, ())):
            reader = answer.reader(after)
            assert reader.position == position
            assert answer.take(reader) == wire(*numbers)
            assert (reader.position, reader.has_all) == (5, False)

    async def test_frame_larger_than_the_limit_is_kept_alone(self) -> None:
        answer = CachedAnswer()
        await answer.add(frame(1))
        large = TerminalOutput(1, b"x" * 10_000)
        await answer.add(large)
        reader = answer.reader(0)
        assert reader.position == 1
        assert answer.take(reader) == encode_frame(large) + b"\n"

    async def test_command_waits_for_a_slow_reader(self) -> None:
        for go_on in ("take", "leave", "another"):
            answer = CachedAnswer()
            reader = answer.reader(0)
            for number in (1, 2):
                await answer.add(frame(number))
            adding = asyncio.create_task(answer.add(frame(3)))
            for _ in range(5):
                await asyncio.sleep(0)
            assert not adding.done()
            if go_on == "take":
                assert answer.take(reader) == wire(1, 2, 3)
            elif go_on == "leave":
                answer.detach(reader)
                answer.detach(reader)
            else:
                answer.reader(3)
            await asyncio.wait_for(adding, 60)

    async def test_detaching_a_replaced_reader_does_not_affect_its_successor(self) -> None:
        answer = CachedAnswer()
        first = answer.reader(0)
        second = answer.reader(0)
        answer.detach(first)
        assert not answer.is_read_by(first)
        assert answer.is_read_by(second)

    async def test_reader_that_lacks_dropped_frames_stops(self) -> None:
        answer = CachedAnswer()
        for number in range(1, 6):
            await answer.add(frame(number))
        reader = answer.reader(0)
        assert answer.is_read_by(reader)
        reader.position = 1
        assert not answer.is_read_by(reader)

    async def test_observation_is_the_last_line_unless_interrupted(self) -> None:
        for observation, last in ((NullObservation(), encode_observation(NullObservation()) + b"\n"), (None, b"")):
            answer = CachedAnswer()
            await answer.add(frame(1))
            reader = answer.reader(0)
            reading = asyncio.create_task(everything(reader))
            while reader.position == 0:
                await asyncio.sleep(0)
            answer.end(observation)
            assert await reading == wire(1) + last
            assert (reader.has_all, answer.is_complete) == (True, True)
            assert await everything(answer.reader(0)) == wire(1) + last
            assert await everything(answer.reader(1)) == last


async def everything(reader: Reader) -> bytes:
    return b"".join([line async for line in reader.lines(LONG)])


def frame(number: int) -> TerminalOutput:
    return TerminalOutput(1, b"%03d" % number)


def wire(*numbers: int) -> bytes:
    return b"".join(encode_frame(frame(number)) + b"\n" for number in numbers)


class Waiting:
    """Carries out actions that wait until they are let on."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.go = asyncio.Event()

    async def carry_out(self, action: Action, action_id: int, emit: Emit) -> Observation:
        self.begun.append(action_id)
        await self.go.wait()
        return NullObservation()


class TestAnswers:
    async def test_token_runs_once_even_after_release(self) -> None:
        waiting = Waiting()
        answers = AnswerCache(waiting.carry_out, LONG)
        first = answers.begin("a", CmdRunAction(command="x"), 1)
        assert answers.begin("a", CmdRunAction(command="x"), 2) is first is answers.find("a")
        assert answers.find("b") is None
        await asyncio.sleep(0)
        assert await answers.release("a")
        assert first is not None
        assert first.is_complete
        assert answers.find("a") is None
        assert answers.begin("a", CmdRunAction(command="x"), 3) is None
        assert not await answers.release("a")
        assert not await answers.release("never")
        assert answers.begin("never", CmdRunAction(command="x"), 4) is None
        assert waiting.begun == [1]
        await answers.aclose()

    async def test_closing_interrupts_all_actions_and_waits(self) -> None:
        waiting = Waiting()
        answers = AnswerCache(waiting.carry_out, LONG)
        begun = [answers.begin(token, CmdRunAction(command="x"), number) for number, token in enumerate("abc")]
        await asyncio.sleep(0)
        await answers.aclose()
        assert [answer is not None and answer.is_complete for answer in begun] == [True] * 3
        assert [answers.find(token) for token in "abc"] == [None] * 3
        await answers.aclose()
