"""Programs that act on the machine, on containers, clusters, clouds, databases, keys and the environment."""

from __future__ import annotations

import re

from core.security.network import host_of
from core.security.shell.code import run_text
from core.security.shell.programs import Call, Handler, shown
from core.security.shell.words import Out, literal, options


def _kill(call: Call) -> Out:
    texts = [word.text for word in call.args]
    if any(text in ("-l", "-L", "-0") for text in texts):
        return Out("")
    targets = [text for at, text in enumerate(texts) if not text.startswith("-") or at > 0]
    if any(text in ("-1", "0", "1", "--") for text in targets) or texts[-1:] == ["-1"]:
        call.rule("machine.kill")
    else:
        call.rule("machine.kill-one")
    return Out("")


def _systemctl(call: Call) -> Out:
    _, rest = options(call.args, "-H -M -t -p -n")
    verb = rest[0].text if rest else ""
    if verb in ("poweroff", "reboot", "halt", "suspend", "hibernate", "kexec", "rescue", "emergency"):
        call.rule("machine.power")
    elif verb not in (
        "status",
        "list-units",
        "show",
        "is-active",
        "is-enabled",
        "cat",
        "list-unit-files",
        "list-timers",
        "is-failed",
        "",
    ):
        call.rule("machine.service")
    return Out(None)


_DROPS = re.compile(
    r"(?i)\b(?:drop\s+(?:table|database|schema|user|index|view)|truncate\s+|delete\s+from\s+\w+\s*(?:;|$)|flushall|flushdb|dropDatabase)"
)


def _database(call: Call) -> Out:
    text = f"{shown(call.args)} {call.stdin.text or ''}"
    found, rest = options(call.args, "-h -U -d -p -c -f -u -P -e -D -n -a --host --dbname --eval --command --file")
    call.rule("destroy.data" if _DROPS.search(text) else "database.query")
    for line in re.findall(
        r"(?:\\!|\.shell|\.system|\bsystem\s)\s*([^\n'\"]+)|(?i:(?:from|to)\s+program)\s+'([^']+)'", text
    ):
        call.reader.inside(line[0] or line[1], call.state)
        call.rule("opaque.code")
    for name, value in found:
        if name in ("-h", "--host") and value is not None and value.text:
            call.reader.findings.calling(value.text, "net.login")
    for word in rest:
        if "://" in word.text:
            call.reader.findings.calling(host_of(word.text), "net.login")
        elif call.name in ("sqlite", "sqlite3") and not word.text.startswith("-"):
            path, is_known = call.path(word)
            call.reader.findings.writing(path, is_known=is_known)
            break
    return Out(None, frozenset({"file"}))


def _printenv(call: Call) -> Out:
    names = [word.text for word in call.args if not word.text.startswith("-")]
    if call.name == "set" and call.args:
        if call.args[0].text == "--":
            call.state.arguments = call.args[1:]
        return Out("")
    if names and not any(re.search(r"(?i)key|token|secret|passw|pwd$|credential|auth", name) for name in names):
        return Out(None)
    call.rule("secret.environment" if not names else "secret.keyring")
    return Out(None, frozenset({"secret"}))


def _export(call: Call) -> Out:
    return Out("")


def _gpg(call: Call) -> Out:
    texts = [word.text for word in call.args]
    if any(text.startswith("--export-secret") or text in ("-d", "--decrypt") for text in texts):
        call.rule("secret.keyring")
        return Out(None, frozenset({"secret"}))
    if any(text in ("--recv-keys", "--keyserver", "--send-keys", "--search-keys", "--refresh-keys") for text in texts):
        call.rule("net.fetch")
    if any(text.startswith("--delete") for text in texts):
        call.rule("destroy.outside")
    plain = [word for word in call.args if not word.text.startswith("-") and ("/" in word.text or "." in word.text)]
    call.reads(*plain)
    return Out(None)


