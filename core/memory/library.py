"""The library: all instructions, microagents and skills of one conversation, and what of them a message recalls.

A name counts once: the project's before the user's own, as in V0. A broken file is reported with its line, and the rest
is used. `gather` reads the folders, which blocks and never raises; everything else is pure. A project's files are used
only if the user trusts them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from core.memory.frontmatter import FrontMatterError
from core.memory.microagents import Microagent, Skill, Use, folded, matching_trigger, parse_microagent, parse_skill
from core.trust.folder_survey import MICROAGENTS, Kind, Piece, Survey, survey_home, survey_openhands, survey_project
from core.trust.hook_file import Hook, hooks_of
from core.trust.trust_store import TrustPolicy, TrustState

T = TypeVar("T")
PROJECT, YOURS = "the project's", "yours"
MAX_INSTRUCTIONS_CHARS = 16_000
"""The limit of all instructions of a project: they are in every model call."""
MAX_KNOWLEDGE_CHARS = 20_000
"""The limit of everything that one message recalls."""
MAX_LISTED = 60
"""The most skills that a model gets."""
CUT = "\n[The rest is left out: it is too long.]"


class Found(NamedTuple):
    """Knowledge that a query recalled."""

    name: str
    trigger: str
    content: str


class Instructions(NamedTuple):
    """Instructions for every agent, from one file."""

    path: str
    origin: str
    text: str


class Source(NamedTuple):
    """The files of the project or of the user."""

    origin: str
    pieces: Sequence[Piece]
    problems: Sequence[str] = ()
    sandbox_path: Callable[[str], str] = lambda path: ""
    """Maps a path to its path in the sandbox, or to "" if the sandbox cannot read it."""
    name: str = ""
    """The prefix of paths that the user sees."""


@dataclass(frozen=True, slots=True)
class Library:
    """All parsed files. Those of a project are untrusted text."""

    instructions: tuple[Instructions, ...] = ()
    microagents: tuple[Microagent, ...] = ()
    skills: tuple[Skill, ...] = ()
    problems: tuple[str, ...] = ()
    """One line each: file, line, what to do."""

    def without(self, names: Collection[str]) -> Library:
        """Return the library without the microagents and skills of these names."""
        agents = tuple(one for one in self.microagents if one.name not in names)
        return replace(self, microagents=agents, skills=tuple(one for one in self.skills if one.name not in names))

    @property
    def is_empty(self) -> bool:
        """Whether the library contains nothing for the agent."""
        return not (self.instructions or self.microagents or self.skills)

    def instructions_of(self, origin: str) -> str:
        """Return the instructions of the project or of the user as one text; each part names its file."""
        text = "\n\n".join(f"[{path}]\n{text}" for path, text in self.parts_of(origin))
        return _cut(text, MAX_INSTRUCTIONS_CHARS)

    def parts_of(self, origin: str) -> list[tuple[str, str]]:
        """Return the same as pairs of path and text, each no longer than all instructions may be."""
        parts = [(one.path, one.text.strip()) for one in self.instructions if one.origin == origin]
        parts += [(m.path, m.content) for m in self.microagents if m.use is Use.ALWAYS and m.origin == origin]
        return [(path, _cut(text, MAX_INSTRUCTIONS_CHARS)) for path, text in parts]

    def skill_list(self) -> str:
        """Return the names and descriptions of the skills for the agent, or ""."""
        if not self.skills:
            return ""
        lines = [skill.line() for skill in self.skills[:MAX_LISTED]]
        return "\n".join([SKILLS_HEAD, *lines])

    def recall(self, query: str, known: Iterable[tuple[str, str]] = ()) -> list[Found]:
        """Return what a query recalls, in the library's order, without what is `known` (name and content)."""
        folded_query, already_known = folded(query), set(known)
        found = [
            Found(one.name, trigger, one.text_for(query))
            for one in self.microagents
            if one.use is not Use.ALWAYS and (trigger := matching_trigger(folded_query, one.triggers))
        ]
        found += [
            Found(skill.name, trigger, skill.text())
            for skill in self.skills
            if (trigger := matching_trigger(folded_query, (skill.name, f"/{skill.name}")))
        ]
        left, kept = MAX_KNOWLEDGE_CHARS, []
        for whole in found:
            one = whole._replace(content=_cut(whole.content, max(left, 200)))
            if (one.name, one.content) in already_known:
                continue
            left -= len(one.content)
            kept.append(one)
        return kept

    def tasks(self) -> list[Microagent]:
        """Return the microagents that the user calls as `/name`."""
        return [one for one in self.microagents if one.use is Use.TASK]


