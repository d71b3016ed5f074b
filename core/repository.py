"""Repository: what a conversation may be started on, read from text, and the shell commands that bring it in.

Pure. Two rules are kept here: nothing that could be an option, another transport or a secret passes `parse`, since the
text is stored and becomes part of a command; and every argument in a command is quoted. The commands are for a POSIX
shell with git and never wait for an answer. Follows `clone_or_init_repo` and `maybe_setup_git_hooks` of OpenHands V0
(`openhands/runtime/base.py`), but a clone appears whole or not at all, and no global setting of git is touched.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from shlex import quote
from typing import Self
from urllib.parse import unquote, urlsplit

from core.errors import UsageError

SETUP_SCRIPT = ".openhands/setup.sh"
PRE_COMMIT_SCRIPT = ".openhands/pre-commit.sh"
NOT_INSTALLED_EXIT = 3
"""How `install_hook_command` ends where the hook cannot be installed without harm; its output says why."""

FORMS = (
    "Give https://HOST/PATH, http://HOST/PATH, ssh://HOST/PATH, git@HOST:PATH, file:///PATH or an absolute path, "
    "with #BRANCH behind it where one is wanted."
)
_SCP_FORM = re.compile(r"git@(?:[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\]):(?!-)(?P<path>.+)")
_NO_BRANCH = re.compile(r"^[-/.]|[\s~^:?*\[\\]|\.\.|//|/\.|@\{|[/.]$|\.lock(/|$)|^@$")
"""What `git check-ref-format` refuses, and names that begin like an option."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository that was chosen. Made by `parse`, so that its parts are safe to quote, show and store."""

    url: str
    branch: str = ""
    """Empty leaves the choice to `clone_command`."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """A repository from `URL` or `URL#BRANCH`. Raises UsageError, which never repeats what may be a secret."""
        url, mark, branch = text.strip().partition("#")
        if not url or url.startswith("-") or not text.strip().isprintable():
            raise UsageError(f"This is no repository's address. {FORMS}")
        _check_address(url)
        if mark and (not branch or _NO_BRANCH.search(branch)):
            raise UsageError(f"What stands behind the # is no branch that git allows. {FORMS}")
        repository = cls(url, branch)
        if repository.name in ("", ".", "..", ".git") or repository.name.startswith("-"):
            raise UsageError(f"The repository's address ends in no name for its folder. {FORMS}")
        return repository

    def __str__(self) -> str:
        return f"{self.url}#{self.branch}" if self.branch else self.url

    @property
    def name(self) -> str:
        """The short name: its folder in the workspace."""
        return re.split(r"[/:]", self.url.rstrip("/"))[-1].removesuffix(".git")

    @property
    def host(self) -> str:
        """Whom a clone over the web calls, with the port where the address names one; empty for others."""
        parts = urlsplit(self.url)
        return parts.netloc if parts.scheme in ("https", "http") else ""

    @property
    def folder(self) -> str:
        """Where on this machine it lies; empty for one that lies elsewhere."""
        return self.url if self.url.startswith("/") else unquote(urlsplit(self.url).path) * self.url.startswith("file:")


def _check_address(url: str) -> None:
    """Raise UsageError for every address but those that `FORMS` names."""
    if url.startswith("/") or _SCP_FORM.fullmatch(url):
        return
    try:
        parts = urlsplit(url)
        host, user, password = parts.hostname or "", parts.username, parts.password
    except ValueError as error:
        raise UsageError(f"The repository's address cannot be read. {FORMS}") from error
    is_web = parts.scheme in ("https", "http")
    if parts.scheme not in ("https", "http", "ssh", "file"):
        raise UsageError(f"The repository's address is of a kind that is not allowed. {FORMS}")
    if password is not None or (is_web and (user is not None or parts.query)):
        raise UsageError(
            "The repository's address holds a password or a token, which would be stored with the conversation. "
            "Give it without, and let git's credential helper or an SSH key answer for you."
        )
    wants_host = parts.scheme != "file"
    if bool(host) is not wants_host or host.startswith("-") or (user or "").startswith("-") or "/" not in parts.path:
        raise UsageError(f"The repository's address is not whole. {FORMS}")


# -- commands --------------------------------------------------------------------------------------------------------

_NEVER_ASK = "export GIT_TERMINAL_PROMPT=0 SSH_ASKPASS=false SSH_ASKPASS_REQUIRE=force"
"""git and ssh fail where they would ask for a password, or whether a host is known."""


def clone_command(repository: Repository, conversation_id: str, *, copied: bool = False) -> str:
    """Bring the repository into the current folder, unless it is there; run in a shell of its own.

    A branch that exists is checked out, another is created; without one the work goes to a new branch, named as V0
    does. What an attempt that died has left is removed. Where the folder was `copied` from another conversation's, its
    files are the repository, although git's own are not among them.
    """
    url, name = quote(repository.url), quote(f"./{repository.name}")
    part = quote(f"./.handloom-clone-{conversation_id}")
    taken = quote(f"The folder {repository.name} is there already and is no git repository. Move it away.")
    is_there = f"[ -d {name} ]" if copied else f"[ -e {name}/.git ]"
    return f"""\
{_NEVER_ASK}
if {is_there}; then
    echo {quote(f"{repository.name} is there already.")}
