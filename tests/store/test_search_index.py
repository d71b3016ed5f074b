"""The content of the search index, the results of a query, and the positions of matches."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from core.events import CmdOutputObservation, EventSource, MessageAction
from core.store.event_store import EventStore
from core.store.search_index import Query, folded, is_damaged, row_of, runs_of, text_of
from core.store.writer import Draft


def test_index_row_is_a_conversation_and_an_event() -> None:
    assert [row_of(0, 7), row_of(1, 0), row_of(3, 2**32 - 1)] == [7, 4294967296, 17179869183]


def body(**fields: Any) -> str:
    return json.dumps({"action": "message", "id": 7, "source": "user", "cause": 3, "timestamp": "now", **fields})


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"args": {"content": "one", "list": ["two", {"in": "three"}, 4, None, True]}, "message": "four"},
         "one\ntwo\nthree\nfour"),
        ({"args": {"content": "", "image_urls": ["http://a"], "metadata": {"a": "b"}, "url": "data:x", "at": "blob:x"}},
         ""),
        ({"llm_metrics": "a", "tool_call_metadata": "b", "imported": "c", "observation": "d"}, ""),
        ({"args": {"content": "x" * 200_001}}, "x" * 200_000),
        ({"args": {"content": "é" * 200_001}}, "é" * 200_000),
    ],
)  # fmt: skip
def test_text_of_an_event_is_what_people_and_models_wrote(fields: dict[str, Any], text: str) -> None:
    assert text_of(body(**fields)) == text


def test_characters_without_spaces_are_indexed_separately() -> None:
    assert runs_of("one 漢字 two かな3") == "漢字\u3000\u3000かな\u3000\u3000"
    assert runs_of("no such") == ""


def test_texts_are_compared_without_case_and_accents() -> None:
    assert [folded(text) for text in ("ABC", "Café", "STRASSE", "straße")] == ["abc", "cafe", "strasse", "strasse"]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("", Query((), "", ())),
        ("one", Query(("one",), '"one"', ())),
        ("one two one", Query(("one", "two", "one"), '"one" AND "two"', ())),
        ("beg*", Query(("beg",), '"beg"*', ())),
        ("foo_bar.py*", Query(("foo_bar.py",), '"foo" AND "bar" AND "py"*', ())),
        ("*", Query((), "", ())),
        ("a*b", Query(("a*b",), '"a" AND "b"', ())),
        ('"two words" "open end', Query(("two words", "open end"), '"two" AND "words" AND "open" AND "end"', ())),
        ('"quoted*"', Query(("quoted*",), '"quoted"', ())),
        ("漢字 x漢y 漢字", Query(("漢字", "x漢y", "漢字"), '"x" AND "y"', ("漢字", "漢"))),
        ("-- ... ok", Query(("ok",), '"ok"', ())),
        (" ".join(map(str, range(20))),
         Query(tuple(map(str, range(16))), " AND ".join(f'"{number}"' for number in range(16)), ())),
    ],
)  # fmt: skip
def test_query_is_parsed_from_text(text: str, query: Query) -> None:
    assert Query.parse(text) == query


@pytest.mark.parametrize(
    ("query", "text", "spans"),
    [
        ("one", "one and ONE", [(0, 3), (8, 11)]),
        ("one two", "two one", [(0, 3), (4, 7)]),
        ("ab abc", "abc", [(0, 2)]),  # the first of overlapping ones
        ("aa aaa", "aaaa aaa", [(0, 2), (2, 4), (5, 7)]),
        ("one nine", "one", None),
        ("a.c", "abc a.c", [(4, 7)]),
        ("cafe", "ein Café", []),
    ],
)
def test_query_matches_at_positions(query: str, text: str, spans: list[tuple[int, int]] | None) -> None:
    assert Query.parse(query).spans(text) == spans


@pytest.mark.parametrize(
    ("text", "line", "spans"),
    [
        ("a word\nor\tword", "a word or word", ((2, 6), (10, 14))),
        ("x" * 59 + " word", "x" * 59 + " word", ((60, 64),)),
        ("." * 60 + "x word", "." * 58 + "x word", ((60, 64),)),
        ("." * 100 + "word" + "." * 300, "." * 60 + "word" + "." * 176, ((60, 64),)),
        ("word" + "." * 234 + "word", "word" + "." * 234 + "wo", ((0, 4), (238, 240))),
        ("word" + "." * 236 + "word", "word" + "." * 236, ((0, 4),)),
    ],
)
def test_excerpt_is_one_line_around_the_first_match(text: str, line: str, spans: tuple[tuple[int, int], ...]) -> None:
    assert Query.parse("word").excerpt(text) == (line, spans)


def test_excerpt_without_a_position_is_the_beginning() -> None:
    assert Query.parse("cafe").excerpt("Café" + "." * 300) == ("Café" + "." * 236, ())
    assert Query.parse("word").excerpt("nothing") is None


def test_statement_of_a_query_asks_for_words_and_runs() -> None:
    statement, values = Query.parse("one 漢字かな 漢字 漢字か").statement(5, 9, 3)
    assert values == [
        '"one"', '"漢字か" AND "字かな"', "漢字", "漢字\U0010ffff", '"漢字か"', 5, 9, 3
    ]  # fmt: skip
    assert statement.count("INTERSECT") == 3
    assert statement.count("?") == len(values)
    assert Query.parse("one").statement(5, 9, 3)[1] == ['"one"', 5, 9, 3]


class Failure(sqlite3.DatabaseError):
    """As SQLite raises it, with its code."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.sqlite_errorcode = code


@pytest.mark.parametrize(
    ("error", "is_of_index", "when_deleting"),
    [
        (None, False, False),
        (Failure("database disk image is malformed", 11), False, True),
        (Failure("database disk image is malformed", 267), True, True),
        (Failure("fts5: corruption found", 0), True, True),
        (Failure("no such table: main.words"), True, True),
        (Failure("vtable constructor failed: characters"), True, True),
        (Failure("no such table: events"), False, False),
    ],
)
def test_index_damage_is_distinguished_from_other_errors(
    error: Exception | None, is_of_index: bool, when_deleting: bool
) -> None:
    assert is_damaged(error) is is_of_index
    assert is_damaged(error, deleting=True) is when_deleting


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
async def test_query_finds_events(store: EventStore, query: str, found: list[str]) -> None:
    names = list(TEXTS)
    assert [names[hit.event_id] for hit in await store.search(query)] == found


async def test_hit_shows_where_it_matched(store: EventStore) -> None:
    (hit,) = await store.search("brown fox")
    assert [hit.text[begin:end] for begin, end in hit.spans] == ["brown", "fox"]
    assert (hit.conversation_id, hit.kind) == ("c", "action:message")


async def test_hits_come_newest_first_and_in_pages(store: EventStore) -> None:
    for id in ("d", "e"):
        lease = await store.create_conversation(id, title="", workspace="/w", model="m")
        for number in range(30):
            await store.append(lease, [Draft(MessageAction(content=f"common {number}"), EventSource.USER)])
    assert await store.count_unindexed() == 60
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


def test_match_without_equal_letters_has_no_spans() -> None:
    assert Query.parse("straße").spans("Die STRASSE") == []  # it matches, though not letter by letter
    assert Query.parse("a").spans("b") is None
