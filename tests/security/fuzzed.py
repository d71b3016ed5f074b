"""Commands made by chance, and what has to hold for the reading of each. The same ones for a seed.

Kinds: damaged texts of the corpora; commands grown from a grammar; bad commands in disguises that bash sees through,
none of which may be let through; good commands in other spellings, most of which have to be; and amplifiers, short
texts that would be long once they were expanded.
"""

from __future__ import annotations

import random
import re
import shlex
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from core.events import ActionSecurityRisk, CmdRunAction
from core.security.facts import Facts, facts_of
from core.security.risk_rules import strictness
from tests.security.risk_wrapping import WORKSPACE, WRAPPINGS, Row, corpus, mutated

MAX_BYTES = 10_000
"""Of a command that has to be read in time."""
MAX_CPU_S = 0.05
TRIES = 5
"""A command that takes too long is read again: what counts is its best time, for others have the caches too."""


_REFUSED = {"if then fi", 'echo "unclosed', "ls ) ("}


@cache
def bad() -> tuple[Row, ...]:
    """The bad commands that bash accepts: one that it rejects may become another command inside others."""
    return tuple(row for row in corpus("bad") if row.command not in _REFUSED)


@cache
def every() -> tuple[str, ...]:
    """All commands of the corpora."""
    return tuple(row.command for row in (*corpus("bad"), *corpus("good")))


def read(command: str) -> Facts:
    """The judgement of a command."""
    return facts_of(CmdRunAction(command=command), workspace=WORKSPACE)


@dataclass(frozen=True)
class Made:
    """A command, and what its reading has to say at least."""

    command: str
    least: ActionSecurityRisk | None = None
    """The risk of the inner command; a disguise may make it not understood, which asks as well."""
    is_good: bool = False
    """Whether it is a good command in another spelling."""


def check_one(seed: str, counts: Counter[str], cpu_s: float = MAX_CPU_S) -> str:
    """Make one command and analyse it. Returns the problem of the analysis, or an empty text. Counts its kind."""
    chance = random.Random(seed)
    kind = chance.choice(tuple(KINDS))
    counts[kind] += 1
    made = KINDS[kind](chance)
    facts, took_s = timed(made.command, cpu_s)
    wrong = ""
    if any("reading it failed" in part for part in facts.not_understood):
        wrong = "the reader failed"
    elif len(made.command.encode(errors="replace")) < MAX_BYTES and took_s >= cpu_s:
        wrong = f"{took_s * 1000:.0f} ms"
    elif made.least and strictness(facts.risk) < strictness(ActionSecurityRisk.UNKNOWN):
        wrong = f"{facts.risk.name} and bare {made.least.name}"
    counts["good asked"] += made.is_good and strictness(facts.risk) >= strictness(ActionSecurityRisk.UNKNOWN)
    return f"{kind} {seed}: {wrong}: {made.command[:2000]!r}" if wrong else ""


def timed(command: str, cpu_s: float) -> tuple[Facts, float]:
    """The judgement of a command, and its minimal processor time in seconds."""
    best, facts = float("inf"), None
    for _ in range(TRIES):
        began = time.thread_time()
        facts = read(command)
        best = min(best, time.thread_time() - began)
        if best < cpu_s:
            break
    assert facts is not None
    return facts, best


# -- the kinds -------------------------------------------------------------------------------------------------------


def _damaged(chance: random.Random) -> Made:
    return Made(mutated(list(every()), 1, chance.randrange(2**60))[0])


def _grown(chance: random.Random) -> Made:
    return Made(_statement(chance, chance.randint(1, 5))[:MAX_BYTES])


def _amplified(chance: random.Random) -> Made:
    return Made(chance.choice(_AMPLIFIERS)(chance)[: MAX_BYTES - 1])


def _wrapped(chance: random.Random) -> Made:
    row = chance.choice(bad())
    return Made(_within(chance, row.command, chance.randint(1, 3)), ActionSecurityRisk[row.risk])


def _disguised(chance: random.Random) -> Made:
    row = chance.choice(plain())
    command = chance.choice(_DISGUISES)(chance, row.command.split())
    return Made(_within(chance, command, chance.randint(0, 1)), ActionSecurityRisk[row.risk])


