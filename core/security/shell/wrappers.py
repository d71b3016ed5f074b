"""Programs that start another one: what they start is read as well, so that none of them hides it."""

from __future__ import annotations

import re

from core.security.shell.programs import Call, Handler, shown
from core.security.shell.words import Out, Word, literal, options

_UNKNOWN = Word("{}", "", False)
_SPECS: dict[str, tuple[str, int, str]] = {
    "sudo": ("-u -g -h -p -C -D -R -T -U -r -t --user --group --host --prompt --chdir --chroot", 0, "rights.root"),
    "pkexec": ("--user", 0, "rights.root"),
    "doas": ("-u -C", 0, "rights.root"),
    "nice": ("-n --adjustment", 0, ""),
    "gnice": ("-n", 0, ""),
    "ionice": ("-c -n -p -P -u", 0, ""),
    "nohup": ("", 0, ""),
    "setsid": ("", 0, ""),
    "stdbuf": ("-i -o -e", 0, ""),
    "unbuffer": ("", 0, ""),
    "rlwrap": ("-a -f -H", 0, ""),
    "timeout": ("-s -k --signal --kill-after", 1, ""),
    "gtimeout": ("-s -k", 1, ""),
    "time": ("-f -o --format --output", 0, ""),
    "chrt": ("-T -P -D -p", 1, ""),
    "taskset": ("-p", 1, ""),
    "numactl": ("", 0, ""),
    "choom": ("-n -p", 0, ""),
    "prlimit": ("-p", 0, ""),
    "strace": ("-e -o -p -s -u -a -E -P -O -S -I -b -X", 0, ""),
    "ltrace": ("-e -o -p -s -u -a -n -l -F", 0, ""),
    "builtin": ("", 0, ""),
    "exec": ("-a", 0, ""),
    "fakeroot": ("-l -s -i -b", 0, ""),
    "chroot": ("", 1, "machine.kernel"),
    "unshare": ("-S -G -R -w", 0, "machine.kernel"),
    "nsenter": ("-t -S -G --target", 0, "rights.container"),
    "busybox": ("", 0, ""),
    "toybox": ("", 0, ""),
    "coproc": ("", 0, ""),
    "torify": ("", 0, "net.fetch"),
    "torsocks": ("", 0, "net.fetch"),
    "proxychains": ("-f", 0, "net.fetch"),
    "xvfb-run": ("-e -f -n -p -s -w", 0, ""),
    "dbus-run-session": ("", 0, ""),
    "caffeinate": ("-t -w", 0, ""),
    "cpulimit": ("-l -p -e", 0, ""),
    "systemd-run": ("-p -u -E -t --unit --property --on-calendar --on-active", 0, "persist.cron"),
    "systemd-inhibit": ("", 0, ""),
    "firejail": ("", 0, ""),
    "setpriv": ("--reuid --regid --groups --inh-caps --ambient-caps --bounding-set --securebits", 0, ""),
    "eatmydata": ("", 0, ""),
    "faketime": ("-f", 1, ""),
    "runuser": ("-u -g -G", 0, "rights.root"),
    "entr": ("", 0, ""),
    "bwrap": ("", 0, ""),
}
"""Options with a value, words before the command, and the rule of the wrapper itself."""


def _wrapper(call: Call) -> Out:
    with_value, skipped, rule = _SPECS[call.name]
    found, rest = options(call.args, with_value, first_ends=True)
    flags = {name for name, _ in found}
    if rule:
        call.rule(rule)
    if call.name == "runuser" or (call.name == "sudo" and flags & {"-i", "-s", "-e"}):
        if not rest or "-e" in flags:
            call.rule("shell.interactive")
        if (command := next((value for name, value in found if name in ("-c", "--command")), None)) is not None:
            return _text(call, command)
    rest = _assignments(call, rest[skipped:]) if call.name in ("sudo", "doas") else rest[skipped:]
    if call.name == "bwrap":
        rest = _behind_bwrap(call)
    if call.name in ("strace", "ltrace") and flags & {"-p"}:
        call.rule("machine.debug")
    if call.name == "exec" and not rest:
        return Out("")
    return call.again(rest) if rest else Out("")


def _behind_bwrap(call: Call) -> list[Word]:
    """The command behind bubblewrap's options, each of which has up to two values."""
    at = next((at for at, word in enumerate(call.args) if word.text == "--"), None)
    if at is None:
        call.rule("opaque.code")
        return []
    return call.args[at + 1 :]


def _text(call: Call, word: Word) -> Out:
    """A word that the program gives to a shell."""
    if not word.known:
        call.rule(
            "run.decoded" if "decoded" in word.kinds else "run.remote" if "remote" in word.kinds else "opaque.text"
        )
    if "decoded" in word.kinds:
        call.rule("run.decoded")
    return call.reader.inside(word.text, call.state, call.stdin)


def _assignments(call: Call, words: list[Word]) -> list[Word]:
    """The words behind `NAME=value`."""
    while words and "=" in words[0].text and words[0].text.partition("=")[0].isidentifier():
        name, _, value = words[0].text.partition("=")
        call.reader.assign(name, Word(value, value, words[0].known, words[0].kinds), call.state.inner())
        words = words[1:]
    return words