SKILLS_HEAD = (
    "There are skills: instructions for certain tasks, each in a file. When a task fits a description, read the whole "
    "file first, and follow it. Files that it names lie beside it.\nSkills:"
)


def build_library(sources: Iterable[Source]) -> Library:
    """Parse the files of these sources. If a name occurs twice, the first source wins."""
    instructions: list[Instructions] = []
    agents: dict[str, Microagent] = {}
    found_skills: dict[str, Skill] = {}
    problems: list[str] = []
    for source in sources:
        problems += [f"{source.name}{problem}" for problem in source.problems]
        for piece in source.pieces:
            try:
                match piece.kind:
                    case Kind.INSTRUCTIONS:
                        instructions.append(Instructions(source.name + piece.path, source.origin, piece.text))
                    case Kind.MICROAGENT:
                        one = parse_microagent(piece, source.origin, _base(piece.path))
                        _put(agents, one.name, one, source.name + piece.path, problems)
                        if one.note:
                            problems.append(f"{source.name}{piece.path}: {one.note}")
                    case Kind.SKILL:
                        skill = parse_skill(piece, source.origin, source.sandbox_path(piece.path))
                        _put(found_skills, skill.name, skill, source.name + piece.path, problems)
            except FrontMatterError as error:
                problems.append(f"{source.name}{piece.path}:{error.line}: {error}")
    too_long = f"too long; the rest is cut off. Keep it below {MAX_INSTRUCTIONS_CHARS:,} characters."
    problems += [f"{one.path}: {too_long}" for one in instructions if len(one.text) > MAX_INSTRUCTIONS_CHARS]
    return Library(tuple(instructions), tuple(agents.values()), tuple(found_skills.values()), tuple(problems))


def _put(into: dict[str, T], name: str, one: T, path: str, problems: list[str]) -> None:
    if name in into:
        problems.append(f"{path}: {name!r} exists already, and that one is used. Give this one a different name.")
    else:
        into[name] = one


def _base(path: str) -> str:
    return next((base for base in (*MICROAGENTS, "microagents") if path.startswith(f"{base}/")), "")


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - len(CUT)] + CUT


class UserFolders(NamedTuple):
    """The user's own folders."""

    home: Path
    openhands: Path | None = None
    """`~/.openhands`; None if the user has no home folder."""

    @classmethod
    def of(cls, home: Path, environ: Mapping[str, str]) -> UserFolders:
        """Return the folders for Handloom's home and this environment."""
        return cls(home, Path(environ["HOME"]) / ".openhands" if environ.get("HOME") else None)


@dataclass(frozen=True, slots=True)
class Gathered:
    """The result of `gather`."""

    library: Library
    standing: TrustState
    own_hooks: tuple[Hook, ...] = ()
    project_hooks: tuple[Hook, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems, one line each."""
        return self.library.problems


def gather(
    own: UserFolders,
    policy: TrustPolicy,
    folder: str | Path,
    *,
    along: Iterable[str] = (),
    project_path: Callable[[str], str] = lambda path: "",
    user_path: Callable[[Path], str] = lambda path: "",
) -> Gathered:
    """Read what applies in a project's folder and the folders `along`.

    `project_path` and `user_path` map files to their paths in the sandbox.
    """
    standing = policy.state_of(survey_project(folder, along))
    home = survey_home(own.home)
    sources = [
        Source(PROJECT, standing.trusted, standing.survey.problems, project_path),
        _own_source(home, own.home, user_path),
    ]
    if own.openhands is not None:
        sources.append(_own_source(survey_openhands(own.openhands), own.openhands, lambda path: ""))
    library = build_library(sources).without(policy.disabled)
    own_hooks, own_problems = _hooks(home.of(Kind.HOOKS), f"{own.home}/")
    project_hooks, project_problems = _hooks(standing.of(Kind.HOOKS), "")
    problems = (*library.problems, *own_problems, *project_problems)
    return Gathered(replace(library, problems=problems), standing, own_hooks, project_hooks)


def _own_source(found: Survey, folder: Path, sandbox_path: Callable[[Path], str]) -> Source:
    return Source(YOURS, found.pieces, found.problems, lambda path: sandbox_path(folder / path), f"{folder}/")


def _hooks(pieces: Iterable[Piece], prefix: str) -> tuple[tuple[Hook, ...], list[str]]:
    found: list[Hook] = []
    problems: list[str] = []
    for piece in pieces:
        hooks, errors = hooks_of(piece.text)
        found += hooks
        problems += [f"{prefix}{piece.path}: {line}" for line in errors]
    return tuple(found), problems
