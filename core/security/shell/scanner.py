"""Scanner for the words of bash: quotes, expansions, heredocs. The base of the parser.

Every form that is not supported raises NotUnderstoodError with its text. Nothing is evaluated.
"""

from __future__ import annotations

import re

from core.security.shell.syntax import Node, NotUnderstoodError, Piece, Redirect, Substitution, Text, Variable, Word

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ENDS_WORD = frozenset(" \t\n;&|<>()")
_DEFAULT = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(:?-)")
_BRACED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*|[0-9?#$!])\}")
_CHANGED = re.compile(
    r"\$\{#?([A-Za-z_][A-Za-z0-9_]*)(?:\[[@*0-9]+\])?"
    r"(?:(?:##?|%%?|//?|\^\^?|,,?)[^{}$`'\"\\\n()<>]*|:[0-9]+(?::[0-9]+)?)?\}"
)
"""Expansions that compute a text without side effects."""
_SPECIAL = frozenset("?#$!@*-0123456789")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
"""Control characters, and Unicode whitespace, which bash does not treat as whitespace."""
SHOWN = 120
"""Characters that are shown of a part that is not understood."""


class Scanner:
    """Scans words; Parser derives from it."""

    def __init__(self, text: str, depth: int = 0) -> None:
        if found := _CONTROL.search(text):
            raise NotUnderstoodError(repr(found[0]), "a control character or unusual whitespace")
        self.text = text
        self.at = 0
        self.depth = depth
        self.inside = 0
        """The number of open parentheses."""
        self.heredocs: list[tuple[Redirect, str, bool, bool]] = []
        """Heredocs whose bodies begin after the next newline: redirect, delimiter, is it quoted, is it `<<-`."""

    def commands_until(self, end: str) -> tuple[Node, ...]:
        """Parse commands up to a closing character, and consume that."""
        raise NotImplementedError

    def nested(self, text: str) -> tuple[Node, ...]:
        """Parse another text, one level deeper."""
        raise NotImplementedError

    def peek(self, length: int = 1) -> str:
        """The next characters."""
        return self.text[self.at : self.at + length]

    def fail(self, start: int, why: str) -> NotUnderstoodError:
        """Make the exception for the text from `start` on."""
        return NotUnderstoodError(self.text[start : start + SHOWN].strip() or "the end", why)

    # -- words -----------------------------------------------------------------------------------------------------

    def word(self) -> Word:
        """Scan one word. Raises NotUnderstoodError."""
        start, pieces = self.at, list[Piece]()
        while self.at < len(self.text):
            here = self.text[self.at]
            if here in "<>" and self.peek(2) in ("<(", ">("):
                pieces.append(self._process())
            elif here in _ENDS_WORD:
                break
            elif here == "\\":
                self._escaped(pieces)
            elif here == "'":
                pieces.append(self._single())
            elif here == '"':
                self.at += 1
                pieces += self._double('"')
            elif here in "$`":
                pieces.append(self._dollar(quoted=False))
            else:
                end = self.at
                while end < len(self.text) and self.text[end] not in _ENDS_WORD and self.text[end] not in "\\'\"$`":
                    end += 1
                pieces.append(Text(self.text[self.at : end]))
                self.at = end
        if self.at == start:
            raise self.fail(start, "a word is missing")
        if self.peek() == "(":
            raise self.fail(start, "a function, an array or an extended glob")
        return Word(tuple(pieces), self.text[start : self.at])

    def _escaped(self, pieces: list[Piece]) -> None:
        if self.at + 1 >= len(self.text):
            raise self.fail(self.at, "nothing after the backslash")
        if self.text[self.at + 1] == "\n":
            raise self.fail(self.at - 1, "a line continuation within a word")
        pieces.append(Text(self.text[self.at + 1], quoted=True))
        self.at += 2

    def _single(self) -> Text:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise self.fail(self.at, "an unclosed quote")
        text = self.text[self.at + 1 : end]
        self.at = end + 1
        return Text(text, quoted=True)

    def _double(self, close: str) -> list[Piece]:
        """Scan up to a closing quote, or up to the end if `close` is empty (a heredoc)."""
        start, pieces, literal = self.at, list[Piece](), list[str]()
        special = "$`\\" + close
        while True:
            if self.at >= len(self.text):
                if close:
                    raise self.fail(start - 1, "an unclosed quote")
                break
            here = self.text[self.at]
            if here == close:
                self.at += 1
                break
            if self.peek(2) == "\\\n":
                if not close or self.text[self.at - 1] not in " \t":
                    raise self.fail(self.at - 1, "a line continuation within a word")
                self.at += 2
            elif here == "\\" and self.peek(2)[1:] in ("$", "`", "\\", close or "$"):
                literal.append(self.text[self.at + 1])
                self.at += 2
            elif here in "$`":
                piece = self._dollar(quoted=True)
                pieces += [Text("".join(literal), quoted=True), piece] if literal else [piece]
                literal.clear()
            else:
                end = self.at + 1
                while end < len(self.text) and self.text[end] not in special:
                    end += 1
                literal.append(self.text[self.at : end])
                self.at = end
        return [*pieces, Text("".join(literal), quoted=True)]

    def _dollar(self, *, quoted: bool) -> Piece:
        start = self.at
        if self.peek() == "`":
            return self._backticks(quoted=quoted)
        behind = self.text[self.at + 1 : self.at + 2]
        if behind == "(":
            if self.peek(3) == "$((":
                raise self.fail(start, "arithmetic")
            self.at += 2
            body = self.commands_until(")")
            return Substitution(body, self.text[start : self.at], quoted)
        if behind == "{":
            return self._braced(quoted=quoted)
        if found := _NAME.match(self.text, self.at + 1):
            self.at = found.end()
            return Variable(found[0], quoted)
        if behind and behind in _SPECIAL:
            self.at += 2
            return Variable(behind, quoted)
        if behind in ('"', "[", "'") and not quoted:
            raise self.fail(start, "an expansion")
        if behind == "[":
            raise self.fail(start, "arithmetic")
        self.at += 1
        return Text("$", quoted=True)

    def _braced(self, *, quoted: bool) -> Variable:
        start = self.at
        if found := _BRACED.match(self.text, self.at):
            self.at = found.end()
            return Variable(found[1], quoted)
        if found := _CHANGED.match(self.text, self.at):
            self.at = found.end()
            return Variable(found[1], quoted, is_changed=True)
        found = _DEFAULT.match(self.text, self.at)
        if found is None:
            raise self.fail(start, "an expansion")
        self.at = found.end()
        begin, end = self.at, self.text.find("}", self.at)
        inside = self.text[begin:end]
        if end < 0 or any(mark in inside for mark in "'\"\\`${\n"):
            raise self.fail(start, "the default value is not plain text")
        self.at = end + 1
        return Variable(found[1], quoted, Word((Text(inside, quoted=True),), inside))

    def _backticks(self, *, quoted: bool) -> Substitution:
        start, end = self.at, self.text.find("`", self.at + 1)
        inside = self.text[start + 1 : end]
        if end < 0 or "\\" in inside or "<<" in inside or (quoted and re.search(r"['\"]", inside)):
            raise self.fail(start, "unclosed backticks, or backticks with quotes in them")
        self.at = end + 1
        return Substitution(self.nested(inside), self.text[start : self.at], quoted)

    def _process(self) -> Substitution:
        start = self.at
        self.at += 2
        body = self.commands_until(")")
        return Substitution(body, self.text[start : self.at], is_file=True)

    # -- heredocs --------------------------------------------------------------------------------------------------

    def newline(self) -> None:
        """Consume a newline and the bodies of pending heredocs."""
        self.at += 1
        waiting, self.heredocs = self.heredocs, []
        for redirect, mark, is_quoted, strips in waiting:
            start, lines = self.at, list[str]()
            while True:
                if self.at >= len(self.text):
                    raise self.fail(start, "an unclosed heredoc")
                end = self.text.find("\n", self.at)
                line = self.text[self.at : end if end >= 0 else len(self.text)]
                self.at = end + 1 if end >= 0 else len(self.text)
                line = line.lstrip("\t") if strips else line
                if line == mark:
                    break
                if self.inside and line.lstrip().startswith(mark):
                    raise self.fail(start, "the heredoc may end early")
                lines.append(line + "\n")
            body = "".join(lines)
            redirect.body = Word((Text(body, quoted=True),) if is_quoted else self._expanded(body), body)

    def _expanded(self, body: str) -> tuple[Piece, ...]:
        inner = type(self)(body, self.depth + 1)
        return tuple(inner._double(""))  # of this class
