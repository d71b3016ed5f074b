"""Git. Options that make git run a program chosen by the caller are in no row."""

from __future__ import annotations

import re

from core.security.hosts import host_of
from core.security.shell.expansion import Value
from core.security.shell.program_call import Call
from core.security.shell.program_table import Arguments, Handler

_KEYS = (
    "(?i:user\\.(?:name|email)|init\\.defaultbranch|color\\.ui|pull\\.(?:rebase|ff)|push\\.default|core\\.autocrlf"
    "|core\\.quotepath|merge\\.ff|advice\\.\\w+)"
)
_BRANCH = "/(?:main|master|HEAD|-|v\\d+(?:\\.\\d+)+|[0-9a-f]{7,40}|(?:origin|hotfix)\\x2f[\\w.\\x2f-]+)/"
"""What a folder or a file is not named, for `checkout` would take its changes back."""
_REF = "[\\w@][\\w@~^{}.\\x2f-]*"
_LOG = (
    " -# -n= -p -u -s -S= -G= -L= -i -w -b -R -M -U= -1 --oneline --graph --all --decorate? --stat? --shortstat"
    " --numstat --summary --name-only --name-status --patch --no-patch --pretty? --format= --abbrev-commit --date="
    " --since= --until= --author= --grep= --max-count= --merges --no-merges --first-parent --reverse --follow --color?"
    " --no-color --word-diff? --unified= --diff-filter= --find-renames --no-renames --ignore-all-space"
    " --ignore-space-change --cached --staged --exit-code --quiet --check --tags"
)

TABLE = f"""
  git | -p -C=C --no-pager --version --help -c=/{_KEYS}=[^!]*/ | @git
[git]
  - | |
  log show diff shortlog | {_LOG} -e | t* | run.project
  reflog | -# -n= | /show/? | run.project
  status | -sbuvz --short --branch --porcelain? --untracked-files? --ignored --verbose | t* | run.project
  blame | -lswpe -L= -M -C | t* | run.project
  grep | -iIwvEFPlLnc -e=e -A= -B= -C= --cached --count --line-number --files-with-matches --ignore-case | p t* |
        run.project
  ls-files ls-tree rev-parse rev-list merge-base describe show-ref name-rev cat-file for-each-ref | -cdmosrtptez -n=
        --cached --deleted --modified --others --ignored --exclude-standard --name-only --short? --verify --abbrev-ref
        --show-toplevel --is-inside-work-tree --git-dir --count --all --tags --always --dirty --long --exact-match
        --abbrev? --format= --sort= --max-count= | t* | run.project
  add | -AuvnfN --all --update --dry-run --verbose --force | t* | run.project
  commit | -aqvs -m=t --all --message=t --amend --no-edit --quiet --verbose --signoff --allow-empty --dry-run --fixup=
        --date= --author= --no-verify -n | t* | run.project
  init | -q -b= --quiet --initial-branch= | w? | run.project
  clone | -q -b= --depth= --branch= --single-branch --quiet --recurse-submodules --recursive --filter= | n w? |
        run.project !git_clone
  fetch pull | -pqtva --all --prune --tags --quiet --rebase? --no-rebase --ff-only --depth= --unshallow --autostash |
        n? /{_REF}/* | run.project !git_fetch
  push | -fudnqv --all --tags --follow-tags --force --force-with-lease? --delete --dry-run --mirror --prune --quiet
        --set-upstream --no-verify | n* | run.project !git_push
  branch | -avrdDmq --all --list --delete --remotes --verbose --show-current --merged? --no-merged? --contains? --sort=
        --format= | /{_REF}/* | run.project !git_branch
  tag | -aln -m=t --annotate --list --message=t --sort= | /{_REF}/* | run.project
  checkout | -q -b= --quiet --detach | {_BRANCH}? | run.project
  switch | -q -c= --create= --quiet --detach | /-|{_REF}/? | run.project
  restore | -qSW --staged --worktree --quiet --source= | t* | run.project !git_restore
  reset | -q --soft --mixed --hard --merge --keep --quiet | /{_REF}/* | run.project !git_reset
  clean | -dfinqxX --dry-run --force | t* | destroy.work
  rm | -frnq --force --dry-run --cached --quiet | t* | run.project !git_rm
  merge | -q -m=t --no-ff --ff-only --squash --no-edit --abort --continue --no-commit | /{_REF}/* | run.project
  rebase | -q --abort --continue --autostash --onto= | /{_REF}/* | run.project
  cherry-pick revert | -n --no-edit --no-commit --abort --continue | /{_REF}/* | run.project
  stash | -uqk -m=t --include-untracked --keep-index --message=t | /push|pop|apply|list|show|save/?
        /stash@\\{{\\d+\\}}/? | run.project
  config | --global --local --get | /{_KEYS}/ /[^!].*/? | run.project
  remote | -v --verbose | @git_remote
  submodule | --init --recursive | /status|update|init/? | git.fetch run.project
  worktree | | @git_worktree
[git_remote]
  - | | | run.project
  get-url remove rename | | /[\\w.-]+/* | git.remote run.project
  add set-url | | /[\\w.-]+/ n | git.remote run.project !git_address
[git_worktree]
  list | --porcelain | | run.project
  add | -q -b= --detach | n /[\\w.\\x2f-]+/? | run.project !git_worktree
  remove | -f --force | n | run.project !git_worktree
"""
"""See `core.security.shell.program_table` for the language."""

