"""Repository: the git repository that a conversation starts with, and the shell commands that clone and set it up.

`parse` refuses anything that could be an option, another transport or a secret, because the text is stored and becomes
part of a command. Every argument in a command is quoted. The commands need a POSIX shell with git, and never prompt.
Follows `clone_or_init_repo` and `maybe_setup_git_hooks` of OpenHands V0 (`openhands/runtime/base.py`), but a clone
appears complete or not at all, and global git settings are not changed. Pure.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from shlex import quote
from typing import Self
from urllib.parse import unquote, urlsplit

from core.errors import UsageError
from core.sandbox_types import HTTPS_PORT, SSH_PORT, GitPlace

SETUP_SCRIPT = ".openhands/setup.sh"
PRE_COMMIT_SCRIPT = ".openhands/pre-commit.sh"
NOT_INSTALLED_EXIT = 3
"""The exit status of `INSTALL_HOOK_COMMAND` if the hook cannot be installed safely; its output says why."""

FORMS = (
    "Give OWNER/NAME, https://HOST/PATH, http://HOST/PATH, ssh://HOST/PATH, git@HOST:PATH, file:///PATH or an absolute "
    "path, "
    "optionally followed by #BRANCH."
)
_SCP_FORM = re.compile(r"git@(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\]):(?!-)(?P<path>.+)")
_SHORT_FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9_][A-Za-z0-9._-]*")
DEFAULT_HOST = "github.com"
"""The host of `OWNER/NAME`, unless `sandbox.git_host` names another one."""
_NO_BRANCH = re.compile(r"^[-/.]|[\s~^:?*\[\\]|\.\.|//|/\.|@\{|[/.]$|\.lock(/|$)|^@$")
"""Names that `git check-ref-format` refuses, and names that look like an option."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository from `parse`, whose parts are safe to quote, show and store."""

    url: str
    branch: str = ""
    """Empty for the default of `clone_command`."""

    @classmethod
    def parse(cls, text: str, host: str = DEFAULT_HOST) -> Self:
        """Parse `URL` or `URL#BRANCH`; `OWNER/NAME` is at this host. Raises UsageError, which never repeats a possible
        secret.
        """
        url, mark, branch = text.strip().partition("#")
        if _SHORT_FORM.fullmatch(url):
            url = f"https://{host}/{url.removesuffix('.git')}.git"
        if not url or url.startswith("-") or not text.strip().isprintable():
            raise UsageError(f"This is not a repository address. {FORMS}")
        _check_address(url)
        url = _with_plain_host(url)
        if mark and (not branch or _NO_BRANCH.search(branch)):
            raise UsageError(f"The text after the # is not a branch name that git allows. {FORMS}")
        repository = cls(url, branch)
        if repository.name in ("", ".", "..", ".git") or repository.name.startswith("-"):
            raise UsageError(f"The repository address does not end with a name for its folder. {FORMS}")
        return repository

    def __str__(self) -> str:
        return f"{self.url}#{self.branch}" if self.branch else self.url

    @property
    def name(self) -> str:
        """The short name, which is its folder in the workspace."""
        return re.split(r"[/:]", self.url.rstrip("/"))[-1].removesuffix(".git")

    @property
    def host(self) -> str:
        """The host, with its port if given, of an https or http address; empty for others."""
        parts = urlsplit(self.url)
        return parts.netloc if parts.scheme in ("https", "http") else ""

    @property
    def place(self) -> GitPlace | None:
        """Where git asks for it by https or ssh; None for others."""
        if scp := _SCP_FORM.fullmatch(self.url):
            return GitPlace.of("ssh", scp["host"].strip("[]"), SSH_PORT, scp["path"], "git")
        parts = urlsplit(self.url)
        if parts.scheme not in ("https", "ssh"):
            return None
        ssh = parts.scheme == "ssh"
        path = unquote(parts.path).replace("/~", "~", 1) if ssh and parts.path.startswith("/~") else parts.path
        port = parts.port or (SSH_PORT if ssh else HTTPS_PORT)
        return GitPlace.of(
            parts.scheme, parts.hostname or "", port, unquote(path) if ssh else path, parts.username or ""
        )

    @property
    def folder(self) -> str:
        """The path of a repository on this machine; empty for a remote one."""
        return self.url if self.url.startswith("/") else unquote(urlsplit(self.url).path) * self.url.startswith("file:")


