"""Ways to wrap, quote and encode a command, and to damage one: what the tests of the reader of commands try."""

from __future__ import annotations

import base64
import random
import shlex
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CORPORA = Path(__file__).parent / "corpora"
WORKSPACE = "/workspace/app"


@dataclass(frozen=True, slots=True)
class Row:
    """A command and the verdict that it has to get."""

    command: str
    risk: str
    rule: str


def corpus(name: str) -> list[Row]:
    """The rows of `bad` or `good`."""
    rows = tomllib.loads((CORPORA / f"{name}.toml").read_text("utf-8"))["row"]
    return [Row(command, row["risk"], row["rule"]) for row in rows for command in row["commands"]]


def _base64(command: str) -> str:
    return base64.b64encode(command.encode()).decode()


def _ansi(command: str) -> str:
    return "$'" + "".join(f"\\x{byte:02x}" for byte in command.encode()) + "'"


def _python(command: str) -> str:
    return shlex.quote(f"import os; os.system({command!r})")


Q: Callable[[str], str] = shlex.quote
WRAPPINGS: dict[str, Callable[[str], str]] = {
    "bash -c": lambda c: f"bash -c {Q(c)}",
    "sh -ec": lambda c: f"sh -ec {Q(c)}",
    "eval": lambda c: f"eval {Q(c)}",
    "subshell": lambda c: f"(\n{c}\n)",
    "braces": lambda c: f"{{\n{c}\n}}",
    "function": lambda c: f"f() {{\n{c}\n}}\nf",
    "if": lambda c: f"if true; then\n{c}\nfi",
    "else": lambda c: f"if false; then :; else\n{c}\nfi",
    "while": lambda c: f"while true; do\n{c}\nbreak; done",
    "for": lambda c: f"for i in 1 2; do\n{c}\ndone",
    "case": lambda c: f"case x in *)\n{c}\n;; esac",
    "behind and": lambda c: f"true &&\n{c}",
    "behind or": lambda c: f"false ||\n{c}",
    "substitution": lambda c: f"echo $(\n{c}\n)",
    "quoted substitution": lambda c: f'echo "$(\n{c}\n)"',
    "process substitution": lambda c: f"cat <(\n{c}\n)",
    "sudo": lambda c: f"sudo -u nobody bash -c {Q(c)}",
    "env": lambda c: f"env -i A=1 sh -c {Q(c)}",
    "env -S": lambda c: f"env -S {Q('sh -c ' + Q(c))}",
    "nice": lambda c: f"nice -n 5 sh -c {Q(c)}",
    "timeout": lambda c: f"timeout -s KILL 5 sh -c {Q(c)}",
    "nohup": lambda c: f"nohup setsid bash -c {Q(c)} &",
    "time": lambda c: f"time bash -c {Q(c)}",
    "stdbuf": lambda c: f"stdbuf -oL bash -c {Q(c)}",
    "xargs": lambda c: f"echo x | xargs -I{{}} sh -c {Q(c)}",
    "find -exec": lambda c: f"find . -maxdepth 0 -exec sh -c {Q(c)} \\;",
    "ssh": lambda c: f"ssh me@host.example {Q(c)}",
    "docker run": lambda c: f"docker run --rm -v $PWD:/w alpine sh -c {Q(c)}",
    "docker exec": lambda c: f"docker exec -it box bash -c {Q(c)}",
    "watch": lambda c: f"watch -n 1 {Q(c)}",
    "parallel": lambda c: f"parallel ::: {Q(c)}",
    "flock": lambda c: f"flock x.lock -c {Q(c)}",
    "strace": lambda c: f"strace -f -o /tmp/t bash -c {Q(c)}",
    "script": lambda c: f"script -qc {Q(c)} /dev/null",
    "su": lambda c: f"su -c {Q(c)} me",
    "exec": lambda c: f"exec bash -c {Q(c)}",
    "command": lambda c: f"command builtin eval {Q(c)}",
    "busybox": lambda c: f"busybox sh -c {Q(c)}",
    "trap": lambda c: f"trap {Q(c)} EXIT",
    "git alias": lambda c: f"git -c alias.z={Q('!' + c)} z",
    "heredoc": lambda c: f"bash <<'HANDLOOM_END'\n{c}\nHANDLOOM_END",
    "herestring": lambda c: f"sh <<< {Q(c)}",
    "echo | sh": lambda c: f"echo {Q(c)} | sh",
    "printf | bash": lambda c: f"printf '%s' {Q(c)} | bash -s",
    "base64 | sh": lambda c: f"echo {_base64(c)} | base64 -d | sh",
    "base64 herestring": lambda c: f"base64 --decode <<< {_base64(c)} | bash",
    "eval base64": lambda c: f'eval "$(echo {_base64(c)} | base64 -d)"',
    "bash -c base64": lambda c: f'bash -c "$(printf %s {_base64(c)} | base64 -D)"',
    "hex": lambda c: f"echo {c.encode().hex()} | xxd -r -p | sh",
    "ansi-c": lambda c: f"bash -c {_ansi(c)}",
    "printf escapes": lambda c: "printf '" + "".join(f"\\{byte:03o}" for byte in c.encode()) + "' | sh",
    "variable": lambda c: f'X={Q(c)}; eval "$X"',
    "variable bash": lambda c: f'X={Q(c)}; Y=$X; bash -c "$Y"',
    "source": lambda c: f"source <(echo {Q(c)})",
    "bash <()": lambda c: f"bash <(printf %s {Q(c)})",
    "file": lambda c: f"cat > /tmp/x.sh <<'HANDLOOM_END'\n{c}\nHANDLOOM_END\nbash /tmp/x.sh",
    "file run": lambda c: f"echo {Q(c)} > run.sh; chmod +x run.sh; ./run.sh",
    "python": lambda c: f"python3 -c {_python(c)}",
    "python heredoc": lambda c: (
        f"python3 - <<'HANDLOOM_END'\nimport subprocess as s\ns.run({c!r}, shell=True)\nHANDLOOM_END"
    ),
    "alias": lambda c: f"alias zz={Q('bash -c ' + Q(c))}; zz",
    "background": lambda c: f"bash -c {Q(c)} & disown",
    "pipeline": lambda c: f"true | bash -c {Q(c)} | cat > /dev/null",
    "cd": lambda c: f"cd . && bash -c {Q(c)}",
    "tar": lambda c: f"tar cf /dev/null x --to-command={Q('sh -c ' + Q(c))}",
}
"""By name: each makes a command with the same effect as the inner one."""

