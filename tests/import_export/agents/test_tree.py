"""A chain has what belongs to it, and every other branch is found once."""

from __future__ import annotations

import time

from core.import_export.agents.tree import NO_PARENT, Tree, merged


def test_a_chain_goes_from_the_root_to_a_leaf() -> None:
    tree = Tree([NO_PARENT, 0, 1, 1], [True, True, True, True])
    assert tree.chain(3) == [0, 1, 3]
    assert tree.other_leaves(tree.chain(3)) == [2]


def test_results_of_parallel_calls_belong_to_the_chain() -> None:
    # 0 prompt, 1 first call, 2 second call of the same answer, 3 and 4 their results, 5 the next answer
    tree = Tree([NO_PARENT, 0, 1, 1, 2, 4], [True, True, False, False, False, True])
    assert tree.with_results(tree.chain(5)) == [0, 1, 2, 3, 4, 5]
    assert tree.other_leaves(tree.chain(5)) == []


def test_a_branch_within_a_branch_is_another_leaf() -> None:
    tree = Tree([NO_PARENT, 0, 1, 1, 0], [True, True, True, True, True])
    assert tree.other_leaves(tree.chain(4)) == [2, 3]


def test_circles_end() -> None:
    tree = Tree([2, 0, 1, 3], [True, True, True, True])
    assert tree.chain(2) == [0, 1, 2]
    assert tree.chain(3) == [3]
    assert tree.other_leaves([]) == []
    assert tree.with_results([0]) == [0]


def test_others_come_where_the_file_has_them() -> None:
    assert merged([0, 3, 2, 7], [1, 5, 9]) == [0, 1, 3, 2, 5, 7, 9]


def test_a_long_session_takes_linear_time() -> None:
    count = 200_000
    started = time.monotonic()
    tree = Tree([NO_PARENT, *range(count - 1)], [True] * count)
    assert len(tree.with_results(tree.chain(count - 1))) == count
    assert tree.other_leaves(tree.chain(0)) == [count - 1]
    assert time.monotonic() - started < 3
