"""Programs that remove, copy, change and find files."""

from __future__ import annotations

import posixpath
import re

from core.security.places import Region
from core.security.shell.programs import Call, Handler
from core.security.shell.reader import Reader, State
from core.security.shell.words import Out, Word, literal, options


def open_device(reader: Reader, word: Word, state: State) -> bool:
    """Whether a redirection is to `/dev/tcp/HOST/PORT`, which bash connects."""
    found = re.match(r"^/dev/(?:tcp|udp)/([^/]*)/", word.text)
    if found:
        reader.findings.calling(found[1], "net.raw", word.text)
    return bool(found)


def _remove(call: Call) -> Out:
    found, rest = options(call.args, "")
    flags = {name for name, _ in found}
    recursive = bool(flags & {"-r", "-R", "--recursive"})
    if "--no-preserve-root" in flags:
        call.rule("destroy.root")
    for word in rest:
        removed(call, word, recursive=recursive)
    if call.name in ("shred", "srm", "wipe") and any(flag in flags for flag in ("-u", "--remove")):
        call.rule("destroy.work")
    return Out("")


def removed(call: Call, word: Word, *, recursive: bool) -> None:
    """A path that is removed."""
    findings, places = call.reader.findings, call.reader.findings.places
    path, is_known = call.path(word)
    plain = word.text.rstrip("/*.") if word.text.endswith("*") else word.text
    resolved = places.resolve(plain or ("/" if word.text.startswith("/") else "."), call.state.cwd)
    whole = resolved is not None and (
        places.is_above(resolved)
        or resolved in ("/", "~", "/home", places.home, "/*")
        or re.match(r"^/[a-zA-Z]+/?$", resolved)
    )
    if whole and places.place(resolved or "/") is not Region.TEMPORARY and (recursive or "*" in word.text):
        call.rule("destroy.root")
    elif not is_known:
        emptied = places.resolve(word.bare or "/", call.state.cwd)
        if emptied is None or recursive or places.place(emptied) is not Region.INSIDE:
            call.rule("destroy.variable")
    if not is_known and not path.startswith("/"):
        findings.add(findings.writes, path)
        return
    place = places.place(path)
    if "/.git" in path and (path.endswith("/.git") or "/.git/" in path):
        call.rule("destroy.history")
    if re.search(r"\.(?:bash|zsh|python)_history$|^/var/log/", places.symbolic(path)):
        call.rule("destroy.traces")
    if place in (Region.HOME, Region.OUTSIDE, Region.SYSTEM, Region.DEVICE, Region.UNKNOWN):
        call.rule("destroy.outside")
        findings.add(findings.writes, path)
        return
    if recursive:
        call.rule("destroy.folder")
    findings.writing(path, is_known=is_known)


def _copy(call: Call) -> Out:
    found, rest = options(call.args, "-t -S -m -o -g --target-directory --suffix --mode --owner --group")
    target = next((value for name, value in found if name in ("-t", "--target-directory") and value is not None), None)
    sources, targets = (rest, [target]) if target is not None else (rest[:-1], rest[-1:])
    if call.name == "install" and any(name == "-d" for name, _ in found):
        sources, targets = [], rest
    if call.name == "install" and any(
        name in ("-m", "--mode") and value and _is_setuid(value.text) for name, value in found
    ):
        call.rule("rights.setuid")
    given = Out("")
    if call.name == "ln" and any(name in ("-s", "--symbolic") for name, _ in found):
        for word in sources:
            path, _ = call.path(word)
            rule = call.reader.findings.places.secret(path)
            if rule:
                call.rule(rule)
            elif call.reader.findings.places.place(path) not in (Region.INSIDE, Region.TEMPORARY):
                call.rule("write.outside", path)
    else:
        given = call.reads(*sources)
    if len(sources) == 1 and targets:
        path, _ = call.path(sources[0])
        if posixpath.dirname(path) in ("/bin", "/usr/bin", "/sbin", "/usr/sbin", "/usr/local/bin"):
            call.reader.programs[call.path(targets[0])[0]] = posixpath.basename(path)
    if call.name == "mv":
        for word in sources:
            if call.reader.findings.places.place(call.path(word)[0]) not in (Region.INSIDE, Region.TEMPORARY):
                removed(call, word, recursive=True)
            else:
                call.writes(word)
            whole = word.text.rstrip("/*") in ("", ".", "~", "/")
            if whole or call.reader.findings.places.is_above(call.path(word)[0]):
                call.rule("destroy.root")
    call.writes(*targets)
    for word in targets:
        path, _ = call.path(word)
        call.reader.files[path] = given
        if path == "/dev/null" and call.name == "mv":
            call.rule("destroy.root")
    return Out("")