def _env(call: Call) -> Out:
    found, rest = options(call.args, "-u -C -S --unset --chdir --split-string", first_ends=True)
    split = [value for name, value in found if name in ("-S", "--split-string") and value is not None]
    for name, value in found:
        if name in ("-C", "--chdir") and value is not None:
            call.state = call.state.inner()
            call.state.cwd = call.path(value)[0] if value.known else None
    rest = _assignments(call, rest)
    if split:
        return _text(call, Word(shown([split[0], *rest]), "", split[0].known, split[0].kinds))
    if rest:
        return call.again(rest)
    call.rule("secret.environment")
    return Out(None, frozenset({"secret"}))


def _xargs(call: Call) -> Out:
    found, rest = options(
        call.args,
        "-I -n -P -L -d -a -E -s --max-args --max-procs --delimiter --arg-file --replace --max-lines",
        first_ends=True,
    )
    marks = [value.text for name, value in found if name in ("-I", "-J") and value is not None]
    given = call.stdin
    for name, value in found:
        if name in ("-a", "--arg-file") and value is not None:
            given = call.reads(value)
    words = _more(given)
    rest = rest or [literal("echo")]
    if marks or any(name in ("-i", "--replace") for name, _ in found):
        mark = marks[0] if marks else "{}"
        first = words[0] if words else Word("{}", "", False, given.kinds)
        return call.again([_put(word, mark, first) for word in rest], Out(""))
    return call.again([*rest, *words], Out(""))


def _more(given: Out) -> list[Word]:
    """The words that arrive on standard input."""
    if given.text is not None and len(given.text) < 4_000:
        return [Word(text, text, True, given.kinds) for text in given.text.split()]
    return [Word("{}", "", False, given.kinds)]


def _put(word: Word, mark: str, value: Word) -> Word:
    if not mark or mark not in word.text:
        return word
    text, bare = word.text.replace(mark, value.text), word.bare.replace(mark, value.bare)
    return Word(text, bare, word.known and value.known, word.kinds | value.kinds)


def _parallel(call: Call) -> Out:
    _, rest = options(call.args, "-j -a -S -I -N -n --jobs --arg-file --sshlogin", first_ends=True)
    at = next((at for at, word in enumerate(rest) if word.text in (":::", "::::")), len(rest))
    values = rest[at + 1 :] or _more(call.stdin)
    command = rest[:at]
    if not command:
        return _text(call, Word("\n".join(word.text for word in values), "", all(word.known for word in values)))
    out = Out("")
    for value in values[:6] or [_UNKNOWN]:
        words = [_put(word, "{}", value) for word in command]
        words = words if any("{}" in word.text for word in command) else [*words, value]
        _text(call, Word(shown(words), "", all(word.known for word in words) or value is _UNKNOWN or not value.known))
    return out.plus(Out(None))


def _watch(call: Call) -> Out:
    _, rest = options(call.args, "-n --interval -q", first_ends=True)
    if not rest:
        return Out("")
    return _text(call, Word(shown(rest), "", all(word.known for word in rest)))


def _flock(call: Call) -> Out:
    found, rest = options(call.args, "-w -E --timeout -c", first_ends=True)
    command = [value for name, value in found if name == "-c" and value is not None]
    if len(rest) > 1 and rest[1].text in ("-c", "--command"):
        command = rest[2:3]
    call.writes(*rest[:1])
    if command:
        return _text(call, command[0])
    return call.again(rest[1:]) if len(rest) > 1 else Out("")


def _script(call: Call) -> Out:
    found, rest = options(call.args, "-c -T -I -O -B -E -m -o --command")
    command = [value for name, value in found if name in ("-c", "--command") and value is not None]
    call.writes(*rest[:1])
    if command:
        return _text(call, command[0])
    call.rule("shell.interactive")
    return Out()


def _su(call: Call) -> Out:
    found, _ = options(call.args, "-c -s -g -G --command --shell")
    command = [value for name, value in found if name in ("-c", "--command") and value is not None]
    call.rule("rights.root")
    if command:
        return _text(call, command[0])
    call.rule("shell.interactive")
    return Out()


def _expect(call: Call) -> Out:
    """Programs that type commands into another one: what they would type is read too."""
    call.rule("opaque.code" if call.name == "expect" else "shell.interactive")
    for word in call.args:
        if not word.text.startswith("-"):
            call.reader.inside(re.sub(r"^(?:spawn|send)\s+", "", word.text), call.state)
    plain = [word for word in call.args if not word.text.startswith("-")]
    call.reader.inside(shown(plain), call.state)
    return Out()


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(_SPECS, _wrapper),
    "env": _env,
    "xargs": _xargs,
    "parallel": _parallel,
    "watch": _watch,
    "flock": _flock,
    "script": _script,
    **dict.fromkeys(("su", "sg"), _su),
    **dict.fromkeys(("expect", "screen", "tmux", "byobu"), _expect),
}
