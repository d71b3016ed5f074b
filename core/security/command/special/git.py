"""Git: what its subcommands destroy, send and fetch."""

from __future__ import annotations

import re
from collections.abc import Callable

from core.security.command.call import Call
from core.security.command.expansion import Value
from core.security.command.table import Given
from core.security.network import host_of

_SAFE_SETTINGS = re.compile(
    r"(?:user\.(?:name|email)|init\.defaultbranch|color\.\w+|advice\.\w+|pull\.(?:rebase|ff)|push\.(?:default|autosetupremote|followtags)"
    r"|commit\.gpgsign|tag\.gpgsign|core\.(?:autocrlf|quotepath|filemode|ignorecase|longpaths|eol|abbrev|whitespace|safecrlf)|fetch\.prune"
    r"|merge\.(?:ff|conflictstyle)|rebase\.(?:autostash|autosquash)|rerere\.enabled|diff\.(?:renames|algorithm|colormoved|context)"
    r"|log\.\w+|status\.\w+|branch\.[^.]+\.(?:rebase|merge|remote)|http\.(?:postbuffer|lowspeedlimit|lowspeedtime)|gc\.auto|feature\.manyfiles)",
    re.IGNORECASE,
)


def _options(call: Call, given: Given) -> None:
    for value in given.values("-c"):
        name, _, setting = value.start.partition("=")
        if value.text is None or not _SAFE_SETTINGS.fullmatch(name) or setting.startswith("!"):
            raise call.fail(value, "a setting of git")
    for _, value in given.operands[1:]:
        if value.text and value.text.startswith(("/", "~/", "../")):
            call.reads(value)


def _reflog(call: Call, given: Given) -> None:
    if any(value.text in ("expire", "delete") for value in given.of("t")):
        call.rule("destroy.history")


def _paths(call: Call, given: Given) -> None:
    """Files outside the repository are read."""
    for value in given.of("t"):
        if given.has("--no-index") and value.text is not None:
            call.reads(value)


def _remote(call: Call, words: list[Value], named: str, elsewhere: str) -> None:
    """A remote by its name or by an address."""
    call.findings.sends = True
    if not words:
        call.rule(named)
        return
    text = words[0].start
    if (words[0].text is None and words[0].is_foreign) or re.match(r"\w+::", text):
        raise call.fail(words[0], "a repository")
    found = re.match(r"^(?:[^@/:]+@)?([^/:@]+\.[^/:@]+):", text)
    host = host_of(text) if "://" in text and not text.startswith("file:") else found[1] if found else ""
    if host:
        call.findings.calling(host, elsewhere, words[0].shown)
        return
    if text.startswith(("/", ".", "~", "file:")):
        call.reads(Value(text.removeprefix("file://"), words[0].shown))
        call.rule(elsewhere)
        return
    call.rule(named)


def _clone(call: Call, given: Given) -> None:
    words = given.of("t")
    _remote(call, words, "git.fetch", "git.fetch")
    target = given.of("w")
    name = (words[0].text or "").rstrip("/").rpartition("/")[2].rpartition(":")[2].removesuffix(".git")
    if not target and name and words[0].text:
        call.writes(Value(name, name))


def _fetch(call: Call, given: Given) -> None:
    _remote(call, given.of("t")[:1], "git.fetch", "git.fetch")


def _push(call: Call, given: Given) -> None:
    words = given.of("t")
    if given.has("-f", "--force", "--force-with-lease", "--mirror", "--delete", "-d", "--prune", "--force-if-includes"):
        call.rule("git.force")
    for value in words[1:]:
        if value.start.startswith(("+", ":")):
            call.rule("git.force")
        if value.text is None and value.is_foreign:
            raise call.fail(value, "what is pushed")
    _remote(call, words[:1], "git.push", "git.push-elsewhere")


def _branch(call: Call, given: Given) -> None:
    if given.has("-d", "-D", "-M", "-f", "--delete", "--force"):
        call.rule("git.discard")


def _tag(call: Call, given: Given) -> None:
    if given.has("-d", "--delete", "-f", "--force"):
        call.rule("git.discard")


def _checkout(call: Call, given: Given) -> None:
    texts = [value.text for value in given.of("t")]
    whole = any(text in (".", ":/", "*") for text in texts)
    if given.has("-f", "--force", "--discard-changes") or whole:
        call.rule("destroy.work")
    elif len(texts) > 1 or any(value.text == "--" for value in call.args):
        call.rule("git.discard")


def _restore(call: Call, given: Given) -> None:
    if given.has("--staged", "-S") and not given.has("--worktree", "-W"):
        return
    whole = any(value.text in (".", ":/", "*") for value in given.of("t"))
    call.rule("destroy.work" if whole else "git.discard")


