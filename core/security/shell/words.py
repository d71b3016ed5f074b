"""Words of a command as the program would get them, as far as that can be told before it runs. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MAX_FIELDS = 64
"""That one word becomes by braces or by being split."""
MAX_CHARS = 64 * 1024
"""Of a word, and of what a command prints; of a longer one, as variables that double make it, nothing is known."""
NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Word:
    """A word after expansion."""

    text: str
    """Parts that are not known stand in it as they are written, such as `$X`."""
    bare: str = ""
    """The text without the parts that are not known: what it is where they are empty."""
    known: bool = True
    kinds: frozenset[str] = NOTHING
    """Where its parts come from: `secret`, `remote`, `decoded`, `command` (what a command prints), `file`."""
    content: str | None = None
    """Of a process substitution: what the program would read there, where that is known."""


@dataclass(frozen=True, slots=True)
class Out:
    """What a command prints, or what another one reads."""

    text: str | None = None
    """None where it is not known."""
    kinds: frozenset[str] = NOTHING

    def plus(self, other: Out) -> Out:
        """Both, one behind the other."""
        text = self.text + other.text if self.text is not None and other.text is not None else None
        return Out(text if text is None or len(text) <= MAX_CHARS else None, self.kinds | other.kinds)


SILENT = Out("")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a word."""

    text: str
    known: bool = True
    kinds: frozenset[str] = NOTHING
    splits: bool = False
    """Whether the shell splits it into several words: an expansion outside quotes."""
    bare: str | None = None
    content: str | None = None
    is_quoted: bool = False


def literal(text: str) -> Word:
    """A word that is known."""
    return Word(text, text)


def fields(pieces: Sequence[Piece], ifs: str = " \t\n") -> list[Word]:
    """The words that pieces become: joined, and split where the shell splits."""
    done = list[Word]()
    current: list[Piece] = []
    for piece in pieces:
        if not piece.splits or not piece.known or not any(char in piece.text for char in ifs):
            current.append(piece)
            continue
        parts = re.split(f"[{re.escape(ifs)}]+", piece.text, maxsplit=MAX_FIELDS)[:MAX_FIELDS]
        for number, part in enumerate(parts):
            if number and current:
                done.append(_joined(current))
                current = []
            if part:
                current.append(Piece(part, True, piece.kinds))
    if any(piece.text or piece.is_quoted or not piece.known for piece in current):
        done.append(_joined(current))
    return done[:MAX_FIELDS]


def _joined(pieces: Sequence[Piece]) -> Word:
    kinds = frozenset().union(*(piece.kinds for piece in pieces)) if pieces else NOTHING
    content = pieces[0].content if len(pieces) == 1 else None
    text, is_whole = bounded([piece.text for piece in pieces])
    bare, _ = bounded([(piece.bare or "") if not piece.known else piece.text for piece in pieces])
    return Word(text, bare, is_whole and all(piece.known for piece in pieces), kinds, content if is_whole else None)


def bounded(texts: Sequence[str]) -> tuple[str, bool]:
    """The texts as one, cut at MAX_CHARS before it is made, and whether that is all of them."""
    kept, room = list[str](), MAX_CHARS
    for text in texts:
        if len(text) > room:
            return "".join([*kept, text[:room]]), False
        kept.append(text)
        room -= len(text)
    return "".join(kept), True


_BRACES = re.compile(r"(?<!\$)\{([^{}]*,[^{}]*)\}")
_RANGE = re.compile(r"(?<!\$)\{(-?\d{1,4})\.\.(-?\d{1,4})\}")


def braces(text: str) -> list[str]:
    """`a{b,c}` as `ab` and `ac`; at most 64 of them."""
    texts, done = [text], list[str]()
    while texts and len(done) + len(texts) <= MAX_FIELDS:
        head = texts.pop(0)
        found = _BRACES.search(head)
        ranged = _RANGE.search(head) if not found else None
        if found:
            texts[:0] = [head[: found.start()] + part + head[found.end() :] for part in found[1].split(",")]
        elif ranged:
            low, high = sorted((int(ranged[1]), int(ranged[2])))
            numbers = range(low, min(high, low + 15) + 1)
            texts[:0] = [head[: ranged.start()] + str(number) + head[ranged.end() :] for number in numbers]
        else:
            done.append(head)
    return (done + texts)[:MAX_FIELDS]


def unescape(text: str) -> str:
    """A word outside quotes without its backslashes."""
    return re.sub(r"\\(\n|.)", lambda match: "" if match[1] == "\n" else match[1], text, flags=re.DOTALL)


def unescape_quoted(text: str) -> str:
    """The inside of double quotes without its backslashes."""
    return re.sub(r'\\(\n|["$`\\])', lambda match: "" if match[1] == "\n" else match[1], text)


_ANSI = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|c(.)|(.))", re.DOTALL
)
_ONE = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def ansi_c(text: str) -> str:
    r"""The inside of `$'...'`, or what `printf` and `echo -e` make of a text: `\x72` as `r`."""

    def one(match: re.Match[str]) -> str:
        for base, group in ((16, 1), (8, 2), (16, 3), (16, 4)):
            if match[group]:
                code = int(match[group].removeprefix("0") or "0", base)
                return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else ""
        if match[5]:
            return chr(ord(match[5][0].upper()) & 0x1F)
        return _ONE.get(match[6], match[6] if match[6] in "\\'\"?" else "\\" + match[6])

    return _ANSI.sub(one, text)


def options(
    args: Sequence[Word], with_value: str = "", *, first_ends: bool = False
) -> tuple[list[tuple[str, Word | None]], list[Word]]:
    """Options, each with its value, and the rest, by getopt's conventions.

    `with_value` names those that take one, separated by spaces. `first_ends`: what follows the first word that is
    no option is no option either, as for wrappers.
    """
    taking, found, rest = set(with_value.split()), list[tuple[str, Word | None]](), list[Word]()
    queue = list(args)
    while queue:
        word = queue.pop(0)
        text = word.text
        if text == "--":
            rest += queue
            break
        if text.startswith("--"):
            name, has, value = text.partition("=")
            if has:
                found.append((name, _tail(word, value)))
            else:
                found.append((name, queue.pop(0) if name in taking and queue else None))
        elif text.startswith("-") and len(text) > 1:
            if text in taking:
                found.append((text, queue.pop(0) if queue else None))
            else:
                found += _cluster(word, taking, queue)
        else:
            rest.append(word)
            if first_ends:
                return found, rest + queue
    return found, rest


def _cluster(word: Word, taking: set[str], queue: list[Word]) -> list[tuple[str, Word | None]]:
    """`-xzf FILE` as three options."""
    found: list[tuple[str, Word | None]] = []
    letters = word.text[1:]
    for number, letter in enumerate(letters):
        name = f"-{letter}"
        if name in taking:
            rest = letters[number + 1 :]
            found.append((name, _tail(word, rest) if rest else queue.pop(0) if queue else None))
            return found
        found.append((name, None))
    if len(letters) > 1:
        found.append((word.text, None))
    return found


def _tail(word: Word, text: str) -> Word:
    """The end of a word as a word."""
    bare = text if word.known else word.bare[-len(text) :] if text and word.bare.endswith(text) else word.bare
    return Word(text, bare.partition("=")[2] if not word.known and "=" in bare else bare, word.known, word.kinds)
