"""What git would carry out by a settings file, read without git. Pure.

Asking git itself would mean to run it where a repository can have a say. The syntax is that of git-config(1), and the
reading is strict: a setting is harmless where it stands in the list below, in a harmless form, and everything else is
named, with whatever cannot be read. A list of what is dangerous would be one release of git behind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

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
"""By section, the keys that are harmless whatever they say; `*` stands for all. In a subsection, too."""
_HARMLESS = {section: frozenset(keys.lower().split()) for section, keys in _ANY.items()}
_SWITCHES = frozenset({("core", "fsmonitor")})
"""Harmless as a switch, and a program otherwise."""
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
        """As `git config` would be asked for it."""
        return ".".join(filter(None, (self.section, self.subsection, self.key)))

    @property
    def is_harmless(self) -> bool:
        """Whether git neither runs anything by it nor is led elsewhere."""
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
    """Text that is not in the form of git's settings; git would refuse it, or read it in a way that we do not know."""


def dangerous(text: str) -> list[Setting]:
    """The settings that are not known to be harmless. Raises UnreadableError, upon which the whole file is suspect."""
    return [setting for setting in settings(text) if not setting.is_harmless]


def settings(text: str) -> Iterator[Setting]:
    """Every setting of a file, in order. Raises UnreadableError."""
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
    """What stands behind a key, and where it ends; `true` where nothing does. Raises UnreadableError."""
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
