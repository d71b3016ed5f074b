"""Gathering: from folders to the library that counts for a conversation, and to the hooks. Blocks; never raises.

A project's texts count as far as the user said yes to them; all others only stand among what waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from core.knowledge.library import PROJECT, YOURS, Library, Shelf, shelved
from core.trust.book import Standing
from core.trust.gate import Gate
from core.trust.hooks import Hook, hooks_of
from core.trust.survey import Kind, Piece, Survey, survey_home, survey_openhands, survey_project


class Own(NamedTuple):
    """The user's own folders."""

    home: Path
    openhands: Path | None = None
    """`~/.openhands`; None where the user has no home."""

    @classmethod
    def of(cls, home: Path, environ: Mapping[str, str]) -> Own:
        """Those of Handloom's home and of the user that an environment names."""
        return cls(home, Path(environ["HOME"]) / ".openhands" if environ.get("HOME") else None)


@dataclass(frozen=True, slots=True)
class Gathered:
    """All that was found."""

    library: Library
    standing: Standing
    own_hooks: tuple[Hook, ...] = ()
    project_hooks: tuple[Hook, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, a line each."""
        return self.library.problems


def gather(
    own: Own,
    gate: Gate,
    folder: str | Path,
    *,
    along: Iterable[str] = (),
    project_place: Callable[[str], str] = lambda path: "",
    own_place: Callable[[Path], str] = lambda path: "",
) -> Gathered:
    """What counts in a project's folder, and `along` folders in it. The places are where the sandbox has a file."""
    standing = gate.standing(survey_project(folder, along))
    home = survey_home(own.home)
    shelves = [
        Shelf(PROJECT, standing.trusted, standing.survey.problems, project_place),
        _own_shelf(home, own.home, own_place),
    ]
    if own.openhands is not None:
        shelves.append(_own_shelf(survey_openhands(own.openhands), own.openhands, lambda path: ""))
    library = shelved(shelves).without(gate.disabled)
    mine, wrong = _hooks(home.of(Kind.HOOKS), f"{own.home}/")
    projects, also_wrong = _hooks(standing.of(Kind.HOOKS), "")
    problems = (*library.problems, *wrong, *also_wrong)
    return Gathered(replace(library, problems=problems), standing, mine, projects)


def _own_shelf(found: Survey, folder: Path, place: Callable[[Path], str]) -> Shelf:
    return Shelf(YOURS, found.pieces, found.problems, lambda path: place(folder / path), f"{folder}/")


def _hooks(pieces: Iterable[Piece], prefix: str) -> tuple[tuple[Hook, ...], list[str]]:
    found: list[Hook] = []
    problems: list[str] = []
    for piece in pieces:
        hooks, wrong = hooks_of(piece.text)
        found += hooks
        problems += [f"{prefix}{piece.path}: {line}" for line in wrong]
    return tuple(found), problems
