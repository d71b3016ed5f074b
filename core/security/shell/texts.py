"""Programs whose output can be told: they print what they are given, or turn one text into another."""

from __future__ import annotations

import base64
import binascii
import codecs
import gzip

from core.security.rules import names
from core.security.shell.programs import Call, Handler
from core.security.shell.words import NOTHING, Out, Word, ansi_c, options

MAX_TEXT = 64 * 1024
PLAIN = frozenset({"plain"})
"""What a program prints that says nothing about the user."""


def _kinds(call: Call) -> frozenset[str]:
    return NOTHING.union(*(word.kinds for word in call.args))


def _shows(call: Call) -> None:
    """A secret of the environment that is printed."""
    if any("secret" in word.kinds and not word.known and word.text.startswith("$") for word in call.args):
        call.rule("secret.environment")


def _echo(call: Call) -> Out:
    _shows(call)
    args, is_escaped, newline = list(call.args), False, "\n"
    while args and args[0].text in ("-e", "-n", "-ne", "-en", "-E"):
        flag = args.pop(0).text
        is_escaped, newline = is_escaped or "e" in flag, "" if "n" in flag else newline
    if not all(word.known for word in args):
        return Out(None, _kinds(call))
    text = " ".join(word.text for word in args)
    return Out((ansi_c(text) if is_escaped else text)[:MAX_TEXT] + newline, _kinds(call))


def _printf(call: Call) -> Out:
    _shows(call)
    args = list(call.args)
    if args and args[0].text == "-v" and len(args) > 2:
        out = _printf(Call(call.reader, call.state, "printf", args[2:], call.stdin))
        call.state.variables[args[1].text] = Word(out.text or "", out.text or "", out.text is not None, out.kinds)
        return Out("")
    if args and args[0].text == "--":
        args = args[1:]
    if not args or not all(word.known for word in args):
        return Out(None, _kinds(call))
    template, values = ansi_c(args[0].text), [word.text for word in args[1:]]
    text = ""
    for _ in range(64):
        part, values = _filled(template, values)
        text += part
        if not values or "%" not in template or len(text) > MAX_TEXT:
            break
    built = (
        frozenset({"decoded"}) if "\\x" in args[0].text or "\\0" in args[0].text or "\\1" in args[0].text else NOTHING
    )
    return Out(text[:MAX_TEXT], _kinds(call) | built)


def _filled(template: str, values: list[str]) -> tuple[str, list[str]]:
    """A template of printf with its values in it, and those that are left."""
    parts, values, at = list[str](), list(values), 0
    while at < len(template):
        char = template[at]
        at += 1
        if char != "%" or at >= len(template):
            parts.append(char)
            continue
        while at < len(template) - 1 and template[at] in "-+ #0123456789.":
            at += 1
        kind = template[at]
        at += 1
        if kind == "%":
            parts.append("%")
            continue
        value = values.pop(0) if values else ""
        parts.append(ansi_c(value) if kind == "b" else value[:1] if kind == "c" else value)
    return "".join(parts), values


def _given(call: Call, rest: list[Word]) -> Out:
    """What a filter reads: its files, or its standard input."""
    return call.reads(*rest) if rest else call.stdin


def _cat(call: Call) -> Out:
    _, rest = options(call.args)
    return _given(call, [word for word in rest if word.text != "-"]) if rest else call.stdin


def _base64(call: Call) -> Out:
    found, rest = options(call.args, "-w -i --wrap -b")
    given = _given(call, rest)
    flags = {name for name, _ in found}
    if not flags & {"-d", "-D", "--decode", "--base64"} or ("-w" in flags and "-d" not in flags):
        return Out(None, given.kinds)
    decode = base64.b32decode if call.name == "base32" else base64.b64decode
    return _decoded(given, lambda text: decode("".join(text.split()) + "=" * 4))


def _decoded(given: Out, decode: object) -> Out:
    kinds = given.kinds | {"decoded"}
    if given.text is None:
        return Out(None, kinds)
    try:
        data = decode(given.text)  # type: ignore[operator]
    except (ValueError, binascii.Error, OSError, EOFError):
        return Out(None, kinds)
    return Out(data[:MAX_TEXT].decode("utf-8", "replace"), kinds)


def _base64_strict(text: str) -> bytes:
    return base64.b64decode("".join(text.split()))


def _xxd(call: Call) -> Out:
    found, rest = options(call.args, "-l -s -c -g")
    given = _given(call, rest[:1])
    flags = {name for name, _ in found}
    if "-r" not in flags:
        return Out(None, given.kinds)
    return _decoded(given, lambda text: bytes.fromhex("".join(text.split())))


