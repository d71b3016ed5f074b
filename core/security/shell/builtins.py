"""The builtins of bash. After an unsupported one, the state of the shell is unknown.

Handlers replace `call.shell`, and raise NotUnderstoodError.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from core.security.risk_rules import names
from core.security.shell.expansion import Value
from core.security.shell.program_call import Call
from core.security.shell.syntax import NotUnderstoodError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SET = re.compile(r"[-+][eux]+|[-+][eux]*o")
_ACTIVATE = re.compile(r"(?:^|/)(?:\.venv|venv|\.?env|[\w.-]*env[\w.-]*)/bin/activate$")
_UNARY = names("-b -c -d -e -f -g -h -k -p -r -s -u -w -x -L -S -n -z -t")
_BINARY = names("= == != =~ -nt -ot -ef < >")
_NUMBERS = frozenset(["-eq", "-ne", "-lt", "-le", "-gt", "-ge"])


def _no_effect(call: Call) -> None:
    """A builtin without effects."""


def _cd(call: Call) -> None:
    args = list(call.args)
    while args and re.fullmatch(r"-[LPe@]+", args[0].text or ""):
        args.pop(0)
    if args and args[0].text == "--":
        args.pop(0)
    if len(args) > 1:
        raise call.fail()
    if not args:
        folders = [call.findings.places.home]
    elif args[0].text is None or args[0].text in ("-", "") or args[0].is_glob:
        call.shell = replace(call.shell, folders=())
        return
    else:
        try:
            folders = call.paths(args[0])
        except NotUnderstoodError:
            call.shell = replace(call.shell, folders=())
            return
    call.shell = call.shell.at(folders)


def _export(call: Call) -> None:
    """Sets variables. `-p` shows them; `-r` would make a later assignment fail, so it is not understood."""
    is_plain = call.source.split()[0] == call.name  # bash splits the values of `\export A=$x` into words
    for value in call.args:
        name, equals, _ = value.start.partition("=")
        if (value.text == "-x" and call.name != "export") or (value.text == "-p" and len(call.args) == 1):
            continue
        is_unsure = value.text is None and not equals  # it may end in a subscript, which declare evaluates
        if not _NAME.fullmatch(name) or is_unsure or (value.is_many and not is_plain):
            raise call.fail(value, f"an argument of {call.name}")
        exports = call.name == "export" or any(one.text == "-x" for one in call.args)
        if equals:
            given = value.without_prefix(len(name) + 1)
            call.shell = call.reader.assign(name, given, given.shown, call.shell, exports=exports)
        elif exports:
            was = call.shell.variables.get(name)
            call.shell = call.reader.assign(name, Value(was, name), name, call.shell, exports=True)


def _read(call: Call) -> None:
    args = list(call.args)
    if any(value.is_many for value in args):  # a subscript in one of the words would be evaluated
        raise call.fail(None, "a word may be several")
    while args:
        value = args.pop(0)
        if value.text in ("-r", "-s", "-e"):
            continue
        if value.text in ("-p", "-t", "-n", "-d", "-N") and args:
            args.pop(0)
            continue
        if value.text is None or not _NAME.fullmatch(value.text):
            raise call.fail(value, "an argument of read")
        call.shell = call.reader.assign(value.text, None, "", call.shell)
    if not call.stdin.is_given:
        call.report("shell.interactive")


def _unset(call: Call) -> None:
    for value in call.args:
        if value.text == "-v":
            continue
        if value.text is None or not _NAME.fullmatch(value.text):
            raise call.fail(value, "an argument of unset")
        call.shell = call.reader.assign(value.text, None, "", call.shell)


def _set(call: Call) -> None:
    texts = [value.text or "?" for value in call.args]
    for at, text in enumerate(texts):
        is_name = at > 0 and texts[at - 1].endswith("o") and text in ("pipefail", "errexit", "nounset", "xtrace")
        if not (is_name or _SET.fullmatch(text)):
            raise call.fail(call.args[at], "an option of set")
    call.shell = replace(call.shell, may_end=True)  # -e ends it after a command that fails
    if not texts:
        call.report("secret.environment")


def check_test(values: Sequence[Value], *, evaluates: bool = True) -> None:
    """Raise NotUnderstoodError if a test may have side effects: `[[ ]]` evaluates operands of -eq as arithmetic."""
    for at, value in enumerate(values):
        text = value.text
        if text and re.search(r"[$`]", text.partition("[")[2]):
            raise NotUnderstoodError(value.shown, "a subscript")
        if text in _NUMBERS and evaluates:
            for other in (*values[max(at - 1, 0) : at], *values[at + 1 : at + 2]):
                if not (other.is_number or re.fullmatch(r"-?[0-9]+", other.text or "")):
                    raise NotUnderstoodError(other.shown, "arithmetic")
        elif text and re.fullmatch(r"-[a-zA-Z]+", text) and text not in _UNARY | _BINARY | _NUMBERS | {"-a", "-o"}:
            raise NotUnderstoodError(text, "a test")
        elif text is None and value.is_many and value.is_foreign and not evaluates:
            raise NotUnderstoodError(value.shown, "a test")
        elif text is None and not evaluates and not _is_operand(values, at):  # -v evaluates a subscript
            raise NotUnderstoodError(value.shown, "the word may be an operator")


def _is_operand(values: Sequence[Value], at: int) -> bool:
    """Whether an unknown word of `test` is an operand, because a known operator follows it."""
    behind = values[at + 1].text if at + 1 < len(values) else ")"
    return behind is not None and behind in _BINARY | _NUMBERS | {"-a", "-o", ")"}


def _test(call: Call) -> None:
    args = list(call.args)
    if call.name == "[" and (not args or args.pop().text != "]"):
        raise call.fail()
    check_test(args, evaluates=False)


def _printf(call: Call) -> None:
    if call.args and ((call.args[0].start.startswith("-") and call.args[0].text != "--") or not call.args[0].start):
        raise call.fail(call.args[0], "the format of printf")


def _command(call: Call) -> None:
    args = list(call.args)
    if args and args[0].text in ("-v", "-V"):
        if any(value.text is None for value in args):
            raise call.fail()
        return
    if args and args[0].text == "--":
        args.pop(0)
    if not args or args[0].start.startswith("-"):
        raise call.fail()
    call.command(args)
    call.shell = replace(call.shell, may_end=call.shell.may_end or call.name == "exec")


def _names_only(call: Call) -> None:
    """Builtins such as `type`, `jobs` and `umask`, with flags and names only."""
    for value in call.args:
        if value.text is None and value.is_foreign and call.name == "wait":
            raise call.fail(value, "the process that it waits for is unknown")  # -p evaluates a subscript
        if value.text is None and call.name in ("wait", "disown"):
            continue
        if value.text is None or not re.fullmatch(r"-[alnPtST]+|%?[\w.+][\w.+-]*", value.text):
            raise call.fail(value)


def _source(call: Call) -> None:
    """Only the `activate` of a virtual environment is supported."""
    path = call.args[0].text if len(call.args) == 1 else None
    if path is None or not _ACTIVATE.search(path):
        raise call.fail(None, "it runs a script in this shell")
    call.runs(call.args[0])


def _exit(call: Call) -> None:
    if len(call.args) > 1 or any(value.text is None and not value.is_number for value in call.args):
        raise call.fail()
    call.shell = replace(call.shell, may_end=True)


def _kill(call: Call) -> None:
    args = list(call.args)
    if args and args[0].text in ("-l", "-L"):
        return
    if args and args[0].text in ("-s", "-n"):
        args = args[2:]
    elif args and re.fullmatch(r"-(?:\d+|[A-Z]+\d*)", args[0].text or ""):
        args = args[1:]
    for value in args:
        if value.text is None and value.is_foreign:
            raise call.fail(value, "the process that it ends is unknown")
        known = value.text if value.text is not None else value.prefix.removeprefix("0") or "2"  # `-1$!` may be -1
        if not re.fullmatch(r"[2-9]|[1-9]\d+|%\d+|%[%+-]?", known):
            call.report("machine.kill")
    call.report("machine.kill-one")
    call.shell = replace(call.shell, may_end=True)


def _unsupported(call: Call) -> None:
    raise call.fail(None, f"{call.name} changes the shell")


BUILTINS: dict[str, Callable[[Call], None]] = {
    **dict.fromkeys((":", "true", "false", "echo", "pwd", "times"), _no_effect),
    **dict.fromkeys(("break", "continue", "wait", "fg", "bg", "disown", "jobs", "type", "umask"), _names_only),
    **dict.fromkeys(("exit", "logout", "return", "shift"), _exit),
    "cd": _cd,
    **dict.fromkeys(("export", "declare", "typeset"), _export),
    "read": _read,
    "unset": _unset,
    "set": _set,
    **dict.fromkeys(("test", "["), _test),
    "printf": _printf,
    **dict.fromkeys(("command", "exec"), _command),
    **dict.fromkeys(("source", "."), _source),
    "kill": _kill,
    **dict.fromkeys(
        names(
            "history pushd popd alias unalias eval trap shopt enable builtin let getopts mapfile readarray complete"
            " compgen compopt caller fc bind ulimit suspend dirs coproc hash local readonly"
        ),
        _unsupported,
    ),
}
"""Handlers by name, also of unsupported builtins."""
