"""Parser for bash commands: lists, pipelines, groups, loops, branches, redirections.

Functions, arrays, `case`, `select`, `coproc`, arithmetic and the rest raise NotUnderstoodError, and so does a text that
exceeds the limits.
"""

from __future__ import annotations

import re

from core.security.shell.scanner import Scanner
from core.security.shell.syntax import (
    Assignment,
    Background,
    Branches,
    Conditional,
    For,
    Group,
    Node,
    NotUnderstoodError,
    Pipeline,
    Redirect,
    Simple,
    Test,
    Word,
)

MAX_CHARS = 64 * 1024
"""Limit for one text; heredocs that write files are long."""
MAX_DEPTH = 12
MAX_COMMANDS = 150
"""Limit for one text, including its substitutions."""
MAX_WORDS = 500
"""Limit for one command; nobody writes a longer one by hand, and reading it takes long."""
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_SUBSCRIPT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[")
_RESERVED = re.compile(r"(?:[a-z]+|!|\{|\}|\[\[)(?=[\s;&|<>()]|$)")
_REDIRECT = re.compile(r"([0-9]*)(<<<|<<-|<<|<>|<&|>&|>>|>\||<|>|)(?!\()")
_BOTH = re.compile(r"&>>?")
_REFUSED = frozenset({"case", "function", "select", "coproc"})


def parse(text: str) -> tuple[Node, ...]:
    """Parse the commands of a text. Raises NotUnderstoodError."""
    if len(text) > MAX_CHARS:
        raise NotUnderstoodError(f"{len(text):,} characters", "too long")
    return Parser(text).whole()


class Parser(Scanner):
    """The parser of one text. `budget` holds the number of commands that may follow."""

    def __init__(self, text: str, depth: int = 0, budget: list[int] | None = None) -> None:
        super().__init__(text, depth)
        self.budget = budget if budget is not None else [MAX_COMMANDS]

    def whole(self) -> tuple[Node, ...]:
        """Parse the whole text."""
        found = self._list(frozenset())
        if self.at < len(self.text) or self.heredocs:
            raise self.fail(self.at, "no command can begin here")
        return found

    def commands_until(self, end: str) -> tuple[Node, ...]:
        waiting, self.heredocs = self.heredocs, []
        self.inside += 1
        found = self._list(frozenset({end}))
        self.inside -= 1
        if self.peek() != end or self.heredocs:
            raise self.fail(self.at, f"{end} is missing")
        self.at += 1
        self.heredocs = waiting
        return found

    def nested(self, text: str) -> tuple[Node, ...]:
        if self.depth >= MAX_DEPTH:
            raise NotUnderstoodError(text[:80], "nested too deeply")
        return Parser(text, self.depth + 1, self.budget).whole()

    # -- lists -----------------------------------------------------------------------------------------------------

    def _blanks(self) -> None:
        while True:
            if self.peek() and self.peek() in " \t":
                self.at += 1
            elif self.peek(2) == "\\\n" and self.text[self.at - 1 : self.at] in ("", " ", "\t", "\n"):
                self.at += 2
            elif self.peek() == "#":
                end = self.text.find("\n", self.at)
                self.at = end if end >= 0 else len(self.text)
            else:
                return

    def _lines(self) -> None:
        self._blanks()
        while self.peek() == "\n":
            self.newline()
            self._blanks()

    def _reserved(self) -> str:
        found = _RESERVED.match(self.text, self.at)
        return found[0] if found else ""

    def _list(self, ends: frozenset[str]) -> tuple[Node, ...]:
        """Parse commands up to one of `ends`, reserved words or characters, which are not consumed."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fail(self.at, "nested too deeply")
        found = list[Node]()
        while True:
            self._lines()
            if self.at >= len(self.text) or self._reserved() in ends or self.peek() in ends:
                break
            node = self._conditional()
            self._blanks()
            if self.peek() == "&" and self.peek(2) != "&&":
                self.at += 1
                node = Background(node)
            elif self.peek() == ";":
                self.at += 1
                if not self.inside and self.text[self.at :].strip() == "\\":  # bash would run a program of this name
                    self.at = len(self.text)
            elif self.peek() not in ("\n", "") and self.peek() not in ends:
                raise self.fail(self.at, "no command can begin here")
            found.append(node)
        self.depth -= 1
        return tuple(found)

    def _conditional(self) -> Node:
        node = self._pipeline()
        while True:
            self._blanks()
            operator = self.peek(2)
            if operator not in ("&&", "||"):
                return node
            self.at += 2
            self._lines()
            node = Conditional(node, self._pipeline(), operator == "&&")

    def _pipeline(self) -> Node:
        while self._reserved() in ("!", "time"):
            self.at += len(self._reserved())
            self._blanks()
            if self.peek(3) == "-p ":
                self.at += 3
                self._blanks()
        commands = [self._command()]
        while True:
            self._blanks()
            if self.peek() != "|" or self.peek(2) == "||":
                break
            self.at += 2 if self.peek(2) == "|&" else 1
            self._lines()
            commands.append(self._command())
        return commands[0] if len(commands) == 1 else Pipeline(tuple(commands))

    # -- commands --------------------------------------------------------------------------------------------------

    def _command(self) -> Node:
        self.budget[0] -= 1
        if self.budget[0] < 0:
            raise self.fail(self.at, "too many commands")
        word = self._reserved()
        if word in _REFUSED or self.peek(2) == "((":
            raise self.fail(self.at, "this kind of command")
        if self.peek() == "(":
            self.at += 1
            return Group(self.commands_until(")"), self._redirects(), is_subshell=True)
        read = {"{": self._group, "if": self._if, "while": self._while, "until": self._while, "for": self._for,
                "[[": self._test}.get(word)  # fmt: skip
        if read is None:
            return self._simple()
        self.at += len(word)
        return read()

    def _expect(self, word: str) -> None:
        self._lines()
        if self._reserved() != word:
            raise self.fail(self.at, f"{word} is missing")
        self.at += len(word)

    def _body(self, *ends: str) -> tuple[Node, ...]:
        found = self._list(frozenset(ends))
        if not found:
            raise self.fail(self.at, "a command is missing")
        return found

    def _group(self) -> Node:
        body = self._body("}")
        self._expect("}")
        return Group(body, self._redirects(), is_subshell=False)

    def _if(self) -> Node:
        bodies = [self._body("then")]
        self._expect("then")
        bodies.append(self._body("else", "elif", "fi"))
        while self._reserved() == "elif":
            self.at += 4
            bodies.append(self._body("then"))
            self._expect("then")
            bodies.append(self._body("else", "elif", "fi"))
        if self._reserved() == "else":
            self.at += 4
            bodies.append(self._body("fi"))
        self._expect("fi")
        return Branches(tuple(bodies), self._redirects())

    def _while(self) -> Node:
        condition = self._body("do")
        self._expect("do")
        body = self._body("done")
        self._expect("done")
        return Branches((condition, body), self._redirects(), loops=True)

    def _for(self) -> Node:
        self._blanks()
        start = self.at
        name = self.word().literal or ""
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise self.fail(start, "the variable of a loop")
        self._expect("in")
        words = list[Word]()
        self._blanks()
        while self.peek() not in (";", "\n"):
            words.append(self.word())
            self._blanks()
        if self.peek() == ";":
            self.at += 1
        self._expect("do")
        body = self._body("done")
        self._expect("done")
        return For(name, tuple(words), body, self._redirects())

    def _test(self) -> Node:
        words = list[Word]()
        while True:
            self._lines()
            if self._reserved() == "" and re.match(r"\]\](?=[\s;&|<>()]|$)", self.text[self.at : self.at + 3]):
                self.at += 2
                return Test(tuple(words), self._redirects())
            if self.peek(2) in ("&&", "||"):
                self.at += 2
                continue
            words.append(self.word())

    # -- simple commands and redirections --------------------------------------------------------------------------

    def _simple(self) -> Node:
        start, assignments, words, redirects = self.at, list[Assignment](), list[Word](), list[Redirect]()
        while True:
            self._blanks()
            if (redirect := self._redirect()) is not None:
                redirects.append(redirect)
            elif not self.peek() or self.peek() in "\n;&|)":
                break
            elif not words and _SUBSCRIPT.match(self.text, self.at):
                raise self.fail(self.at, "a subscript")
            elif not words and (found := _ASSIGNMENT.match(self.text, self.at)):
                assignments.append(self._assignment(found))
            elif len(words) == MAX_WORDS:
                raise self.fail(self.at, f"more than {MAX_WORDS} words")
            else:
                words.append(self.word())
        if not (assignments or words or redirects):
            raise self.fail(start, "a command is missing")
        return Simple(tuple(assignments), tuple(words), tuple(redirects), self.text[start : self.at].strip())

    def _assignment(self, found: re.Match[str]) -> Assignment:
        start, self.at = self.at, found.end()
        if self.peek() == "(":
            raise self.fail(start, "an array")
        is_empty = not self.peek() or self.peek() in " \t\n;&|<>)"
        value = Word((), "") if is_empty else self.word()
        return Assignment(found[1], value, bool(found[2]))

    def _redirects(self) -> tuple[Redirect, ...]:
        found = list[Redirect]()
        while True:
            self._blanks()
            if (redirect := self._redirect()) is None:
                return tuple(found)
            found.append(redirect)

    def _redirect(self) -> Redirect | None:
        start = self.at
        if both := _BOTH.match(self.text, self.at):
            fd, operator, self.at = "", both[0], both.end()
        else:
            found = _REDIRECT.match(self.text, self.at)
            if found is None or not found[2]:
                return None
            fd, operator, self.at = found[1], found[2], found.end()
        if start and self.text[start - 1] == "}" and not fd:
            raise self.fail(start - 1, "a redirection after }")
        self._blanks()
        target = self.word()
        redirect = Redirect(operator, target, fd)
        if operator in ("<<", "<<-"):
            mark = target.literal
            if mark is None:
                raise self.fail(start, "the delimiter of a heredoc")
            self.heredocs.append((redirect, mark, not target.is_bare, operator == "<<-"))
        elif operator == "<<<":
            redirect.body = target
        return redirect
