"""Programs that create, copy, link and remove files, and change their permissions."""

from __future__ import annotations

import posixpath

from core.security.paths import Region
from core.security.shell.expansion import Value
from core.security.shell.program_call import Call
from core.security.shell.program_table import Arguments, Handler

TABLE = """
~ mkdir | -pv -m=/0?[0-7][0145][0145]/ --parents --verbose | m*
~ touch | -acm | w*
~ rmdir | -pv | d*
~ unlink | | d
~ rm | -rRfivId --recursive --force --verbose | t* | !rm
  cp | -afinpRruvLPT --recursive --verbose --force --no-clobber --archive | t* | !copy
  mv | -finuv --verbose --force --no-clobber | t* | !copy
  ln | | q | !link
  chmod | -v | /0?[67][0145][0145]|[ua]?[+-]x|u[+-][rwx]+|g?o?-[rwx]+/ t* | !chmod
  mktemp | -dqu |
  zip | -rqvj9 | w r* | !zip
"""
"""See `core.security.shell.program_table` for the language."""

_INSIDE = (Region.INSIDE, Region.TEMPORARY)


def _rm(call: Call, arguments: Arguments) -> None:
    for value in arguments.operands_of("t"):
        call.removes(value, recursive=arguments.has("-r", "-R", "--recursive"))


def _copy(call: Call, arguments: Arguments) -> None:
    words = arguments.operands_of("t")
    if len(words) < 2:
        raise call.fail()
    *sources, target = words
    for value in sources:
        call.reads(value)
        if (
            posixpath.basename(value.start) in {".", ""}
            or (arguments.has("-T") and arguments.has("-r", "-R", "-a"))
            or (value.is_glob and posixpath.basename(value.start).startswith((".", "[", "?")))
        ):
            call.findings.not_understood(value.shown, "it may copy hidden files")
        for path in call.paths(value):
            if any(link.startswith(f"{path}/") for link in call.shell.links):
                raise call.fail(value, "a folder with links")
            if call.findings.places.place(path) not in (*_INSIDE, Region.OUTSIDE):
                call.findings.not_understood(value.shown, "a file of the system")
            if call.name == "mv":
                _moved(call, path)
                call.findings.add(call.findings.whole, path)
    call.writes(target)
    for path in call.paths(target):
        if call.name == "mv" or arguments.has("-r", "-R", "-a", "--recursive", "--archive"):
            call.findings.add(call.findings.whole, path)
        if any(source.text == "/dev/null" for source in sources):
            call.truncates(target)
        if call.name == "mv" and path == "/dev/null":
            call.report("destroy.root")
        for source in sources:
            call.writes(Value(f"{path}/{posixpath.basename((source.text or '').rstrip('/'))}", target.shown))


def _moved(call: Call, path: str) -> None:
    """A file that is moved is not where it was."""
    places = call.findings.places
    if places.is_above(path):
        call.report("destroy.root", path)
    elif places.place(path) not in _INSIDE:
        call.report("destroy.outside", path)
    call.findings.write_path(path)
    call.shell = call.shell.with_written(path)


def _link(call: Call, arguments: Arguments) -> None:
    """A link always asks; what leads through it asks, too."""
    for value in arguments.operands_of("q"):
        if not value.start.startswith("-"):
            for path in call.paths(value) if value.text is not None else ():
                call.shell = call.shell.with_link(path)
                for other in arguments.operands_of("q"):
                    call.shell = call.shell.with_link(f"{path}/{posixpath.basename(other.start)}")
    call.findings.not_understood(call.source, "a link")


def _chmod(call: Call, arguments: Arguments) -> None:
    for value in arguments.operands_of("t"):
        for path in call.paths(value):
            if call.findings.places.place(path) not in _INSIDE:
                call.report("rights.wide")
            call.findings.write_path(path)
            call.shell = call.shell.with_program(path)


def _zip(call: Call, arguments: Arguments) -> None:
    """A name without a dot gets `.zip` behind it."""
    for value in arguments.operands_of("w"):
        if value.text and "." not in posixpath.basename(value.text):
            call.writes(Value(f"{value.text}.zip", value.shown))


HANDLERS: dict[str, Handler] = {
    "rm": _rm,
    "copy": _copy,
    "link": _link,
    "chmod": _chmod,
    "zip": _zip,
}
