"""Expansion of words to the values that a program gets, as far as they are known. Nothing is evaluated."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from core.security.shell.shell_state import MAX_VALUE_CHARS, Shell, changes_shell
from core.security.shell.syntax import NotUnderstoodError, Piece, Substitution, Text, Variable, Word

_GLOB = re.compile(r"[*?\[]")
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}|\{[^{}]*\{")
_ASSIGNED_TILDE = re.compile(r"^([A-Za-z_-][\w-]*\+?=)~(?=/|$)")
MAX_WORDS = 64
NUMBERS = frozenset("?#$!")
"""Special parameters with numeric values."""


@dataclass(frozen=True, slots=True)
class Value:
    """One argument of a program."""

    text: str | None
    """None if it is unknown."""
    shown: str
    """The text for the user and for patterns."""
    prefix: str = ""
    """The known beginning of an unknown text."""
    is_foreign: bool = False
    """Whether an unknown text comes from a command or a file, so that somebody else may control it."""
    is_many: bool = False
    """Whether it may expand to no word or to several."""
    is_glob: bool = False
    is_number: bool = False
    """Whether an unknown text has only digits, or what `date` prints of them."""
    is_process: bool = False
    """Whether it is the name that `<(...)` stands for, and nothing else."""

    @property
    def start(self) -> str:
        """The known part of the text."""
        return self.text if self.text is not None else self.prefix

    def without_prefix(self, count: int) -> Value:
        """The value without its first characters, which are known."""
        text = self.text[count:] if self.text is not None else None
        return replace(self, text=text, shown=self.shown[count:] or self.shown, prefix=self.prefix[count:])


def known(text: str) -> Value:
    """Make a known value."""
    return Value(text, text)


Run = Callable[[Substitution], Value]
"""Analyses the commands of a substitution; returns what is known of their output."""


def expand(word: Word, shell: Shell, home: str, run: Run) -> Iterator[Value]:
    """Expand a word. Raises NotUnderstoodError."""
    for one in _braces(word):
        if len(one.pieces) == 1 and isinstance(piece := one.pieces[0], Variable) and not piece.quoted:
            text, is_foreign = lookup(piece, shell, home)
            if text is not None:
                if _GLOB.search(text) or "\\" in text:
                    raise NotUnderstoodError(word.source, "the variable holds a pattern")
                yield from map(known, filter(None, re.split(r"[ \t\n]+", text)))
                continue
            is_number = piece.name in NUMBERS
            yield Value(None, word.source, is_foreign=is_foreign, is_many=not is_number,
                        prefix="0" if is_number else "", is_number=is_number)  # fmt: skip
            continue
        yield joined(one, shell, home, run)


def joined(word: Word, shell: Shell, home: str, run: Run, *, assigned: bool = False) -> Value:
    """Expand a word to one value; the value of an assignment is not split."""
    made, prefix = list[str](), list[str]()
    is_known, is_foreign, is_many, is_glob = True, False, False, False
    is_number, is_process = True, False  # of every piece, and of the whole word
    for piece in _tilde(word, home, shell):
        text: str | None
        foreign = digits = False
        match piece:
            case Text(text=text, quoted=quoted):
                is_glob = is_glob or (not quoted and not assigned and bool(_GLOB.search(text)) and word.source != "[")
            case Variable():
                text, foreign = lookup(piece, shell, home)
                if text is not None and not piece.quoted and not assigned and re.search(r"[\s*?\[\\]", text):
                    raise NotUnderstoodError(word.source, "the variable is split into words")
                is_glob = is_glob or (text is not None and bool(_GLOB.search(text)))
                if text is None and piece.name in NUMBERS:
                    prefix, digits = prefix or ["0"] * is_known, True
                is_many = is_many or (text is None and not piece.quoted and piece.name not in NUMBERS)
            case Substitution():
                found = run(piece)
                text, foreign, digits = found.text, found.is_foreign, found.is_number
                is_process = piece.is_file and len(word.pieces) == 1
                if text is None and is_known and not made and found.prefix:
                    prefix = [found.prefix]
                is_many = is_many or (found.text is None and found.is_many and not piece.quoted and not piece.is_file)
        is_foreign = is_foreign or foreign
        is_number = is_number and (digits if text is None else re.fullmatch("[0-9]*", text) is not None)
        if text is None:
            is_known = False
        elif is_known:
            made.append(text)
    start = "".join(made)
    if sum(map(len, made)) > MAX_VALUE_CHARS and any(isinstance(piece, Variable) for piece in word.pieces):
        raise NotUnderstoodError(word.source, "too long")
    if is_known:
        return Value(start, start, is_glob=is_glob)
    beginning = start or "".join(prefix)
    return Value(None, word.source, beginning, is_foreign, is_many, is_glob, is_number, is_process)


def lookup(piece: Variable, shell: Shell, home: str) -> tuple[str | None, bool]:
    """A variable's value, None if unknown, and whether somebody else may control it."""
    name = piece.name
    if name in NUMBERS and not piece.is_changed:
        return None, False
    if not re.match(r"[A-Za-z_]", name):
        raise NotUnderstoodError(f"${name}", "a special variable of the shell")
    if piece.is_changed:
        return None, True
    if name in shell.variables:
        value = shell.variables[name]
        return (value, value is None) if value or piece.default is None else (None, True)
    if name == "HOME":
        return home, False
    if name == "PWD" and len(shell.folders) == 1:
        return shell.folders[0], False
    return None, piece.default is not None or changes_shell(name)


def _tilde(word: Word, home: str, shell: Shell) -> tuple[Piece, ...]:
    """Replace a tilde at the start. Raises NotUnderstoodError for every other tilde that bash would expand."""
    if not word.pieces or not isinstance(first := word.pieces[0], Text) or first.quoted:
        return word.pieces
    text = first.text
    if found := _ASSIGNED_TILDE.match(text):
        head, rest = found[1], text[len(found[1]) :]
    elif text.startswith("~"):
        head, rest = "", text
    else:
        if re.search(r"=~|:~", text):
            raise NotUnderstoodError(word.source, "a tilde")
        return word.pieces
    is_alone = rest == "~" and len(word.pieces) == 1
    if "HOME" in shell.variables or not (is_alone or rest.startswith("~/")) or ":~" in rest:
        raise NotUnderstoodError(word.source, "a tilde")
    return (Text(head + home + rest[1:]), *word.pieces[1:])


def _braces(word: Word) -> Iterator[Word]:
    """Expand simple braces. Raises NotUnderstoodError for others."""
    flat = "".join(p.text if isinstance(p, Text) and not p.quoted else "\x00" for p in word.pieces)
    if "{" not in flat or not _BRACES.search(flat):
        yield word
        return
    if len(word.pieces) != 1 or ".." in flat or flat.count("{") != flat.count("}"):
        raise NotUnderstoodError(word.source, "braces")
    texts = [""]
    for part in re.split(r"(\{[^{}]*\})", flat):
        is_choice = part.startswith("{") and part.endswith("}")
        choices = part[1:-1].split(",") if is_choice and "," in part else [part]
        texts = [text + choice for text in texts for choice in choices]
        if len(texts) > MAX_WORDS or ("{" in part and not is_choice):  # braces within braces
            raise NotUnderstoodError(word.source, "braces")
    if not all(texts):
        raise NotUnderstoodError(word.source, "braces")
    for text in texts:
        yield Word((Text(text),), word.source)