elif [ -e {name} ] || [ -L {name} ]; then
    echo {taken}; (exit 1)
else
    rm -rf -- {part} && git clone -- {url} {part} </dev/null && (
        cd -- {part} || exit
        {_branch_command(repository.branch, conversation_id)}
    ) && mv -- {part} {name} || {{ rm -rf -- {part}; (exit 1); }}
fi"""


def _branch_command(branch: str, conversation_id: str) -> str:
    if not branch:
        return f"git checkout --quiet -b {quote('openhands-workspace-' + conversation_id[:8])}"
    wanted, remote = quote(branch), quote(f"refs/remotes/origin/{branch}")
    return (
        f"if git rev-parse --quiet --verify {remote} >/dev/null "
        f"|| git rev-parse --quiet --verify {quote(branch + '^{commit}')} >/dev/null; "
        f"then git checkout {wanted} --; else git checkout -b {wanted}; fi"
    )


INIT_COMMAND = '[ -n "$(ls -A)" ] || git init'
"""Make an empty folder a git repository, and leave any other as it is."""


def look_command(folder: str) -> str:
    """Go to the folder, and say on a line each which scripts it has for us."""
    scripts = f"{SETUP_SCRIPT} {PRE_COMMIT_SCRIPT}"
    return f'cd -- {quote(folder)} && (for file in {scripts}; do [ ! -f "$file" ] || echo "$file"; done)'


def setup_command(folder: str) -> str:
    """Run the setup script in the agent's own shell, so that what it exports stays; its options and folder do not.

    It gets no input, so that it never waits for an answer.
    """
    return f"""\
. ./{SETUP_SCRIPT} </dev/null
HANDLOOM_SETUP_STATUS=$?
set +eux +o pipefail; cd -- {quote(folder)}
(exit "$HANDLOOM_SETUP_STATUS")"""


HOOK = f"""\
#!/usr/bin/env bash
# Installed by Handloom: first the hook that was here before, then the repository's own.
before="$(dirname -- "$0")/pre-commit.local"
if [ -x "$before" ]; then "$before" "$@" || exit; fi
if [ -f {PRE_COMMIT_SCRIPT} ]; then exec bash {PRE_COMMIT_SCRIPT} "$@"; fi
"""

INSTALL_HOOK_COMMAND = f"""\
(
not_installed() {{ echo "$1"; exit {NOT_INSTALLED_EXIT}; }}
hooks=$(git rev-parse --git-common-dir 2>/dev/null)/hooks || not_installed 'This is no git repository.'
[ -z "$(git rev-parse --show-prefix)" ] || not_installed 'This is a folder inside of a git repository.'
[ -z "$(git config core.hooksPath)" ] || not_installed 'The setting core.hooksPath of git names a folder of its own.'
mkdir -p -- "$hooks" || exit
hook=$hooks/pre-commit
if [ -e "$hook" ] || [ -L "$hook" ]; then
    if ! grep -qE 'Installed by Handloom|This hook was installed by OpenHands' -- "$hook"; then
        [ ! -e "$hook.local" ] || not_installed "There are a pre-commit and a pre-commit.local in $hooks already."
        mv -- "$hook" "$hook.local" || exit
    fi
fi
printf %s {quote(HOOK)} > "$hook.new" && chmod 755 "$hook.new" && mv -f -- "$hook.new" "$hook"
)"""
"""Install `HOOK` in the repository of the current folder, and keep the hook that is there as pre-commit.local."""


def folder_of(repository: Repository | None, working_dir: str) -> str:
    """Where the work is done, as the sandbox sees it: the repository's folder, else the workspace."""
    return posixpath.join(working_dir, repository.name) if repository else working_dir
