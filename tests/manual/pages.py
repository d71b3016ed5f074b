"""The pages that people read, and what is in them: code blocks, commands, inline code, links and headings.

`pages` lists the files; the rest are functions of a page's text. Only the Markdown that these pages use is understood.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
README, DOCS = ROOT / "README.md", ROOT / "docs"
AGENTS = ROOT / "AGENTS.md"
REFERENCE = frozenset({"campaign.md", "escapes.md", "threats.md", "verdicts.md", "vocabulary.md"})
"""Pages in docs/ that are generated as a whole: they list tests, and contain no commands to type."""

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+)$", re.MULTILINE)
_COMMENT = re.compile(r"(?:^|\s+)# (.*)$")
_STATUS = re.compile(r"\bexit status (\d+)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced code block."""

    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        """Where it is, as an editor understands it."""
        return f"{self.page}:{self.line}"


@dataclass(frozen=True, slots=True)
class Command:
    """One command line of a page, without its comment."""

    page: str
    line: int
    text: str
    status: int = 0
    """The exit status that it has to have: 0, or what its comment says after "exit status"."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


def pages() -> list[Path]:
    """README.md, AGENTS.md and the pages of the manual, without those that are generated as a whole."""
    return [README, AGENTS, *(page for page in sorted(DOCS.glob("*.md")) if page.name not in REFERENCE)]


def blocks(page: Path) -> list[Block]:
    """The fenced code blocks of a page."""
    text = page.read_text("utf-8")
    found = _FENCE.finditer(text)
    return [Block(page.name, text.count("\n", 0, match.start()) + 2, match[1], match[2]) for match in found]


def commands(page: Path) -> list[Command]:
    """The command lines of a page, in their order: the lines of its `sh` blocks, those that end with `\\` joined."""
    return [command for block in blocks(page) if block.language == "sh" for command in _lines(block)]


def _lines(block: Block) -> Iterator[Command]:
    joined = ""
    for number, line in enumerate(block.text.splitlines(), block.line):
        joined += line
        if joined.endswith("\\"):
            joined = joined[:-1]
            continue
        comment = _COMMENT.search(joined)
        text = joined[: comment.start()].strip() if comment else joined.strip()
        status = _STATUS.search(comment[1]) if comment else None
        if text:
            yield Command(block.page, number, text, int(status[1]) if status else 0)
        joined = ""


def prose(page: Path) -> str:
    """The text of a page without its code blocks."""
    return _FENCE.sub("", page.read_text("utf-8"))


def inline_codes(page: Path) -> list[str]:
    """The text between backticks in the prose."""
    return INLINE.findall(prose(page))


def links(page: Path) -> list[str]:
    """The targets of links and pictures, without addresses of other hosts."""
    return [target for target in _LINK.findall(prose(page)) if "://" not in target]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as both GitHub and Python-Markdown make them."""
    return {slug(heading) for heading in _HEADING.findall(prose(page))}


def slug(heading: str) -> str:
    """The anchor of a heading: lower case, no punctuation, hyphens for blanks."""
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip())
