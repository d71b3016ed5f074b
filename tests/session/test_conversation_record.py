"""The title and the model of an open conversation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.errors import StoreError
from core.events import CONVERSATION_TITLE
from core.llm.title_suggestion import Suggestion
from core.session.conversation_record import ConversationRecord
from core.store.event_store import EventStore
from core.store.writer import Lease, Spent
from core.stream import Frames
from tests.streams import heard, info_of


class Filling(EventStore):
    """A store whose disk can be full."""

    is_full = False

    async def update_conversation(self, lease: Lease, **fields: Any) -> None:
        if self.is_full:
            raise StoreError("The disk is full.")
        await super().update_conversation(lease, **fields)


class World:
    """A record, its store and its suggested titles."""

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
            redact=lambda text: text.replace("hunter2", "***"),
            spawn=asyncio.ensure_future,
            suggest_title=suggest if suggests else None,
        )

    def titles(self) -> list[str]:
        return [text for _, id, text in self.told if id == CONVERSATION_TITLE]


@asynccontextmanager
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with Filling(tmp_path) as store:
        yield World(store, await store.create_conversation("c", title="", workspace="/w", model="m"))


async def test_title_and_model_are_stored_without_secrets(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        record = await w.record()
        await record.set_title("say hunter2")
        await record.set_model("other")
        assert (record.info.title, record.info.model) == ("say ***", "other")
        stored = await info_of(w.store)
        assert (stored.title, stored.model, w.titles()) == ("say ***", "other", ["say ***"])


async def test_title_that_cannot_be_stored_is_not_kept(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        record = await w.record()
        await record.set_title("Before")
        w.store.is_full = True
        with pytest.raises(StoreError):
            await record.set_title("After")
        assert (record.info.title, w.titles()) == ("Before", ["Before"])


async def test_suggested_title_replaces_the_first_line_and_its_cost_counts(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        record = await w.record()
        await record.name("look at it\nplease")
        assert record.info.title == "look at it"
        assert record.title_task is not None
        w.answer.set_result(Suggestion("Better", Spent(1, 0.5, 0, 9, 0.0)))
        await record.title_task
        assert (w.titles(), w.asked) == (["look at it", "Better"], ["look at it\nplease"])
        spent = await w.store.spent(datetime.now(UTC).date())
        assert (spent.calls, spent.cost, spent.tokens) == (1, 0.5, 9)
        await record.name("a second message")
        assert (record.info.title, len(w.asked)) == ("Better", 1)


@pytest.mark.parametrize(
    ("suggestion", "mine", "title"),
    [(Suggestion(), "", "go"), (Suggestion("Better"), "Mine", "Mine"), (Suggestion("", Spent(1)), "", "go")],
)
async def test_useless_or_late_suggestion_changes_nothing(
    tmp_path: Path, suggestion: Suggestion, mine: str, title: str
) -> None:
    async with world(tmp_path) as w:
        record = await w.record()
        await record.name("go")
        assert record.title_task is not None
        if mine:
            await record.set_title(mine)
        w.answer.set_result(suggestion)
        await record.title_task
        assert record.info.title == title
        assert w.titles() == ["go", mine] if mine else ["go"]
        assert (await w.store.spent(datetime.now(UTC).date())).calls == suggestion.spent.calls


async def test_no_title_is_requested_without_a_title_model(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        record = await w.record(suggests=False)
        await record.name("go")
        record.cancel_title()
        assert (record.info.title, record.title_task, w.asked) == ("go", None, [])


async def test_unstorable_titles_are_dropped(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        record = await w.record()
        w.store.is_full = True
        await record.name("go")
        assert (record.info.title, record.title_task, w.titles()) == ("", None, [])
        w.store.is_full = False
        await record.name("go")
        w.store.is_full = True
        w.answer.set_result(Suggestion("Better"))
        assert record.title_task is not None
        await record.title_task
        assert record.info.title == "go"


async def test_cancelling_stops_the_title_suggestion(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        record = await w.record()
        await record.name("go")
        record.cancel_title()
        assert record.title_task is not None
        await asyncio.wait([record.title_task])
        assert record.title_task.cancelled()