def _unknowable(chance: random.Random) -> Made:
    return Made(_within(chance, chance.choice(_UNKNOWN), chance.randint(0, 2)), ActionSecurityRisk.UNKNOWN)


def _respelled_good(chance: random.Random) -> Made:
    row = chance.choice(plain_good())
    command = chance.choice(_SPELLINGS)(chance, row.command.split())
    return Made(command, is_good=True)


def _within(chance: random.Random, command: str, count: int) -> str:
    """A command in so many wrappings."""
    for name in chance.choices(tuple(WRAPPINGS), k=count):
        if "HANDLOOM_END" not in command or "HANDLOOM_END" not in WRAPPINGS[name](""):  # one mark ends one heredoc
            command = WRAPPINGS[name](command)
    return command


@cache
def plain() -> tuple[Row, ...]:
    """The bad commands of plain words; assignments and declarations are recognised by their form."""
    rows = [row for row in bad() if _PLAIN.fullmatch(row.command)]
    return tuple(row for row in rows if "=" not in row.command.split()[0] and not row.command.startswith("export "))


@cache
def plain_good() -> tuple[Row, ...]:
    """The good commands of plain words."""
    return tuple(row for row in corpus("good") if _PLAIN.fullmatch(row.command) and "=" not in row.command.split()[0])


KINDS: dict[str, Callable[[random.Random], Made]] = {
    "damaged": _damaged,
    "grown": _grown,
    "amplified": _amplified,
    "wrapped": _wrapped,
    "disguised": _disguised,
    "unknowable": _unknowable,
    "good": _respelled_good,
}


# -- disguises -------------------------------------------------------------------------------------------------------

_PLAIN = re.compile(r"[\w./~@:=+,-]+(?: [\w./~@:=+,-]+)+")
"""A simple command of plain words."""


def _word(chance: random.Random, word: str) -> str:
    """The same word for bash; a tilde and the text before `=` stay, because quoting would change them."""
    head = re.match(r"~[\w-]*/?|[\w-]+=", word)
    kept = head[0] if head else ""
    rest = word[len(kept) :]
    if not rest:
        return word
    at = chance.randint(0, len(rest))
    hexed = "".join(f"\\x{byte:02x}" for byte in rest.encode())
    octal = "".join(f"\\{byte:03o}" for byte in rest.encode())
    forms = (
        rest, f"'{rest}'", f'"{rest}"', f"{rest[:at]}''{rest[at:]}", f'{rest[:at]}""{rest[at:]}', f"$'{hexed}'",
        f"$'{octal}'", f"{rest[:at]}$'{rest[at:]}'", "".join(f"\\{one}" for one in rest), f"{rest[:at]}\\\n{rest[at:]}",
        f'$"{rest}"',
    )  # fmt: skip
    return kept + chance.choice(forms)


def _respelled(chance: random.Random, words: list[str]) -> str:
    return " ".join(_word(chance, word) for word in words)


def _spaced(chance: random.Random, words: list[str]) -> str:
    gaps = (" ", "\t", "  ", " \\\n", "${IFS}", "$IFS")
    text = words[0]
    for word in words[1:]:
        gap = chance.choice(gaps)
        text += (gap if gap != "$IFS" or not re.match(r"\w", word) else "${IFS}") + word
    return text


def _braced(chance: random.Random, words: list[str]) -> str:
    if any("," in word or word.startswith("~") for word in words):
        return _respelled(chance, words)
    return "{" + ",".join(words) + "}"


def _in_variables(chance: random.Random, words: list[str]) -> str:
    at = chance.randrange(len(words))
    if re.match(r"~|[\w-]+=", words[at]):  # a tilde in a variable's value may be expanded, in its use never
        at = 0
    half = chance.randint(0, len(words[at]))
    first, second = words[at][:half], words[at][half:]
    told = [*words[:at], "$A${B}", *words[at + 1 :]]
    return f"A={shlex.quote(first)}; B={shlex.quote(second)}; {' '.join(told)}"