def _openssl(call: Call) -> Out:
    args = [word.text for word in call.args]
    if "s_client" in args or "s_server" in args:
        call.rule("net.raw")
    files = [call.args[at + 1] for at, text in enumerate(args[:-1]) if text == "-in"]
    given = _given(call, files)
    outs = [call.args[at + 1] for at, text in enumerate(args[:-1]) if text in ("-out", "-keyout")]
    call.writes(*outs)
    if "-d" in args and ({"base64", "-base64", "-a"} & set(args)) and args[:1] != ["enc"]:
        return _decoded(given, _base64_strict)
    return Out(None, given.kinds | ({"decoded"} if "-d" in args else NOTHING))


def _rev(call: Call) -> Out:
    given = _given(call, options(call.args)[1])
    kinds = given.kinds | {"decoded"}
    return Out(given.text and "\n".join(line[::-1] for line in given.text.split("\n")), kinds)


def _tr(call: Call) -> Out:
    plain = [word.text for word in call.args if not word.text.startswith("-")]
    flags = "".join(word.text for word in call.args if word.text.startswith("-"))
    kinds = call.stdin.kinds | {"decoded"}
    if call.stdin.text is None:
        return Out(None, kinds)
    if "d" in flags and plain:
        return Out("".join(char for char in call.stdin.text if char not in _span(plain[0])), kinds)
    if len(plain) != 2 or flags:
        return Out(None, kinds)
    old, new = _span(plain[0]), _span(plain[1])
    if plain in (["A-Za-z", "N-ZA-Mn-za-m"], ["a-zA-Z", "n-za-mN-ZA-M"]):
        return Out(codecs.encode(call.stdin.text, "rot13"), kinds)
    table = {ord(char): new[min(at, len(new) - 1)] for at, char in enumerate(old)} if new else {}
    return Out(call.stdin.text.translate(table), kinds)


def _span(text: str) -> str:
    text, found, at = ansi_c(text), "", 0
    while at < len(text):
        if text[at + 1 : at + 2] == "-" and at + 2 < len(text) and text[at] < text[at + 2] and ord(text[at + 2]) < 256:
            found += "".join(map(chr, range(ord(text[at]), ord(text[at + 2]) + 1)))
            at += 3
        else:
            found, at = found + text[at], at + 1
    return found


def _gunzip(call: Call) -> Out:
    given = _given(call, options(call.args)[1])
    if "-c" not in {word.text for word in call.args} and call.name == "gunzip" and options(call.args)[1]:
        call.writes(*options(call.args)[1])
    return (
        Out(None, given.kinds | {"decoded"})
        if given.text is None
        else _decoded(given, lambda text: gzip.decompress(text.encode()))
    )


def _which(call: Call) -> Out:
    _, rest = options(call.args)
    if call.name == "command" and not any(word.text in ("-v", "-V") for word in call.args[:1]):
        return call.again(rest) if rest else Out("")
    known = rest and all(word.known for word in rest)
    return Out("\n".join(word.text for word in rest), PLAIN) if known else Out(None, _kinds(call))


def _filter(call: Call) -> Out:
    """A program that passes on a part of what it reads."""
    with_value = "-f -d -c -b -n -k -t -o -T -S" if call.name in ("cut", "head", "tail", "sort") else ""
    _, rest = options(call.args, with_value)
    given = _given(call, [word for word in rest if not word.text.isdigit()])
    return Out(None, given.kinds)


def _fixed(call: Call) -> Out:
    match call.name:
        case "pwd":
            return Out(call.state.cwd, PLAIN)
        case "mktemp":
            return Out("/tmp/mktemp.XXXXXX", PLAIN)  # noqa: S108  # where mktemp makes its files
        case "hostname" | "whoami" | "id":
            return Out(None)
    return Out(None, PLAIN)


HANDLERS: dict[str, Handler] = {
    "echo": _echo,
    "printf": _printf,
    "cat": _cat,
    **dict.fromkeys(("base64", "base32", "basenc"), _base64),
    "xxd": _xxd,
    "openssl": _openssl,
    "rev": _rev,
    "tr": _tr,
    **dict.fromkeys(("gunzip", "zcat", "bzcat", "xzcat", "unxz", "bunzip2"), _gunzip),
    **dict.fromkeys(("which", "type", "command"), _which),
    **dict.fromkeys(("cut", "head", "tail", "sort", "uniq", "tac", "wc", "nl", "fold"), _filter),
    **dict.fromkeys(
        names("pwd mktemp uname date nproc arch hostname whoami id seq lsb_release sw_vers uuidgen"),
        _fixed,
    ),
    "dirname": lambda call: Out(None, _kinds(call) | PLAIN),
    "basename": lambda call: Out(None, _kinds(call) | PLAIN),
}
