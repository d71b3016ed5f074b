"""Patterns of policy rules and permissions: `bash(git push *)`, `write(/etc/**)`, `net(*.example.com)`, `*`.

An action has parts: each simple command, each file that is written, a page, a tool. A pattern that allows must cover
every part; one that asks or denies applies if it matches any part, or anything that the action reads, writes or calls.
So a narrow pattern never allows what is not understood. In paths, `*` matches within one folder and `**` across
folders; elsewhere `*` matches anything. `\\*` is a literal star. Matching takes linear time for each star.
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
"""Covers no action: it names untrusted content that the user trusts, by URL, path or tool."""
CONNECT = "connect"
"""Covers no action: it names a host that programs in the sandbox may connect to, as in `sandbox.allowed_hosts`."""
TOOLS = ("bash", "read", "write", "net", "browser", "mcp", "cell", "agent", FOREIGN, CONNECT)
MAX_CHARS = 2_000
"""Limit for one pattern."""
HARMLESS_FILES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_PATTERN = re.compile(rf"({'|'.join(TOOLS)})\((.*)\)", re.DOTALL)
_NEXT = re.compile(rf"(?<=\))\s+(?=(?:{'|'.join(TOOLS)})\()")
FILE_TOOLS = frozenset({"read", "write"})
_OBEYED = frozenset({".git", ".openhands"})
"""Folders whose files programs execute or obey, in addition to `core.autorun_paths`."""
_SITE = re.compile(r"https?://[^/*]+/")


class PatternError(ValueError):
    """The text is not a valid pattern."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A tool and a glob; without a tool it matches everything."""

    tool: str
    glob: str

    def __str__(self) -> str:
        return f"{self.tool}({self.glob})" if self.tool else "*"

    @property
    def is_all(self) -> bool:
        """Whether it covers everything of its tool, even what is not understood."""
        return not self.tool or self.glob in ("*", "**")

    @property
    def is_definite(self) -> bool:
        """Whether it names what is done and not only the program: `git push *`, but not `git *`."""
        named, star, _rest = self.glob.partition("*")
        if not star or self.is_all:
            return not self.is_all
        if self.tool in FILE_TOOLS:
            return named.count("/") > 1
        return len(named.split(" ")) > 2 if self.tool == "bash" else bool(_SITE.match(named))


def parse(text: str) -> Pattern:
    """Parse one pattern. Raises PatternError."""
    text = text.strip()
    if text == "*":
        return Pattern("", "*")
    if len(text) > MAX_CHARS:
        raise PatternError(f"A pattern has at most {MAX_CHARS} characters.")
    found = _PATTERN.fullmatch(text)
    if found is None or not found[2].strip():
        shown = text if len(text) <= 60 else f"{text[:60]}…"
        raise PatternError(f"{shown!r} is not a pattern. Write TOOL(GLOB), such as bash(git push *), or *. "
                           f"Tools: {', '.join(TOOLS)}.")  # fmt: skip
    return Pattern(found[1], found[2].strip())