def _reset(call: Call, given: Given) -> None:
    if given.has("--hard", "--merge", "--keep"):
        call.rule("destroy.work")


def _clean(call: Call, given: Given) -> None:
    if not given.has("-n", "--dry-run"):
        call.rule("destroy.work")


def _rm(call: Call, given: Given) -> None:
    if given.has("--cached", "-n", "--dry-run"):
        return
    whole = any(value.text in (".", ":/", "*") for value in given.of("t"))
    call.rule("destroy.work" if whole else "destroy.folder" if given.has("-r", "--recursive") else "git.discard")


def _merge(call: Call, given: Given) -> None:
    if (given.has("-x", "-i") and "rebase" in call.spelled) or given.has("-e", "--edit"):
        raise call.fail(None, "an editor or a command")
    if given.has("--skip", "--quit"):
        call.rule("git.discard")


def _apply(call: Call, given: Given) -> None:
    for folder in call.folders:
        call.findings.writing(folder)


def _stash(call: Call, given: Given) -> None:
    texts = [value.text for value in given.of("t")]
    if texts and texts[0] in ("drop", "clear"):
        call.rule("destroy.work")
    elif texts and texts[0] not in ("push", "pop", "apply", "list", "show", "save", "branch"):
        raise call.fail()


def _config(call: Call, given: Given) -> None:
    words = given.of("t")
    texts = [value.text for value in words]
    if texts and texts[0] in ("get", "set", "list", "unset"):
        reads, words = texts[0] in ("get", "list"), words[1:]
    else:
        reads = given.has("--get", "--get-all", "--get-regexp", "-l", "--list", "--get-urlmatch") or len(words) < 2
        reads = reads and not given.has("--unset", "--unset-all", "--add", "--replace-all")
    key = words[0].text if words else ""
    if key is None:
        raise call.fail(words[0], "a setting of git")
    if reads:
        if "credential" in key or given.has("-l", "--list") or texts[:1] == ["list"]:
            call.rule("secret.environment")
        return
    if any(value.text is None and not value.prefix and value.is_foreign for value in words[1:]):
        raise call.fail(None, "a setting of git")
    if not _SAFE_SETTINGS.fullmatch(key):
        call.rule("persist.hook")
        raise call.fail(words[0] if words else None, "a setting of git")
    if given.has("--global", "--system") and not re.fullmatch(r"(?i)user\.\w+|init\.\w+|pull\.\w+", key):
        call.rule("persist.config")


def _remotes(call: Call, given: Given) -> None:
    words = given.of("t")
    verb = words[0].text if words else "show"
    if verb in ("add", "set-url", "rename", "remove", "rm", "set-head", "prune", "set-branches"):
        call.rule("git.remote")
        for value in words[2:]:
            if re.match(r"\w+::", value.start):
                raise call.fail(value, "a repository")
            if host := host_of(value.start) if "://" in value.start else "":
                call.findings.add(call.findings.hosts, host)
    elif verb == "update":
        call.rule("git.fetch")
    elif verb not in ("show", "get-url"):
        raise call.fail()


def _submodule(call: Call, given: Given) -> None:
    words = given.of("t")
    verb = words[0].text if words else "status"
    if verb in ("update", "add"):
        _remote(call, words[1:2] if verb == "add" else [], "git.fetch", "git.fetch")
    elif verb not in ("status", "init", "sync", "summary", "deinit"):
        raise call.fail()


def _worktree(call: Call, given: Given) -> None:
    words = given.of("t")
    verb = words[0].text if words else ""
    if verb == "remove":
        for value in words[1:]:
            call.removes(value, recursive=True)
    elif verb in ("add", "move"):
        for value in words[1:2] if verb == "add" else words[1:]:
            call.writes(value)
    elif verb not in ("list", "prune", "lock", "unlock", "repair"):
        raise call.fail()


def _upkeep(call: Call, given: Given) -> None:
    if any(value.text == "run" for value in given.of("t")) or "--prune" in call.source:
        raise call.fail()


HANDLERS: dict[str, Callable[[Call, Given], None]] = {
    "git": _options,
    "git_reflog": _reflog,
    "git_paths": _paths,
    "git_clone": _clone,
    "git_fetch": _fetch,
    "git_push": _push,
    "git_branch": _branch,
    "git_tag": _tag,
    "git_checkout": _checkout,
    "git_restore": _restore,
    "git_reset": _reset,
    "git_clean": _clean,
    "git_rm": _rm,
    "git_merge": _merge,
    "git_apply": _apply,
    "git_stash": _stash,
    "git_config": _config,
    "git_remote": _remotes,
    "git_submodule": _submodule,
    "git_worktree": _worktree,
    "git_upkeep": _upkeep,
}
"""By their names in the table."""