def _is_setuid(mode: str) -> bool:
    return bool(re.search(r"[ug]?\+[rwx]*s|^[246]\d{3}$", mode))


def _chmod(call: Call) -> Out:
    found, rest = options(call.args, "--reference --from")
    flags = {name for name, _ in found}
    signs = [word for word in rest if word.text.startswith("-")]
    mode, paths = (rest[0].text if rest else ""), rest[1:] or signs
    if call.name == "chmod" and _is_setuid(mode):
        call.rule("rights.setuid")
    if call.name == "chmod" and re.search(r"^0?[0-7]{2}[2367]$|[oa][+=][rx]*w|^\+w$", mode):
        call.rule("rights.wide")
    for word in paths:
        path, is_known = call.path(word)
        place = call.reader.findings.places.place(path)
        if place not in (Region.INSIDE, Region.TEMPORARY) or not is_known:
            call.rule("rights.wide")
    if flags & {"-R", "--recursive"} or call.name == "chown":
        call.rule("rights.many")
    call.writes(*paths)
    return Out("")


def _dd(call: Call) -> Out:
    given = call.stdin
    for word in call.args:
        name, _, value = word.text.partition("=")
        part = Word(value, word.bare.partition("=")[2], word.known, word.kinds)
        if name == "if":
            given = call.reads(part)
        elif name == "of":
            call.writes(part)
            if not word.known:
                call.rule("destroy.disk")
    return given


def _tee(call: Call) -> Out:
    _, rest = options(call.args, "")
    for word in rest:
        if not open_device(call.reader, word, call.state):
            call.writes(word)
            call.reader.files[call.path(word)[0]] = call.stdin
    return call.stdin


def _sed(call: Call) -> Out:
    found, rest = options(call.args, "-e -f -l --expression --file")
    flags = {name for name, _ in found}
    scripts = [value for name, value in found if name in ("-e", "--expression") and value is not None]
    if not scripts and rest and not flags & {"-f", "--file"}:
        scripts, rest = rest[:1], rest[1:]
    for word in scripts:
        if re.search(r"(?:^|[;}\d$/])\s*e(?:\s|$)|/[gpiIm\d]*e[gpiIm\d]*(?:;|$|\s)|^\d*e ", word.text):
            call.rule("opaque.code")
            if found_command := re.search(r"\be\s+(.+)$", word.text):
                call.reader.inside(found_command[1], call.state)
        for path in re.findall(r"(?:^|[;/gpI\d])\s*w\s+(\S+)", word.text):
            call.writes(literal(path))
    given = call.reads(*rest) if rest else call.stdin
    if any(flag.startswith(("-i", "--in-place")) for flag in flags):
        call.writes(*rest)
    return Out(None, given.kinds)


def _truncate(call: Call) -> Out:
    _, rest = options(call.args, "-s -r --size --reference -o -l --offset --length")
    for word in rest:
        path, _ = call.path(word)
        if call.reader.findings.places.place(path) not in (Region.INSIDE, Region.TEMPORARY):
            call.rule("destroy.emptied")
        if path.endswith("_history"):
            call.rule("destroy.traces")
        call.writes(word)
    return Out("")


