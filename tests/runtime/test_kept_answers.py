"""The wire of actions that outlast their connection, as any client may use it: once, in order, and not for ever."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from runtime.protocol import AFTER_HEADER, KEY_HEADER, RESUME_HEADER
from runtime.server import kept_answers
from runtime.server.kept_answers import Times
from tests.runtime.conftest import serving
from tests.runtime.serving import KEY, Server

TOKEN = "t" * 32
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
    """What the lines of an answer say, without those that only say that the server is there."""
    return [json.loads(line) for line in (await response.text()).splitlines() if line]


async def test_a_request_that_comes_twice_is_carried_out_once_and_answered_twice(
    caller: Caller, tmp_path: Path
) -> None:
    answers = []
    for _ in range(2):
        async with caller.begin("echo x >> effects; echo done") as response:
            assert (response.status, response.headers[AFTER_HEADER]) == (200, "0")
            answers.append(await lines(response))
    assert answers[0] == answers[1]
    assert answers[0][-1]["content"] == "done"
    assert (tmp_path / "effects").read_text() == "x\n"


async def test_frames_are_read_on_from_any_of_them(caller: Caller) -> None:
    async with caller.begin("for i in 1 2 3; do echo $i; sleep 0.05; done") as response:
        whole = await lines(response)
    for after in range(len(whole)):
        async with caller.read(after) as response:
            assert response.headers[AFTER_HEADER] == str(after)
            assert await lines(response) == whole[after:]


@pytest.mark.parametrize("after", ["1000", "-1", "x", "", "9" * 30])
async def test_frames_that_were_never_sent_are_refused(caller: Caller, after: str) -> None:
    async with caller.begin("true") as response:
        await response.read()
    async with caller.read(after) as response:
        assert response.status == 400


async def test_who_comes_later_takes_the_place_of_who_reads(caller: Caller, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    async with caller.begin("cat go; echo done") as first, caller.read(0) as second:
        await asyncio.to_thread((tmp_path / "go").write_text, "")
        assert (await lines(second))[-1]["content"] == "done"
        assert "observation" not in (await lines(first))[-1]


async def test_a_reading_ends_after_its_turn_and_a_quiet_one_says_that_the_server_is_there(caller: Caller) -> None:
    async with caller.begin("sleep 100") as response:
        text = await response.text()
    assert text.endswith("\n\n")
    assert "observation" not in text
    async with caller.let_go() as response:
        assert response.status == 200


async def test_what_nobody_asks_for_any_more_is_interrupted_and_forgotten(caller: Caller) -> None:
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


async def test_what_was_let_go_of_is_interrupted_and_a_late_request_is_not_carried_out(
    caller: Caller, tmp_path: Path
) -> None:
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
async def test_a_token_that_could_be_guessed_or_is_none_is_refused(caller: Caller, token: str, tmp_path: Path) -> None:
    async with caller.begin("echo x > done", token) as response:
        assert response.status == 400
    assert not (tmp_path / "done").exists()


async def test_there_is_an_end_to_how_many_are_kept(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_answers, "MAX_KEPT", 2)
    async with caller.begin("true", "a" * 32) as response:
        await response.read()
    async with caller.begin("sleep 100", "b" * 32), caller.begin("sleep 100", "c" * 32) as made_room:
        assert made_room.status == 200
        async with caller.read(0, "a" * 32) as oldest_that_had_ended:
            assert oldest_that_had_ended.status == 404
        async with caller.begin("true", "d" * 32) as one_too_many:
            assert one_too_many.status == 429


async def test_the_memory_of_what_was_let_go_of_has_an_end(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_answers, "MAX_REMEMBERED", 2)
    for token in ("a" * 32, "b" * 32, "c" * 32):
        async with caller.let_go(token):
            pass
    async with caller.begin("true", "a" * 32) as response:
        assert response.status == 200
    async with caller.begin("true", "c" * 32) as response:
        assert response.status == 410
