"""Patterns of policy rules and permissions: `bash(git push *)`, `write(/etc/**)`, `net(*.example.com)`, `*`.

An action has parts (each simple command of a line, each file that is written, a page, a tool). It is covered where
every part of it is; it is touched where any part is, or what it reads, writes or calls. Allowing wants it covered,
asking and denying only touched, so that what cannot be told is never allowed by a narrow pattern. In bash, net, mcp,
agent and browser `*` stands for anything; in paths `*` stays within one folder and `**` does not. `\\*` is a star.
Matching takes time linear in the text for each star, whoever wrote the pattern.
"""

from __future__ import annotations

import os.path
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from core.autorun_paths import is_autorun
from core.events import (
    Action,
    AgentDelegateAction,
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
    MCPAction,
)
from core.globs import matches, unescaped
from core.security.facts import Facts

FOREIGN = "foreign"
"""Covers no action: it names foreign content that the user knows to be fine, by its address, path or tool."""
TOOLS = ("bash", "read", "write", "net", "browser", "mcp", "cell", "agent", FOREIGN)
MAX_CHARS = 2_000
"""Of one pattern: longer ones are read by nobody."""
HARMLESS_FILES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_PATTERN = re.compile(rf"({'|'.join(TOOLS)})\((.*)\)", re.DOTALL)
_NEXT = re.compile(rf"(?<=\))\s+(?=(?:{'|'.join(TOOLS)})\()")
_PATHS = frozenset({"read", "write"})
_OBEYED = frozenset({".git", ".openhands"})
"""Folders whose files programs run or obey, beside those of `autorun`."""
_SITE = re.compile(r"https?://[^/*]+/")


class PatternError(ValueError):
    """Not a pattern; the text says what one looks like."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """What it is about, and a glob; no tool is everything."""

    tool: str
    glob: str

    def __str__(self) -> str:
        return f"{self.tool}({self.glob})" if self.tool else "*"

    @property
    def is_all(self) -> bool:
        """Whether it covers everything of its tool, whatever cannot be told of it included."""
        return not self.tool or self.glob in ("*", "**")

    @property
    def is_definite(self) -> bool:
        """Whether it says what is done, and not only by which program: `git push *` and no `git *`."""
        named, star, _rest = self.glob.partition("*")
        if not star or self.is_all:
            return not self.is_all
        if self.tool in _PATHS:
            return named.count("/") > 1
        return len(named.split(" ")) > 2 if self.tool == "bash" else bool(_SITE.match(named))


def parse(text: str) -> Pattern:
    """Read one pattern. Raises PatternError."""
    text = text.strip()
    if text == "*":
        return Pattern("", "*")
    if len(text) > MAX_CHARS:
        raise PatternError(f"A pattern has at most {MAX_CHARS} characters.")
    found = _PATTERN.fullmatch(text)
    if found is None or not found[2].strip():
        shown = text if len(text) <= 60 else f"{text[:60]}…"
        raise PatternError(f"{shown!r} is no pattern. Write TOOL(GLOB), such as bash(git push *), or *. "
                           f"Tools: {', '.join(TOOLS)}.")  # fmt: skip
    return Pattern(found[1], found[2].strip())


def parse_all(text: str) -> tuple[Pattern, ...]:
    """Read one or several patterns, apart by spaces. Raises PatternError."""
    return tuple(dict.fromkeys(parse(part) for part in _NEXT.split(text.strip())))


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an action; no text is one that cannot be told."""

    tool: str
    text: str | None
    host: str = ""


@dataclass(frozen=True, slots=True)
class WorkFolders:
    """Where paths lead to: the folder of the work, and the home that `~` stands for."""

    workspace: str
    home: str

    @property
    def is_here(self) -> bool:
        """Whether the folder is one of this machine, so that links in it can be followed."""
        return os.path.isdir(self.workspace)


def parts_of(action: Action, facts: Facts, folders: WorkFolders) -> tuple[Part, ...]:
    """What all has to be covered for the action to be allowed. Follows links on the disk."""
    match action:
        case CmdRunAction():
            commands = [Part("bash", command) for command in facts.commands]
            if facts.opaque or not commands:
                commands.append(Part("bash", None))
            outside = [path for path in facts.writes if path not in HARMLESS_FILES and not is_inside(path, folders)]
            return (*commands, *(Part("write", path) for path in outside))
        case FileReadAction(path=path) | FileEditAction(command="view", path=path):
            return tuple(Part("read", read) for read in facts.reads or (path,))
        case FileWriteAction(path=path) | FileEditAction(path=path):
            return tuple(Part("write", written) for written in facts.writes or (path,))
        case IPythonRunCellAction(code=code):
            return (Part("cell", code),)
        case BrowseURLAction(url=url):
            return (Part("browser", url, next(iter(facts.hosts), "")),)
        case BrowseInteractiveAction():
            return (Part("browser", None),)
        case MCPAction(name=name):
            return (Part("mcp", name),)
        case AgentDelegateAction(agent=agent):
            return (Part("agent", agent),)
    return (Part(action.kind, None),)


