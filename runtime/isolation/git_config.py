"""Reads git's settings without git: which settings run programs, which files they point at, and who commits.

Running git on a workspace would let the repository decide what runs. The syntax is that of git-config(1), read
strictly: a setting is harmless if it is in the list below in a harmless form; everything else, and whatever cannot be
read, is reported. A list of dangerous settings would always be one release of git behind.

`targets` finds the files of a workspace that settings and hooks point at: a hook that is a link, `include.path`,
`core.hooksPath`, a filter, an alias. git on the host runs or obeys them, so they are protected like the settings. It
does not find programs that such a program starts, or names that a command composes (see docs/sandbox.md). All input may
be hostile and is limited in size. Blocks.

`identity_environment` passes the user's name and address to a sandbox that cannot see the user's settings, and nothing
else, because the rest may have secrets and programs that the sandbox lacks. Only this function runs git.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_SECTION = re.compile(r'\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\\n\0]|\\.)*)")?\s*\]')
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*")
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b", '"': '"', "\\": "\\", "\n": ""}
_BOOLEAN = re.compile(r"(?i:true|false|yes|no|on|off|[01]?)")

_ANY = {
    "core": "abbrev autocrlf bare bigfilethreshold checkroundtripencoding checkstat commentchar commitgraph "
    "compression createobject deltabasecachelimit eol excludesfile attributesfile filemode filesreflocktimeout fscache "
    "fsync fsyncmethod fsyncobjectfiles hidedotfiles ignorecase ignorestat logallrefupdates longpaths loosecompression "
    "maxtreedepth multipackindex notesref packedgitlimit packedgitwindowsize packedrefstimeout precomposeunicode "
    "preferSymlinkRefs preloadindex protecthfs protectntfs quotepath repositoryformatversion safecrlf "
    "sharedrepository sparsecheckout sparsecheckoutcone splitindex symlinks trustctime untrackedcache "
    "unsetenvvars usereplacerefs warnambiguousrefs whitespace",
    "user": "name email signingkey useconfigonly",
    "author": "name email",
    "committer": "name email",
    "init": "defaultbranch defaultobjectformat defaultrefformat",
    "extensions": "compatobjectformat noop objectformat partialclone preciousobjects refstorage worktreeconfig",
    "remote": "fetch push tagopt prune prunetags mirror skipdefaultupdate skipfetchall promisor partialclonefilter "
    "followremotehead pushdefault",
    "branch": "merge rebase description autosetupmerge autosetuprebase sort",
    "submodule": "active branch ignore fetchrecursesubmodules recurse fetchjobs path",
    "pull": "rebase ff octopus twohead",
    "push": "default autosetupremote followtags gpgsign recursesubmodules",
    "fetch": "prune prunetags parallel recursesubmodules showforcedupdates writecommitgraph fsckobjects",
    "merge": "conflictstyle ff renames renamelimit directoryrenames log stat suppressdest name",
    "rebase": "autosquash autostash updaterefs stat missingcommitscheck abbreviatecommands forkpoint",
    "diff": "algorithm colormoved colormovedws context indentheuristic interhunkcontext mnemonicprefix noprefix "
    "renames renamelimit relative statgraphwidth submodule wordregex xfuncname binary ignoresubmodules cachetextconv",
    "filter": "required",
    "commit": "cleanup gpgsign status verbose",
    "tag": "gpgsign sort forcesignannotated",
    "gpg": "format minTrustLevel",
    "log": "abbrevcommit date decorate follow showroot showsignature",
    "status": "branch renames renamelimit short showstash showuntrackedfiles submodulesummary relativepaths "
    "aheadbehind displaycommentprefix",
    "gc": "auto autodetach autopacklimit aggressivedepth aggressivewindow packrefs pruneexpire reflogexpire "
    "reflogexpireunreachable rerereresolved rerereunresolved worktreepruneexpire writecommitgraph cruftpacks",
    "pack": "compression depth threads window windowmemory usebitmaps writebitmaphashcache writereverseindex",
    "repack": "usedeltabaseoffset writebitmaps",
    "index": "recordendofindexentries recordoffsettable sparse threads version skiphash",
    "feature": "experimental manyfiles",
    "maintenance": "auto strategy enabled schedule",
    "receive": "autogc denycurrentbranch denydeletes denynonfastforwards fsckobjects unpacklimit",
    "transfer": "fsckobjects unpacklimit hiderefs",
    "rerere": "autoupdate enabled",
    "stash": "showpatch showstat",
    "apply": "ignorewhitespace whitespace",
    "checkout": "defaultremote guess workers",
    "worktree": "guessremote",
    "blame": "coloring date markignoredfiles markunblamablefiles showemail showroot",
    "grep": "column extendedregexp linenumber patterntype threads",
    "format": "attach coverletter numbered signoff suffix",
    "i18n": "commitencoding filesencoding logoutputencoding",
    "http": "lowspeedlimit lowspeedtime maxrequests postbuffer version",
    "credential": "username usehttppath",
    "lfs": "repositoryformatversion access locksverify",
    "advice": "*",
    "color": "*",
    "column": "*",
}
"""By section, the keys that are harmless with any value, also in subsections; `*` stands for all."""
_HARMLESS = {section: frozenset(keys.lower().split()) for section, keys in _ANY.items()}
_SWITCHES = frozenset({("core", "fsmonitor")})
"""Harmless as a boolean, otherwise a program."""
_ADDRESSES = frozenset({("remote", "url"), ("remote", "pushurl"), ("submodule", "url"), ("branch", "remote")})
_ADDRESSES |= {("branch", "pushremote"), ("lfs", "url")}
_LFS = frozenset(
    {"git-lfs clean -- %f", "git-lfs smudge -- %f", "git-lfs smudge --skip -- %f", "git-lfs filter-process"}
)
_LFS |= {"git-lfs filter-process --skip"}
"""What `git lfs install --local` writes: the user's own program."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One entry of a settings file."""

    section: str
    """In lower case."""
    subsection: str
    key: str
    """In lower case."""
    value: str

    @property
    def name(self) -> str:
        """The name for `git config`."""
        return ".".join(filter(None, (self.section, self.subsection, self.key)))

    @property
    def is_harmless(self) -> bool:
        """Whether the setting neither runs a program nor points elsewhere."""
        where, value = (self.section, self.key), self.value.strip()
        if where in _SWITCHES:
            return _BOOLEAN.fullmatch(value) is not None
        if where in _ADDRESSES:
            return not value.startswith("-") and "::" not in value.partition("[")[0]
        if self.section == "filter" and self.key in ("clean", "smudge", "process"):
            return value in _LFS
        if self.section == "alias":
            return not value.startswith(("!", "-"))
        if where == ("submodule", "update"):
            return not value.startswith("!")
        allowed = _HARMLESS.get(self.section, frozenset())
        return "*" in allowed or self.key in allowed