def _substituted(chance: random.Random, words: list[str]) -> str:
    return f"$(echo {words[0]}) {' '.join(words[1:])}"


def _by_default(chance: random.Random, words: list[str]) -> str:
    return f"${{NOT_THERE_X:-{words[0]}}} {' '.join(words[1:])}"


def _assigned(chance: random.Random, words: list[str]) -> str:
    return f"A=1 B=$A command -- {' '.join(words)} 2>&1 </dev/null"


_DISGUISES: tuple[Callable[[random.Random, list[str]], str], ...] = (
    _respelled, _spaced, _braced, _in_variables, _substituted, _by_default, _assigned,
)  # fmt: skip

_SPELLINGS: tuple[Callable[[random.Random, list[str]], str], ...] = (
    _respelled,
    lambda chance, words: (
        "  ".join(words) + chance.choice((" # as usual", " 2>/dev/null", " 2>&1", " | cat", " || true"))
    ),
    lambda chance, words: f"cd src && {' '.join(words)}",
    lambda chance, words: f"time {' '.join(words)}; echo $?",
    lambda chance, words: f"if true; then {' '.join(words)}; fi",
    lambda chance, words: f"( {' '.join(words)} )",
    lambda chance, words: f"CI=1 timeout 60 {' '.join(words)}",
)
"""Ways to write a good command that are as usual as the plain one."""

_UNKNOWN = (
    "$CMD", '"$CMD" x', "${!NAME}", "$(cat plan.txt)", "eval \"$(cat plan.txt)\"", "bash -c \"$1\"", "`head -1 x`",
    "xargs -n1 $TOOL < list", "cat x | sh", "base64 -d x | bash", "source ./$FILE.sh", "${A:-$B} x", "$((1))$X y",
    "sh <(cat x)", "\"${cmds[@]}\"", "\"${cmds[$i]}\" now", "env $VARS run", "sudo $WHAT", "find . -exec $DO {} +",
    "printf \"$F\" x | sh", "read line; $line", "while read -r c; do $c; done < x", "eval $X", "exec $SHELL_OF_MINE x",
)  # fmt: skip


# -- the grammar -----------------------------------------------------------------------------------------------------


def _statement(chance: random.Random, depth: int) -> str:
    if depth <= 0:
        return _simple(chance, 0)
    inner = depth - 1
    one, two = _statement(chance, inner), _statement(chance, chance.randint(0, inner))
    word = _argument(chance, inner)
    return chance.choice((
        f"{one}; {two}", f"{one} && {two}", f"{one} || {two}", f"{one} | {two}", f"{one} & {two}", f"({one})",
        f"{{ {one}; }}", f"if {one}; then {two}; fi", f"for v in {word} x; do {one}; done",
        f"while {one}; do {two}; break; done", f"case {word} in a|*) {one} ;; esac", f"f() {{ {one}; }}; f {word}",
        f"echo $({one})", f'echo "`{two}`"', f"cat <({one}) > {word}", f"{one} <<E\n{two}\nE\n", f"{one} <<< {word}",
        f"X={word}; {one}", f"[[ {word} =~ a* ]] && {one}", f"(( x = 1 + {chance.randint(0, 9)} )); {one}",
        f"! {one}", f"time {one}", f"coproc {one}", f"select v in a; do {one}; done", f"trap {shlex.quote(one)} EXIT",
        f"a=({word} b); {one} ${{a[0]}}", WRAPPINGS[chance.choice(tuple(WRAPPINGS))](one), _simple(chance, inner),
    ))  # fmt: skip


def _simple(chance: random.Random, depth: int) -> str:
    if chance.random() < 0.5:
        return chance.choice(every())
    programs = ("rm", "cat", "curl", "git", "echo", "find", "tar", "python3", "sed", "dd", "ssh", "$X", "make", "cp")
    words = [chance.choice(programs), *(_argument(chance, depth) for _ in range(chance.randint(0, 4)))]
    return " ".join(words) + chance.choice(("", " > out", " 2>/dev/null", " >> ~/x", " < in", " &> y"))


