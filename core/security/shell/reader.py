"""Reads a command's syntax tree as bash would carry it out, and tells what it would do; it runs nothing.

Variables, `cd`, functions and what commands print are followed where they can be told; where they cannot, the part is
opaque, and never taken for safe. What is read is bounded in size, depth and number of commands. Never raises for any
text: what cannot be read is named in the Findings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from core.security.findings import Findings, TooMuch
from core.security.rules import names
from core.security.shell import expansion
from core.security.shell.words import SILENT, Out, Word, braces

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_BYTES = 64 * 1024
"""Of a command that is parsed; the rest of a longer one is opaque."""
MARGIN_BYTES = 8 * 1024
"""Texts within a command have four times its own size, and this, to be read; `eval "eval "eval ...` wants more."""
MAX_DEPTH = 10
"""Of commands within commands: `sh -c`, `eval`, functions, substitutions in texts."""
MAX_LINES = 50
"""Of a text with errors in it that are read one by one."""
MAX_NESTING = 50
"""Of the syntax tree."""
MAX_TURNS = 6
"""Of a loop over known words; of one over more, the variable is not known."""

_IFS = re.compile(rb"\$IFS(?!\w)")
"""Without braces, the grammar loses its dollar before a path."""
_CONTINUED = re.compile(r"(?<=[^\s\\])\\\n(?=\S)")
"""A line that goes on within a word."""
_BRACED = re.compile(r"(?:^|(?<=[;&|(\n{'\"]))[ \t]*\{[^\s{}()'\"]+,[^\s{}()'\"]*\}")
"""A command that is made by braces, `{rm,-rf,/}`, which the grammar does not know."""
_CONNECTIONS = re.compile(r"/dev/(?:tcp|udp)/([^/\s]+)/")
"""In a text that the grammar does not know whole, such as `exec 3<>/dev/tcp/...`."""


@dataclass(slots=True)
class State:
    """The shell at one point. A subshell gets a copy."""

    cwd: str | None
    """None where it cannot be told."""
    variables: dict[str, Word] = field(default_factory=dict)
    functions: dict[str, Node] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, list[Word]] = field(default_factory=dict)
    arguments: list[Word] = field(default_factory=list)
    depth: int = 0

    def inner(self) -> State:
        """A copy for a subshell."""
        return State(
            self.cwd,
            dict(self.variables),
            dict(self.functions),
            dict(self.aliases),
            dict(self.arrays),
            self.arguments,
            self.depth,
        )


@cache
def _parser() -> Parser:
    """Loaded at the first command: some milliseconds."""
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


class Reader:
    """Reads the commands of one action into its Findings."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.files: dict[str, Out] = {}
        """What earlier parts of the action have put into files."""
        self.programs: dict[str, str] = {}
        """Other names that earlier parts have given to programs."""
        self._nesting = 0
        self._left = MAX_BYTES

    def read(self, text: str, state: State, stdin: Out = SILENT) -> Out:
        """What a text does as a program of bash; what it prints."""
        data = text.encode("utf-8", "replace")
        if state.depth == 0:
            self._left = min(self._left, 4 * len(data) + MARGIN_BYTES)
        if len(data) > self._left or state.depth > MAX_DEPTH:
            self.findings.name("opaque.size")
            data = data[: self._left]
            if state.depth > MAX_DEPTH:
                return Out()
        self._left = max(0, self._left - len(data))
        if b"\0" in data:
            self.findings.name("opaque.syntax")
            data = data.replace(b"\0", b"")
        root = _parser().parse(_IFS.sub(b"${IFS}", data)).root_node
        if _CONTINUED.search(text):  # which the grammar takes for the end of a word
            below = state.inner()
            below.depth += 1
            self.read(_CONTINUED.sub("", text), below, stdin)
        if root.has_error:
            self.findings.name("opaque.syntax")
            for host in _CONNECTIONS.findall(text):
                self.findings.calling(host, "net.raw")
        try:
            if root.has_error and state.depth < MAX_DEPTH:
                if _BRACED.search(text):
                    below = state.inner()
                    below.depth += 1
                    self.read(_BRACED.sub(lambda found: " ".join(braces(found[0])), text), below, stdin)
                self._lines(text, state)
            return self.statement(root, state, stdin)
        except (TooMuch, RecursionError):
            self.findings.name("opaque.size")
            return Out()

    def _lines(self, text: str, state: State) -> None:
        """A text with errors in it, line by line: what can be read of it is only to make the verdict stricter."""
        lines = [line for line in text.split("\n") if line.strip()]
        for line in lines[:MAX_LINES] if len(lines) > 1 else []:
            below = state.inner()
            below.depth = MAX_DEPTH
            self.read(line, below)

    def parse_word(self, text: str, state: State) -> Word | None:
        """A text as one word of bash; None where it is none."""
        root = _parser().parse(f": {text}".encode("utf-8", "replace")).root_node
        command = root.named_children[0] if root.named_children else None
        if root.has_error or command is None or len(command.named_children) != 2:
            self.findings.name("opaque.syntax")
            return None
        return expansion.word(self, command.named_children[1], state)

    def inside(self, text: str, state: State, stdin: Out = SILENT) -> Out:
        """As `read`, for a text within the command: one level deeper, in a shell of its own."""
        below = state.inner()
        below.depth += 1
        return self.read(text, below, stdin)

    def here(self, text: str, state: State, stdin: Out = SILENT) -> Out:
        """As `inside`, in the same shell: `eval`, `source`, aliases."""
        state.depth += 1
        try:
            return self.read(text, state, stdin)
        finally:
            state.depth -= 1

    def statement(self, node: Node, state: State, stdin: Out) -> Out:
        """What a statement does; what it prints."""
        self._nesting += 1
        try:
            if self._nesting > MAX_NESTING:
                raise TooMuch
            method = _STATEMENTS.get(node.type)
            return method(self, node, state, stdin) if method else self._any(node, state, stdin)
        finally:
            self._nesting -= 1

    def run(self, words: Sequence[Word], state: State, stdin: Out) -> Out:
        """A simple command, after expansion."""
        from core.security.shell.programs import dispatch

        self.findings.count(len(words))
        return dispatch(self, list(words), state, stdin) if words else SILENT

    def path(self, word: Word, state: State) -> tuple[str, bool]:
        """The path that a word names, resolved where that can be told, and whether it was."""
        text = word.text.removeprefix("file://")
        resolved = self.findings.places.resolve(text, state.cwd)
        return (text, False) if resolved is None else (resolved, word.known)

    def call(self, name: str, args: Sequence[Word], state: State, stdin: Out) -> Out:
        """A function of the shell that is called."""
        before, state.arguments, state.depth = state.arguments, list(args), state.depth + 1
        try:
            if state.depth > MAX_DEPTH:
                raise TooMuch
            return self.statement(state.functions[name], state, stdin)
        finally:
            state.arguments, state.depth = before, state.depth - 1

    def _any(self, node: Node, state: State, stdin: Out) -> Out:
        """A sequence, or what has no meaning of its own here: its parts in order."""
        out = SILENT
        for child in node.named_children:
            if child.type in expansion.EXPANSIONS:
                expansion.words(self, child, state)
            elif child.type not in _SILENT_NODES:
                out = out.plus(self.statement(child, state, stdin))
        return out

    def _command(self, node: Node, state: State, stdin: Out) -> Out:
        words: list[Word] = []
        assigned: list[tuple[str, Word]] = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                assigned.append(expansion.assignment(self, child, state))
            elif child.type == "command_name":
                words += expansion.words(self, child.named_children[0], state) if child.named_children else []
            elif child.type == "herestring_redirect":
                stdin = self._stdin_of(child, state) or stdin
            elif child.type.endswith("_redirect"):
                stdin = self._redirect(child, state, SILENT) or stdin
            else:
                words += expansion.words(self, child, state)
        for name, value in assigned:
            self.assign(name, value, state)
        return self.run(words, state, stdin)

    def assign(self, name: str, value: Word, state: State) -> None:
        """A variable gets a value."""
        from core.security.shell.hooked import hooked

        state.variables[name] = value
        hooked(self, name, value, state)

    def _assignment(self, node: Node, state: State, stdin: Out) -> Out:
        self.assign(*expansion.assignment(self, node, state), state)
        return SILENT

    def _declaration(self, node: Node, state: State, stdin: Out) -> Out:
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._assignment(child, state, stdin)
            elif child.type in expansion.EXPANSIONS:
                expansion.words(self, child, state)
        if node.named_child_count == 0 or node.text in (b"export -p", b"declare -x", b"declare -p"):
            self.findings.name("secret.environment", (node.text or b"").decode("utf-8", "replace"))
            return Out(None, frozenset({"secret"}))
        return SILENT

    def _pipeline(self, node: Node, state: State, stdin: Out) -> Out:
        for child in node.named_children:
            stdin = self.statement(child, state.inner(), stdin)
        return stdin

    def _subshell(self, node: Node, state: State, stdin: Out) -> Out:
        return self._any(node, state.inner(), stdin)

    def _redirected(self, node: Node, state: State, stdin: Out) -> Out:
        body = node.child_by_field_name("body")
        redirects = [child for child in node.named_children if child.type.endswith("_redirect")]
        for redirect in redirects:
            stdin = self._stdin_of(redirect, state) or stdin
        out = self.statement(body, state, stdin) if body is not None else SILENT
        for redirect in redirects:
            if redirect.type == "file_redirect" and not any(child.type == "<" for child in redirect.children):
                self._redirect(redirect, state, out)
            if redirect.type == "heredoc_redirect":
                out = self._behind_heredoc(redirect, state, out)
        return out

    def _stdin_of(self, node: Node, state: State) -> Out | None:
        """What a redirection gives to read; None for one that writes."""
        if node.type == "heredoc_redirect":
            return expansion.heredoc(self, node, state)
        if node.type == "file_redirect" and any(child.type == "<" for child in node.children):
            return self._redirect(node, state, SILENT)
        if node.type == "herestring_redirect":
            word = expansion.word(self, node.named_children[-1], state)
            return Out(word.text if word.known else None, word.kinds)
        return None

    def _behind_heredoc(self, node: Node, state: State, out: Out) -> Out:
        """What stands on the line of a heredoc behind its mark."""
        for child in node.named_children:
            if child.type.startswith("heredoc") or child.type == "file_descriptor":
                continue
            if child.type == "pipeline":
                out = self._pipeline(child, state, out)
            elif child.type == "file_redirect":
                self._redirect(child, state, out)
            elif child.type in expansion.EXPANSIONS or child.type in ("word", "string", "concatenation"):
                self.findings.name("opaque.syntax")
                self._lines((node.text or b"").decode("utf-8", "replace"), state)
            else:
                out = self.statement(child, state, SILENT)
        return out

    def _redirect(self, node: Node, state: State, out: Out) -> Out | None:
        """A redirection to or from a file; what is read there, None for one that writes."""
        operator = next((child.type for child in node.children if not child.is_named), ">")
        targets = [child for child in node.named_children if child.type != "file_descriptor"]
        if not targets:
            return None
        word = expansion.word(self, targets[0], state)
        if operator in (">&", "<&") and (word.text.isdigit() or word.text == "-"):
            return None
        if word.content is not None or targets[0].type == "process_substitution":
            return Out(word.content, word.kinds) if operator == "<" else None
        from core.security.shell.files import open_device

        if open_device(self, word, state):
            return Out(None, frozenset({"remote"}))
        path, is_known = self.path(word, state)
        if operator == "<":
            is_secret = self.findings.reading(path, is_known=is_known)
            return self.files.get(path, Out(None, frozenset({"secret"} if is_secret else {"file"})))
        self.findings.writing(path, is_known=is_known)
        self.files[path] = out
        if operator == "<>":
            self.findings.reading(path, is_known=is_known)
        return None

    def _loop(self, node: Node, state: State, stdin: Out) -> Out:
        """A loop or a branch: what it may set is not known before it (in a loop) nor behind it."""
        names = expansion.assigned_in(node)
        if node.type in ("while_statement", "c_style_for_statement"):
            self._forget(names, state)
        out = self._any(node, state, stdin)
        self._forget(names, state)
        return Out(None, out.kinds)

    def _forget(self, names: set[str], state: State) -> None:
        for name in names:
            kinds = state.variables[name].kinds if name in state.variables else frozenset[str]()
            state.variables[name] = Word(f"${name}", "", False, kinds)

    def _for(self, node: Node, state: State, stdin: Out) -> Out:
        names, body = expansion.assigned_in(node), node.child_by_field_name("body")
        values = [
            word
            for child in node.children_by_field_name("value")
            for word in expansion.words(self, child, state)
        ]  # fmt: skip
        variable = node.child_by_field_name("variable")
        if variable is None or body is None:
            return self._any(node, state, stdin)
        name = (variable.text or b"").decode("utf-8", "replace")
        self._forget(names, state)
        if not values or len(values) > MAX_TURNS:
            kinds = frozenset[str]().union(*(value.kinds for value in values)) if values else frozenset()
            values = [*values[:2], Word(f"${name}", "", False, kinds)]
        out = SILENT
        for value in values:
            state.variables[name] = value
            out = out.plus(self.statement(body, state, stdin))
            self._forget(names, state)
        self._forget({*names, name}, state)
        return out

    def _function(self, node: Node, state: State, stdin: Out) -> Out:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is None or body is None:
            self.findings.name("opaque.syntax")
            return SILENT
        called = (name.text or b"").decode("utf-8", "replace")
        if expansion.calls_in(body).count(called) > 1:
            self.findings.name("machine.forkbomb", called)
        trial = state.inner()
        trial.depth += 1
        if trial.depth <= MAX_DEPTH:
            trial.arguments = [Word("$@", "", False)]
            self.statement(body, trial, SILENT)
        state.functions[called] = body
        return SILENT

    def _error(self, node: Node, state: State, stdin: Out) -> Out:
        self.findings.name("opaque.syntax")
        return self._any(node, state, stdin)

    def _test(self, node: Node, state: State, stdin: Out) -> Out:
        expansion.substitutions(self, node, state)
        return SILENT


_SILENT_NODES = names(
    "comment variable_name word number raw_string string_content file_descriptor test_operator extglob_pattern regex"
)
_STATEMENTS = {
    "command": Reader._command,
    "variable_assignment": Reader._assignment,
    "declaration_command": Reader._declaration,
    "pipeline": Reader._pipeline,
    "subshell": Reader._subshell,
    "redirected_statement": Reader._redirected,
    "while_statement": Reader._loop,
    "if_statement": Reader._loop,
    "case_statement": Reader._loop,
    "c_style_for_statement": Reader._loop,
    "for_statement": Reader._for,
    "function_definition": Reader._function,
    "test_command": Reader._test,
    "ERROR": Reader._error,
}
