"""Records of a session that form a tree, because the user went back and went on differently.

A chain from the root to one leaf is what the model saw there. Results of parallel calls, and remarks of the agent, hang
beside a chain and belong to it, as long as they start no turn. Records are numbered from 0 in the order of the file.
Parents may be missing, may come later, and may form circles; nothing here takes more than linear time.
"""

from __future__ import annotations

from collections.abc import Sequence

NO_PARENT = -1


class Tree:
    """The records of a session by number."""

    def __init__(self, parents: Sequence[int], turns: Sequence[bool]) -> None:
        """The parent of each record, or NO_PARENT, and whether it starts a turn: a prompt, or a new answer."""
        self._parents = parents
        self._turns = turns
        self._children: list[list[int]] = [[] for _ in parents]
        for record, parent in enumerate(parents):
            if parent != NO_PARENT:
                self._children[parent].append(record)

    def chain(self, leaf: int) -> list[int]:
        """The records from the root to a leaf."""
        found: list[int] = []
        seen = set()
        while leaf != NO_PARENT and leaf not in seen:
            seen.add(leaf)
            found.append(leaf)
            leaf = self._parents[leaf]
        return found[::-1]

    def with_results(self, chain: Sequence[int]) -> list[int]:
        """The chain with the records that hang beside it and start no turn, each where the file has it."""
        inside = set(chain)
        waiting, beside = list(chain), []
        while waiting:
            for child in self._children[waiting.pop()]:
                if child not in inside and not self._turns[child]:
                    inside.add(child)
                    beside.append(child)
                    waiting.append(child)
        return merged(chain, sorted(beside))

    def other_leaves(self, chain: Sequence[int]) -> list[int]:
        """The last turn of every branch that is not on this chain, in the order of the file."""
        has_turn_below = bytearray(len(self._parents))
        for record, is_turn in enumerate(self._turns):
            above = self._parents[record] if is_turn else NO_PARENT
            while above != NO_PARENT and not has_turn_below[above]:
                has_turn_below[above] = 1
                above = self._parents[above]
        inside = set(chain)
        return [
            record
            for record, is_turn in enumerate(self._turns)
            if is_turn and not has_turn_below[record] and record not in inside
        ]


def merged(chain: Sequence[int], others: Sequence[int]) -> list[int]:
    """The chain in its own order, with each of the others, which are sorted, after the records that precede it."""
    found: list[int] = []
    place = 0
    for record in chain:
        while place < len(others) and others[place] < record:
            found.append(others[place])
            place += 1
        found.append(record)
    return [*found, *others[place:]]