def _check_address(url: str) -> None:
    """Raise UsageError for an address that is not one of `FORMS`."""
    if url.startswith("/") or _SCP_FORM.fullmatch(url):
        return
    try:
        parts = urlsplit(url)
        host, user, password, _port = parts.hostname or "", parts.username, parts.password, parts.port
    except ValueError as error:
        raise UsageError(f"The repository address is invalid. {FORMS}") from error
    is_web = parts.scheme in ("https", "http")
    if parts.scheme not in ("https", "http", "ssh", "file"):
        raise UsageError(f"This kind of repository address is not allowed. {FORMS}")
    if password is not None or (is_web and (user is not None or parts.query)):
        raise UsageError(
            "The repository address contains a password or a token, which would be stored with the conversation. "
            "Remove it, and store the token with: handloom secrets set NAME --git"
        )
    wants_host = parts.scheme != "file"
    if bool(host) is not wants_host or host.startswith("-") or (user or "").startswith("-") or "/" not in parts.path:
        raise UsageError(f"The repository address is incomplete. {FORMS}")


def _with_plain_host(url: str) -> str:
    """The address as git settings match it: an https host in lower case, without the usual port."""
    parts = urlsplit(url)
    if parts.scheme != "https":
        return url
    return parts._replace(netloc=parts.netloc.lower().removesuffix(f":{HTTPS_PORT}")).geturl()


# -- commands --------------------------------------------------------------------------------------------------------

_NEVER_ASK = "export GIT_TERMINAL_PROMPT=0 SSH_ASKPASS=false SSH_ASKPASS_REQUIRE=force"
"""Makes git and ssh fail instead of asking for a password or an unknown host."""


def clone_command(repository: Repository, conversation_id: str, *, copied: bool = False) -> str:
    """Clone the repository into the current folder, unless it is there. For a shell of its own.

    Checks out the branch, or creates it; without a branch, creates one named as in V0. Removes the rest of a failed
    attempt. A folder that was `copied` from another conversation counts as the repository, even without `.git`.
    """
    url, name = quote(repository.url), quote(f"./{repository.name}")
    part = quote(f"./.handloom-clone-{conversation_id}")
    taken = quote(f"The folder {repository.name} exists and is not a git repository. Move it away.")
    is_there = f"[ -d {name} ]" if copied else f"[ -e {name}/.git ]"
    return f"""\
{_NEVER_ASK}
if {is_there}; then
    echo {quote(f"{repository.name} already exists.")}
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
"""Make an empty folder a git repository, and leave any other folder unchanged."""


def look_command(folder: str) -> str:
    """Go to the folder and print the setup scripts that exist, one on each line."""
    scripts = f"{SETUP_SCRIPT} {PRE_COMMIT_SCRIPT}"
    return f'cd -- {quote(folder)} && (for file in {scripts}; do [ ! -f "$file" ] || echo "$file"; done)'


def setup_command(folder: str) -> str:
    """Run the setup script in the agent's shell, so that its exports stay. Shell options and folder are restored.

    It gets no input, so that it cannot wait for an answer.
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
hooks=$(git rev-parse --git-common-dir 2>/dev/null)/hooks || not_installed 'This is not a git repository.'
[ -z "$(git rev-parse --show-prefix)" ] || not_installed 'This is a folder inside a git repository.'
[ -z "$(git config core.hooksPath)" ] || not_installed 'The git setting core.hooksPath names another folder.'
mkdir -p -- "$hooks" || exit
hook=$hooks/pre-commit
if [ -e "$hook" ] || [ -L "$hook" ]; then
    if ! grep -qE 'Installed by Handloom|This hook was installed by OpenHands' -- "$hook"; then
        [ ! -e "$hook.local" ] || not_installed "Both pre-commit and pre-commit.local already exist in $hooks."
        mv -- "$hook" "$hook.local" || exit
    fi
fi
printf %s {quote(HOOK)} > "$hook.new" && chmod 755 "$hook.new" && mv -f -- "$hook.new" "$hook"
)"""
"""Install `HOOK` in the repository of the current folder. An existing hook is renamed to pre-commit.local."""


def folder_of(repository: Repository | None, working_dir: str) -> str:
    """The working folder in the sandbox: the repository's folder, or the workspace without one."""
    return posixpath.join(working_dir, repository.name) if repository else working_dir
