"""Expansion: what the words, assignments and heredocs of a syntax tree become, as far as that can be told."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from core.security.rules import names
from core.security.shell.words import (
    NOTHING,
    SILENT,
    Out,
    Piece,
    Word,
    ansi_c,
    bounded,
    braces,
    fields,
    literal,
    unescape,
    unescape_quoted,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from core.security.shell.reader import Reader, State

EXPANSIONS = names(
    "simple_expansion expansion command_substitution process_substitution"
    " arithmetic_expansion string concatenation word translated_string ansi_c_string"
    " raw_string"
)
_PLAIN = re.compile(r"[\w./:@%+=,-]+")
_HIDDEN = str.maketrans("{},.", "\ue000\ue001\ue002\ue003")
_SHOWN = str.maketrans("\ue000\ue001\ue002\ue003", "{},.")
"""What is quoted is no brace expansion, in whichever part of a word it stands."""
_ARRAY = re.compile(r'"?\$\{(\w+)\[[@*]\]\}"?')
_SECRET_NAME = re.compile(r"(?:^|_)(?:TOKEN|SECRET|PASSW(?:OR)?D|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIALS?)(?:_|$)")
_EMPTY_WHEN_ALONE = {"@", "*", "1", "2", "3", "4", "5", "6", "7", "8", "9", "!", "_"}


def words(reader: Reader, node: Node, state: State) -> list[Word]:
    """The words that one becomes: several where it is split or has braces, none where it is empty."""
    if node.type == "word" and _PLAIN.fullmatch(text := _text(node)):
        return [literal(text)]
    if node.type == "simple_expansion" and _text(node) in ("$@", "$*") and state.arguments:
        return list(state.arguments)
    if node.type == "string" and _text(node) in ('"$@"', '"${@}"') and state.arguments:
        return list(state.arguments)
    if (array := _ARRAY.fullmatch(_text(node))) and array[1] in state.arrays:
        return list(state.arrays[array[1]])
    ifs = state.variables.get("IFS")
    parts = pieces(reader, node, state)
    with_braces = any("{" in part.text and not part.is_quoted for part in parts)
    if with_braces:
        parts = [replace(part, text=part.text.translate(_HIDDEN)) if part.is_quoted else part for part in parts]
    split = fields(parts, ifs.text if ifs and ifs.known and ifs.text else " \t\n")
    if node.type in ("string", "raw_string", "ansi_c_string") or not with_braces:
        return split
    return [
        Word(shown, shown if one.known else one.bare, one.known, one.kinds, one.content)
        for one in split
        for shown in (text.translate(_SHOWN) for text in braces(one.text))
    ]


def word(reader: Reader, node: Node, state: State) -> Word:
    """The one word that a node becomes, not split."""
    many = fields([Piece("", is_quoted=True), *pieces(reader, node, state)], "\0")
    if len(many) == 1 and node.type == "process_substitution":
        return words(reader, node, state)[0]
    return many[0] if many else Word("")


def pieces(reader: Reader, node: Node, state: State, *, quoted: bool = False) -> list[Piece]:
    """The parts of a word."""
    text = _text(node)
    match node.type:
        case (
            "word"
            | "number"
            | "variable_name"
            | "extglob_pattern"
            | "regex"
            | "test_operator"
            | "special_variable_name"
        ):
            if "`" in text.replace("\\`", "") or "$(" in text:
                return [_unparsed(reader, text, state)]
            return [Piece(unescape(text) if not quoted else text)]
        case "raw_string":
            return [Piece(text[1:-1], is_quoted=True)]
        case "ansi_c_string":
            return [Piece(ansi_c(text[2:-1]), is_quoted=True)]
        case "string":
            return [Piece("", is_quoted=True), *_spanning(reader, node, state, start=1, end=1)]
        case "translated_string" | "concatenation" | "command_name":
            return [
                part
                for child in node.children
                if child.type != "$"
                for part in pieces(reader, child, state, quoted=quoted)
            ]
        case "simple_expansion" | "expansion":
            return _variable(reader, node, state, quoted=quoted)
        case "command_substitution":
            return [_substitution(reader, node, state, quoted=quoted)]
        case "process_substitution":
            out = _run_inside(reader, node, state)
            return [Piece("/dev/fd/63", True, out.kinds, content=out.text if out.text is not None else None)]
        case "arithmetic_expansion":
            substitutions(reader, node, state)
            return [Piece(text, False)]
        case "brace_expression":
            return [Piece(text)]
        case _:
            if node.is_named and node.type not in ("string_content", "heredoc_content"):
                reader.findings.name("opaque.syntax")
                substitutions(reader, node, state)
            return [Piece(unescape(text) if not quoted else text)]


def _unparsed(reader: Reader, text: str, state: State) -> Piece:
    """A part of an expansion that the grammar leaves unread although it has commands in it."""
    found = reader.parse_word(f'"{text}"', state)
    return Piece(text, False) if found is None else Piece(found.text, found.known, found.kinds, bare=found.bare)


def _spanning(reader: Reader, node: Node, state: State, *, start: int = 0, end: int = 0) -> list[Piece]:
    """The parts of a text with expansions in it; what lies between them is literal."""
    data, base = node.text or b"", node.start_byte
    found: list[Piece] = []
    at, stop = start, len(data) - end
    for child in node.named_children:
        if child.type not in EXPANSIONS - {"string", "word", "concatenation"}:
            continue
        low, high = child.start_byte - base, child.end_byte - base
        found.append(Piece(unescape_quoted(data[at:low].decode("utf-8", "replace")), is_quoted=True))
        found += pieces(reader, child, state, quoted=True)
        at = high
    return [*found, Piece(unescape_quoted(data[at:stop].decode("utf-8", "replace")), is_quoted=True)]


def _variable(reader: Reader, node: Node, state: State, *, quoted: bool) -> list[Piece]:
    text = _text(node)
    named = [child for child in node.named_children if child.type in ("variable_name", "special_variable_name")]
    name = _text(named[0]) if named else text.strip("${}")
    operator = next((child.type for child in node.children if child.type in (":-", "-", ":=", "=", ":?", "?")), "")
    plain = node.type == "simple_expansion" or text == f"${{{name}}}"
    value = _value(name, state)
    if value is not None and value.known and (plain or operator):
        return [Piece(value.text, True, value.kinds, splits=not quoted)]
    kinds = value.kinds if value is not None else NOTHING
    if name == "PATH" or plain:
        bare = value.bare if value is not None else ""
        return [Piece(text, False, kinds, bare=bare)]
    default = [child for child in node.named_children if child not in named]
    if operator in (":-", "-", ":=", "=") and default:
        parts = [part for child in default for part in pieces(reader, child, state, quoted=quoted)]
        inner, _ = bounded([part.text for part in parts])
        return [Piece(inner, False, kinds.union(*(part.kinds for part in parts)), bare=inner)]
    for child in default:
        if child.type in EXPANSIONS:
            pieces(reader, child, state, quoted=True)
    return [Piece(text, False, kinds)]


def _value(name: str, state: State) -> Word | None:
    """What a variable holds; None where nothing is known of it."""
    if name in state.variables:
        return state.variables[name]
    known = {"HOME": "~", "PWD": state.cwd, "TMPDIR": "/tmp", "IFS": " "}.get(name)  # noqa: S108  # what it is by custom
    if known is not None:
        return Word(known, known)
    if name in ("@", "*") and len(state.arguments) == 1:
        return state.arguments[0]
    if name.isascii() and name.isdigit() and 0 < int(name) <= len(state.arguments):
        return state.arguments[int(name) - 1]
    if name in _EMPTY_WHEN_ALONE and not state.arguments and state.depth == 0:
        return Word(f"${name}", "", False)
    if _SECRET_NAME.search(name):
        return Word(f"${name}", "", False, frozenset({"secret"}))
    return None


def _substitution(reader: Reader, node: Node, state: State, *, quoted: bool) -> Piece:
    out = _run_inside(reader, node, state)
    if out.text is not None:
        return Piece(out.text.rstrip("\n"), True, out.kinds, splits=not quoted)
    return Piece(_text(node), False, out.kinds | {"command"} if "plain" not in out.kinds else out.kinds)


def _run_inside(reader: Reader, node: Node, state: State) -> Out:
    inner, out = state.inner(), SILENT
    inner.depth += 1
    for child in node.named_children:
        if child.type == "file_redirect":
            out = reader._redirect(child, inner, SILENT) or out
        else:
            out = out.plus(reader.statement(child, inner, SILENT))
    return out


def assignment(reader: Reader, node: Node, state: State) -> tuple[str, Word]:
    """The name and the value of an assignment."""
    target, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    name = _text(target).partition("[")[0] if target is not None else ""
    if target is not None:
        substitutions(reader, target, state)
    if value is None:
        return name, Word("")
    if value.type == "array":
        parts = [one for child in value.named_children for one in words(reader, child, state)]
        state.arrays[name] = parts
        kinds = NOTHING.union(*(part.kinds for part in parts))
        return name, Word(f"${name}", "", False, kinds)
    found = word(reader, value, state)
    if "+=" in _text(node)[: len(name) + 3]:
        before = state.variables.get(name, Word("", "", False))
        text, is_whole = bounded([before.text, found.text])
        bare, _ = bounded([before.bare, found.bare])
        return name, Word(text, bare, is_whole and before.known and found.known, before.kinds | found.kinds)
    return name, found


def heredoc(reader: Reader, node: Node, state: State) -> Out:
    """What a heredoc gives to read."""
    start = next((_text(child) for child in node.named_children if child.type == "heredoc_start"), "")
    body = next((child for child in node.named_children if child.type == "heredoc_body"), None)
    if body is None:
        return SILENT
    text = _text(body)
    if any(char in start for char in "'\"\\") or ("$" not in text and "`" not in text):
        return Out(text)
    quoted = text.replace('"', '\\"')
    found = reader.parse_word(f'"{quoted}"', state)
    return Out(found.text if found.known else None, found.kinds) if found is not None else Out(None)


def substitutions(reader: Reader, node: Node, state: State) -> None:
    """Read the commands that stand inside an expression."""
    for child in node.named_children:
        if child.type in ("command_substitution", "process_substitution", "expansion"):
            pieces(reader, child, state)
        else:
            substitutions(reader, child, state)


def _below(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.named_children


_SETTING = (b"read", b"mapfile", b"readarray", b"printf")
"""Commands whose words may be names of variables."""


def assigned_in(node: Node) -> set[str]:
    """The variables that a part of the tree may set. What a command's words hold is run in other shells."""
    found, waiting = set[str](), [node]
    while waiting:
        below = waiting.pop()
        if below.type == "variable_assignment" and (name := below.child_by_field_name("name")) is not None:
            found.add(_text(name).partition("[")[0])
        elif below.type == "command":
            parts = below.named_children
            waiting += [part for part in parts if part.type == "variable_assignment"]
            if parts and parts[0].text in _SETTING:
                found |= {_text(part) for part in parts[1:] if part.type == "word"}
            continue
        waiting += below.named_children
    return found


def calls_in(node: Node) -> list[str]:
    """The names of the commands below a node, as they are written."""
    return [_text(below) for below in _below(node) if below.type == "command_name"]


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
