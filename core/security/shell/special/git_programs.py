"""Git: what its subcommands destroy, send and fetch."""

from __future__ import annotations

import re
from collections.abc import Callable

from core.security.hosts import host_of
from core.security.shell.expansion import Value
from core.security.shell.program_call import Call
from core.security.shell.program_table import Given

_ADDRESS = re.compile(r"(?:https?|ssh|git)://[\w.@:-]+/[\w.~/-]+|(?:[\w.-]+@)?[\w.-]+\.[\w.-]+:[\w.~/-]+")


def _remote(call: Call, words: list[Value], named: str, elsewhere: str) -> None:
    """A remote by its name or by an address. Raises NotUnderstoodError for every other, such as a folder."""
    call.findings.sends = True
    if words and words[0].text is None:
        raise call.fail(words[0], "a repository")
    text = words[0].start if words else "origin"
    if re.fullmatch(r"\w[\w-]*", text):
        call.rule(named)
    elif _ADDRESS.fullmatch(text):
        host = host_of(text) if "://" in text else text.partition(":")[0].rpartition("@")[2]
        call.findings.calling(host, elsewhere, words[0].shown)
    else:
        raise call.fail(words[0], "a repository")


def _clone(call: Call, given: Given) -> None:
    words = given.of("n")
    _remote(call, words, "git.fetch", "git.fetch")
    name = words[0].start.rstrip("/").removesuffix("/.git").rstrip("/")
    name = name.rpartition("/")[2].rpartition(":")[2].removesuffix(".git")
    for value in given.of("w") or [Value(name, name)]:
        if value.text is not None:
            call.writes(value)


def _fetch(call: Call, given: Given) -> None:
    _remote(call, given.of("n"), "git.fetch", "git.fetch")


def _push(call: Call, given: Given) -> None:
    words = given.of("n")
    if given.has("-f", "--force", "--force-with-lease", "--mirror", "--delete", "-d", "--prune", "--force-if-includes"):
        call.rule("git.force")
    if any(value.start.startswith(("+", ":")) for value in words[1:]):
        call.rule("git.force")
    _remote(call, words[:1], "git.push", "git.push-elsewhere")


def _address(call: Call, given: Given) -> None:
    for value in given.of("n"):
        if value.text is None or not _ADDRESS.fullmatch(value.text):
            raise call.fail(value, "a repository")


def _branch(call: Call, given: Given) -> None:
    if given.has("-d", "-D", "--delete"):
        call.rule("git.discard")


def _restore(call: Call, given: Given) -> None:
    if not given.has("--staged", "-S") or given.has("--worktree", "-W"):
        call.rule("destroy.work")


def _reset(call: Call, given: Given) -> None:
    if given.has("--hard", "--merge", "--keep"):
        call.rule("destroy.work")


def _rm(call: Call, given: Given) -> None:
    if not given.has("--cached"):
        call.rule("destroy.work")


def _worktree(call: Call, given: Given) -> None:
    for value in given.of("n")[:1]:
        if call.spelled[-1] == "remove":
            call.removes(value, recursive=True)
        else:
            call.writes(value)


HANDLERS: dict[str, Callable[[Call, Given], None]] = {
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
"""By their names in the table."""
