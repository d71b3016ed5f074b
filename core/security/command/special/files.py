"""Programs that remove, copy, change, pack and unpack files."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable

from core.security.command.call import Call
from core.security.command.expansion import Value
from core.security.command.table import Given
from core.security.places import Region

_INSIDE = (Region.INSIDE, Region.TEMPORARY)
_WIDE = re.compile(r"0?[0-7]{2}[2367]|(?:.*,)?[ugoa]*[oa][ugoa]*[+=][rx]*w.*|\+w")
_MODE = re.compile(r"0?[0-7]{3,4}|[ugoa]*[+=-][rwxX]*(?:,[ugoa]*[+=-][rwxX]*)*")
_OLD_TAR = re.compile(r"[cxtruvzjJkpmahf]+")


def _rm(call: Call, given: Given) -> None:
    recursive = given.has("-r", "-R", "--recursive") or call.name.startswith("trash")
    if given.has("--no-preserve-root"):
        call.rule("destroy.root")
    for value in given.of("t"):
        if (
            value.text is None
            and not value.is_foreign
            and value.is_many is False
            and not value.prefix
            and not recursive
        ):
            call.rule("destroy.variable", value.shown)
        call.removes(value, recursive=recursive)


def _copy(call: Call, given: Given) -> None:
    words = list(given.of("t"))
    target = next(iter(given.values("-t", "--target-directory")), None)
    if call.name == "cp" and given.has("-s", "--symbolic-link"):
        raise call.fail(None, "links")
    modes = given.values("-m", "--mode") if call.name == "install" else []
    if any(re.search(r"s|^[2467]\d{3}$", value.start) for value in modes):
        call.rule("rights.setuid")
    if call.name == "install" and given.has("-d", "--directory"):
        sources, targets = list[Value](), words
    elif target is not None:
        sources, targets = words, [target]
    else:
        sources, targets = words[:-1], words[-1:]
    if not targets or (call.name != "install" and not sources):
        raise call.fail()
    for value in sources:
        call.reads(value)
        if call.name == "mv":
            _moved(call, value)
    is_linked = _may_copy_links(call, given) or any(_is_program(call, source) for source in sources)
    for value in targets:
        call.writes(value)
        if any(source.text == "/dev/null" for source in sources):
            call.empties(value)
        for path in call.paths(value):
            if call.name == "mv" and path == "/dev/null":
                call.rule("destroy.root")
            names = [posixpath.basename((source.text or "").rstrip("/")) for source in sources if not source.is_glob]
            for made in (path, *(f"{path.rstrip('/')}/{name}" for name in names if name)):
                call.shell = call.shell.with_link(made) if is_linked else call.shell.with_written(made)


def _may_copy_links(call: Call, given: Given) -> bool:
    return bool(call.shell.links) and given.has(
        "-a", "-d", "-P", "-r", "-R", "--archive", "--recursive", "--no-dereference"
    )


def _is_program(call: Call, value: Value) -> bool:
    """Whether a file may be a program of the system."""
    return (
        value.text is not None
        and any(call.findings.places.place(path) is Region.SYSTEM for path in call.paths(value))
        and "bin" in value.shown
    )


def _moved(call: Call, value: Value) -> None:
    """A file that is moved is not where it was."""
    places = call.findings.places
    for path in call.paths(value):
        if places.is_above(path):
            call.rule("destroy.root", path)
        elif places.place(path) not in _INSIDE:
            call.removes(value, recursive=True)
        else:
            if path.endswith("/.git") or "/.git/" in path:
                call.rule("destroy.history", path)
            call.findings.writing(path)
        call.shell = call.shell.with_written(path)


def _link(call: Call, given: Given) -> None:
    words = list(given.of("t"))
    target = next(iter(given.values("-t", "--target-directory")), None)
    sources = words if target is not None or len(words) == 1 else words[:-1]
    targets = [target] if target is not None else words[-1:] if len(words) > 1 else []
    for value in sources:
        if value.text is None:
            raise call.fail(value, "where a link leads")
        relative = not value.text.startswith(("/", "~"))
        if relative and ".." in value.text.split("/"):
            call.findings.unclear.setdefault("read", value.shown)
            call.findings.unclear.setdefault("write", value.shown)
            call.rule("write.outside", value.shown)
            continue
        for path in call.paths(value):
            if rule := call.findings.places.secret(path):
                call.rule(rule, path)
            if call.findings.places.place(path) not in _INSIDE:
                call.rule("write.outside", path)
            call.findings.add(call.findings.reads, path)
            call.findings.add(call.findings.writes, path)
    for value in targets or [Value(posixpath.basename(one.text or ""), one.shown) for one in sources]:
        call.writes(value)
        if given.has("-f", "--force"):
            call.empties(value)
        for path in call.paths(value):
            call.shell = call.shell.with_link(path)
            for source in sources:
                call.shell = call.shell.with_link(f"{path.rstrip('/')}/{posixpath.basename(source.text or '')}")


def _chmod(call: Call, given: Given) -> None:
    words = list(given.of("t"))
    if not words or (words[0].text is None and not given.has("--reference")):
        raise call.fail()
    mode, paths = words[0].text or "", words if given.has("--reference") else words[1:]
    if call.name == "chmod" and not given.has("--reference"):
        if re.search(r"\+[rwxXt]*s|^[24567]\d{3}$|=\w*s", mode):
            call.rule("rights.setuid")
        elif _WIDE.fullmatch(mode):
            call.rule("rights.wide")
        elif not _MODE.fullmatch(mode):
            raise call.fail(words[0], "a mode")
    for value in paths:
        if value.text is None:
            raise call.fail(value, "whose rights")
        if any(call.findings.places.place(path) not in _INSIDE for path in call.paths(value)):
            call.rule("rights.wide")
        for path in call.paths(value):
            call.findings.writing(path)
    if given.has("-R", "--recursive"):
        call.rule("rights.many")


def _truncate(call: Call, given: Given) -> None:
    for value in given.of("w"):
        call.empties(value)
        if value.start.endswith("_history"):
            call.rule("destroy.traces", value.shown)


def _dd(call: Call, given: Given) -> None:
    for value in given.of("t"):
        name, equals, _ = value.start.partition("=")
        if not equals or name not in (
            "if",
            "of",
            "bs",
            "count",
            "skip",
            "seek",
            "conv",
            "status",
            "iflag",
            "oflag",
            "ibs",
            "obs",
        ):
            raise call.fail(value, "an operand of dd")
        part = value.behind(len(name) + 1)
        if name == "if":
            call.reads(part)
        elif name == "of":
            call.writes(part)
            call.empties(part)


def _tar(call: Call, given: Given) -> None:
    words, files = list(given.of("t")), given.values("-f", "--file")
    makes = given.has("-c", "--create", "-r", "--append", "-u", "--update")
    lists = given.has("-t", "--list") or given.has("-O", "--to-stdout")
    opens = given.has("-x", "-t", "--extract", "--get", "--list")
    if not (makes or opens):
        letters = words.pop(0).text if words else None
        if letters is None or not _OLD_TAR.fullmatch(letters):
            raise call.fail(None, "what tar does")
        makes, lists = bool(set("cru") & set(letters)), "t" in letters
        if "f" in letters:
            if not words:
                raise call.fail()
            files = [words.pop(0)]
    for value in files:
        if value.text is None or (":" in value.text and "/" not in value.text.partition(":")[0]):
            raise call.fail(value, "an archive of another machine")
        (call.writes if makes else call.reads)(value)
    if makes:
        if given.has("-T"):
            raise call.fail()
        for value in words:
            call.reads(value)
            for path in call.paths(value) if value.text is not None else ():
                if call.findings.places.symbolic(path) in ("~", "/", "/etc"):
                    call.rule("secret.search", path)
    elif not lists:
        unpacked(call)


def unpacked(call: Call) -> None:
    """An archive is unpacked to the folder where the call works."""
    call.rule("write.unpacked")
    if not call.folders:
        raise call.fail(None, "the current folder is not known")
    for folder in call.folders:
        call.findings.writing(folder)
        if call.findings.places.place(folder) is Region.HOME:
            call.rule("persist.config", folder)
        call.shell = call.shell.with_written(f"{folder}/unpacked")


def _zip(call: Call, given: Given) -> None:
    for value in given.of("t"):
        call.reads(value)
    if call.args and any(value.text and re.fullmatch(r"-\w*[m@T]\w*", value.text) for value in call.args):
        raise call.fail(None, "an option of zip")


def _unpack(call: Call, given: Given) -> None:
    if call.name.startswith("7z"):
        if not given.of("t") or given.of("t")[0].text not in ("x", "e", "l", "t"):
            raise call.fail()
        if given.of("t")[0].text in ("l", "t"):
            return
    if not given.has("-l", "-t", "-v", "-Z", "-p"):
        unpacked(call)


def _compress(call: Call, given: Given) -> None:
    for value in given.of("t"):
        call.reads(value)
        if not given.has("-c", "--stdout", "-l", "--list", "-t", "--test"):
            call.writes(value)


def _patch(call: Call, given: Given) -> None:
    if given.has("--dry-run"):
        return
    call.findings.unclear.setdefault("write", call.source)
    for folder in call.folders:
        call.findings.writing(folder)
        if call.findings.places.place(folder) not in _INSIDE:
            call.rule("write.outside", folder)


def _split(call: Call, given: Given) -> None:
    for value in given.of("w"):
        call.findings.unclear.setdefault("write", value.shown)


def _copy_over(call: Call, given: Given) -> None:
    words = list(given.of("t"))
    if any(value.text is None for value in words) or len(words) < 2:
        raise call.fail(None, "what is copied")
    remote = [value for value in words if _host(value.text or "")]
    for value in remote:
        call.findings.calling(_host(value.text or ""), "net.login", value.shown)
    local = [value for value in words if value not in remote]
    to_remote = words[-1] in remote
    for value in local if to_remote else local[:-1]:
        call.reads(value)
    if to_remote:
        call.rule("net.upload")
        if {"secret.read", "secret.process"} & call.findings.rules.keys():
            call.rule("secret.sent")
        return
    call.writes(words[-1])
    if any(name.startswith("--delete") for name, _ in given.options):
        call.rule("destroy.folder")
        call.empties(words[-1])
        if any(call.findings.places.is_above(path) for path in call.paths(words[-1])):
            call.rule("destroy.root")


def _host(text: str) -> str:
    if "://" in text:
        return re.sub(r"^\w+://(?:[^@/]*@)?([^/:]*).*", r"\1", text)
    found = re.match(r"^(?:[^@/:]+@)?(\[[^\]]+\]|[^/:@]+)::?", text)
    return found[1] if found else ""


def _keygen(call: Call, given: Given) -> None:
    if given.of("t"):
        raise call.fail(given.of("t")[0], "an operand of ssh-keygen")
    if not given.has("-f"):
        call.writes(Value("~/.ssh/id_rsa", "~/.ssh/id_rsa"))
    for value in given.values("-f"):
        call.writes(Value(f"{value.text}.pub" if value.text else None, value.shown))


HANDLERS: dict[str, Callable[[Call, Given], None]] = {
    "rm": _rm,
    "copy": _copy,
    "link": _link,
    "chmod": _chmod,
    "truncate": _truncate,
    "dd": _dd,
    "tar": _tar,
    "zip": _zip,
    "unpack": _unpack,
    "compress": _compress,
    "patch": _patch,
    "split": _split,
    "copy_over": _copy_over,
    "keygen": _keygen,
}
