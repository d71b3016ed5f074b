"""Heights behave as a plain list of numbers does, only faster."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from tui.chat.block_layout import Heights

steps = st.lists(
    st.tuples(st.sampled_from(["append", "pop", "set"]), st.integers(0, 50), st.integers(0, 30)), max_size=60
)


@given(st.lists(st.integers(0, 30), max_size=40), steps)
def test_heights_match_a_plain_list(start: list[int], steps: list[tuple[str, int, int]]) -> None:
    plain = list(start)
    heights = Heights(start)
    for step, place, value in steps:
        if step == "append":
            plain.append(value)
            heights.append(value)
        elif plain and step == "pop":
            plain.pop()
            heights.pop()
        elif plain:
            plain[place % len(plain)] = value
            heights[place % len(plain)] = value
    tops = [0, *accumulate(plain)]
    assert [heights.top(index) for index in range(len(plain) + 1)] == tops
    assert heights.total == sum(plain)
    assert [heights[index] for index in range(len(heights))] == plain
    for row in range(sum(plain)):
        index, within = heights.find(row)
        assert tops[index] + within == row
        assert within < plain[index]
    assert heights.find(sum(plain))[0] == len(plain)
