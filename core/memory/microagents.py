"""A microagent: some lines about it, and knowledge or instructions. Follows `openhands/microagent` of OpenHands V0.

    ---
    name: releases
    triggers: [release, changelog]
    ---
    Releases are made by ...

What it is follows from what it says: with `inputs` it is a task, which the user calls as `/name`; with `triggers` it
is knowledge, recalled when one is said; else it is told to every agent at the start. Other lines of V0 (`version`,
`agent`, `type`) may stand there. Pure.

Whether a text brings up a trigger. Pure.

A trigger counts where it stands as a word of its own: `git` is in "git push" and not in "digit". Scripts that put no
space between words, such as Chinese and Japanese, have no such border: there it counts wherever it stands. Case does
not matter, nor do width and composition of letters. Follows V0, where any part of a word counted.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from core.memory.frontmatter import Front, FrontError, parse
from core.trust.folder_survey import Piece

_NAME = re.compile(r"[^\s/\\\x00-\x1f`\"']{1,80}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_GIVEN = re.compile(r"(?:^|\s)([A-Za-z_][A-Za-z0-9_]*)=(\"[^\"]*\"|'[^']*'|\S+)")
MAX_TRIGGERS = 100
DEFAULT_NAME = "default"
"""V0's name of one that does not say its own."""
ASK_FOR = (
    "The user has not said: {names}. Where it cannot be told from the conversation, ask the user for it before you "
    "go on with this task."
)
NO_TOOLS = "mcp_tools are not started from here. Name the servers in .mcp.json."


class Use(StrEnum):
    """When it is told."""

    ALWAYS = "always"
    TRIGGERED = "triggered"
    TASK = "task"


@dataclass(frozen=True, slots=True)
class Input:
    """What a task has to know."""

    name: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Microagent:
    """One that was understood."""

    name: str
    use: Use
    content: str
    path: str
    origin: str
    """Whose it is, for people."""
    description: str = ""
    triggers: tuple[str, ...] = ()
    inputs: tuple[Input, ...] = ()
    note: str = ""
    """What of it does not count here, and what to do; empty where all does."""

    def told(self, query: str) -> str:
        """What an agent reads when this was brought up: a task with what the query gives of its inputs."""
        if self.use is not Use.TASK:
            return self.content
        given = {name: value.strip("\"'") for name, value in _GIVEN.findall(query)}
        known = {one.name: given[one.name] for one in self.inputs if one.name in given}
        text = _VARIABLE.sub(lambda place: known.get(place[1], place[0]), self.content)
        wanted = [*(one.name for one in self.inputs), *_VARIABLE.findall(self.content)]
        missing = [name for name in dict.fromkeys(wanted) if name not in known]
        said = {one.name: f"{one.name} ({one.description})" if one.description else one.name for one in self.inputs}
        names = ", ".join(said.get(name, name) for name in missing)
        return f"{text}\n\n{ASK_FOR.format(names=names)}" if missing else text


def understood(piece: Piece, origin: str, base: str = "") -> Microagent:
    """The microagent of a file; `base` is the folder of microagents, from which it has its name. Raises FrontError."""
    front = parse(piece.text)
    if not front.body:
        raise FrontError(piece.text.count("\n") + 1, "it says nothing. Write it below the second ---, or remove it.")
    name = _name(front, piece.path.removeprefix(base).lstrip("/").removesuffix(".md"))
    inputs = _inputs(front)
    triggers = front.texts("triggers")[:MAX_TRIGGERS]
    use = Use.TASK if inputs else Use.TRIGGERED if triggers else Use.ALWAYS
    if use is Use.ALWAYS and front.text("type") in ("task", "knowledge"):
        use = Use.TASK if front.text("type") == "task" else Use.TRIGGERED
        if use is Use.TRIGGERED:
            raise FrontError(front.line("type"), "knowledge has triggers. Add a line like `triggers: [release]`.")
    if use is Use.TASK:
        triggers = tuple(dict.fromkeys((*triggers, f"/{name}")))
    note = NO_TOOLS if front.values.get("mcp_tools") else ""
    return Microagent(name, use, front.body, piece.path, origin, front.text("description"), triggers, inputs, note)


def _name(front: Front, stem: str) -> str:
    name = front.text("name")
    if name in ("", DEFAULT_NAME):
        return stem.replace("/", "-").replace(" ", "-")
    if not _NAME.fullmatch(name):
        raise FrontError(front.line("name"), "name: no spaces, slashes or quotes; 80 letters at most")
    return name


def _inputs(front: Front) -> tuple[Input, ...]:
    said: Any = front.values.get("inputs")
    if not said:
        return ()
    if not isinstance(said, list):
        raise FrontError(front.line("inputs"), "inputs is a list of lines `- name: VARIABLE`")
    found = []
    for one in said:
        name = one.get("name") if isinstance(one, dict) else one
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise FrontError(front.line("inputs"), "each of the inputs has a name of letters, digits and _")
        about = one.get("description") if isinstance(one, dict) else ""
        found.append(Input(name, " ".join(str(about or "").split())))
    return tuple(found)


MAX_QUERY_CHARS = 100_000
"""Of a message that are looked through: a longer one is a pasted file."""
MAX_TRIGGER_CHARS = 200
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Thai, Lao, Burmese, Khmer, Chinese and Japanese. Korean puts spaces, but hangs particles onto words."""
_HANGUL = re.compile("[\uac00-\ud7af]")


def folded(text: str) -> str:
    """A text as it is compared."""
    return unicodedata.normalize("NFKC", text[:MAX_QUERY_CHARS]).casefold()


def brings_up(query: str, triggers: Iterable[str]) -> str:
    """The first of the triggers that stands in a query, which is `folded`; empty where none does."""
    return next((trigger for trigger in triggers if _stands_in(folded(trigger).strip(), query)), "")


def _stands_in(trigger: str, query: str) -> bool:
    if not trigger or len(trigger) > MAX_TRIGGER_CHARS:
        return False
    at = query.find(trigger)
    while at >= 0:
        end = at + len(trigger)
        if _borders(query[at - 1 : at], trigger[0]) and _ends(query[end : end + 1], trigger[-1]):
            return True
        at = query.find(trigger, at + 1)
    return False


def _borders(before: str, first: str) -> bool:
    """Whether a word may begin between these two; `/name` begins a word only where nothing stands before it."""
    if first == "/":
        return not before or before.isspace()
    return not _joins(before, first)


def _ends(after: str, last: str) -> bool:
    return bool(_HANGUL.match(last)) or not _joins(last, after)


def _joins(one: str, other: str) -> bool:
    """Whether two letters beside each other are of one word."""
    if not one or not other or _UNSPACED.match(one) or _UNSPACED.match(other):
        return False
    return _is_letter(one) and _is_letter(other)


def _is_letter(letter: str) -> bool:
    return letter == "_" or unicodedata.category(letter)[0] in "LNM"