def parse_all(text: str) -> tuple[Pattern, ...]:
    """Parse patterns that are separated by spaces. Raises PatternError."""
    return tuple(dict.fromkeys(parse(part) for part in _NEXT.split(text.strip())))


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an action; without a text it is not understood."""

    tool: str
    text: str | None
    host: str = ""


@dataclass(frozen=True, slots=True)
class WorkFolders:
    """The workspace, and the home folder for `~`."""

    workspace: str
    home: str

    @property
    def is_local(self) -> bool:
        """Whether the workspace is on this machine, so that links can be followed."""
        return os.path.isdir(self.workspace)


def parts_of(action: Action, facts: Facts, folders: WorkFolders) -> tuple[Part, ...]:
    """The parts that must be covered to allow the action. Follows links on the disk."""
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
    """Whether a pattern covers this part."""
    if not pattern.tool:
        return True
    if pattern.tool == "net":
        return bool(part.host) and matches(pattern.glob, part.host)
    if pattern.tool != part.tool:
        return False
    if part.text is None:  # only `*` covers a command that is not understood
        return pattern.is_all and part.tool != "bash"
    if pattern.is_all:
        return True
    if part.tool in FILE_TOOLS:
        if part.tool == "write" and is_autorun_file(part.text) and not is_autorun_file(unescaped(pattern.glob)):
            return False  # a permission for a folder does not include files that programs execute
        return all(path_matches(pattern.glob, path, folders) for path in resolved_paths(part.text, folders))
    if part.tool == "cell":  # code can do anything after the text that a glob matches
        return unescaped(pattern.glob) == part.text
    return command_matches(pattern.glob, part.text) if part.tool == "bash" else matches(pattern.glob, part.text)


def is_autorun_file(path: str) -> bool:
    """Whether programs of the user execute or obey a file of this name, so that writing it is more than an edit."""
    return is_autorun(path) or not _OBEYED.isdisjoint(path.lower().split("/"))


def uncovered(patterns: Iterable[Pattern], parts: Iterable[Part], folders: WorkFolders) -> list[Part]:
    """The parts that none of the patterns covers."""
    known = tuple(patterns)
    return [part for part in parts if not any(covers(pattern, part, folders) for pattern in known)]


def touches(pattern: Pattern, action: Action, facts: Facts, folders: WorkFolders) -> bool:
    """Whether a pattern matches any part of an action, or anything that it reads, writes or calls."""
    if not pattern.tool:
        return True
    match pattern.tool:
        case "net":
            return any(matches(pattern.glob, host) for host in facts.hosts)
        case "read" | "write":
            paths = facts.reads if pattern.tool == "read" else facts.writes
            return any(
                path_matches(pattern.glob, name, folders) for path in paths for name in resolved_paths(path, folders)
            )
        case "bash" if isinstance(action, CmdRunAction):
            return any(command_matches(pattern.glob, text) for text in _spellings(action, facts)) or pattern.is_all
        case "cell" if isinstance(action, IPythonRunCellAction):
            return matches(pattern.glob, action.code)
        case "browser" if isinstance(action, BrowseInteractiveAction):
            return pattern.is_all or any(matches(pattern.glob, url) for url in _urls(action.browser_actions))
    return any(covers(pattern, part, folders) for part in parts_of(action, facts, folders) if part.tool == pattern.tool)


COMMAND_TOOLS = frozenset({"", "bash", "read", "write", "net"})
"""Tools whose rules apply to commands and cells."""


def unclear_for(pattern: Pattern, action: Action, facts: Facts) -> str:
    """A part of a command or cell that is not understood, so that the pattern may apply; empty for none."""
    if pattern.tool not in COMMAND_TOOLS or not isinstance(action, CmdRunAction | IPythonRunCellAction):
        return ""
    return next(iter(facts.not_understood), "") or dict(facts.unclear).get(pattern.tool, "")


def may_touch(pattern: Pattern, facts: Facts, folders: WorkFolders) -> bool:
    """Whether a command names a folder or a glob that may contain a path which the pattern matches."""
    if pattern.tool not in FILE_TOOLS:
        return False
    wanted = absolute(pattern.glob, folders).split("/")
    base = _expanded(_GLOB.split(pattern.glob, maxsplit=1)[0], folders).rstrip("/")
    paths = facts.reads if pattern.tool == "read" else facts.writes
    for path in paths:
        parts = path.split("/")
        known = next((at for at, part in enumerate(parts) if _GLOB.search(part)), len(parts))
        for name in resolved_paths("/".join(parts[:known]) or "/", folders):
            given = [*name.rstrip("/").split("/"), *parts[known:]]
            places = _positions_reached(wanted, given)
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


def _positions_reached(wanted: list[str], given: list[str]) -> set[int]:
    """The positions in `wanted` that a path may have reached; both may have wildcards."""
    places = _after_stars(wanted, {0})
    for segment in given:
        after = {at for at in places if at < len(wanted) and wanted[at] == "**"}
        after |= {at + 1 for at in places - after if at < len(wanted) and _globs_may_overlap(wanted[at], segment)}
        places = _after_stars(wanted, after)
    return places


def _after_stars(wanted: list[str], places: set[int]) -> set[int]:
    for at, segment in enumerate(wanted):
        if at in places and segment == "**":
            places = places | {at + 1}
    return places


def _globs_may_overlap(wanted: str, given: str) -> bool:
    """Whether one name may match both globs, judged by their beginnings and ends."""
    if not _GLOB.search(given):
        return matches(wanted, given)
    first, last = (re.split(r"[*?\[\]\\]", one) for one in (wanted, given))
    starts = first[0].startswith(last[0]) or last[0].startswith(first[0])
    if len(first) == 1:
        return starts and wanted.endswith(last[-1])
    return starts and (first[-1].endswith(last[-1]) or last[-1].endswith(first[-1]))


def _may_be_folder(given: list[str], folders: WorkFolders) -> bool:
    path = "/".join(given)
    if folders.is_local and os.path.exists(path):
        return os.path.isdir(path)
    return "." not in given[-1]


def is_inside(path: str, folders: WorkFolders) -> bool:
    """Whether a path is in the workspace, also after links are followed."""
    top = _expanded(folders.workspace, folders)
    tops = {top, os.path.realpath(top)} if folders.is_local else {top}
    return all(any(name == one or name.startswith(f"{one.rstrip('/')}/") for one in tops)
               for name in resolved_paths(path, folders))  # fmt: skip


def leads_through_link(folder: str, folders: WorkFolders) -> bool:
    """Whether a folder of this machine is reached through a link; links above the workspace do not count."""
    path, top = _expanded(folder, folders), _expanded(folders.workspace, folders)
    is_below = path == top or path.startswith(f"{top.rstrip('/')}/")
    return os.path.realpath(path) != (os.path.realpath(top) + path[len(top) :] if is_below else path)


def resolved_paths(path: str, folders: WorkFolders) -> tuple[str, ...]:
    """The absolute path as written, and as resolved on the disk if that differs."""
    written = _expanded(path, folders)
    if not folders.is_local:
        return (written,)
    real = os.path.realpath(written)
    return (written,) if real == written else (written, real)


def _expanded(path: str, folders: WorkFolders) -> str:
    path = re.sub(r"^(\$HOME|\$\{HOME\})(?=/|$)", "~", path)
    if path == "~" or path.startswith("~/"):
        path = folders.home + path[1:]
    return posixpath.normpath(posixpath.join(folders.workspace, path)) if path else path


def _spellings(action: CmdRunAction, facts: Facts) -> Iterator[str]:
    """The command line as written, its simple commands, and their other spellings."""
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
    """As `matches`, but `git push *` also matches `git push`."""
    return matches(glob, command) or (glob.endswith(" *") and matches(glob[:-2], command))


def absolute(glob: str, folders: WorkFolders) -> str:
    """A glob for paths made absolute; `folder/` becomes `folder/**`."""
    return _expanded(glob.rstrip("/") + "/**" if glob.endswith("/") and glob != "/" else glob, folders)


def path_matches(glob: str, path: str, folders: WorkFolders) -> bool:
    """Whether a glob matches an absolute path; `folder/**` also matches the folder."""
    wanted = absolute(glob, folders)
    if wanted in ("/**", "/"):
        return wanted == "/**" or path == "/"
    return _segments_match(tuple(wanted.split("/")), tuple(path.split("/")))


def _segments_match(wanted: tuple[str, ...], given: tuple[str, ...]) -> bool:
    """Match folder by folder, without backtracking."""
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
    """The home folder on this machine."""
    return str(Path.home())