class UnreadableError(ValueError):
    """Text that is not valid git configuration, or that git may read in another way."""


def dangerous(text: str) -> list[Setting]:
    """Return the settings that are not known to be harmless. Raises UnreadableError: then the whole file is suspect."""
    return [setting for setting in settings(text) if not setting.is_harmless]


def settings(text: str) -> Iterator[Setting]:
    """Yield every setting of a file in order. Raises UnreadableError."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    section, subsection, at = "", "", 0
    while at < len(text):
        if text[at] in " \t\n\r\f\v":
            at += 1
        elif text[at] in "#;":
            at = _end_of_line(text, at)
        elif text[at] == "[":
            if (found := _SECTION.match(text, at)) is None:
                raise UnreadableError(f"line {_line(text, at)}")
            section, _, dotted = found[1].lower().partition(".")
            subsection, at = re.sub(r"\\(.)", r"\1", found[2]) if found[2] is not None else dotted, found.end()
        elif section and (found := _KEY.match(text, at)):
            value, at = _value(text, found.end())
            yield Setting(section, subsection, found[1].lower(), value)
        else:
            raise UnreadableError(f"line {_line(text, at)}")


def _value(text: str, at: int) -> tuple[str, int]:
    """Return the value after a key and where it ends; `true` if there is none. Raises UnreadableError."""
    if at >= len(text) or text[at] in "\n#;":
        return "true", at
    if text[at] != "=":
        raise UnreadableError(f"line {_line(text, at)}")
    at, value, is_quoted = at + 1, "", False
    while at < len(text):
        character = text[at]
        if character == "\\":
            following = text[at + 1 : at + 2]
            if following not in _ESCAPES or not following:
                raise UnreadableError(f"line {_line(text, at)}")
            value, at = value + _ESCAPES[following], at + 2
            continue
        if character == "\n":
            break
        if character == '"':
            is_quoted = not is_quoted
        elif character in "#;" and not is_quoted:
            at = _end_of_line(text, at)
            break
        elif character == "\0":
            raise UnreadableError(f"line {_line(text, at)}")
        else:
            value += character
        at += 1
    if is_quoted:
        raise UnreadableError(f"line {_line(text, at)}")
    return value.strip(), at


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


MAX_TARGETS = 100
"""Each takes one mount or more, which are checked before every action."""
MAX_INCLUDES = 20
MAX_CONFIG_BYTES = 256 * 1024
MAX_ENTRIES = 1000
"""Limit for a folder of hooks."""
CONFIGS = ("config", "config.worktree")
_PATHS = frozenset({("include", "path"), ("includeif", "path"), ("core", "hookspath")})
"""Settings whose value is a path, not a command."""
_BETWEEN = re.compile(r"[\s\"'`;|&=()<>$!{},]+")
_SCRIPTS = (".sh", ".bash", ".zsh", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua")


@dataclass
class Targets:
    """The files that settings and hooks of one workspace point at."""

    existing: list[Path] = field(default_factory=list)
    """Resolved paths without duplicates."""
    missing: list[str] = field(default_factory=list)
    """Relative to the workspace; they could be created."""
    left_out: int = 0
    """How many there are beyond MAX_TARGETS."""


def targets(
    workspace: Path, repositories: Iterable[Path], folders: Iterable[Path] = (), configs: Iterable[Path] = ()
) -> Targets:
    """Return what settings and hooks of `repositories` (folders like `.git`) and links in `folders` point at.

    `configs` are further settings files that git reads, such as the user's. Does not raise.
    """
    search = _Search(workspace)
    for git in repositories:
        top = git.parent if git.name == ".git" else workspace
        for name in CONFIGS:
            search.config(git / name, top)
        search.links(git / "hooks")
    for config in configs:
        search.config(config, workspace)
    for folder in folders:
        search.links(folder)
    return search.found


class _Search:
    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._real = os.path.realpath(workspace)
        self._includes = 0
        self._seen: set[str] = set()
        self.found = Targets()

    def config(self, file: Path, top: Path) -> None:
        """Follow the settings of a file, and of those that it includes."""
        for setting in _settings(file):
            is_path, is_include = (setting.section, setting.key) in _PATHS, "include" in setting.section
            if not is_path and setting.is_harmless:
                continue
            for word in [setting.value.strip()] if is_path else _words(setting.value):
                for base in (file.parent,) if is_include else (top, self._workspace):
                    self._take(base / os.path.expanduser(word), is_path=is_path, is_include=is_include)

    def links(self, folder: Path) -> None:
        """Follow the links in a folder and its subfolders."""
        with suppress(OSError), os.scandir(folder) as entries:
            for number, entry in enumerate(entries):
                if number >= MAX_ENTRIES:
                    break
                if entry.is_symlink():
                    self._take(Path(entry.path), is_path=True)
                elif entry.is_dir(follow_symlinks=False) and len(Path(entry.path).relative_to(folder.parent).parts) < 4:
                    self.links(Path(entry.path))

    def _take(self, path: Path, *, is_path: bool, is_include: bool = False) -> None:
        real = os.path.realpath(path)
        if real in self._seen or not real.startswith(self._real + "/"):
            return
        self._seen.add(real)
        kind = _kind(real)
        if ".git" in Path(real).parts and not (is_path or (kind == stat.S_IFREG and _is_program(real))):
            return  # git itself writes there, such as references
        if kind == stat.S_IFREG or (is_path and kind == stat.S_IFDIR):
            folder = os.path.dirname(real)
            if real.endswith(".py") and folder != self._real:  # Python looks for modules next to a script first
                real = folder
            self._add(Path(real))
            if is_include and self._includes < MAX_INCLUDES:
                self._includes += 1
                self.config(Path(real), self._workspace)
            elif kind == stat.S_IFDIR:
                self.links(Path(real))
        elif kind is None and len(self.found.missing) < MAX_TARGETS:
            self.found.missing.append(os.path.relpath(real, self._real))

    def _add(self, path: Path) -> None:
        if path in self.found.existing:
            return
        if len(self.found.existing) >= MAX_TARGETS:
            self.found.left_out += 1
        else:
            self.found.existing.append(path)


def _settings(file: Path) -> Iterator[Setting]:
    """Yield the settings of a file as far as it can be read."""
    with suppress(OSError, UnreadableError):
        fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with open(fd, "rb") as opened:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                yield from settings(opened.read(MAX_CONFIG_BYTES).decode("utf-8", "surrogateescape"))


def _words(command: str) -> Iterator[str]:
    """Yield the parts of a command that may name a file of the workspace."""
    for word in _BETWEEN.split(command):
        if "\0" not in word and ("/" in word.strip("/") or word.startswith("./") or word.endswith(_SCRIPTS)):
            yield word


def _is_program(path: str) -> bool:
    return path.endswith(_SCRIPTS) or os.access(path, os.X_OK)


def _kind(path: str) -> int | None:
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return None


TIMEOUT_S = 5.0
_WANTED = r"^user\.(name|email)$"
_REPOSITORY_VARIABLES = frozenset({"GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_CONFIG", "GIT_INDEX_FILE"})
"""Set if Handloom is started by a repository's hook."""


def identity_environment(folder: Path) -> dict[str, str]:
    """Write name and address to a file in `folder`; return the environment for git, or nothing without them. Blocks."""
    file = folder / "gitconfig"
    try:
        output = _git("config", "--global", "--null", "--get-regexp", _WANTED)
        for entry in filter(None, output.split("\0")):
            name, _, value = entry.partition("\n")
            _git("config", "--file", str(file), name, value)
    except (OSError, subprocess.SubprocessError):
        return {}
    return {"GIT_CONFIG_GLOBAL": str(file)}


def _git(*arguments: str) -> str:
    """Run git outside of any repository. Raises OSError, SubprocessError."""
    environ = {name: value for name, value in os.environ.items() if name not in _REPOSITORY_VARIABLES}
    done = subprocess.run(
        ["git", *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd="/",
        stdin=subprocess.DEVNULL,
        env=environ,
    )
    return done.stdout
