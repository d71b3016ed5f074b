"""Skills: folders with a file `SKILL.md`, which has a name and a description, and any other files. Pure.

The agent gets only names and descriptions. It reads the rest in its sandbox when it needs it, and scripts of a skill
run there. Follows the Agent Skills format.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from core.memory.frontmatter import FrontMatterError, parse
from core.trust.folder_survey import SKILL_FILE, Piece

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1024


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
    if len(name) > MAX_NAME_CHARS or not _NAME.fullmatch(name):
        raise FrontMatterError(
            front.line("name"), "name: lower-case letters and digits, with - between words; 64 at most"
        )
    if not 0 < len(description) <= MAX_DESCRIPTION_CHARS:
        why = f"description: say what it does and when to use it, in at most {MAX_DESCRIPTION_CHARS} characters"
        raise FrontMatterError(front.line("description"), why)
    if not front.body:
        raise FrontMatterError(piece.text.count("\n") + 1, "it is empty. Write what to do below the second ---.")
    return Skill(name, description, front.body, piece.path, origin, place)