def _history(call: Call) -> Out:
    if any(word.text in ("-c", "-w", "-d") for word in call.args):
        call.rule("destroy.traces")
    else:
        call.rule("secret.read", "history")
    return Out(None, frozenset({"secret"}))


def _journal(call: Call) -> Out:
    if any(word.text.startswith(("--vacuum", "--rotate", "--flush")) for word in call.args):
        call.rule("destroy.traces")
    return Out(None, frozenset({"file"}))


def _ip(call: Call) -> Out:
    if any(word.text in ("add", "del", "delete", "set", "flush", "replace", "change") for word in call.args):
        call.rule("machine.firewall")
    return Out(None)


def _ps(call: Call) -> Out:
    if (
        call.args
        and re.match(r"^-?[a-zA-Z]*e[a-zA-Z]*w|^[a-z]*e[a-z]*$", call.args[0].text)
        and not call.args[0].text.startswith("-e")
    ):
        call.rule("secret.process")
    return Out(None)


def _keygen(call: Call) -> Out:
    found, _ = options(call.args, "-t -b -C -f -N -P -O -V -I -s -n -Y")
    path = next((value for name, value in found if name == "-f" and value is not None), literal("~/.ssh/id_rsa"))
    if any(name in ("-l", "-B", "-F", "-H", "-R") for name, _ in found):
        return Out(None)
    if any(name == "-y" for name, _ in found):
        call.reads(path)
        return Out(None)
    call.writes(path)
    return Out(None)


def _agent(call: Call) -> Out:
    _, rest = options(call.args, "-a -t -E -P", first_ends=True)
    return call.again(rest) if rest else Out("", frozenset({"plain"}))


def _grep(call: Call) -> Out:
    found, rest = options(
        call.args,
        "-e -f -A -B -C -m --include --exclude --exclude-dir -g --glob -t --type -d -D --max-count --color"
        " --pre -T --sort --regexp --file",
    )
    flags = {name for name, _ in found}
    for name, value in found:
        if name == "--pre" and value is not None:
            run_text(call, value)
    patterns = [value for name, value in found if name in ("-e", "--regexp") and value is not None]
    if not patterns and not flags & {"-f", "--file", "--files"}:
        patterns, rest = rest[:1], rest[1:]
    searched = " ".join(word.text for word in patterns)
    given = call.reads(*rest) if rest else call.stdin
    outside = (
        any(call.path(word)[0] != "" and not call.reader.findings.places.is_above(call.path(word)[0]) for word in rest)
        if rest
        else False
    )
    secrets = re.search(r"(?i)BEGIN.*PRIVATE|AKIA|api[_-]?key|secret|passw|token|aws_", searched)
    at_home = any(str(call.reader.findings.places.place(call.path(word)[0])) in ("home", "system") for word in rest)
    if secrets and (at_home or re.search(r"AKIA|PRIVATE", searched)) and not (not rest and call.stdin.kinds):
        call.rule("secret.search")
    if at_home and any(flag in flags for flag in ("-r", "-R", "--recursive")) and outside:
        whole = any(call.reader.findings.places.symbolic(call.path(word)[0]) in ("~", "/", "/home") for word in rest)
        if whole:
            call.rule("read.outside")
    kinds = given.kinds
    return Out(None, kinds)


HANDLERS: dict[str, Handler] = {
    "kill": _kill,
    "systemctl": _systemctl,
    **dict.fromkeys(("psql", "mysql", "mariadb", "sqlite", "sqlite3", "mongosh", "mongo", "redis-cli"), _database),
    **dict.fromkeys(("printenv", "set"), _printenv),
    "export": _export,
    **dict.fromkeys(("gpg", "gpg2"), _gpg),
    "history": _history,
    "journalctl": _journal,
    "ip": _ip,
    "ps": _ps,
    "ssh-keygen": _keygen,
    "ssh-agent": _agent,
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "ugrep"), _grep),
}
