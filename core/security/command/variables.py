"""Variables: which change the shell itself, and which no program obeys in a way that matters here. Data alone."""

from __future__ import annotations

import re

from core.security.rules import names

_OF_THE_SHELL = names(
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
"""Variables that change what a program prints, or which data it works on, and never what it runs or writes."""
_HARMLESS_SHAPES = re.compile(r"[a-z][a-z0-9_]*|LC_[A-Z]+|[A-Z0-9_]+_(?:API_KEY|TOKEN|USERNAME|PASSWORD)")
_OFTEN_EXPORTED = re.compile(
    r"USER|LOGNAME|LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|COLORTERM|COLUMNS|LINES|HOST"
    r"|EDITOR|VISUAL|PAGER|BROWSER|SHELL|CC|CXX|LD|AR|MAKEFLAGS|\w+_(?:PROXY|EDITOR|PAGER|OPTIONS|OPTS|FLAGS|COMMAND|WRAPPER|ASKPASS)"
    r"|(?:LD|DYLD|GIT|PYTHON|PERL|RUBY|NODE|NPM|JAVA|GO|CARGO|RUST|UV|PIP|SSH|GPG|XDG|LESS|MAN|TAR|GZIP|CURL|WGET|DOCKER|KUBE)\w*"
)
_PLAIN = re.compile(r"(?!/|-.*/|.*[=,@]/|.*:/(?!/\w)|.*\.\.)[\w.,:@%+=/-]*", re.ASCII)
"""Values that no shell and no Makefile reads anything into, and that name nothing outside the workspace."""
_PLAIN_NAME = re.compile(r"[\w.,:@%+=/<> -]*")
_OBEYED_IN_LOWER_CASE = re.compile(r"(?:npm|pnpm|yarn|ld|git)_\w*|\w*_proxy|bash\w*")


def changes_shell(name: str) -> bool:
    """Whether a variable changes what the shell itself does with later commands."""
    return name in _OF_THE_SHELL or name.startswith(("BASH", "COMP_", "READLINE_", "PROMPT", "HIST"))


def may_be_exported(name: str) -> bool:
    """Whether a variable may be in the environment of programs already, so that setting it changes it there."""
    return bool(_OFTEN_EXPORTED.fullmatch(name) or _OBEYED_IN_LOWER_CASE.fullmatch(name))


def is_harmless(name: str, value: str | None) -> bool:
    """Whether no program obeys a variable in a way that matters; `value` is None where it is not known."""
    if changes_shell(name):
        return False
    if value is None or not (_PLAIN_NAME if name.startswith("GIT_") else _PLAIN).fullmatch(value):
        return False
    if name in _HARMLESS:
        return True
    return bool(_HARMLESS_SHAPES.fullmatch(name)) and not _OBEYED_IN_LOWER_CASE.fullmatch(name)
