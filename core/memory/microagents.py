"""Microagents and skills: Markdown files with knowledge, instructions or tasks for the agent. Pure.

    ---
    name: releases
    triggers: [release, changelog]
    ---
    Releases are made by ...

A file with `inputs` is a task, which the user calls as `/name`; one with `triggers` is knowledge, recalled when a
message contains a trigger; any other is an instruction that every agent gets at the start. Other fields of V0
(`version`, `agent`, `type`) are allowed. Follows `openhands/microagent` of OpenHands V0.

Unlike in V0, a trigger must stand as a word: `git` is in "git push" but not in "digit". Scripts without spaces between
words, such as Chinese and Japanese, have no such boundary: there a trigger counts anywhere. Case, width and the
composition of letters do not matter.

A skill is a folder with a file `SKILL.md`, which has a name and a description, and any other files. The agent gets only
names and descriptions; it reads the rest in its sandbox when it needs it, and runs scripts of the skill there. Follows
the Agent Skills format.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from core.memory.frontmatter import FrontMatter, FrontMatterError, parse
from core.trust.folder_survey import SKILL_FILE, Piece

_NAME = re.compile(r"[^\s/\\\x00-\x1f`\"']{1,80}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_GIVEN = re.compile(r"(?:^|\s)([A-Za-z_][A-Za-z0-9_]*)=(\"[^\"]*\"|'[^']*'|\S+)")
MAX_TRIGGERS = 100
MAX_QUERY_CHARS = 100_000
"""The part of a message that is searched for triggers; a longer one is a pasted file."""
MAX_TRIGGER_CHARS = 200
_SKILL_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MAX_SKILL_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1024
DEFAULT_NAME = "default"
"""V0's placeholder for a missing name."""
ASK_FOR = (
    "The user has not said: {names}. Where it cannot be told from the conversation, ask the user for it before you "
    "go on with this task."
)
NO_TOOLS = "mcp_tools are not started from here. Name the servers in .mcp.json."


class Use(StrEnum):
    """When the agent gets it."""

    ALWAYS = "always"
    TRIGGERED = "triggered"
    TASK = "task"


@dataclass(frozen=True, slots=True)
class Input:
    """A parameter of a task."""

    name: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Microagent:
    """A parsed microagent file."""

    name: str
    use: Use
    content: str
    path: str
    origin: str
    """Whose it is, as shown to the user."""
    description: str = ""
    triggers: tuple[str, ...] = ()
    inputs: tuple[Input, ...] = ()
    note: str = ""
    """What of it is ignored here, and what to do instead; usually empty."""

    def text_for(self, query: str) -> str:
        """Return the text for the agent; in a task, inputs are replaced by the values in the query."""
        if self.use is not Use.TASK:
            return self.content
        given = {name: value.strip("\"'") for name, value in _GIVEN.findall(query)}
        known = {one.name: given[one.name] for one in self.inputs if one.name in given}
        text = _VARIABLE.sub(lambda place: known.get(place[1], place[0]), self.content)
        wanted = [*(one.name for one in self.inputs), *_VARIABLE.findall(self.content)]
        missing = [name for name in dict.fromkeys(wanted) if name not in known]
        labels = {one.name: f"{one.name} ({one.description})" if one.description else one.name for one in self.inputs}
        names = ", ".join(labels.get(name, name) for name in missing)
        return f"{text}\n\n{ASK_FOR.format(names=names)}" if missing else text


def parse_microagent(piece: Piece, origin: str, base: str = "") -> Microagent:
    """Parse a microagent file, named by its path below `base` by default. Raises FrontMatterError."""
    front = parse(piece.text)
    if not front.body:
        raise FrontMatterError(
            piece.text.count("\n") + 1, "it is empty. Write the text below the second ---, or remove the file."
        )
    name = _name(front, piece.path.removeprefix(base).lstrip("/").removesuffix(".md"))
    inputs = _inputs(front)
    triggers = front.texts("triggers")[:MAX_TRIGGERS]
    use = Use.TASK if inputs else Use.TRIGGERED if triggers else Use.ALWAYS
    if use is Use.ALWAYS and front.text("type") in ("task", "knowledge"):
        use = Use.TASK if front.text("type") == "task" else Use.TRIGGERED
        if use is Use.TRIGGERED:
            raise FrontMatterError(front.line("type"), "knowledge needs a line like `triggers: [release]`")
    if use is Use.TASK:
        triggers = tuple(dict.fromkeys((*triggers, f"/{name}")))
    note = NO_TOOLS if front.values.get("mcp_tools") else ""
    return Microagent(name, use, front.body, piece.path, origin, front.text("description"), triggers, inputs, note)