def covers(pattern: Pattern, part: Part, folders: WorkFolders) -> bool:
    """Whether a pattern that allows covers this part, whichever way it is named."""
    if not pattern.tool:
        return True
    if pattern.tool == "net":
        return bool(part.host) and matches(pattern.glob, part.host)
    if pattern.tool != part.tool:
        return False
    if part.text is None:  # a command that is not understood is covered by `*` alone
        return pattern.is_all and part.tool != "bash"
    if pattern.is_all:
        return True
    if part.tool in _PATHS:
        if part.tool == "write" and runs_later(part.text) and not runs_later(unescaped(pattern.glob)):
            return False  # a folder that may be written is no yes to what programs of the user run there
        return all(path_matches(pattern.glob, path, folders) for path in names_of(part.text, folders))
    if part.tool == "cell":  # code can do anything behind what a glob has matched
        return unescaped(pattern.glob) == part.text
    return command_matches(pattern.glob, part.text) if part.tool == "bash" else matches(pattern.glob, part.text)


def runs_later(path: str) -> bool:
    """Whether programs of the user run or obey a file of this name, so that writing it is more than an edit."""
    return is_autorun(path) or not _OBEYED.isdisjoint(path.split("/"))


def uncovered(patterns: Iterable[Pattern], parts: Iterable[Part], folders: WorkFolders) -> list[Part]:
    """The parts that none of the patterns covers."""
    known = tuple(patterns)
    return [part for part in parts if not any(covers(pattern, part, folders) for pattern in known)]


def touches(pattern: Pattern, action: Action, facts: Facts, folders: WorkFolders) -> bool:
    """Whether any part of an action, or what it reads, writes or calls, is one that a pattern means."""
    if not pattern.tool:
        return True
    match pattern.tool:
        case "net":
            return any(matches(pattern.glob, host) for host in facts.hosts)
        case "read" | "write":
            paths = facts.reads if pattern.tool == "read" else facts.writes
            return any(path_matches(pattern.glob, name, folders) for path in paths for name in names_of(path, folders))
        case "bash" if isinstance(action, CmdRunAction):
            return any(command_matches(pattern.glob, text) for text in _said(action, facts)) or pattern.is_all
        case "cell" if isinstance(action, IPythonRunCellAction):
            return matches(pattern.glob, action.code)
        case "browser" if isinstance(action, BrowseInteractiveAction):
            return pattern.is_all or any(matches(pattern.glob, url) for url in _urls(action.browser_actions))
    return any(covers(pattern, part, folders) for part in parts_of(action, facts, folders) if part.tool == pattern.tool)


UNSEEN = frozenset({"", "bash", "read", "write", "net"})
"""Tools whose rules say what commands and cells may do."""


def unclear_for(pattern: Pattern, action: Action, facts: Facts) -> str:
    """A part of a command or a cell that is not understood, so that a pattern may mean it; empty for none."""
    if pattern.tool not in UNSEEN or not isinstance(action, CmdRunAction | IPythonRunCellAction):
        return ""
    return next(iter(facts.not_understood), "") or dict(facts.unclear).get(pattern.tool, "")


def may_touch(pattern: Pattern, facts: Facts, folders: WorkFolders) -> bool:
    """Whether a command names a folder, or a glob, in which there may be what a pattern for paths means."""
    if pattern.tool not in _PATHS:
        return False
    wanted = absolute(pattern.glob, folders).split("/")
    base = _expanded(_GLOB.split(pattern.glob, maxsplit=1)[0], folders).rstrip("/")
    paths = facts.reads if pattern.tool == "read" else facts.writes
    for path in paths:
        parts = path.split("/")
        known = next((at for at, part in enumerate(parts) if _GLOB.search(part)), len(parts))
        for name in names_of("/".join(parts[:known]) or "/", folders):
            given = [*name.rstrip("/").split("/"), *parts[known:]]
            places = _places_reached(wanted, given)
            if known < len(parts) and (len(wanted) in places or base.startswith(_GLOB.split("/".join(given))[0])):
                return True
            if len(wanted) in places or not places:  # `touches` tells, or nothing below it is meant
                continue
            is_named = known == len(parts) and "*" not in "".join(wanted[: len(given)])
            is_folder = path in facts.whole or (pattern.tool == "read" and bool(facts.commands))
            if is_named or (is_folder and _may_be_folder(given, folders)):
                return True
    return False


