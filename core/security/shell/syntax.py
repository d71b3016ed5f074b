"""The syntax tree of the part of bash that is understood, and the exception for everything else. Data alone."""

from __future__ import annotations

from dataclasses import dataclass, field


class NotUnderstoodError(Exception):
    """A part of an action is not understood; the text is that part, as its writer wrote it."""

    def __init__(self, part: str, why: str = "") -> None:
        super().__init__(part)
        self.part = part
        self.why = why


@dataclass(frozen=True, slots=True)
class Text:
    """Literal characters. Unquoted ones may hold `*?[` (a glob), a tilde at the start, and braces."""

    text: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Variable:
    """`$NAME`, `${NAME}`, `${NAME:-default}`, or a special parameter such as `$?`."""

    name: str
    quoted: bool
    default: Word | None = None
    is_changed: bool = False
    """Whether it is a form such as `${NAME%.txt}`, whose value is not computed here."""


@dataclass(frozen=True, slots=True)
class Substitution:
    """`$(...)`, backticks, or `<(...)` and `>(...)`, which stand for a file."""

    body: tuple[Node, ...]
    source: str
    quoted: bool = False
    is_file: bool = False


Piece = Text | Variable | Substitution


@dataclass(frozen=True, slots=True)
class Word:
    """One word as it is written, with its pieces."""

    pieces: tuple[Piece, ...]
    source: str

    @property
    def literal(self) -> str | None:
        """Its text where nothing in it is expanded; None otherwise."""
        if not all(isinstance(piece, Text) for piece in self.pieces):
            return None
        return "".join(piece.text for piece in self.pieces if isinstance(piece, Text))

    @property
    def is_bare(self) -> bool:
        """Whether it is written without quotes and without expansions."""
        return all(isinstance(piece, Text) and not piece.quoted for piece in self.pieces)


@dataclass(slots=True)
class Redirect:
    """A redirection: the operator, the word behind it, and for a heredoc its body."""

    operator: str
    target: Word
    fd: str = ""
    body: Word | None = None
    """Of a heredoc or a here-string."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """`NAME=value` before a command or alone."""

    name: str
    value: Word
    appends: bool


@dataclass(frozen=True, slots=True)
class Simple:
    """A simple command."""

    assignments: tuple[Assignment, ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Two or more commands connected by pipes."""

    commands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Conditional:
    """`first && second` or `first || second`."""

    first: Node
    second: Node
    is_and: bool


@dataclass(frozen=True, slots=True)
class Background:
    """`command &`."""

    body: Node


@dataclass(frozen=True, slots=True)
class Group:
    """`{ ...; }` or `( ... )`."""

    body: tuple[Node, ...]
    redirects: tuple[Redirect, ...]
    is_subshell: bool


@dataclass(frozen=True, slots=True)
class Branches:
    """`if`, `while`, `until` and `case`: words that are expanded, then bodies of which any may run."""

    words: tuple[Word, ...]
    bodies: tuple[tuple[Node, ...], ...]
    redirects: tuple[Redirect, ...]
    loops: bool = False


@dataclass(frozen=True, slots=True)
class For:
    """`for NAME in words; do ...; done`."""

    name: str
    words: tuple[Word, ...]
    body: tuple[Node, ...]
    redirects: tuple[Redirect, ...]


@dataclass(frozen=True, slots=True)
class Test:
    """`[[ ... ]]`: its words and operators in order."""

    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = field(default=())


Node = Simple | Pipeline | Conditional | Background | Group | Branches | For | Test