def _tar(call: Call) -> Out:
    found, rest = options(
        call.args, "-f -C -T -X -I --file --directory --use-compress-program --to-command --checkpoint-action --exclude"
    )
    for name, value in found:
        if value is None:
            continue
        if name in ("--to-command", "-I", "--use-compress-program", "--rsh-command"):
            call.reader.inside(value.text, call.state)
        if name == "--checkpoint-action" and value.text.startswith("exec="):
            call.reader.inside(value.text[5:], call.state)
            call.rule("run.hooked")
    flags = {name for name, _ in found}
    bundled = rest[0].text if rest and not flags & {"-x", "-c", "-t", "--extract", "--create", "--list"} else ""
    if bundled:
        rest = rest[1:]
    makes = flags & {"-c", "--create", "-r", "-u"} or "c" in bundled
    files = [value for name, value in found if name in ("-f", "--file") and value is not None] or (
        rest[:1] if "f" in bundled else []
    )
    sources = rest[1:] if bundled and "f" in bundled else rest
    folder = next((value for name, value in found if name in ("-C", "--directory") and value is not None), None)
    if makes:
        given = call.reads(*sources, *([folder] if folder else []))
        for word in sources:
            path, _ = call.path(word)
            if call.reader.findings.places.symbolic(path) in ("~", "/", "/etc"):
                call.rule("secret.search")
        call.writes(*[word for word in files if word.text != "-"])
        return Out(None, given.kinds)
    given = call.reads(*[word for word in files if word.text != "-"]) if files else call.stdin
    if not flags & {"-t", "--list"} and "t" not in bundled:
        call.rule("write.unpacked")
        _unpacked(call, [folder] if folder is not None else [])
    return Out(None, given.kinds | call.stdin.kinds)


def _unpacked(call: Call, folders: list[Word]) -> None:
    """Folders that an archive is unpacked to; in the home folder it may bring any settings."""
    call.writes(*folders)
    for word in folders:
        if call.reader.findings.places.place(call.path(word)[0]) is Region.HOME:
            call.rule("persist.config")


def _unpack(call: Call) -> Out:
    with_value = "-d -x -P" if call.name == "unzip" else "-r-x -T"
    found, rest = options(call.args, with_value)
    flags = {name for name, _ in found}
    if call.name in ("unzip", "7z", "cpio", "patch"):
        if call.name == "patch" or flags & {"-l", "-t", "-v", "-Z"}:
            call.reads(*rest[:2])
            return Out(None, call.stdin.kinds)
        call.rule("write.unpacked")
        _unpacked(call, [value for name, value in found if name == "-d" and value is not None])
        return Out(None, call.reads(*rest[:1]).kinds)
    given = call.reads(*rest) if rest else call.stdin
    if rest and "-c" not in flags:
        call.writes(*rest[:1])
    if call.name == "zip":
        call.writes(*rest[:1])
    return Out(None, given.kinds)


def _cd(call: Call) -> Out:
    _, rest = options(call.args, "")
    if call.name == "popd" or (rest and rest[0].text == "-"):
        call.state.cwd = None
    elif not rest:
        call.state.cwd = call.reader.findings.places.home
    elif rest[0].text != "-":
        path, is_known = call.path(rest[0])
        call.state.cwd = path if is_known and path.startswith(("/", "~")) else None
    return Out("")


def _convert(call: Call) -> Out:
    plain = [word for word in call.args if not word.text.startswith("-") and ("/" in word.text or "." in word.text)]
    given = call.reads(*plain[:-1])
    call.writes(*plain[-1:])
    return Out(None, given.kinds)


def _make(call: Call) -> Out:
    _, rest = options(call.args, "-m -d -r -t --mode --date --reference")
    call.writes(*rest)
    return Out("")


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("rm", "rmdir", "shred", "srm", "wipe", "unlink", "trash"), _remove),
    **dict.fromkeys(("cp", "mv", "ln", "install", "rename"), _copy),
    **dict.fromkeys(("chmod", "chown"), _chmod),
    "dd": _dd,
    **dict.fromkeys(("tee", "sponge"), _tee),
    **dict.fromkeys(("sed", "gsed"), _sed),
    **dict.fromkeys(("truncate", "fallocate"), _truncate),
    **dict.fromkeys(("tar", "bsdtar", "gtar"), _tar),
    **dict.fromkeys(("unzip", "zip", "7z", "gzip", "bzip2", "xz", "zstd", "cpio", "patch"), _unpack),
    **dict.fromkeys(("cd", "pushd", "popd"), _cd),
    **dict.fromkeys(("convert", "magick", "ffmpeg", "pandoc"), _convert),
    **dict.fromkeys(("touch", "mkdir", "mkfifo", "mknod"), _make),
}
