"""The two tiers of the tests: `make test` runs the first one, `make test-all` both.

The first tier has every package's behaviour, runs within minutes on two cores, with and without root, and needs no
container engine, no Chromium and no X server. `SECOND_TIER` is the only place that says what is left out of it, and
why. A test belongs to the first group that matches. `make documents` writes this table into `docs/contributing.md`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

LIMIT_S = 5.0
"""A test of the first tier may take this long on a machine that does nothing else."""


@dataclass(frozen=True)
class Group:
    """Tests of the second tier that are there for one reason."""

    title: str
    reason: str
    marks: tuple[str, ...] = ()
    """A test with one of these markers belongs here."""
    paths: tuple[str, ...] = ()
    """A test whose id starts with one of these belongs here. Ids are relative to the top, with slashes."""

    def has(self, node_id: str, marks: Collection[str]) -> bool:
        """Whether the test belongs to this group."""
        return any(mark in marks for mark in self.marks) or node_id.startswith(self.paths)


SECOND_TIER: tuple[Group, ...] = (
    Group("Containers", "need a container engine and build its image, which takes minutes", marks=("docker",)),
    Group("Browser", "need Chromium, which takes seconds to start", marks=("browser",)),
    Group("Terminals of X", "need an X server and programs that draw in it", marks=("xterm",)),
    Group("Alone", "measure time or memory, or take the processors from other tests", marks=("alone",)),
    Group("Campaigns", "run kills, faults and generated inputs, in a short form", paths=("tests/campaign/",)),
)
"""Every group, in the order in which a test looks for its own."""


def group_of(node_id: str, marks: Collection[str]) -> Group | None:
    """The group of the second tier that a test belongs to; None for a test of the first tier."""
    return next((group for group in SECOND_TIER if group.has(node_id, marks)), None)


def table() -> str:
    """The groups as a Markdown table."""
    lines = ["| group | why it is not in `make test` |", "|---|---|"]
    lines += [f"| {group.title} | They {group.reason}. |" for group in SECOND_TIER]
    return "\n".join(lines)
