"""A skill: a folder with a file `SKILL.md`, which has a name and a description, and whatever else it speaks of.

The agent is told name and description alone. It reads the rest in its sandbox when it needs it, and whatever a skill
would have run is run there. Follows the Agent Skills format. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from core.memory.frontmatter import FrontError, parse
from core.trust.folder_survey import SKILL_FILE, Piece

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1024


@dataclass(frozen=True, slots=True)
class Skill:
    """One that was understood."""

    name: str
    description: str
    body: str
    path: str
    """Of its SKILL.md, from the top of its folder."""
    origin: str
    """Whose it is, for people."""
    place: str = ""
    """Where the agent finds its SKILL.md; empty where the sandbox cannot read it."""

    def line(self) -> str:
        """What every agent is told of it."""
        where = f" ({self.place})" if self.place else ""
        return f"- {self.name}{where}: {self.description}"

    def told(self) -> str:
        """What an agent reads when the user names it."""
        folder = self.place.removesuffix(f"/{SKILL_FILE}")
        where = f"Its files are in {folder}; run its scripts in your shell.\n\n" if self.place else ""
        return where + self.body


def understood(piece: Piece, origin: str, place: str = "") -> Skill:
    """The skill that a file describes. Raises FrontError."""
    front = parse(piece.text)
    if not front.is_there:
        raise FrontError(1, "it begins with a line ---, then name and description, then --- again")
    name, description = front.text("name"), front.text("description")
    if len(name) > MAX_NAME_CHARS or not _NAME.fullmatch(name):
        raise FrontError(front.line("name"), "name: small letters and digits, with - between words; 64 at most")
    if not 0 < len(description) <= MAX_DESCRIPTION_CHARS:
        told = f"description: what it does and when to use it, in at most {MAX_DESCRIPTION_CHARS} letters"
        raise FrontError(front.line("description"), told)
    if not front.body:
        raise FrontError(piece.text.count("\n") + 1, "it says nothing. Write what to do below the second ---.")
    return Skill(name, description, front.body, piece.path, origin, place)
