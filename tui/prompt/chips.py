"""Chips: tokens of one line that stand in the prompt for something long, a paste or a picture.

A token such as `[pasted 240 lines #1]` is ordinary text of the draft, so that tabs, history and undo keep it as they
keep any text; what it stands for is kept here, by the token. Numbers are given once, so a token never changes its
meaning. Pure; no Textual.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tui.i18n import _

LONG_LINES = 10
LONG_CHARS = 1000
"""A paste with more lines or characters than this would push out of sight what the user writes around it."""
HELD_CHARS = 64 * 1024 * 1024
"""Of all that is kept: some pictures. Beyond it the oldest are given up, and their tokens are only text."""

LINES, CHARACTERS, IMAGE = _("pasted {n} lines"), _("pasted {n} characters"), _("image {size}")
_KINDS = "|".join(re.sub(r"\\\{\w+\\\}", r"[\\d,x]+", re.escape(kind)) for kind in (LINES, CHARACTERS, IMAGE))
_TOKEN = re.compile(rf"\[(?:{_KINDS}) #\d+\]")


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that goes with a message."""

    url: str
    """A `data:` URL."""
    width: int
    height: int


def is_long(text: str) -> bool:
    """Whether a paste is better shown as a chip."""
    return len(text) > LONG_CHARS or text.count("\n") >= LONG_LINES


class Chips:
    """What the tokens of all drafts stand for."""

    def __init__(self) -> None:
        self._held: dict[str, str | Picture] = {}
        self._given = 0

    def paste(self, text: str) -> str:
        """The token for a pasted text."""
        lines = text.removesuffix("\n").count("\n") + 1
        what = LINES.format(n=f"{lines:,}") if lines > 1 else CHARACTERS.format(n=f"{len(text):,}")
        return self._hold(what, text)

    def attach(self, picture: Picture) -> str:
        """The token for a picture."""
        return self._hold(IMAGE.format(size=f"{picture.width}x{picture.height}"), picture)

    def _hold(self, what: str, content: str | Picture) -> str:
        self._given += 1
        token = f"[{what} #{self._given}]"
        self._held[token] = content
        room = HELD_CHARS - sum(map(_size, self._held.values()))
        while room < 0 and len(self._held) > 1:
            room += _size(self._held.pop(next(iter(self._held))))
        return token

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Where in a line the tokens are that stand for something."""
        if "[" not in line:
            return []
        return [found.span() for found in _TOKEN.finditer(line) if found[0] in self._held]

    def pasted(self, token: str) -> str | None:
        """The text that a token stands for; None for a picture's."""
        content = self._held.get(token)
        return content if isinstance(content, str) else None

    def expanded(self, text: str) -> str:
        """The text with every paste in the place of its token. Pictures keep theirs, which tell the model apart."""
        return _TOKEN.sub(lambda found: self.pasted(found[0]) or found[0], text)

    def typed(self, text: str) -> str:
        """The text without tokens: what the user wrote with their own hands."""
        return _TOKEN.sub("", text)

    def pictures(self, text: str) -> list[Picture]:
        """The pictures whose tokens are in the text, each once, in their order."""
        found = (self._held.get(token) for token in dict.fromkeys(_TOKEN.findall(text)))
        return [content for content in found if isinstance(content, Picture)]

    def give_up_pictures(self, text: str) -> None:
        """Keep the pictures of a message no longer: it has been sent."""
        for token in _TOKEN.findall(text):
            if isinstance(self._held.get(token), Picture):
                del self._held[token]


def _size(content: str | Picture) -> int:
    return len(content if isinstance(content, str) else content.url)