_GLOB = re.compile(r"[*?\[]")


def _places_reached(wanted: list[str], given: list[str]) -> set[int]:
    """How many segments of a glob for paths a path may have used up; either may have wildcards."""
    places = _behind_stars(wanted, {0})
    for segment in given:
        after = {at for at in places if at < len(wanted) and wanted[at] == "**"}
        after |= {at + 1 for at in places - after if at < len(wanted) and _may_both(wanted[at], segment)}
        places = _behind_stars(wanted, after)
    return places


def _behind_stars(wanted: list[str], places: set[int]) -> set[int]:
    for at, segment in enumerate(wanted):
        if at in places and segment == "**":
            places = places | {at + 1}
    return places


def _may_both(wanted: str, given: str) -> bool:
    """Whether a name may be what both of two globs mean, as far as their beginnings and ends tell."""
    if not _GLOB.search(given):
        return matches(wanted, given)
    first, last = (re.split(r"[*?\[\]\\]", one) for one in (wanted, given))
    starts = first[0].startswith(last[0]) or last[0].startswith(first[0])
    if len(first) == 1:
        return starts and wanted.endswith(last[-1])
    return starts and (first[-1].endswith(last[-1]) or last[-1].endswith(first[-1]))


def _may_be_folder(given: list[str], folders: WorkFolders) -> bool:
    path = "/".join(given)
    if folders.is_here and os.path.exists(path):
        return os.path.isdir(path)
    return "." not in given[-1]


def is_inside(path: str, folders: WorkFolders) -> bool:
    """Whether a path lies in the folder of the work, and links do not lead it out."""
    top = _expanded(folders.workspace, folders)
    tops = {top, os.path.realpath(top)} if folders.is_here else {top}
    return all(any(name == one or name.startswith(f"{one.rstrip('/')}/") for one in tops)
               for name in names_of(path, folders))  # fmt: skip


def names_of(path: str, folders: WorkFolders) -> tuple[str, ...]:
    """A path as it is written, absolute; and where links lead it, if the folder of the work is on this machine."""
    written = _expanded(path, folders)
    if not folders.is_here:
        return (written,)
    real = os.path.realpath(written)
    return (written,) if real == written else (written, real)


def _expanded(path: str, folders: WorkFolders) -> str:
    path = re.sub(r"^(\$HOME|\$\{HOME\})(?=/|$)", "~", path)
    if path == "~" or path.startswith("~/"):
        path = folders.home + path[1:]
    return posixpath.normpath(posixpath.join(folders.workspace, path)) if path else path


def _said(action: CmdRunAction, facts: Facts) -> Iterator[str]:
    """A line as it was written, its commands, and the other ways to write these."""
    yield " ".join(action.command.split())
    for command in (*facts.commands, *facts.spellings):
        yield command
        program, space, rest = command.partition(" ")
        if "/" in program:
            yield posixpath.basename(program) + space + rest


_URL = re.compile(r"https?://[^\s'\"()<>]+")


def _urls(code: str) -> list[str]:
    return _URL.findall(code)


# -- globs -----------------------------------------------------------------------------------------------------------


def command_matches(glob: str, command: str) -> bool:
    """As `matches`; and `git push *` is also `git push` alone."""
    return matches(glob, command) or (glob.endswith(" *") and matches(glob[:-2], command))


def absolute(glob: str, folders: WorkFolders) -> str:
    """A glob for paths as it is matched: absolute, and `folder/` as `folder/**`."""
    return _expanded(glob.rstrip("/") + "/**" if glob.endswith("/") and glob != "/" else glob, folders)


def path_matches(glob: str, path: str, folders: WorkFolders) -> bool:
    """Whether an absolute path is what a glob for paths means; `folder/**` means the folder, too."""
    wanted = absolute(glob, folders)
    if wanted in ("/**", "/"):
        return wanted == "/**" or path == "/"
    return _segments_match(tuple(wanted.split("/")), tuple(path.split("/")))


def _segments_match(wanted: tuple[str, ...], given: tuple[str, ...]) -> bool:
    """Folder by folder; the set of places that can be reached keeps it from trying anything twice."""
    reached = {0}
    for segment in wanted:
        if segment == "**":
            reached = set(range(min(reached), len(given) + 1)) if reached else set()
        else:
            reached = {at + 1 for at in reached if at < len(given) and matches(segment, given[at])}
        if not reached:
            return False
    return len(given) in reached


def home_of_user() -> str:
    """What `~` stands for on this machine."""
    return str(Path.home())