_PIECES = (
    "'", '"', "`", "$(", ")", "${", "}", "$", "\\", ";", "&&", "||", "|", "&", ">", "<", ">>", "<<EOF\n", "<<<",
    "<(", ">(", "((", "))", "[[", "]]", "{", "\n", " ", "\t", "\x00", "\x1b", "\u202e", "\xe9", "if ", "then ", "fi",
    "for x in ", "do ", "done", "case ", "esac", "function f ", "f() {", "eval ", "bash -c ", "sudo ", "xargs ",
    "find . -exec ", "{} +", "$'\\x", "${X:-", "${!X}", "$((", "[", "*", "~", "/", "-rf", "rm ", "base64 -d",
    "curl ", "https://", "git -c ", "python3 -c ", "=", "+=", "!", "#", "%", "@", "EOF", "\\\n", "\ud800",
)  # fmt: skip


def mutated(commands: list[str], count: int, seed: int) -> list[str]:
    """Commands with pieces put in, cut out, doubled and joined; the same ones for a seed."""
    chance = random.Random(seed)
    made = []
    for _ in range(count):
        text = chance.choice(commands)
        for _ in range(chance.randint(1, 6)):
            at, to = sorted((chance.randint(0, len(text)), chance.randint(0, len(text))))
            match chance.randint(0, 4):
                case 0:
                    text = text[:at] + chance.choice(_PIECES) + text[at:]
                case 1:
                    text = text[:at] + text[min(to, at + 4) :]
                case 2:
                    text = text[:to] + text[at:to] + text[to:]
                case 3:
                    text = text[:at] + chance.choice(commands) + text[at:]
                case _:
                    text = text[:at] + chance.choice(_PIECES) * chance.randint(1, 8) + text[to:]
        made.append(text[:4000])
    return made
