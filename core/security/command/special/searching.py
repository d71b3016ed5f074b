"""Programs that search and filter, and those that start other programs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from core.security.command.call import Call, Input
from core.security.command.expansion import Value
from core.security.command.table import Given
from core.security.command.variables import is_harmless
from core.security.places import Region
from core.security.rules import names

_SECRETS = re.compile(r"id_rsa|id_ed25519|\.pem|credential|\.env$|secret|passw|\.aws|\.ssh|\.kube")
_SECRET_TEXT = re.compile(r"(?i)BEGIN.*PRIVATE|AKIA|api[_-]?key|secret|passw|token|aws_")
_SECRET_NAME = re.compile(r"(?i)key|token|secret|passw|pwd$|credential|auth")
_FLAGS = names(
    "-o -a -or -and -not ! ( ) , -print -print0 -prune -empty -depth -d -xdev -mount -readable -writable "
    "-executable -true -false -ls -quit -daystart -noleaf -nouser -nogroup -follow -nowarn"
)
_VALUES = names(
    "-name -iname -path -ipath -wholename -regex -iregex -regextype -type -xtype -size -mtime -mmin "
    "-atime -amin -ctime -cmin -maxdepth -mindepth -perm -user -group -uid -gid -links -inum -fstype "
    "-newermt -printf -used -lname -ilname"
)
_RUNS = frozenset(["-exec", "-execdir"])
_NARROWS = names("-name -iname -path -ipath -regex -mtime -mmin -empty -size -newer")


def _man(call: Call, given: Given) -> None:
    for value in given.of("t"):
        if "/" in (value.text or "/"):
            call.reads(value)


def _strict(call: Call, given: Given) -> None:
    for value in (*given.of("t"), *given.of("r")):
        if value.start.startswith("+"):
            raise call.fail(value, f"a command of {call.name}")
        if (
            value.text is not None
            and value.text.startswith("-")
            and len(value.text) > 1
            and not value.text[1].isdigit()
        ):
            raise call.fail(value, f"an option of {call.name}")


def _printenv(call: Call, given: Given) -> None:
    names = [value.text or "?" for value in given.of("t")]
    if not names:
        call.rule("secret.environment")
    elif any(map(_SECRET_NAME.search, names)):
        call.rule("secret.keyring")


def _grep(call: Call, given: Given) -> None:
    searched = " ".join(value.shown for value in (*given.of("p"), *given.values("-e", "--regexp")))
    if call.name == "rg" and given.has("--files"):
        for value in given.of("p"):
            call.reads(value)
    if not _SECRET_TEXT.search(searched):
        return
    places = call.findings.places
    paths = [path for value in given.of("r") if value.text is not None for path in call.paths(value)]
    outside = any(places.place(path) in (Region.HOME, Region.SYSTEM) for path in paths)
    if outside or (re.search(r"AKIA|PRIVATE", searched) and not call.stdin.is_given):
        call.rule("secret.search")


def _find_names(call: Call, given: Given) -> None:
    if any(_SECRETS.search(value.shown) for value in given.of("p")):
        call.rule("secret.search")


def _find(call: Call, given: Given) -> None:
    args = list(given.of("a"))
    while args and args[0].text in ("-L", "-H", "-P"):
        args.pop(0)
    roots = list[Value]()
    while args and not (args[0].start.startswith(("-", "!", "(")) or (args[0].text is None and not args[0].prefix)):
        roots.append(args.pop(0))
    if args and args[0].text is None and not args[0].is_foreign and not args[0].is_many:
        roots.append(args.pop(0))
    roots = roots or [Value(".", ".")]
    for root in roots:
        call.reads(root)
    texts = [value.text for value in args]
    if any(text in ("-name", "-iname") for text in texts) and any(_SECRETS.search(text or "") for text in texts):
        call.rule("secret.search")
    while args:
        args = _find_one(call, args, roots, narrows=bool(_NARROWS & set(filter(None, texts))))


def _find_one(call: Call, args: list[Value], roots: list[Value], *, narrows: bool) -> list[Value]:
    """Read one part of the expression; the rest of it."""
    text = args[0].text
    if text in _FLAGS:
        return args[1:]
    if text in _VALUES and len(args) > 1:
        if args[1].is_many:
            raise call.fail(args[1], "an expression of find")
        return args[2:]
    if text == "-newer" and len(args) > 1:
        call.reads(args[1])
        return args[2:]
    if text == "-delete":
        _found_removed(call, roots, narrows=narrows)
        return args[1:]
    if text in _RUNS:
        end = next((n for n, value in enumerate(args) if value.text in (";", "+") and n > 1), 0)
        if not end:
            raise call.fail(args[0], "an expression of find")
        inner = args[1:end]
        if inner[0].text in ("rm", "/bin/rm", "unlink", "shred", "rmdir"):
            _found_removed(call, roots, narrows=narrows)
            inner = [one for one in inner if "{}" not in (one.text or "")] + [Value("./found", "{}")]
        for root in roots:
            base = (root.text or "").rstrip("/") or ("/" if root.text else "")
            found = Value(f"{base}/*" if root.text is not None else None, "{}", is_glob=True, is_foreign=True)
            words = [found if one.text == "{}" else one for one in inner]
            if any("{}" in (one.text or "") for one in words):
                words = [replace(one, text=None, prefix=one.text.partition("{}")[0], is_foreign=True)
                         if one.text and "{}" in one.text else one for one in words]  # fmt: skip
            call.command(words, Input(is_given=False))
        return args[end + 1 :]
    raise call.fail(args[0], "an expression of find")


def _found_removed(call: Call, roots: list[Value], *, narrows: bool) -> None:
    places = call.findings.places
    for root in roots:
        for path in call.paths(root):
            if places.place(path) not in (Region.INSIDE, Region.TEMPORARY):
                call.rule("destroy.root" if path == "/" else "destroy.outside", path)
            else:
                call.rule("destroy.found" if narrows else "destroy.root", path)
            call.findings.writing(path)


def _jq(call: Call, given: Given) -> None:
    for value in given.of("p"):
        if (value.text is None and value.is_foreign) or re.search(
            r"\b(?:import|include|input_filename)\b", value.shown
        ):
            raise call.fail(value, "a filter")
        if re.search(r"\$ENV\b|\benv\b", value.shown):
            call.rule("secret.environment")
        if re.search(r"\b(?:load|strenv|env)\w*\s*\(", value.shown):
            raise call.fail(value, "a filter")
    if call.name == "yq" and given.has("-i"):
        for value in given.of("r"):
            call.writes(value)


# -- sed and awk -------------------------------------------------------------------------------------------------------

_ADDRESS = r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n]|\\.)*/I?)"
_SED = re.compile(
    rf"(?:\s|;|\}}|(?:{_ADDRESS}(?:\s*,\s*[+~]?{_ADDRESS})?\s*)?!?\s*(?:\{{|[pdDgGhHxnNPl=](?=[\s;}}]|$)|[qQ]\d*(?=[\s;}}]|$)"
    r"|[sy](?P<mark>[/|,#@:!_+%~])(?:(?!(?P=mark))[^\\\n]|\\.)*(?P=mark)(?:(?!(?P=mark))[^\\\n]|\\.|\\\n)*(?P=mark)[gpiIM\d]*(?=[\s;}]|$)"
    r"|[aic](?:\\\n|\\)?[^\n]*(?=\n|$)|[bt:]\s*\w*(?=[\s;}]|$)))",
    re.DOTALL,
)
_AWK_REFUSED = re.compile(
    r"[|>@`]|\b(?:system|getline|close|fflush|ENVIRON|ARGV|ARGC|PROCINFO|SYMTAB|FUNCTAB|printf\s*\(?[^)]*>)\b"
)


def is_plain_sed(script: str) -> bool:
    """Whether a script of sed reads no other file, writes none, and runs nothing."""
    at = 0
    while at < len(script):
        found = _SED.match(script, at)
        if found is None or found.end() == at:
            return False
        at = found.end()
    return True


def _sed(call: Call, given: Given) -> None:
    scripts = [*given.of("p"), *given.values("-e", "--expression")]
    for value in scripts:
        if value.text is None or len(value.text) > 2_000 or not is_plain_sed(value.text):
            raise call.fail(value, "a script of sed")
    if given.has("-i", "--in-place"):
        if any(value.text and "/" in value.text for value in given.values("-i", "--in-place")):
            raise call.fail(None, "where sed keeps the old file")
        for value in given.of("r"):
            call.writes(value)
            call.empties(value)


def _awk(call: Call, given: Given) -> None:
    for value in given.of("p"):
        text = (value.text or "|").replace("||", "").replace(">=", "")
        if _AWK_REFUSED.search(re.sub(r"/(?:[^/\\\n]|\\.)*/", "//", text)) or len(text) > 4_000:
            raise call.fail(value, "a script of awk")
    for value in given.values("-v", "--assign"):
        if re.match(r"\s*(?:ENVIRON|ARGV|ARGC|PROCINFO)", value.start) or (value.text is None and not value.prefix):
            raise call.fail(value, "a variable of awk")


# -- programs that start others ----------------------------------------------------------------------------------------


def _xargs(call: Call, given: Given) -> None:
    words = list(given.of("a")) or [Value("echo", "echo")]
    mark = next((value.text for value in given.values("-I", "--replace")), None)
    if given.has("-I", "--replace"):
        mark = mark or "{}"
        changed = [replace(one, text=None, prefix=(one.text or "").partition(mark)[0], is_foreign=True)
                   if one.text and mark in one.text else one for one in words]  # fmt: skip
        call.command(changed, Input(is_given=False))
    else:
        prefix = "./" if call.stdin.is_listing else ""
        found = Value(None, "...", prefix, is_foreign=not call.stdin.is_listing, is_many=True)
        call.command([*words, found], Input(is_given=False))


def _env(call: Call, given: Given) -> None:
    words, prefix = list(given.of("a")), list[str]()
    while words and "=" in words[0].start:
        name = words[0].start.partition("=")[0]
        if not is_harmless(name, None):
            raise call.fail(words[0], "a variable that programs may obey")
        prefix.append(words.pop(0).shown)
    if not words:
        call.rule("secret.environment")
        return
    call.command(words)


def _sudo(call: Call, given: Given) -> None:
    if not given.of("$"):
        raise call.fail(None, "a shell of the administrator")


HANDLERS: dict[str, Callable[[Call, Given], None]] = {
    "man": _man,
    "strict": _strict,
    "printenv": _printenv,
    "grep": _grep,
    "find_names": _find_names,
    "find": _find,
    "jq": _jq,
    "sed": _sed,
    "awk": _awk,
    "xargs": _xargs,
    "env": _env,
    "sudo": _sudo,
}
