"""The state of a shell between its commands: folders, variables, files that commands wrote.

A conditional command may or may not have run, so there can be several possible folders, and a variable with several
possible values is unknown. Also which variables matter to the shell and to programs.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from core.security.risk_rules import names

MAX_FOLDERS = 4
MAX_VARIABLES = 200
MAX_WRITTEN = 1_000
MAX_VALUE_CHARS = 8_192


@dataclass(frozen=True, slots=True)
class Shell:
    """An immutable state."""

    folders: tuple[str, ...] = ()
    """The possible working folders, absolute; empty if unknown."""
    variables: dict[str, str | None] = field(default_factory=dict)
    """The variables that commands set; None for an unknown value."""
    environment: str = ""
    """An assignment that other programs may obey, such as `export TAR_OPTIONS=...`, if any."""
    written: frozenset[str] = frozenset()
    """Files that commands wrote."""
    links: frozenset[str] = frozenset()
    """Links that commands created."""
    lost: str = ""
    """The command after which the state is unknown, if any."""
    has_opaque_cells: bool = False
    """Whether a cell ran that is not understood; it may have changed what any name means to later cells."""
    may_end: bool = False
    """Whether a command may have ended the shell, so that the next action gets a new one."""
    runs_behind: bool = False
    """Whether code of the project may run in the background, also code that is written from now on."""

    def at(self, folders: Iterable[str]) -> Shell:
        """The state in one of these folders."""
        found = tuple(dict.fromkeys(folders))
        return replace(self, folders=found if len(found) <= MAX_FOLDERS else ())

    def with_variable(self, name: str, value: str | None) -> Shell:
        """The state with a variable set."""
        if value is not None and len(value) > MAX_VALUE_CHARS:
            value = None
        if name not in self.variables and len(self.variables) >= MAX_VARIABLES:
            return replace(self, lost=self.lost or f"{MAX_VARIABLES} variables")
        return replace(self, variables={**self.variables, name: value})

    def with_written(self, *paths: str) -> Shell:
        """The state after these files were written."""
        if set(paths) <= self.written:
            return self
        if len(self.written) >= MAX_WRITTEN:
            return replace(self, lost=self.lost or f"{MAX_WRITTEN:,} files that were written")
        return replace(self, written=self.written | set(paths))

    def with_link(self, path: str) -> Shell:
        """The state after a link was created."""
        return replace(self, links=self.links | {path}).with_written(path)

    def merged(self, other: Shell) -> Shell:
        """The state that is either this or the other."""
        if self == other:
            return self
        variables = {
            name: value if value == other.variables.get(name, ...) else None for name, value in self.variables.items()
        }
        variables |= dict.fromkeys(other.variables.keys() - self.variables.keys())
        known = bool(self.folders and other.folders)
        both = Shell(
            (), variables, self.environment or other.environment, self.written | other.written,
            self.links | other.links, self.lost or other.lost, self.has_opaque_cells or other.has_opaque_cells,
            self.may_end or other.may_end, self.runs_behind or other.runs_behind,
        )  # fmt: skip
        return both.at((*self.folders, *other.folders)) if known else both

    def without_values(self) -> Shell:
        """The state if this shell may have been replaced by a new one: variables may have no value."""
        return replace(self, variables=dict.fromkeys(self.variables))

    def after_subshell(self, inner: Shell) -> Shell:
        """The state after a subshell that ended as `inner`, of which only the files remain."""
        return replace(
            self,
            written=self.written | inner.written,
            links=self.links | inner.links,
            runs_behind=self.runs_behind or inner.runs_behind,
        )

    def leads_through_link(self, path: str) -> bool:
        """Whether a path is or contains a link that a command created."""
        return any(path == link or path.startswith(f"{link}/") for link in self.links)

    def wrote(self, path: str) -> bool:
        """Whether a command wrote this file or a folder that contains it."""
        is_in = any(path.startswith(f"{one}/") for one in self.written)
        return path in self.written or is_in or self.leads_through_link(path)

    def may_have_written_program(self, name: str) -> bool:
        """Whether a command wrote a program of this name, or a folder of programs, which may be in the PATH."""
        found = filter(None, map(_PROGRAM.search, self.written))
        return any(fnmatchcase(name, match[1] or "*") for match in found)

    def with_program(self, path: str) -> Shell:
        """The state after a file became a program."""
        return self.with_written(path) if _PROGRAM.search(path) else self

    @property
    def may_have_written_code(self) -> bool:
        """Whether a command wrote a file that may be code or settings."""
        return any(map(may_be_code, self.written))


def may_be_code(path: str) -> bool:
    """Whether a file may be code or settings."""
    return posixpath.splitext(path)[1].lower() not in _DATA


_PROGRAM = re.compile(r"/(?:bin|\.bin)(?:/([^/]*))?$|/(?:\.?venv|node_modules)$")
"""Folders of programs in a workspace, which are in the PATH of a virtual environment, and the folders above them."""
_DATA = names(".log .out .csv .tsv .png .jpg .jpeg .gif .svg .pdf .jsonl .parquet")
"""Suffixes of files that are neither code nor settings."""


_SHELL_VARIABLES = names(
    "PATH HOME IFS CDPATH ENV BASH_ENV BASHOPTS SHELLOPTS PROMPT_COMMAND PROMPT_DIRTRIM PS0 PS1 PS2 PS3 "
    "PS4 PWD OLDPWD GLOBIGNORE FIGNORE FCEDIT HISTFILE HISTCONTROL HISTIGNORE HISTSIZE HISTFILESIZE "
    "HISTTIMEFORMAT histchars HOSTFILE EXECIGNORE TMOUT TMPDIR INPUTRC POSIXLY_CORRECT OPTIND OPTARG "
    "OPTERR REPLY MAIL MAILPATH MAILCHECK TIMEFORMAT auto_resume FUNCNEST IGNOREEOF LOADABLES_PATH_DIR "
    "CHILD_MAX COMPREPLY EMACS BASH_COMPAT BASH_XTRACEFD BASH_LOADABLES_PATH READLINE_LINE SECONDS RANDOM "
    "LINENO EPOCHSECONDS EPOCHREALTIME UID EUID PPID GROUPS DIRSTACK _ HOSTTYPE MACHTYPE OSTYPE SHLVL SRANDOM "
    "PIPESTATUS FUNCNAME HISTCMD MAPFILE COPROC SHELL"
)
_HARMLESS = names(
    "CI DEBUG VERBOSE LANG LANGUAGE TZ TERM COLORTERM COLUMNS LINES NO_COLOR FORCE_COLOR CLICOLOR "
    "CLICOLOR_FORCE USER LOGNAME PORT HOST NODE_ENV RUST_BACKTRACE RUST_LOG PYTHONUNBUFFERED "
    "PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONIOENCODING PYTHONUTF8 DEBIAN_FRONTEND GOOS GOARCH "
    "CGO_ENABLED GO111MODULE CARGO_TERM_COLOR CARGO_INCREMENTAL DJANGO_SETTINGS_MODULE FLASK_ENV "
    "FLASK_DEBUG APP_ENV ENVIRONMENT LOG_LEVEL LOGLEVEL NAMESPACE VERSION TOKEN API_KEY OMP_NUM_THREADS "
    "CUDA_VISIBLE_DEVICES TOKENIZERS_PARALLELISM HF_HUB_OFFLINE SOURCE_DATE_EPOCH GIT_AUTHOR_NAME "
    "GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_DATE "
    "GIT_TERMINAL_PROMPT"
)
"""Variables that never change what a program runs or writes."""
_HARMLESS_SHAPES = re.compile(r"[a-z][a-z0-9_]*|LC_[A-Z]+|[A-Z0-9_]+_(?:API_KEY|TOKEN|USERNAME|PASSWORD)")
_OFTEN_EXPORTED = re.compile(
    r"USER|LOGNAME|LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|COLORTERM|COLUMNS|LINES|HOST"
    r"|EDITOR|VISUAL|PAGER|BROWSER|SHELL|CC|CXX|LD|AR|MAKEFLAGS|\w+_(?:PROXY|EDITOR|PAGER|OPTIONS|OPTS|FLAGS|COMMAND|WRAPPER|ASKPASS)"
    r"|RIPGREP_CONFIG_PATH|VIRTUAL_ENV|PYTEST_ADDOPTS|SSL_CERT_(?:FILE|DIR)|REQUESTS_CA_BUNDLE"
    r"|(?:PYENV|RBENV|NODENV|GOENV|NVM|FNM|ASDF|MISE|VOLTA|CONDA|SDKMAN)_\w+"
    r"|(?:LD|DYLD|GIT|PYTHON|PERL|RUBY|NODE|NPM|JAVA|GO|CARGO|RUST|UV|PIP|SSH|GPG|XDG|LESS|MAN|TAR|GZIP|CURL|WGET|DOCKER|KUBE)\w*"
)
_PLAIN = re.compile(r"(?!/|-.*/|.*[=,@]/|.*:/(?!/\w)|.*\.\.)[\w.,:@%+=/-]*", re.ASCII)
"""Values without a special meaning for shells and Makefiles that name nothing outside the workspace."""
_PLAIN_NAME = re.compile(r"[\w.,:@%+=/<> -]*")
_OBEYED_IN_LOWER_CASE = re.compile(r"(?:npm|pnpm|yarn|ld|git)_\w*|\w*_proxy|bash\w*")


def changes_shell(name: str) -> bool:
    """Whether a variable changes how the shell executes later commands."""
    return name in _SHELL_VARIABLES or name.startswith(("BASH", "COMP_", "READLINE_", "PROMPT", "HIST", "__handloom"))


def may_be_exported(name: str) -> bool:
    """Whether a variable may be exported already, so that setting it changes the environment of programs."""
    return bool(_OFTEN_EXPORTED.fullmatch(name) or _OBEYED_IN_LOWER_CASE.fullmatch(name))


def is_harmless(name: str, value: str | None) -> bool:
    """Whether setting a variable is harmless; `value` is None if unknown."""
    if changes_shell(name):
        return False
    if value is None or not (_PLAIN_NAME if name.startswith("GIT_") else _PLAIN).fullmatch(value):
        return False
    if name in _HARMLESS:
        return True
    return bool(_HARMLESS_SHAPES.fullmatch(name)) and not _OBEYED_IN_LOWER_CASE.fullmatch(name)
