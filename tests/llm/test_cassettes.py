"""Cassettes: recordings are played in order and offline; no secret is in the file; damaged files do no harm."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ConfigurationError, ModelError, ModelErrorKind
from core.events import Frame, Status, TokenDelta, TokenUsage
from core.llm.call_pipeline import CallPipeline
from core.llm.cassette import RECORD_STATUS, CassetteLLM, Recorder, Scrubber, load_cassette
from core.protocols import LLM, FrameSink, LLMRequest, LLMResponse, ToolCall

SECRET = "s3cret-value-0123456789"
ENVIRON = {"SOME_API_KEY": SECRET, "HOME": "/home/mira"}
WORKSPACE = "/home/mira/work"
SYSTEM = {"role": "system", "content": "Work in /home/mira/work. Today's date is 2026-03-04 (UTC)"}
TOOL = {"type": "function", "function": {"name": "execute_bash", "parameters": {"type": "object"}}}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}

Json = dict[str, Any]


@dataclass
class Answers:
    """A model that gives these in turn."""

    outcomes: list[LLMResponse | ModelError]
    asked: list[LLMRequest] = field(default_factory=list)
    name: str = "openai/test"

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        self.asked.append(request)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, ModelError):
            raise outcome
        return outcome

    async def aclose(self) -> None:
        pass


def said(text: str) -> Json:
    return {"role": "user", "content": text}


def answered(text: str) -> Json:
    return {"role": "assistant", "content": text}


def asks(*messages: Json, tools: Sequence[Json] = (TOOL,), system: Json = SYSTEM) -> LLMRequest:
    return LLMRequest([system, *messages], tools)


LOOK = LLMResponse(
    "a1",
    f"Looking into {WORKSPACE}.",
    (ToolCall("c1", "execute_bash", f'{{"command": "ls {WORKSPACE}; echo {SECRET}"}}'),),
    TokenUsage(model="openai/test", prompt_tokens=12, completion_tokens=3, cache_read_tokens=2, context_window=1000),
    0.25,
    "tool_calls",
    "I should look.",
)
DONE = LLMResponse("a2", "Done.", usage=TokenUsage(model="openai/test"), cost=None)
FIRST = asks(said(f"look at {WORKSPACE}/a.txt with {SECRET} and sk-abcdefghijklmnopqrst"))
SECOND = asks(*FIRST.messages[1:], answered(LOOK.text), said("go on"))


async def record(
    path: Path, outcomes: Sequence[tuple[LLMRequest, LLMResponse | ModelError]], environ: Mapping[str, str] = ENVIRON
) -> None:
    model: LLM = Answers([outcome for _, outcome in outcomes])
    llm = CallPipeline(model, Recorder(path, model.name).thread(Scrubber(WORKSPACE, environ)))
    for request, outcome in outcomes:
        if isinstance(outcome, ModelError):
            with pytest.raises(ModelError):
                await llm.complete(request, lambda frame: None, 1)
        else:
            assert await llm.complete(request, lambda frame: None, 1) == outcome


def player(
    path: Path, workspace: str = WORKSPACE, match: Literal["strict", "loose"] = "strict", home: str = "/home/mira"
) -> CassetteLLM:
    return CassetteLLM(path, workspace, {**ENVIRON, "HOME": home}, match)


async def play(llm: LLM, request: LLMRequest) -> tuple[LLMResponse, list[Frame]]:
    frames: list[Frame] = []
    return await llm.complete(request, frames.append, 7), frames


async def difference(llm: LLM, request: LLMRequest) -> str:
    with pytest.raises(ModelError) as caught:
        await play(llm, request)
    assert caught.value.kind is ModelErrorKind.SCRIPT
    return str(caught.value)


async def test_recording_is_played_completely_and_in_order(tmp_path: Path) -> None:
    await record(tmp_path / "c", [(FIRST, LOOK), (SECOND, DONE)])
    llm = player(tmp_path / "c")
    response, frames = await play(llm, FIRST)
    assert response.text == LOOK.text
    assert response.tool_calls[0].arguments == LOOK.tool_calls[0].arguments.replace(SECRET, "<secret_hidden>")
    assert (response.cost, response.finish_reason, response.reasoning) == (0.25, "tool_calls", "I should look.")
    assert (response.usage.prompt_tokens, response.usage.cache_read_tokens) == (12, 2)
    assert response.usage.context_window == 1000
    assert frames == [TokenDelta(7, "I should look.", "reasoning"), TokenDelta(7, LOOK.text)]
    response, _ = await play(llm, SECOND)
    assert (response.text, response.cost) == ("Done.", None)


async def test_file_contains_no_secret_picture_or_path(tmp_path: Path) -> None:
    shows = asks(*FIRST.messages[1:], {"role": "user", "content": [PICTURE, {"type": "text", "text": SECRET}]})
    refused = ModelError(ModelErrorKind.SERVER, f"It said: {SECRET} Bearer abcdefgh12345")
    await record(tmp_path / "c", [(shows, LOOK), (shows, refused)])
    text = (tmp_path / "c").read_text()
    for hidden in (SECRET, "sk-abcdefghijklmnopqrst", "iVBORw0KGgo", "/home/mira", "2026-03-04", "abcdefgh12345"):
        assert hidden not in text, hidden
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o600


async def test_cassette_plays_in_another_folder_for_another_user_on_another_day(tmp_path: Path) -> None:
    await record(tmp_path / "c", [(FIRST, LOOK)])
    system = {"role": "system", "content": "Work in /home/otto/w. Today's date is 2027-01-01 (UTC)"}
    request = asks(said(f"look at /home/otto/w/a.txt with {SECRET} and sk-otherkeyotherkeyoth"), system=system)
    response, _ = await play(player(tmp_path / "c", "/home/otto/w", home="/home/otto"), request)
    assert response.text == "Looking into /home/otto/w."


@pytest.mark.parametrize("facts", ["Network: none. Git: branch main, clean.", "Network: only to a.example."])
async def test_facts_about_the_machine_are_not_recorded_and_make_no_difference(tmp_path: Path, facts: str) -> None:
    told = said("hello\n\nThe working directory is /w\n[Environment] System: Debian 12. Network: none.\nBe kind.")
    again = said("go on\n\n[Environment changed] Git: branch topic.")
    await record(tmp_path / "c", [(asks(told), LOOK), (asks(told, answered(LOOK.text), again), DONE)])
    assert "Debian" not in (tmp_path / "c").read_text()
    llm = player(tmp_path / "c")
    other = said(f"hello\n\nThe working directory is /w\n[Environment] {facts}\nBe kind.")
    await play(llm, asks(other))
    await play(llm, asks(other, answered(LOOK.text), said("go on")))


async def test_folder_that_only_starts_like_the_workspace_is_not_replaced() -> None:
    assert Scrubber("/w", {}).text("/w /w/a /work /w-2") == "<handloom:workspace> <handloom:workspace>/a /work /w-2"


async def test_requests_are_stored_once_in_long_conversations(tmp_path: Path) -> None:
    await record(tmp_path / "c", [(FIRST, LOOK), (SECOND, DONE)])
    header, first, second = map(json.loads, (tmp_path / "c").read_text().splitlines())
    assert header == {"cassette": 1, "model": "openai/test"}
    assert (len(first["request"]["messages"]), first["request"]["tools"]) == (2, [TOOL])
    assert (second["request"]["kept"], len(second["request"]["messages"])) == (2, 2)
    assert "tools" not in second["request"]


async def test_recorded_error_is_raised_again(tmp_path: Path) -> None:
    await record(tmp_path / "c", [(FIRST, ModelError(ModelErrorKind.RATE_LIMIT, "Wait.")), (FIRST, LOOK)])
    llm = player(tmp_path / "c")
    with pytest.raises(ModelError, match=r"^Wait\.$") as caught:
        await play(llm, FIRST)
    assert caught.value.kind is ModelErrorKind.RATE_LIMIT
    assert (await play(llm, FIRST))[0].id == "a1"


async def test_reopened_conversation_continues_its_cassette(tmp_path: Path) -> None:
    await record(tmp_path / "c", [(FIRST, LOOK), (SECOND, DONE)])
    assert (await play(player(tmp_path / "c"), SECOND))[0].text == "Done."


async def test_concurrently_recorded_conversations_are_played_separately(tmp_path: Path) -> None:
    other_first, other_second = asks(said("other")), asks(said("other"), answered("x"), said("on"))
    recorder, scrubber = Recorder(tmp_path / "c", "m"), Scrubber(WORKSPACE, ENVIRON)
    one = CallPipeline(Answers([LOOK, DONE]), recorder.thread(scrubber))
    other = CallPipeline(Answers([DONE, LOOK]), recorder.thread(scrubber))
    for llm, request in ((one, FIRST), (other, other_first), (one, SECOND), (other, other_second)):
        await llm.complete(request, lambda frame: None, 1)
    for first, second, ids in ((FIRST, SECOND, ["a1", "a2"]), (other_first, other_second, ["a2", "a1"])):
        played = player(tmp_path / "c")
        assert [(await play(played, request))[0].id for request in (first, second)] == ids


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (asks(said("something else")), 'message 2 (user).\n  recorded: {"role": "user", "content": "look at'),
        (asks(*FIRST.messages[1:], said("more")), "it has 3 messages, and 2 were recorded."),
        (asks(*FIRST.messages[1:], tools=[]), "its tools."),
        (asks(*FIRST.messages[1:], system=said("x")), "message 1 (user)."),
    ],
)
async def test_strict_mode_reports_where_a_request_differs(tmp_path: Path, request_: LLMRequest, told: str) -> None:
    await record(tmp_path / "c", [(FIRST, LOOK)])
    text = await difference(player(tmp_path / "c"), request_)
    assert text.startswith(f"Request 1 of {tmp_path / 'c'} differs from what was recorded: {told}")
    assert "Record it again with --record" in text


async def test_strict_mode_requires_the_order_and_ends_with_the_recording(tmp_path: Path) -> None:
    await record(tmp_path / "c", [(FIRST, LOOK), (SECOND, DONE)])
    llm = player(tmp_path / "c")
    await play(llm, FIRST)
    assert "differs" in await difference(llm, FIRST)
    await play(llm, SECOND)
    assert "have been played" in await difference(llm, asks(*SECOND.messages[1:], answered("Done."), said("more")))


async def test_loose_mode_matches_equal_conversations_in_any_order(tmp_path: Path) -> None:
    await record(tmp_path / "c", [(FIRST, LOOK), (SECOND, DONE)])
    llm = player(tmp_path / "c", match="loose")
    other = {"role": "system", "content": "Be someone else."}
    assert (await play(llm, asks(*SECOND.messages[1:], system=other, tools=[])))[0].id == "a2"
    assert (await play(llm, FIRST))[0].id == "a1"
    assert (await play(llm, FIRST))[0].id == "a1"
    assert "differs" in await difference(llm, asks(said("new")))


async def test_recording_does_not_overwrite_a_file(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("mine")
    with pytest.raises(ConfigurationError, match=r"exists and is not overwritten\. Give --record"):
        Recorder(tmp_path / "c", "m")
    assert (tmp_path / "c").read_text() == "mine"
    with pytest.raises(ConfigurationError, match="cannot be written"):
        Recorder(tmp_path / "no" / "c", "m")


async def test_failed_recording_is_reported_once_and_work_continues(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "c"
    path.parent.mkdir()
    llm = CallPipeline(Answers([LOOK, DONE]), Recorder(path, "m").thread(Scrubber(WORKSPACE, ENVIRON)))
    path.unlink()
    path.parent.rmdir()
    frames: list[Frame] = []
    assert await llm.complete(FIRST, frames.append, 1) == LOOK
    assert await llm.complete(SECOND, frames.append, 1) == DONE
    (notice,) = frames
    assert isinstance(notice, Status)
    assert (notice.level, notice.id) == ("error", RECORD_STATUS)
    assert "Recording stops; the conversation continues." in notice.message


HEADER = '{"cassette": 1}\n'
HOSTILE = [
    ("", "line 1: not JSON"),
    ("\x00\x01", "line 1: not JSON"),
    ("[]", "line 1, the whole line"),
    ('{"cassette": 2}', "line 1, cassette: Input should be 1"),
    ('{"cassette": 1, "run": "rm"}', "line 1, run: Extra inputs"),
    (HEADER, "has no exchanges"),
    (HEADER + "{", "line 2: not JSON: .* in column"),
    (HEADER + "[" * 100_000, "line 2: (nested too deeply|not JSON)"),
    (HEADER + '{"request": {"messages": []}}', "line 2, the whole line: an exchange has either"),
    (HEADER + '{"request": {"kept": 5, "messages": []}, "answer": {}}', "line 2: keeps 5 messages of a request that"),
    (HEADER + '{"request": {"kept": -1, "messages": []}, "answer": {}}', "line 2, request.kept"),
    (HEADER + '{"request": {"messages": []}, "answer": {"cost": -1}}', "line 2, answer.cost"),
    (HEADER + '{"request": {"messages": []}, "answer": {"cost": Infinity}}', "line 2, answer.cost"),
    (HEADER + '{"request": {"messages": []}, "answer": {"prompt_tokens": 1e400}}', "line 2, answer.prompt_tokens"),
    (HEADER + '{"request": {"messages": []}, "answer": {"prompt_tokens": ' + "9" * 5000 + "}}", "line 2"),
    (HEADER + '{"request": {"messages": []}, "error": {"kind": "worse", "message": ""}}', "line 2, error.kind"),
    (
        HEADER
        + json.dumps({"request": {"messages": [{}] * 2000}, "answer": {}})
        + '\n{"request": {"kept": 2000, "messages": []}, "answer": {}}' * 600,
        "more than 1000000 messages up to here",
    ),
]


@pytest.mark.parametrize(("text", "told"), HOSTILE, ids=range(len(HOSTILE)))
def test_file_that_is_not_a_cassette_is_refused_in_one_sentence(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "c").write_text(text)
    with pytest.raises(ConfigurationError, match=f"{tmp_path / 'c'}.*{told}.* Record it again") as caught:
        load_cassette(tmp_path / "c")
    assert len(str(caught.value)) < 600


def test_file_that_is_not_plain_text_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "latin").write_bytes(b'{"cassette": 1, "model": "\xff"}')
    (tmp_path / "huge").touch()
    os.truncate(tmp_path / "huge", 1 << 40)
    for name, told in (
        ("fifo", "is not a file"),
        (".", "is not a file"),
        ("latin", "not UTF-8 at byte 26"),
        ("huge", "larger than"),
        ("none", "cannot be read: No such file"),
    ):
        with pytest.raises(ConfigurationError, match=told):
            load_cassette(tmp_path / name)


@given(data=st.binary(max_size=200) | st.sampled_from([b"J", b"\n", b"x" * 5]), at=st.integers(0, 400))
def test_damaged_cassette_is_refused_or_played(tmp_path_factory: pytest.TempPathFactory, data: bytes, at: int) -> None:
    whole = (HEADER + '{"request": {"messages": [{"role": "user"}]}, "answer": {"text": "Hello."}}\n' * 3).encode()
    path = tmp_path_factory.getbasetemp() / "damaged"
    damaged = whole[:at] + data + whole[at + len(data) :]
    path.write_bytes(damaged)
    try:
        recorded = load_cassette(path)
    except ConfigurationError:
        assert damaged != whole
        return
    answered = [one.exchange.answer.text for one in recorded if one.exchange.answer is not None]
    assert 1 <= len(recorded) <= damaged.count(b"\n") + 1
    assert all(text.encode() in damaged or b"\\" in damaged for text in answered)
    assert damaged != whole or answered == ["Hello."] * 3
