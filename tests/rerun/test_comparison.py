"""Comparing two results: lines, differences within them, and what cannot be compared."""

from __future__ import annotations

import time

from core.events import (
    CmdOutputMetadata,
    CmdOutputObservation,
    ErrorObservation,
    FileEditObservation,
    FileReadObservation,
    Observation,
)
from core.rerun.comparison import MAX_LINES, Comparison, Line, Outcome, changed, compare


def ran(content: str, exit_code: int = 0) -> Observation:
    return CmdOutputObservation(command="x", content=content, metadata=CmdOutputMetadata(exit_code=exit_code))


def test_the_same_is_the_same() -> None:
    assert compare(ran("a\nb"), ran("a\nb")) == Comparison(
        Outcome.SAME,
        (
            Line("[exit code 0]", "[exit code 0]", Outcome.SAME),
            Line("a", "a", Outcome.SAME),
            Line("b", "b", Outcome.SAME),
        ),
    )


def test_a_line_that_differs_is_marked_where_it_differs() -> None:
    found = compare(ran("a\nthe old word\nc"), ran("a\nthe new word\nc"))
    assert found.outcome is Outcome.DIFFERENT
    assert found.lines[2] == Line("the old word", "the new word", Outcome.DIFFERENT, ((4, 7),), ((4, 7),))


def test_a_line_that_came_or_went_stands_alone() -> None:
    found = compare(ran("a\nc"), ran("a\nb\nc"))
    assert [(line.recorded, line.new) for line in found.lines] == [
        ("[exit code 0]", "[exit code 0]"),
        ("a", "a"),
        (None, "b"),
        ("c", "c"),
    ]
    assert found.differences == 1


def test_what_always_differs_is_named_and_shown() -> None:
    found = compare(ran("took 12 ms\nok"), ran("took 15 ms\nok"))
    assert (found.outcome, found.rules, found.differences) == (Outcome.ALIKE, frozenset({"durations"}), 0)
    assert found.lines[1] == Line("took 12 ms", "took 15 ms", Outcome.ALIKE, ((5, 7),), ((5, 7),))


def test_rules_of_lines_that_are_the_same_are_not_named() -> None:
    assert compare(ran("took 12 ms"), ran("took 12 ms")).rules == frozenset()


def test_another_exit_code_is_always_a_difference() -> None:
    assert compare(ran("same", 0), ran("same", 1)).outcome is Outcome.DIFFERENT


def test_an_error_that_says_the_same_as_a_result_is_none() -> None:
    content = FileReadObservation(content="text", path="f")
    assert compare(content, ErrorObservation(content="text")).outcome is Outcome.DIFFERENT


def test_edits_are_compared_by_the_file_that_they_left() -> None:
    one = FileEditObservation(content="worded like this", path="/w/a", new_content="x\ny")
    other = FileEditObservation(content="worded like that", path="/w/a", new_content="x\ny")
    assert compare(one, other).outcome is Outcome.SAME
    assert compare(one, other.model_copy(update={"new_content": "x\nz"})).outcome is Outcome.DIFFERENT


def test_without_one_of_the_two_there_is_nothing_to_compare() -> None:
    assert compare(None, ran("a")).outcome is Outcome.MISSING
    assert [line.recorded for line in compare(ran("a"), None).lines] == ["[exit code 0]", "a"]
    assert compare(None, None) == Comparison(Outcome.MISSING)


def test_long_results_are_compared_line_by_line() -> None:
    many = "\n".join(str(number) for number in range(MAX_LINES + 5))
    found = compare(ran(many), ran(many + "\nmore"))
    assert (found.outcome, found.differences) == (Outcome.DIFFERENT, 1)


def test_spans_are_words() -> None:
    assert changed("a = 10", "a = 12") == (((4, 6),), ((4, 6),))
    assert changed("", "new") == ((), ((0, 3),))


def test_lines_that_both_end_with_stand_beside_each_other_however_much_is_between() -> None:
    left, right = (["head", *(f"{name}{number}" for number in range(MAX_LINES + 9)), "tail"] for name in "ab")
    found = compare(ran("\n".join(left)), ran("\n".join([*right[:-1], "more", "tail"])))
    assert (found.lines[1].new, found.lines[-1].recorded, found.lines[-1].new) == ("head", "tail", "tail")
    assert found.differences == MAX_LINES + 10


def test_results_with_nothing_in_common_are_compared_in_no_time() -> None:
    left, right = ("\n".join(f"{name} {number} " + "x y " * 99 for number in range(900)) for name in "ab")
    began = time.thread_time()
    assert compare(ran(left), ran(right)).differences == 900
    assert time.thread_time() - began < 5
