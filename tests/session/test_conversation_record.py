"""The title and the model of an open conversation, and titles suggested by a model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.errors import ConfigurationError, StoreError
from core.events import CONVERSATION_TITLE, TokenUsage
from core.protocols import LLM, FrameSink, LLMRequest, LLMResponse
from core.pub_sub import Frames
from core.session.conversation_record import (
    MESSAGE_CHARS,
    ConversationRecord,
    Suggestion,
    clean_title,
    first_line,
    suggest_title,
)
from core.store.event_store import EventStore
from core.store.writer import Lease, Spent
from tests.streams import heard, info_of


class Filling(EventStore):
    """A store whose disk can be full."""

    is_full = False

    async def update_conversation(self, lease: Lease, **fields: Any) -> None:
        if self.is_full:
            raise StoreError("The disk is full.")
        await super().update_conversation(lease, **fields)


class World:
    """A record, its store and what it is suggested."""

    def __init__(self, store: Filling, lease: Lease) -> None:
        self.store, self._lease = store, lease
        self.frames = Frames()
        self.told = heard(self.frames)
        self.asked: list[str] = []
        self.answer: asyncio.Future[Suggestion] = asyncio.get_running_loop().create_future()

    async def record(self, *, suggests: bool = True) -> ConversationRecord:
        async def suggest(message: str) -> Suggestion:
            self.asked.append(message)
            return await self.answer

        return ConversationRecord(
            info=await info_of(self.store),
            store=self.store,
            lease=self._lease,
            frames=self.frames,
            masked=lambda text: text.replace("hunter2", "***"),
            spawn=asyncio.ensure_future,
            suggest_title=suggest if suggests else None,
        )

    def titles(self) -> list[str]:
        return [text for _, id, text in self.told if id == CONVERSATION_TITLE]


@asynccontextmanager
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with Filling(tmp_path) as store:
        yield World(store, await store.create_conversation("c", title="", workspace="/w", model="m"))


async def test_a_title_and_a_model_are_set_here_and_in_the_store_without_secrets(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        record = await w.record()
        await record.set_title("say hunter2")
        await record.set_model("other")
        assert (record.info.title, record.info.model) == ("say ***", "other")
        stored = await info_of(w.store)
        assert (stored.title, stored.model, w.titles()) == ("say ***", "other", ["say ***"])


async def test_a_title_that_cannot_be_stored_is_none(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        record = await w.record()
        await record.set_title("Before")
        w.store.is_full = True
        with pytest.raises(StoreError):
            await record.set_title("After")
        assert (record.info.title, w.titles()) == ("Before", ["Before"])


async def test_the_first_message_names_it_and_a_better_title_takes_its_place_and_is_paid_for(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        record = await w.record()
        await record.name("look at it\nplease")
        assert record.info.title == "look at it"
        assert record.titling is not None
        w.answer.set_result(Suggestion("Better", Spent(1, 0.5, 0, 9, 0.0)))
        await record.titling
        assert (w.titles(), w.asked) == (["look at it", "Better"], ["look at it\nplease"])
        spent = await w.store.spent(datetime.now(UTC).date())
        assert (spent.calls, spent.cost, spent.tokens) == (1, 0.5, 9)
        await record.name("a second message")
        assert (record.info.title, len(w.asked)) == ("Better", 1)


@pytest.mark.parametrize(
    ("suggestion", "mine", "title"),
    [(Suggestion(), "", "go"), (Suggestion("Better"), "Mine", "Mine"), (Suggestion("", Spent(1)), "", "go")],
)
async def test_a_suggestion_of_no_use_or_too_late_changes_nothing(
    tmp_path: Path, suggestion: Suggestion, mine: str, title: str
) -> None:
    async with world(tmp_path) as w:
        record = await w.record()
        await record.name("go")
        assert record.titling is not None
        if mine:
            await record.set_title(mine)
        w.answer.set_result(suggestion)
        await record.titling
        assert record.info.title == title
        assert w.titles() == ["go", mine] if mine else ["go"]
        assert (await w.store.spent(datetime.now(UTC).date())).calls == suggestion.spent.calls


async def test_without_a_cheap_model_no_title_is_looked_for(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        record = await w.record(suggests=False)
        await record.name("go")
        record.rest()
        assert (record.info.title, record.titling, w.asked) == ("go", None, [])


async def test_a_first_title_that_cannot_be_stored_is_left_out_and_a_better_one_kept_out(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        record = await w.record()
        w.store.is_full = True
        await record.name("go")
        assert (record.info.title, record.titling, w.titles()) == ("", None, [])
        w.store.is_full = False
        await record.name("go")
        w.store.is_full = True
        w.answer.set_result(Suggestion("Better"))
        assert record.titling is not None
        await record.titling
        assert record.info.title == "go"


async def test_at_rest_it_looks_for_no_title_any_more(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        record = await w.record()
        await record.name("go")
        record.rest()
        assert record.titling is not None
        await asyncio.wait([record.titling])
        assert record.titling.cancelled()


@pytest.mark.parametrize(
    ("message", "title"),
    [
        ("  look at it\nand more", "look at it"),
        ("", "Untitled"),
        (" \n ", "Untitled"),
        ("x" * 50, "x" * 50),
        ("x" * 51, "x" * 50),
        ("x" * 49 + " y", "x" * 49),
    ],
)
def test_the_first_line_of_a_message_is_its_title(message: str, title: str) -> None:
    assert first_line(message) == title


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ("Repair of the build", "Repair of the build"),
        ("\n \n Second\nthird", "Second"),
        ('"Quoted"', "Quoted"),
        ("Title: **Named**", "Named"),
        ("a\tb\x1b[31mc", "a b [31mc"),
        ("x" * 50, "x" * 50),
        ("x" * 51, "x" * 50),
        ("x" * 49 + " yy", "x" * 49),
        ("x" * 50 + " y", "x" * 50),
        ("ab " * 20, "ab " * 16 + "ab"),
        ("ab " * 66, "ab " * 16 + "ab"),
        ("a " * 100, "a " * 24 + "a"),
        ("a " * 100 + "b", ""),
        ("<title>", ""),
        ("...", ""),
        ("", ""),
    ],
)
def test_an_answer_becomes_one_printable_line_cut_between_words_or_nothing(answer: str, title: str) -> None:
    assert clean_title(answer) == title


class Naming:
    """A model that answers with a response or raises."""

    name = "naming"

    def __init__(self, answer: LLMResponse | Exception) -> None:
        self._answer = answer
        self.asked: list[LLMRequest] = []
        self.is_closed = False

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        assert cause == -1, "what it says is no event's"
        self.asked.append(request)
        await asyncio.sleep(0)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    async def aclose(self) -> None:
        self.is_closed = True


async def suggested(llm: Naming, message: str = "go") -> Suggestion:
    async def made() -> LLM:
        return llm

    return await suggest_title(made, message)


async def test_the_model_is_asked_once_with_the_start_of_the_message() -> None:
    llm = Naming(LLMResponse("1", "Named"))
    await suggested(llm, "x" * MESSAGE_CHARS + "y")
    (request,) = llm.asked
    system, user = request.messages
    assert (system["role"], user["role"]) == ("system", "user")
    assert "at most 50 characters" in system["content"]
    assert user["content"] == "x" * MESSAGE_CHARS
    assert llm.is_closed


@pytest.mark.parametrize(("cost", "known", "unpriced"), [(0.5, 0.5, 0), (None, 0.0, 1), (0.0, 0.0, 0)])
async def test_what_the_answer_cost_is_told_with_it(cost: float | None, known: float, unpriced: int) -> None:
    usage = TokenUsage(prompt_tokens=7, completion_tokens=2)
    suggestion = await suggested(Naming(LLMResponse("1", "Named", usage=usage, cost=cost)))
    seconds = suggestion.spent.seconds
    assert suggestion == Suggestion("Named", Spent(1, known, unpriced, 9, seconds))
    assert 0 < seconds < 60


async def test_a_model_that_fails_suggests_nothing_and_is_closed() -> None:
    llm = Naming(StoreError("down"))
    assert await suggested(llm) == Suggestion()
    assert llm.is_closed


async def test_a_model_that_is_too_slow_or_cannot_be_had_suggests_nothing() -> None:
    assert await suggested(Naming(TimeoutError())) == Suggestion()

    async def none() -> LLM:
        raise ConfigurationError("There is no such model.")

    assert await suggest_title(none, "go") == Suggestion()
