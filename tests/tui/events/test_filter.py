"""The filter language: the meaning of lines, errors of invalid ones, and completion."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.events.event_filter import (
    FIELDS,
    FLAGS,
    MAX_CHARS,
    SOURCES,
    All,
    Either,
    Filter,
    FilterError,
    Flag,
    Node,
    Not,
    Reach,
    Term,
    parse,
)
from tui.events.filter_bar import complete
from tui.events.model import Row

AT = time.mktime((2026, 1, 31, 14, 30, 5, 0, 0, -1))
KINDS = ("message", "run", "run_ipython", "recall")


ROW = Row(12, AT, "agent", "run", 11, is_action=True, failed=False, exit=None, summary="")


def read(line: str) -> tuple[Filter | None, int]:
    """The filter, or None and where the line goes wrong."""
    try:
        return parse(line), 0
    except FilterError as error:
        return None, error.column


def matches(query: str, row: Row, *texts: str) -> bool:
    return parse(query).matches(row, lambda: texts)


@pytest.mark.parametrize(
    ("query", "row", "expected"),
    [
        ("type:run", ROW, True),
        ("type:run", ROW._replace(kind="run_ipython"), False),
        ("type~run", ROW._replace(kind="run_ipython"), True),
        ("kind=message,run", ROW, True),
        ("type!=run", ROW, False),
        ("source:agent", ROW, True),
        ("source:env", ROW._replace(source="environment"), True),
        ("exit!=0", ROW._replace(exit=2), True),
        ("exit!=0", ROW._replace(exit=0), False),
        ("exit!=0", ROW._replace(exit=None), False),
        ("exit > -1", ROW._replace(exit=0), True),
        ("id>100", ROW._replace(id=101), True),
        ("id<=100", ROW._replace(id=101), False),
        ("cause:11", ROW, True),
        ("cause:11", ROW._replace(cause=None), False),
        ("time>=14:30", ROW, True),
        ("time<14:30", ROW, False),
        ("time:14:30", ROW, True),
        ("time=14:30:06", ROW, False),
        ("time=2026-01-31", ROW, True),
        ("time>2026-01-31T14:29", ROW, True),
        ("failed", ROW._replace(failed=True), True),
        ("-failed", ROW._replace(failed=True), False),
        ("not failed", ROW, True),
        ("action", ROW, True),
        ("observation", ROW, False),
        ("type:run source:user", ROW, False),
        ("type:run and source:agent", ROW, True),
        ("type:message or type:run", ROW, True),
        ("type:message or type:run failed", ROW, False),
        ("(type:message or type:run) -failed", ROW, True),
        ("-(type:run or failed)", ROW, False),
    ],
)
def test_filter_matches_rows(query: str, row: Row, expected: bool) -> None:
    assert matches(query, row) is expected


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ('text~"no such file"', "bash: No such file", True),
        ("text~Error", "an error", False),
        ("text~Error", "ValueError", True),
        ("error", "an ERROR", True),
        ('"a=b (c)"', "x a=b (c)", True),
        (r'text~"say \"hi\" \\"', 'say "hi" \\', True),
        ("text!~x", "abc", True),
        ("-text:abc", "abc", False),
        ("text=abc", "xabcx", True),
        ('text~"(a+)+$"', "aaaa", False),
    ],
)
def test_text_is_matched_literally_with_smart_case(query: str, text: str, expected: bool) -> None:
    assert matches(query, ROW, text) is expected


@pytest.mark.parametrize(
    ("query", "column", "says"),
    [
        ("", 0, "Enter a filter"),
        ("type:", 5, "Expected a value"),
        ("typ:run", 0, "Unknown field typ. The fields are type,"),
        ("type:run sorce=x", 9, "Unknown field sorce"),
        ("exit!=x", 6, "exit must be a number"),
        ("exit~1", 4, "exit accepts"),
        ("time>25:00", 5, "A time looks like 14:30"),
        ("source:me", 7, "The source must be agent, user or environment."),
        ("(failed", 0, "not closed"),
        ("failed)", 6, "Unmatched )."),
        ('text~"abc', 5, "not closed"),
        ("failed or", 9, "Expected a condition"),
        ("or failed", 0, "Expected a condition before or"),
        ("-", 1, "Expected a condition"),
        ("=5", 0, "Expected a field before ="),
        ("(" * 60 + "failed" + ")" * 60, 50, "nested"),
        ("a" * (MAX_CHARS + 1), MAX_CHARS, "at most"),
    ],
)
def test_invalid_filter_reports_column_and_remedy(query: str, column: int, says: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(query)
    assert caught.value.column == column
    assert says in str(caught.value)


def test_texts_are_read_only_if_needed() -> None:
    def never() -> list[str]:
        raise AssertionError("the text was asked for")

    assert not parse("text~x type:message").matches(ROW, never)
    assert parse("text~x or type:run").matches(ROW, never)
    assert not parse("type:run failed").needs_text
    assert parse("type:run -(failed or x)").needs_text


@pytest.mark.parametrize(
    ("query", "reach"),
    [
        ("type:run,edit source:agent x", Reach(frozenset({"run", "edit"}), frozenset({"agent"}))),
        ("id>10 id<=20", Reach(lowest=11, highest=20)),
        ("type:run or id>10", Reach()),
        ("-type:run", Reach()),
        ("type:run type:edit", Reach(frozenset({"run"}))),
    ],
)
def test_filter_has_reach(query: str, reach: Reach) -> None:
    assert parse(query).reach == reach


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("ty", "type:"),
        ("-ty", "-type:"),
        ("(so", "(source:"),
        ("type:me", "type:message"),
        ("type:run,rec", "type:run,recall"),
        ("failed o", "failed observation"),
        ("source:u", "source:user"),
        ("fai", "failed"),
        ('text~"ty', 'text~"ty'),
        ("xyz", "xyz"),
        ("id>", "id>"),
    ],
)
def test_line_is_completed(line: str, completed: str) -> None:
    assert complete(line, KINDS).applied(line) == completed


def test_empty_line_offers_all_fields_and_flags() -> None:
    assert set(complete("", KINDS).options) == {*(field.typed for field in FIELDS.values()), *FLAGS, "not"}


@given(st.text() | st.text('type:source=!<>~()"\\- or not failed id 12:30,', max_size=40))
def test_any_line_parses_or_is_refused(line: str) -> None:
    found, column = read(line)
    assert 0 <= column <= len(line)
    if found is not None:
        found.matches(ROW, lambda: ("text", ""))
        assert parse(str(found)) == found
    complete(line, KINDS)


TERMS = st.one_of(
    st.builds(Term, st.just("text"), st.sampled_from(("~", "!~")), st.text(max_size=12)),
    st.builds(Term, st.just("type"), st.sampled_from(("=", "!=", "~")), st.text(max_size=12)),
    st.builds(Term, st.just("source"), st.sampled_from(("=", "!=")), st.sampled_from(SOURCES)),
    st.builds(Term, st.sampled_from(("id", "cause", "exit")), st.sampled_from(("=", ">", "<=")), st.just("-7")),
    st.builds(Term, st.just("time"), st.sampled_from(("<", ">=")), st.sampled_from(("1:05", "2026-12-31T23:59:59"))),
    st.builds(Flag, st.sampled_from(sorted(FLAGS))),
)


def _groups(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    parts = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Not, inner),
        parts.filter(lambda ps: not any(isinstance(p, All) for p in ps)).map(All),
        parts.filter(lambda ps: not any(isinstance(p, Either) for p in ps)).map(Either),
    )


@given(st.recursive(TERMS, _groups, max_leaves=12))
def test_simplest_form_parses_to_same_filter(root: Node) -> None:
    assert parse(str(Filter(root))) == Filter(root)