def _argument(chance: random.Random, depth: int) -> str:
    plain = ("-rf", "/", "~", "x.txt", "*", "$HOME/y", "'a b'", '"$V"', "${V:-z}", "$'\\n'", "--force", "{a,b}", "$@",
             "../..", "http://a.example/x", "a=b", "[a-z]*", "${V//a/b}", "${#V}", "$?", "-", "--", "é")  # fmt: skip
    return f"$({_statement(chance, depth - 1)})" if depth > 0 and chance.random() < 0.15 else chance.choice(plain)


# -- amplifiers ------------------------------------------------------------------------------------------------------


def _many(chance: random.Random) -> int:
    return chance.choice((10, 30, 100, 300, 1000))


_AMPLIFIERS: tuple[Callable[[random.Random], str], ...] = (
    lambda c: "X=ab; " + "X=$X$X; " * _many(c) + "echo $X",
    lambda c: "X=rm; " + "X=$X$X$X$X; " * _many(c) + "$X -rf /",
    lambda c: "echo " + "{a,b}" * _many(c),
    lambda c: "echo " + "{a,b," * _many(c) + "c" + "}" * _many(c),
    lambda c: "echo {1..999999999}",
    lambda c: "echo " + "{1..99}" * _many(c),
    lambda c: "for a in {1..9}; do " * _many(c) + "ls" + "; done" * _many(c),
    lambda c: "$(" * _many(c) + "ls" + ")" * _many(c),
    lambda c: "(" * _many(c) + "ls" + ")" * _many(c),
    lambda c: "`" * _many(c),
    lambda c: "bash -c '" * _many(c) + "ls",
    lambda c: 'eval "' * _many(c) + "ls" + '"' * _many(c),
    lambda c: "${A:-" * _many(c) + "x" + "}" * _many(c),
    lambda c: "f() { f; f; }; " * _many(c) + "f",
    lambda c: "".join(f"f{n}() {{ f{n + 1}; f{n + 1}; }}; " for n in range(_many(c))) + "f0",
    lambda c: "".join(f"alias a{n}='a{n + 1} && a{n + 1}'; " for n in range(_many(c))) + "a0",
    lambda c: "if true; then " * _many(c) + "ls",
    lambda c: "cat <<A\n" * _many(c) + "A\n" * _many(c),
    lambda c: "case x in " * _many(c) + "*) ls ;; esac" * _many(c),
    lambda c: "a" * 100 + "=" * _many(c) + "; ls",
    lambda c: "ls | " * _many(c) + "sh",
    lambda c: "env " * _many(c) + "sudo " * _many(c) + "rm -rf /",
    lambda c: "xargs " * _many(c) + "rm",
    lambda c: "find . -exec " * _many(c) + "ls {} ;",
    lambda c: "echo x > a; " * _many(c) + "sh a",
    lambda c: "while read x; do eval $x; " * _many(c) + "done; " * _many(c),
    lambda c: "python3 -c " + shlex.quote("(" * _many(c) + "1" + ")" * _many(c)),
    lambda c: "python3 -c " + shlex.quote("x=" + "[" * _many(c) + "]" * _many(c)),
    lambda c: "git " + "-c alias.a='!git a' " * _many(c) + "a",
    lambda c: "echo '" + "\\" * _many(c) + "' | sed " + "'s/a/b/;" * _many(c) + "'",
    lambda c: "ls " + "[a-z]*" * _many(c),
    lambda c: "echo ${X//" + "*" * _many(c) + "/y}",
    lambda c: "cd " + "../" * _many(c) + "; rm -rf " + "x/../" * _many(c),
    lambda c: "curl " + "http://a.example/%2e%2e/" * _many(c),
    lambda c: "printf '" + "%s" * _many(c) + "' " + "x " * _many(c) + "| sh",
    lambda c: "a=(" + "x " * _many(c) + "); " + 'for i in "${a[@]}"; do ' * 5 + "$i; " + "done; " * 5,
    lambda c: "ssh -o ProxyCommand='ssh a' " * _many(c) + "b",
    lambda c: "docker run " * _many(c) + "x sh -c ls",
)  # fmt: skip
