"""Search over all conversations: what finds what, in which order, and how the index follows the log."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.events import CmdOutputObservation, EventSource, MessageAction
from core.store.event_store import EventStore
from core.store.search_index import Query, text_of
from core.store.writer import Draft

TEXTS = {
    "words": "The quick brown fox jumps over foo_bar.py",
    "accents": "Ein CAFÉ in Zürich",
    "chinese": "我们使用搜索引擎找到它",
    "japanese": "テストを実行します",
    "korean": "검색 엔진을 사용합니다",
    "error": "KeyError: 'tool-call' at 0x7f",
}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EventStore]:
    async with EventStore(tmp_path / "home") as opened:
        lease = await opened.create_conversation("c", title="", workspace="/w", model="m")
        for text in TEXTS.values():
            await opened.append(lease, [Draft(MessageAction(content=text), EventSource.USER)])
        await opened.index()
        yield opened


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("fox", ["words"]),
        ("FOX quick", ["words"]),
        ("foo_bar.py", ["words"]),
        ("qui*", ["words"]),
        ('"brown fox"', ["words"]),
        ('"fox brown"', []),
        ("fox café", []),
        ("cafe", ["accents"]),
        ("zurich", ["accents"]),
        ("tool-call", ["error"]),
        ("搜", ["chinese"]),
        ("搜索", ["chinese"]),
        ("引擎", ["chinese"]),
        ("搜索引擎", ["chinese"]),
        ("它", ["chinese"]),
        ("索搜", []),
        ("我们 引擎", ["chinese"]),
        ("テスト", ["japanese"]),
        ("実行", ["japanese"]),
        ("엔진", ["korean"]),
        ("", []),
        ('"', []),
        ("*", []),
        ("AND OR NOT NEAR(", []),
        ("nowhere", []),
    ],
)
async def test_a_query_finds(store: EventStore, query: str, found: list[str]) -> None:
    names = list(TEXTS)
    assert [names[hit.event_id] for hit in await store.search(query)] == found


async def test_a_hit_shows_where_it_matched(store: EventStore) -> None:
    (hit,) = await store.search("brown fox")
    assert [hit.text[begin:end] for begin, end in hit.spans] == ["brown", "fox"]
    assert (hit.conversation_id, hit.kind) == ("c", "action:message")


async def test_hits_come_newest_first_and_in_pages(store: EventStore) -> None:
    for id in ("d", "e"):
        lease = await store.create_conversation(id, title="", workspace="/w", model="m")
        for number in range(30):
            await store.append(lease, [Draft(MessageAction(content=f"common {number}"), EventSource.USER)])
    assert await store.index_behind() == 60
    assert await store.search("common") == []
    assert await store.index() == 0
    first = await store.search("common", limit=20)
    rest = await store.search("common", limit=100, before=first[-1])
    places = [(hit.conversation_id, hit.event_id) for hit in [*first, *rest]]
    assert places == [(id, number) for id in ("e", "d") for number in reversed(range(30))]
    assert {hit.conversation_id for hit in await store.search("common", conversation_id="d")} == {"d"}


async def test_indexing_can_be_stopped_and_continued(store: EventStore) -> None:
    lease = await store.create_conversation("d", title="", workspace="/w", model="m")
    drafts = [
        Draft(CmdOutputObservation(content=f"line {number}", command=""), EventSource.ENVIRONMENT)
        for number in range(1200)
    ]
    await store.append(lease, drafts)
    asked = iter([False, True])
    assert 0 < await store.index(lambda: next(asked)) < 1200
    assert await store.index() == 0
    assert len(await store.search("line", limit=2000)) == 1200


def test_machine_data_is_not_indexed() -> None:
    body = '{"action":"run","source":"agent","args":{"command":"ls","thought":"why"},"llm_metrics":{"x":"no"}}'
    assert text_of(body) == "ls\nwhy"
    page = '{"observation":"browse","content":"seen","extras":{"screenshot":"no","axtree_object":{"a":"no"}}}'
    assert text_of(page) == "seen"


def test_text_around_characters_that_sqlite_refuses_is_found() -> None:
    body = json.dumps({"action": "message", "args": {"content": "left \ud800 right"}, "imported": {"parts": "way"}})
    assert text_of(body) == "left ? right"


def test_a_match_is_found_case_by_case() -> None:
    assert Query.parse("straße").spans("Die STRASSE") == []  # it matches, though not letter by letter
    assert Query.parse("a").spans("b") is None
