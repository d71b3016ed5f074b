"""Analysis of the commands of an action: an abstract interpretation of the syntax tree.

Every branch is analysed, and loops until the state of the shell no longer changes, within limits. Nothing is run.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from core.security.findings import Findings
from core.security.shell.builtins import BUILTINS, check_test
from core.security.shell.expansion import Value, expand, joined
from core.security.shell.parser import parse
from core.security.shell.program_call import Call, Input
from core.security.shell.program_table import Arguments, Row, apply, match_arguments
from core.security.shell.programs import HANDLERS, PROGRAMS, SUBCOMMANDS
from core.security.shell.shell_state import Shell, changes_shell, is_harmless, may_be_exported
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
    Substitution,
    Test,
    Word,
)

_KEEPS_OUTPUT = frozenset(["python", "python3", "pip", "pytest"])
MAX_DEPTH = 8
"""Limit for commands that run commands."""
_PROGRAMS_TOO = frozenset(["[", "echo", "false", "kill", "printf", "pwd", "test", "true"])
"""Builtins that are programs as well. None of them changes the state of the shell."""
_INFORMS = frozenset(["--version", "-V", "-v", "--help", "-h", "--list"])
MAX_WORDS = 20
"""Words of a loop that are analysed one by one."""
MAX_ROUNDS = 8
"""Rounds of a loop until the state of the shell no longer changes."""
_BINARIES = frozenset(["/bin", "/usr/bin", "/sbin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin",
                       "/opt/homebrew/bin"])  # fmt: skip
_MAKE_VARIABLE = re.compile(r"\$\((?!(?:GET|HEAD|POST|FTP|X11|MAKE.*)\))[A-Z][A-Z0-9_]{2,}\)")
"""A variable of a Makefile, as in `echo "$(GREEN)done$(RESET)"`, which a shell takes for a command. Debian 12 has 39
programs with names in capital letters (apt-file); those here do nothing without arguments."""
_HAS_CASE = sys.platform != "darwin"
"""Whether CAT is another program than cat."""
_HARMLESS_OUTPUT = re.compile(r"uname(?: -[mrs])?|arch")
_FILTER = re.compile(
    r"tee\s[^<]*|(?:head|tail|sort|uniq|wc|grep(?:\s+-\w+)*\s+[^\s<-]\S*)(?:\s+-[\w=]+)*(?:\s+\d+)?\s*(?:[12]?>[^<]*)?"
)
"""Commands that pass on their input, and read no file."""
_DIGITS = re.compile(r"nproc|id -[ug]|date \+'?%[YmdHMSsF](?:[-_:]?%[YmdHMSsFT])*'?")
"""Commands whose output begins with a digit, and has only digits, dashes and colons."""


def _saves_output(command: Node, other: Node) -> bool:
    """Whether `other` writes only what a program prints, as in `make | tee build.txt`."""
    return isinstance(command, Simple) and isinstance(other, Simple) and _FILTER.fullmatch(other.source) is not None


class Reader:
    """Analyses one action, and reports to its findings."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self._substitutions = 0

    def read(self, text: str, shell: Shell) -> Shell:
        """Analyse a text as the next command of a shell; returns the state of the shell afterwards."""
        if shell.lost:
            self.findings.not_understood(text, f"nothing is known of the shell after: {shell.lost}")
        return self.read_nested(text, shell.without_values() if shell.may_end else shell, 0)

    def read_nested(self, text: str, shell: Shell, depth: int) -> Shell:
        """As `read`, for commands within another command."""
        if depth > MAX_DEPTH:
            self.findings.not_understood(text[:80], "nested too deeply")
            return shell
        try:
            nodes = parse(text)
        except NotUnderstoodError as problem:
            self.findings.not_understood(problem.part, problem.why)
            return replace(shell, lost=problem.part)
        return self._all(nodes, shell, Input(), depth)

    def _all(self, nodes: Sequence[Node], shell: Shell, stdin: Input, depth: int) -> Shell:
        for node in nodes:
            after = self._node(node, shell, stdin, depth)
            if after.folders and after.folders != shell.folders:  # a folder may not be there
                after = after.at((*after.folders, *shell.folders))
            shell = after
        return shell

    def _node(self, node: Node, shell: Shell, stdin: Input, depth: int) -> Shell:
        try:
            if not self.findings.count_command():
                raise NotUnderstoodError("too many commands")
            if not isinstance(node, Simple):
                return self._compound(node, shell, stdin, depth)
            after = self._simple(node, shell, stdin, depth)
            if after.written != shell.written and re.search(r"[<>]\(", node.source):  # that runs at the same time
                self._simple(node, shell.after_subshell(after), stdin, depth)
            return after
        except NotUnderstoodError as problem:
            self.findings.not_understood(problem.part, problem.why)
            return replace(shell, lost=shell.lost or problem.part)

    def _compound(self, node: Node, shell: Shell, stdin: Input, depth: int) -> Shell:
        match node:
            case Pipeline():
                return self._pipeline(node, shell, stdin, depth)
            case Conditional():
                first = self._node(node.first, shell, stdin, depth)
                start = first if node.is_and else first.merged(shell)
                return self._node(node.second, start, stdin, depth).merged(first).merged(shell)
            case Background(body=body):
                after = shell.after_subshell(self._node(body, shell, stdin, depth))
                runs = not {"run.project", "run.elsewhere"}.isdisjoint(self.findings.rules)
                return replace(after, runs_behind=shell.runs_behind or runs)
            case Group():
                given = self._redirected(node.redirects, shell, stdin, depth)
                inner = self._all(node.body, given[0], given[1], depth)
                return shell.after_subshell(inner) if node.is_subshell else inner
            case Branches():
                return self._branches(node, shell, stdin, depth)
            case For():
                return self._for(node, shell, stdin, depth)
            case Test():
                return self._test(node, shell, stdin, depth)
            case _:
                raise NotUnderstoodError(str(type(node).__name__))

    def _pipeline(self, node: Pipeline, shell: Shell, stdin: Input, depth: int) -> Shell:
        before, inner, ended = shell, shell, list[tuple[Node, Input, frozenset[str]]]()
        for command in node.commands:
            fetched = {"net.fetch"} & self.findings.rules.keys()
            inner = self._node(command, shell, stdin, depth)
            ended.append((command, stdin, inner.written - shell.written))
            shell = shell.after_subshell(inner)
            is_remote = stdin.is_remote or (not fetched and "net.fetch" in self.findings.rules)
            stdin = Input(None, is_given=True, is_remote=is_remote)
        for at, (command, given, _) in enumerate(ended):  # all of them run at the same time
            written = [path for other, _, made in ended[at + 1 :] for path in made if not _saves_output(command, other)]
            if written:
                self._node(command, before.with_written(*written), given, depth)
        return before.merged(inner).after_subshell(inner)  # lastpipe may be set

    # -- branches and loops ----------------------------------------------------------------------------------------

    def _branches(self, node: Branches, shell: Shell, stdin: Input, depth: int) -> Shell:
        shell, stdin = self._redirected(node.redirects, shell, stdin, depth)

        def once(start: Shell) -> Shell:
            for body in node.bodies:  # each body may run after any other
                start = start.merged(self._all(body, start, stdin, depth))
            return start

        return self._repeated(once, shell) if node.loops else once(shell)

    def _for(self, node: For, shell: Shell, stdin: Input, depth: int) -> Shell:
        values = self._values(node.words, shell, depth)
        shell = self.assign(node.name, None, "...", shell)
        shell, stdin = self._redirected(node.redirects, shell, stdin, depth)
        texts = dict.fromkeys(None if value.is_glob and value.start[:1] in "*?[-" else value.text for value in values)
        if len(texts) > MAX_WORDS:
            texts = {None: None}

        def once(start: Shell) -> Shell:
            for text in texts:
                start = start.merged(self._all(node.body, start.with_variable(node.name, text), stdin, depth))
            return start

        return self._repeated(once, shell)

    def _repeated(self, once: Callable[[Shell], Shell], shell: Shell) -> Shell:
        """The state after a loop. Raises NotUnderstoodError if it does not converge."""
        for _ in range(MAX_ROUNDS):
            after = shell.merged(once(shell))
            if after == shell or after.lost:
                return after
            shell = after
        raise NotUnderstoodError("a loop", "each iteration changes the shell")

    def _test(self, node: Test, shell: Shell, stdin: Input, depth: int) -> Shell:
        try:
            shell, _ = self._redirected(node.redirects, shell, stdin, depth)
            values = [joined(word, shell, self._home, lambda one: self._output(one, shell, depth), assigned=True)
                      for word in node.words]  # fmt: skip
            check_test(values)
        except NotUnderstoodError as problem:
            self.findings.not_understood(problem.part, problem.why or "a test")
        return shell

    # -- simple commands -------------------------------------------------------------------------------------------

    def _simple(self, node: Simple, shell: Shell, stdin: Input, depth: int) -> Shell:
        is_ours = not node.words
        try:
            after, stdin = self._redirected(node.redirects, shell, stdin, depth)
            assigned = [(one, self._assigned(one, after, depth)) for one in node.assignments]
            if not node.words:
                for one, value in assigned:
                    after = self.assign(one.name, None if one.appends else value, one.value.source, after)
                return after
            values = self._values(node.words, after, depth)
            is_ours = not values or values[0].text is None or values[0].text in BUILTINS
            prefix = "".join(f"{one.name}={one.value.source} " for one, _ in assigned)
            for one, value in assigned:
                if not is_harmless(one.name, value.text):
                    raise NotUnderstoodError(
                        f"{one.name}={one.value.source}", "the variable may change what programs do"
                    )
                after = after.with_variable(one.name, None)  # scripts that the command runs see it
            if not values:
                raise NotUnderstoodError(node.source, "no program")
            if values[0].text in _KEEPS_OUTPUT:  # what it prints is no code that it runs
                done = self.call(
                    values, replace(after, written=shell.written), stdin, node.source, depth, prefix=prefix
                )
                return replace(done, written=done.written | after.written)
            return self.call(values, after, stdin, node.source, depth, prefix=prefix)
        except NotUnderstoodError as problem:
            self.findings.not_understood(problem.part, problem.why)
            return replace(shell, lost=shell.lost or " ".join(node.source.split())[:80]) if is_ours else shell

    def call(  # noqa: PLR0917  # the parts of one call
        self, values: Sequence[Value], shell: Shell, stdin: Input, source: str, depth: int,
        folder: tuple[str, ...] | None = None, prefix: str = "", *, as_program: bool = False,
    ) -> Shell:  # fmt: skip
        """Analyse one program with its arguments. Raises NotUnderstoodError.

        `as_program` says that another program starts it, which cannot start a builtin of the shell.
        """
        if depth > MAX_DEPTH or not self.findings.count_command():
            raise NotUnderstoodError(source, "nested too deeply")
        first = values[0]
        if first.text is None or first.is_glob or not first.text:
            raise NotUnderstoodError(first.shown or source, "the program is unknown")
        call = Call(first.text, values[1:], self, shell, stdin, source, depth, folder)
        name = call.name = self._name(call, first)
        words = [name if "/" not in first.text else first.text, *(value.shown for value in values[1:])]
        self.findings.add(self.findings.commands, prefix + " ".join(words))
        if prefix or "/" in first.text:
            self.findings.add(self.findings.spellings, " ".join([name, *words[1:]]))
        if handler := BUILTINS.get(name):
            if name not in _PROGRAMS_TOO and (as_program or "/" in first.text):
                raise NotUnderstoodError(first.text, "a builtin of the shell and no program")
            handler(call)
            return call.shell
        if shell.environment:
            raise NotUnderstoodError(source, f"run with {shell.environment}")
        if "/" not in first.text and shell.may_have_written_program(name):
            call.report("run.written")
        row = PROGRAMS.get(name)
        if row is None:
            self._unknown(call, first)
        else:
            self.by_row(call, row, call.args)
        return call.shell

    def by_row(self, call: Call, row: Row, args: Sequence[Value]) -> None:
        """Analyse a call by its row of the table. Raises NotUnderstoodError."""
        arguments = match_arguments(call, row, args)
        if not call.spelled:
            call.spelled.append(call.name)
        handler = HANDLERS[row.handler] if row.handler else None
        if row.operands and row.operands[-1].startswith("@"):
            apply(call, row, Arguments(arguments.options))
            if handler:
                handler(call, arguments)
            if arguments.options and not arguments.operands and all(name in _INFORMS for name, _ in arguments.options):
                return
            self._subcommand(call, row.operands[-1][1:], [value for _, value in arguments.operands])
            return
        apply(call, row, arguments)
        if handler:
            handler(call, arguments)

    def _subcommand(self, call: Call, table: str, operands: list[Value]) -> None:
        found = SUBCOMMANDS[table]
        verb = operands[0].text if operands else ""
        if verb is None or (operands and operands[0].is_glob):
            raise call.fail(operands[0], f"a subcommand of {call.name}")
        row = found.get(verb or "-")
        if row is None:
            raise call.fail(operands[0] if operands else None, f"a subcommand of {call.name}")
        call.spelled.append(verb)
        self.findings.add(self.findings.spellings, " ".join([*call.spelled, *(v.shown for v in operands[1:])]))
        self.by_row(call, row, operands[1:])

    def _name(self, call: Call, first: Value) -> str:
        """The name in the table; the path of a program outside the usual folders."""
        text = first.text or ""
        if "/" not in text:
            return text
        for path in call.paths(first):
            if posixpath.dirname(path) not in _BINARIES or call.shell.wrote(path):
                return path
        return posixpath.basename(text)

    def _unknown(self, call: Call, first: Value) -> None:
        """A program that is not in the table; a path with the name of a known program is analysed as that, too."""
        name = posixpath.basename(call.name)
        if any(value.text is None and (value.is_foreign or value.is_many) for value in call.args):
            raise call.fail(None, "an unknown program")
        if "/" in call.name:
            call.runs(first)
            if row := PROGRAMS.get(name):
                self.by_row(call, row, call.args)
                return
        call.passes_arguments(call.args)
        if "/" not in call.name or posixpath.dirname(call.name).endswith("bin") or name in BUILTINS:
            call.report("program.unknown", call.name)

    # -- variables, redirections, substitutions --------------------------------------------------------------------

    @property
    def _home(self) -> str:
        return self.findings.places.home

    def _assigned(self, one: Assignment, shell: Shell, depth: int) -> Value:
        if "{" in one.value.source and "," in one.value.source and one.value.is_bare:
            raise NotUnderstoodError(one.value.source, "braces")
        return joined(one.value, shell, self._home, lambda sub: self._output(sub, shell, depth), assigned=True)

    def assign(self, name: str, value: Value | None, source: str, shell: Shell, *, exports: bool = False) -> Shell:
        """The state with a variable set; None for an unknown value. Raises NotUnderstoodError."""
        if changes_shell(name):
            raise NotUnderstoodError(f"{name}={source}", "a special variable of the shell")
        text = value.text if value is not None else None
        if (exports or may_be_exported(name)) and not is_harmless(name, text) and not shell.environment:
            shell = replace(shell, environment=f"{name}={source}"[:100])
        return shell.with_variable(name, text)

    def _values(self, words: Sequence[Word], shell: Shell, depth: int) -> list[Value]:
        def run(one: Substitution) -> Value:
            return self._output(one, shell, depth)

        return [value for word in words for value in expand(word, shell, self._home, run)]

    def _output(self, one: Substitution, shell: Shell, depth: int) -> Value:
        """Analyse the commands of a substitution; returns what is known of their output."""
        self._substitutions += 1
        if depth >= MAX_DEPTH or self._substitutions > 200:
            raise NotUnderstoodError(one.source, "nested too deeply")
        if _MAKE_VARIABLE.fullmatch(one.source) and not shell.written and _HAS_CASE:
            return Value(None, one.source, is_foreign=True, is_many=True)
        before = len(self.findings.unknown)
        self._all(one.body, shell, Input(), depth + 1)
        if one.is_file:
            return Value(None, one.source, prefix="/dev/fd/", is_process=True)
        command = one.body[0].source if len(one.body) == 1 and isinstance(one.body[0], Simple) else ""
        if command == "pwd" and len(shell.folders) == 1:
            return Value(shell.folders[0], one.source)
        if len(self.findings.unknown) == before and _HARMLESS_OUTPUT.fullmatch(command):
            return Value(None, one.source)
        if len(self.findings.unknown) == before and _DIGITS.fullmatch(command):
            return Value(None, one.source, prefix="0", is_number=True)
        return Value(None, one.source, is_foreign=True, is_many=True)

    def _redirected(self, redirects: Sequence[Redirect], shell: Shell, stdin: Input, depth: int) -> tuple[Shell, Input]:
        """The state and the standard input after redirections. Raises NotUnderstoodError."""
        start = shell

        def run(substitution: Substitution) -> Value:
            return self._output(substitution, start, depth)

        for one in redirects:
            into = one.fd or ("0" if one.operator.startswith("<") else "1")
            if one.operator.startswith("<") and into != "0":
                raise NotUnderstoodError(f"{one.fd}{one.operator}{one.target.source}", "a redirection")
            if one.body is not None:
                value = joined(one.body, shell, self._home, run, assigned=True)
                stdin = Input(value.text, is_given=True)
                continue
            if one.operator in ("<&", ">&") and (one.target.literal or "") in ("-", "0", "1", "2"):
                if into == "0" and one.target.literal not in ("-", "0"):
                    raise NotUnderstoodError(f"{one.fd}{one.operator}{one.target.source}", "a redirection")
                continue
            if one.operator == ">&" and (one.fd or (one.target.literal or "0").isdigit()):
                raise NotUnderstoodError(f"{one.fd}>&{one.target.source}", "a redirection")
            values = list(expand(one.target, shell, self._home, run))
            if len(values) != 1 or values[0].is_glob or one.operator in ("<&", "<>"):
                raise NotUnderstoodError(f"{one.operator}{one.target.source}", "a redirection")
            if one.fd not in ("", "0", "1", "2"):
                raise NotUnderstoodError(f"{one.fd}{one.operator}{one.target.source}", "a redirection")
            call = Call("", (), self, shell, stdin, f"{one.operator} {one.target.source}", depth)
            if values[0].text is not None and values[0].text.startswith(("/dev/tcp/", "/dev/udp/")):
                self.findings.call_host(values[0].text.split("/")[3], "net.raw", values[0].text)
            elif one.operator == "<":
                if values[0].is_process:
                    stdin = Input(None, is_given=True)
                    continue
                call.reads(values[0])
                stdin = Input(None, is_given=True)
            else:
                call.writes(values[0])
                if one.operator in {">", ">|", "&>", ">&"}:
                    call.truncates(values[0])
                shell = call.shell
        return shell, stdin
