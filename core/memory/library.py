"""The library: all knowledge that counts in one conversation, from texts that may count, and what a query brings up.

What is broken is named with its file and line, and the rest is there. A name counts once: a project's before the
user's own, as V0 has it. Pure: `shelved` gets the texts.

Gathering: from folders to the library that counts for a conversation, and to the hooks. Blocks; never raises.

A project's texts count as far as the user said yes to them; all others only stand among what waits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from core.memory import microagents, skills
from core.memory.frontmatter import FrontError
from core.memory.microagents import Microagent, Use, brings_up, folded
from core.memory.skills import Skill
from core.trust.folder_survey import MICROAGENTS, Kind, Piece, Survey, survey_home, survey_openhands, survey_project
from core.trust.hook_file import Hook, hooks_of
from core.trust.trust_store import TrustPolicy, TrustState

T = TypeVar("T")
PROJECT, YOURS = "the project's", "yours"
MAX_INSTRUCTIONS_CHARS = 16_000
"""Of a project's instructions, all together: they are in every call of the model."""
MAX_KNOWLEDGE_CHARS = 20_000
"""Of what one message brings up, all together."""
MAX_LISTED = 60
"""Skills that a model is told of."""
CUT = "\n[The rest is left out: it is too long.]"


class Found(NamedTuple):
    """A piece of knowledge that a query brought up."""

    name: str
    trigger: str
    content: str


class Instructions(NamedTuple):
    """What every agent is told, from one file."""

    path: str
    origin: str
    text: str


class Shelf(NamedTuple):
    """The texts of one place. `place` says where the sandbox has a path of it; empty where it has not."""

    origin: str
    pieces: Sequence[Piece]
    problems: Sequence[str] = ()
    place: Callable[[str], str] = lambda path: ""
    name: str = ""
    """How the folder is called in front of paths, for people."""


@dataclass(frozen=True, slots=True)
class Library:
    """What there is. Foreign, as far as it is a project's."""

    instructions: tuple[Instructions, ...] = ()
    microagents: tuple[Microagent, ...] = ()
    skills: tuple[Skill, ...] = ()
    problems: tuple[str, ...] = ()
    """A line each: file, line, what to do."""

    def without(self, names: Collection[str]) -> Library:
        """The same, but for the microagents and skills of these names."""
        agents = tuple(one for one in self.microagents if one.name not in names)
        return replace(self, microagents=agents, skills=tuple(one for one in self.skills if one.name not in names))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to be told."""
        return not (self.instructions or self.microagents or self.skills)

    def instructions_of(self, origin: str) -> str:
        """All that every agent is told by the project, or by the user; each part says from which file it is."""
        text = "\n\n".join(f"[{path}]\n{text}" for path, text in self.parts_of(origin))
        return _cut(text, MAX_INSTRUCTIONS_CHARS)

    def parts_of(self, origin: str) -> list[tuple[str, str]]:
        """The same in parts: paths and texts, each no longer than all of it may be."""
        parts = [(one.path, one.text.strip()) for one in self.instructions if one.origin == origin]
        parts += [(m.path, m.content) for m in self.microagents if m.use is Use.ALWAYS and m.origin == origin]
        return [(path, _cut(text, MAX_INSTRUCTIONS_CHARS)) for path, text in parts]

    def skill_list(self) -> str:
        """Names and descriptions of the skills, as every agent is told of them; empty where there are none."""
        if not self.skills:
            return ""
        lines = [skill.line() for skill in self.skills[:MAX_LISTED]]
        return "\n".join([SKILLS_HEAD, *lines])

    def bring_up(self, query: str, given: Iterable[tuple[str, str]] = ()) -> list[Found]:
        """All that a query brings up, in the library's order, but what was `given` already (name and content)."""
        said, known = folded(query), set(given)
        found = [
            Found(one.name, trigger, one.told(query))
            for one in self.microagents
            if one.use is not Use.ALWAYS and (trigger := brings_up(said, one.triggers))
        ]
        found += [
            Found(skill.name, trigger, skill.told())
            for skill in self.skills
            if (trigger := brings_up(said, (skill.name, f"/{skill.name}")))
        ]
        left, kept = MAX_KNOWLEDGE_CHARS, []
        for whole in found:
            one = whole._replace(content=_cut(whole.content, max(left, 200)))
            if (one.name, one.content) in known:
                continue
            left -= len(one.content)
            kept.append(one)
        return kept

    def tasks(self) -> list[Microagent]:
        """Those that the user calls as `/name`."""
        return [one for one in self.microagents if one.use is Use.TASK]


SKILLS_HEAD = (
    "There are skills: instructions for certain tasks, each in a file. When a task fits a description, read the whole "
    "file first, and follow it. Files that it names lie beside it.\nSkills:"
)


def shelved(shelves: Iterable[Shelf]) -> Library:
    """The library of these shelves; the first ones come first, and win."""
    instructions: list[Instructions] = []
    agents: dict[str, Microagent] = {}
    found_skills: dict[str, Skill] = {}
    problems: list[str] = []
    for shelf in shelves:
        problems += [f"{shelf.name}{problem}" for problem in shelf.problems]
        for piece in shelf.pieces:
            try:
                match piece.kind:
                    case Kind.INSTRUCTIONS:
                        instructions.append(Instructions(shelf.name + piece.path, shelf.origin, piece.text))
                    case Kind.MICROAGENT:
                        one = microagents.understood(piece, shelf.origin, _base(piece.path))
                        _put(agents, one.name, one, shelf.name + piece.path, problems)
                        if one.note:
                            problems.append(f"{shelf.name}{piece.path}: {one.note}")
                    case Kind.SKILL:
                        skill = skills.understood(piece, shelf.origin, shelf.place(piece.path))
                        _put(found_skills, skill.name, skill, shelf.name + piece.path, problems)
            except FrontError as error:
                problems.append(f"{shelf.name}{piece.path}:{error.line}: {error}")
    told = f"too long to be told whole. Keep it below {MAX_INSTRUCTIONS_CHARS:,} letters."
    problems += [f"{one.path}: {told}" for one in instructions if len(one.text) > MAX_INSTRUCTIONS_CHARS]
    return Library(tuple(instructions), tuple(agents.values()), tuple(found_skills.values()), tuple(problems))


def _put(into: dict[str, T], name: str, one: T, path: str, problems: list[str]) -> None:
    if name in into:
        problems.append(f"{path}: there is another one called {name!r}, which counts. Give this one another name.")
    else:
        into[name] = one


def _base(path: str) -> str:
    return next((base for base in (*MICROAGENTS, "microagents") if path.startswith(f"{base}/")), "")


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - len(CUT)] + CUT


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
    standing: TrustState
    own_hooks: tuple[Hook, ...] = ()
    project_hooks: tuple[Hook, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, a line each."""
        return self.library.problems


def gather(
    own: Own,
    gate: TrustPolicy,
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