_ADDRESS = re.compile(r"(?:https?|ssh|git)://[\w.@:-]+/[\w.~/-]+|(?:[\w.-]+@)?[\w.-]+\.[\w.-]+:[\w.~/-]+")

MAX_ADDRESS_CHARS = 2_000
"""The pattern is matched in the square of the length."""

_NAMED = r"\w[\w-]*"
"""A remote of the repository."""


def _remote(call: Call, words: list[Value], named: str, elsewhere: str) -> None:
    """A remote by its name or by an address. Raises NotUnderstoodError for every other, such as a folder."""
    call.findings.sends = True
    if words and words[0].text is None:
        raise call.fail(words[0], "a repository")
    text = words[0].start if words else "origin"
    if len(text) > MAX_ADDRESS_CHARS:
        raise call.fail(words[0], "too long for an address")
    if re.fullmatch(_NAMED, text):
        call.report(named)
    elif _ADDRESS.fullmatch(text):
        host = host_of(text) if "://" in text else text.partition(":")[0].rpartition("@")[2]
        call.findings.call_host(host, elsewhere, words[0].shown)
    else:
        raise call.fail(words[0], "a repository")


def _clone(call: Call, arguments: Arguments) -> None:
    words = arguments.operands_of("n")
    _remote(call, words, "git.fetch", "git.fetch")
    name = words[0].start.rstrip("/").removesuffix("/.git").rstrip("/")
    name = name.rpartition("/")[2].rpartition(":")[2].removesuffix(".git")
    for value in arguments.operands_of("w") or [Value(name, name)]:
        if value.text is not None:
            call.writes(value)


def _fetch(call: Call, arguments: Arguments) -> None:
    words = arguments.operands_of("n")
    _remote(call, words, "git.fetch", "git.fetch")
    if words and not re.fullmatch(_NAMED, words[0].start):
        _brings_code(call)


def _brings_code(call: Call) -> None:
    """What comes from an address is code of others, as that of a clone is."""
    call.shell = call.shell.with_written(*call.folders)


def _push(call: Call, arguments: Arguments) -> None:
    words = arguments.operands_of("n")
    if arguments.has(
        "-f", "--force", "--force-with-lease", "--mirror", "--delete", "-d", "--prune", "--force-if-includes"
    ):
        call.report("git.force")
    if any(value.start.startswith(("+", ":")) for value in words[1:]):
        call.report("git.force")
    _remote(call, words[:1], "git.push", "git.push-elsewhere")


def _address(call: Call, arguments: Arguments) -> None:
    for value in arguments.operands_of("n"):
        if value.text is None or len(value.text) > MAX_ADDRESS_CHARS or not _ADDRESS.fullmatch(value.text):
            raise call.fail(value, "a repository")
    _brings_code(call)


def _branch(call: Call, arguments: Arguments) -> None:
    if arguments.has("-d", "-D", "--delete"):
        call.report("git.discard")


def _restore(call: Call, arguments: Arguments) -> None:
    if not arguments.has("--staged", "-S") or arguments.has("--worktree", "-W"):
        call.report("destroy.work")


def _reset(call: Call, arguments: Arguments) -> None:
    if arguments.has("--hard", "--merge", "--keep"):
        call.report("destroy.work")


def _rm(call: Call, arguments: Arguments) -> None:
    if not arguments.has("--cached"):
        call.report("destroy.work")


def _worktree(call: Call, arguments: Arguments) -> None:
    for value in arguments.operands_of("n")[:1]:
        if call.spelled[-1] == "remove":
            call.removes(value, recursive=True)
        else:
            call.writes(value)


HANDLERS: dict[str, Handler] = {
    "git_clone": _clone,
    "git_fetch": _fetch,
    "git_push": _push,
    "git_address": _address,
    "git_branch": _branch,
    "git_restore": _restore,
    "git_reset": _reset,
    "git_rm": _rm,
    "git_worktree": _worktree,
}