def _name(front: FrontMatter, stem: str) -> str:
    name = front.text("name")
    if name in ("", DEFAULT_NAME):
        return stem.replace("/", "-").replace(" ", "-")
    if not _NAME.fullmatch(name):
        raise FrontMatterError(front.line("name"), "name: no spaces, slashes or quotes; 80 letters at most")
    return name


def _inputs(front: FrontMatter) -> tuple[Input, ...]:
    inputs: Any = front.values.get("inputs")
    if not inputs:
        return ()
    if not isinstance(inputs, list):
        raise FrontMatterError(front.line("inputs"), "inputs must be a list of lines `- name: VARIABLE`")
    found = []
    for one in inputs:
        name = one.get("name") if isinstance(one, dict) else one
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise FrontMatterError(front.line("inputs"), "each input needs a name of letters, digits and _")
        about = one.get("description") if isinstance(one, dict) else ""
        found.append(Input(name, " ".join(str(about or "").split())))
    return tuple(found)


_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Thai, Lao, Burmese, Khmer, Chinese and Japanese. Korean has spaces, but appends particles to words."""
_HANGUL = re.compile("[\uac00-\ud7af]")


def folded(text: str) -> str:
    """Normalize a text for comparison."""
    return unicodedata.normalize("NFKC", text[:MAX_QUERY_CHARS]).casefold()


def matching_trigger(query: str, triggers: Iterable[str]) -> str:
    """Return the first trigger in a query, which is `folded`, or ""."""
    return next((trigger for trigger in triggers if _contains_word(folded(trigger).strip(), query)), "")


def _contains_word(trigger: str, query: str) -> bool:
    if not trigger or len(trigger) > MAX_TRIGGER_CHARS:
        return False
    at = query.find(trigger)
    while at >= 0:
        end = at + len(trigger)
        if _may_begin(query[at - 1 : at], trigger[0]) and _may_end(query[end : end + 1], trigger[-1]):
            return True
        at = query.find(trigger, at + 1)
    return False


def _may_begin(before: str, first: str) -> bool:
    """Return whether a word may begin between these two; `/name` must follow a space or start the text."""
    if first == "/":
        return not before or before.isspace()
    return not _joins(before, first)


def _may_end(after: str, last: str) -> bool:
    return bool(_HANGUL.match(last)) or not _joins(last, after)


def _joins(one: str, other: str) -> bool:
    """Return whether two adjacent characters belong to one word."""
    if not one or not other or _UNSPACED.match(one) or _UNSPACED.match(other):
        return False
    return _is_letter(one) and _is_letter(other)


def _is_letter(letter: str) -> bool:
    return letter == "_" or unicodedata.category(letter)[0] in "LNM"


@dataclass(frozen=True, slots=True)
class Skill:
    """A parsed skill."""

    name: str
    description: str
    body: str
    path: str
    """The path of its SKILL.md below the folder of skills."""
    origin: str
    """Whose it is, as shown to the user."""
    place: str = ""
    """The path of its SKILL.md for the agent; "" if the sandbox cannot read it."""

    def line(self) -> str:
        """Return the line about it that every agent gets."""
        where = f" ({self.place})" if self.place else ""
        return f"- {self.name}{where}: {self.description}"

    def text(self) -> str:
        """Return the text for the agent when the user names the skill."""
        folder = self.place.removesuffix(f"/{SKILL_FILE}")
        where = f"Its files are in {folder}; run its scripts in your shell.\n\n" if self.place else ""
        return where + self.body


def parse_skill(piece: Piece, origin: str, place: str = "") -> Skill:
    """Parse a skill file. Raises FrontMatterError."""
    front = parse(piece.text)
    if not front.is_there:
        raise FrontMatterError(1, "start with a line ---, then name and description, then --- again")
    name, description = front.text("name"), front.text("description")
    if len(name) > MAX_SKILL_NAME_CHARS or not _SKILL_NAME.fullmatch(name):
        raise FrontMatterError(
            front.line("name"), "name: lower-case letters and digits, with - between words; 64 at most"
        )
    if not 0 < len(description) <= MAX_DESCRIPTION_CHARS:
        why = f"description: say what it does and when to use it, in at most {MAX_DESCRIPTION_CHARS} characters"
        raise FrontMatterError(front.line("description"), why)
    if not front.body:
        raise FrontMatterError(piece.text.count("\n") + 1, "it is empty. Write what to do below the second ---.")
    return Skill(name, description, front.body, piece.path, origin, place)
