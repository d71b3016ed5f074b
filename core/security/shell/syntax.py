"""The syntax tree of the supported part of bash, and the exception for everything else."""

from __future__ import annotations

from dataclasses import dataclass, field


class NotUnderstoodError(Exception):
    """A part of an action is not understood; the text is that part."""

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
    """Whether it is a form such as `${NAME%.txt}`, whose value is not computed."""


@dataclass(frozen=True, slots=True)
class Substitution:
    """`$(...)`, backticks, or `<(...)` and `>(...)`, which are files."""

    body: tuple[Node, ...]
    source: str
    quoted: bool = False
    is_file: bool = False


Piece = Text | Variable | Substitution


@dataclass(frozen=True, slots=True)
class Word:
    """One word."""

    pieces: tuple[Piece, ...]
    source: str

    @property
    def literal(self) -> str | None:
        """Its text if nothing in it is expanded, else None."""
        if not all(isinstance(piece, Text) for piece in self.pieces):
            return None
        return "".join(piece.text for piece in self.pieces if isinstance(piece, Text))

    @property
    def is_bare(self) -> bool:
        """Whether it has no quotes and no expansions."""
        return all(isinstance(piece, Text) and not piece.quoted for piece in self.pieces)


@dataclass(slots=True)
class Redirect:
    """A redirection."""

    operator: str
    target: Word
    fd: str = ""
    body: Word | None = None
    """The text of a heredoc or a here-string."""


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
    """`if`, `while` and `until`: bodies any of which may run."""

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
    """`[[ ... ]]` with its words and operators."""

    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = field(default=())


Node = Simple | Pipeline | Conditional | Background | Group | Branches | For | Test
