"""Git and what speaks to its hosts."""

from __future__ import annotations

import re

from core.security.network import host_of
from core.security.shell.programs import Call, Handler, shown
from core.security.shell.words import Out, Word, options

_GLOBAL = "-C -c --git-dir --work-tree --namespace --exec-path --super-prefix --config-env"
_LOOKS = frozenset(
    [
        "status",
        "log",
        "show",
        "diff",
        "blame",
        "grep",
        "ls-files",
        "ls-tree",
        "rev-parse",
        "rev-list",
        "describe",
        "shortlog",
        "reflog",
        "cat-file",
        "show-ref",
        "for-each-ref",
        "merge-base",
        "name-rev",
        "whatchanged",
        "version",
        "help",
        "count-objects",
        "fsck",
        "check-ignore",
        "verify-commit",
        "var",
        "range-diff",
        "cherry",
        "annotate",
        "diff-tree",
        "diff-index",
        "diff-files",
        "symbolic-ref",
        "bugreport",
        "check-attr",
        "show-branch",
        "--version",
        "--help",
    ]
)
_WORKS = frozenset(
    [
        "add",
        "commit",
        "init",
        "tag",
        "merge",
        "rebase",
        "cherry-pick",
        "revert",
        "mv",
        "stage",
        "apply",
        "am",
        "switch",
        "notes",
        "bisect",
        "worktree",
        "format-patch",
        "archive",
        "bundle",
        "sparse-checkout",
        "maintenance",
        "gc",
        "pack-refs",
        "repack",
        "rm",
        "update-index",
        "write-tree",
        "commit-tree",
        "mergetool",
        "difftool",
        "rerere",
        "lfs",
        "flow",
    ]
)
_RUNS_CODE = re.compile(
    r"^(?:alias\.|core\.(?:pager|editor|sshcommand|fsmonitor|hookspath|askpass|gitproxy)|credential\.helper|diff\.[^=]*(?:command|textconv|"
    r"external)|filter\.|merge\.[^=]*driver|pager\.|sequence\.editor|uploadpack|gpg\.[^=]*program|init\.templatedir|protocol\.ext|"
    r"(?:diff|merge)tool\.|http\.proxy|url\.|include)",
    re.IGNORECASE,
)


def _git(call: Call) -> Out:
    found, rest = options(call.args, _GLOBAL, first_ends=True)
    for name, value in found:
        if value is None:
            continue
        if name in ("-c", "--config-env") and _RUNS_CODE.match(value.text):
            _setting(call, value.text.partition("=")[0], value.text.partition("=")[2])
        elif name == "-C":
            call.state = call.state.inner()
            call.state.cwd = call.path(value)[0] if value.known else None
        elif name in ("--exec-path",):
            call.rule("run.hooked")
    if not rest:
        return Out(None)
    verb, args = rest[0].text, rest[1:]
    _pagers(call, verb, args)
    if verb in _VERBS:
        _VERBS[verb](call, args)
    elif verb in _WORKS:
        _works(call, verb, args)
    elif verb not in _LOOKS:
        call.rule("program.unknown", f"git {verb}")
    return Out(None, frozenset({"file"}))


def _pagers(call: Call, verb: str, args: list[Word]) -> None:
    """Programs that `difftool` and `grep` are told to show things with."""
    for at, word in enumerate(args):
        command = ""
        if verb == "difftool" and word.text in ("-x", "--extcmd") and at + 1 < len(args):
            command = args[at + 1].text
        elif verb == "difftool" and word.text.startswith("--extcmd="):
            command = word.text.partition("=")[2]
        elif verb == "grep" and word.text.startswith(("-O", "--open-files-in-pager=")):
            command = word.text.removeprefix("-O").removeprefix("--open-files-in-pager=")
        if command:
            call.rule("run.hooked")
            call.reader.inside(command, call.state)


def _works(call: Call, verb: str, args: list[Word]) -> None:
    texts = [word.text for word in args]
    if verb in ("rebase", "bisect") and any(
        text in ("-x", "--exec", "run") or text.startswith("--exec=") for text in texts
    ):
        for at, text in enumerate(texts):
            if text in ("-x", "--exec") and at + 1 < len(args):
                call.reader.inside(texts[at + 1], call.state)
            elif text.startswith("--exec="):
                call.reader.inside(text[7:], call.state)
            elif text == "run":
                call.again(args[at + 1 :])
        call.rule("run.project")
    if verb == "tag" and any(text in ("-d", "--delete") for text in texts):
        call.rule("git.discard")
    if verb == "gc" and any(text.startswith("--prune") for text in texts):
        call.rule("destroy.history")
    if verb == "rm" and any(word.text in (".", "*", ":/") for word in args):
        call.rule("destroy.work")
    if verb == "rm":
        call.rule("destroy.folder" if any(text.startswith("-r") for text in texts) else "git.discard")
    if verb == "worktree" and "remove" in texts:
        call.rule("destroy.folder")


def _push(call: Call, args: list[Word]) -> None:
    _, rest = options(args, "-o --push-option --repo --receive-pack --exec")
    texts = [word.text for word in args]
    if any(
        re.match(r"^(?:--force(?:$|=)|--mirror|--delete$|--prune$|--force-with-lease)", text)
        or re.match(r"^-[a-z]*[fd]", text)
        for text in texts
    ):
        call.rule("git.force")
    if any(word.text.startswith(("+", ":")) for word in rest[1:]):
        call.rule("git.force")
    fetched(call, rest[:1], "git.push", "git.push-elsewhere")


def fetched(call: Call, words: list[Word], named: str, elsewhere: str) -> None:
    """A remote by its name or by an address."""
    text = words[0].text if words else ""
    host = (
        host_of(text)
        if "://" in text
        else (m[1] if (m := re.match(r"^(?:[^@/:]+@)?([^/:@]+\.[^/:@]+):", text)) else "")
    )
    if text.startswith("ext::"):
        call.rule("run.hooked")
        call.reader.inside(text[5:], call.state)
    if host:
        call.reader.findings.calling(host, elsewhere, text)
        return
    call.rule(elsewhere if words and (not words[0].known or words[0].kinds) else named)
    call.reader.findings.sends = True


def _fetch(call: Call, args: list[Word]) -> None:
    found, rest = options(
        args,
        "-b -o -c --branch --depth --origin --config --template --reference --upload-pack -u -j --jobs --filter"
        " --recurse-submodules",
    )
    for name, value in found:
        if name in ("-c", "--config") and value is not None and _RUNS_CODE.match(value.text):
            _setting(call, value.text.partition("=")[0], value.text.partition("=")[2])
        if name in ("--upload-pack", "-u", "--template") and value is not None and "--upload-pack" in shown(args):
            call.rule("run.hooked")
    fetched(call, rest[:1], "git.fetch", "git.fetch")


def _clone(call: Call, args: list[Word]) -> None:
    _fetch(call, args)
    _, rest = options(
        args, "-b -o -c --branch --depth --origin --config --template --reference -j --jobs --filter --shallow-since"
    )
    target = rest[1] if len(rest) > 1 else None
    name = rest[0].text.rstrip("/").rpartition("/")[2].removesuffix(".git") if rest else ""
    if target is not None or name:
        call.writes(target if target is not None else Word(name, name))


def _reset(call: Call, args: list[Word]) -> None:
    if any(word.text in ("--hard", "--merge", "--keep") for word in args):
        call.rule("destroy.work")


def _clean(call: Call, args: list[Word]) -> None:
    texts = [word.text for word in args]
    if not any(text in ("-n", "--dry-run") or re.match(r"^-[a-z]*n", text) for text in texts):
        call.rule("destroy.work")


def _checkout(call: Call, args: list[Word]) -> None:
    texts = [word.text for word in args]
    whole = "." in texts or ":/" in texts or "*" in texts
    if any(text in ("-f", "--force") for text in texts) or whole:
        call.rule("destroy.work")
    elif "--" in texts:
        call.rule("git.discard")


def _restore(call: Call, args: list[Word]) -> None:
    texts = [word.text for word in args]
    if "--staged" in texts and "--worktree" not in texts:
        return
    call.rule("destroy.work" if any(text in (".", ":/", "*") for text in texts) else "git.discard")


def _branch(call: Call, args: list[Word]) -> None:
    if any(re.match(r"^(?:-[a-z]*[dDMf]|--delete|--force)$", word.text) for word in args):
        call.rule("git.discard")


def _stash(call: Call, args: list[Word]) -> None:
    if args and args[0].text in ("drop", "clear"):
        call.rule("destroy.work")


def _config(call: Call, args: list[Word]) -> None:
    found, rest = options(args, "--file -f --type --blob --default")
    flags = {name for name, _ in found}
    writes = bool((len(rest) > 1 and not flags & {"--get", "--get-all", "--get-regexp", "-l", "--list"}) or flags & {
        "--unset", "--unset-all", "--add", "--replace-all", "-e", "--edit", "--remove-section"})  # fmt: skip
    key = rest[0].text if rest else ""
    if rest and rest[0].text in ("set", "get", "list", "unset"):
        writes, key = rest[0].text in ("set", "unset"), rest[1].text if len(rest) > 1 else ""
        rest = rest[1:]
    if not writes:
        if "credential" in key or flags & {"-l", "--list"}:
            call.rule("secret.environment")
        return
    if _RUNS_CODE.match(key):
        _setting(call, key, rest[1].text if len(rest) > 1 else "")
    elif flags & {"--global", "--system"} and key not in (
        "user.name",
        "user.email",
        "init.defaultBranch",
        "safe.directory",
        "pull.rebase",
    ):
        call.rule("persist.config")


def _setting(call: Call, key: str, value: str) -> None:
    """A setting of git that names a command."""
    if value in ("cat", "less", "true", "false", "vim", "nano", "vi", "") and not key.lower().startswith(
        ("core.hookspath", "alias")
    ):
        return
    call.rule(
        "persist.hook" if not key.lower().startswith("alias.") or value.startswith("!") else "run.hooked",
        f"{key}={value}",
    )
    command = value.removeprefix("!")
    if command:
        call.reader.inside(
            f"git {command}" if key.lower().startswith("alias.") and not value.startswith("!") else command, call.state
        )


def _remote_verb(call: Call, args: list[Word]) -> None:
    if args and args[0].text in ("add", "set-url", "rename", "remove", "rm", "set-head", "prune"):
        call.rule("git.remote")
        for word in args[2:]:
            if host := host_of(word.text) if "://" in word.text else "":
                call.reader.findings.add(call.reader.findings.hosts, host)
    elif args and args[0].text == "update":
        call.rule("git.fetch")


def _submodule(call: Call, args: list[Word]) -> None:
    texts = [word.text for word in args]
    if "foreach" in texts:
        command = [text for text in texts[texts.index("foreach") + 1 :] if not text.startswith("--")]
        call.reader.inside(" ".join(command), call.state)
        call.rule("run.project")
    elif "update" in texts or "add" in texts:
        fetched(call, [word for word in args if "://" in word.text][:1], "git.fetch", "git.fetch")


def _history(call: Call, args: list[Word]) -> None:
    texts = [word.text for word in args]
    call.rule("destroy.history")
    for at, text in enumerate(texts):
        if text.endswith("-filter") and at + 1 < len(texts):
            call.reader.inside(texts[at + 1], call.state)


def _reflog(call: Call, args: list[Word]) -> None:
    if args and args[0].text in ("expire", "delete"):
        call.rule("destroy.history")


def _credential(call: Call, args: list[Word]) -> None:
    call.rule("secret.keyring")


def _daemon(call: Call, args: list[Word]) -> None:
    call.rule("net.listen")


def _send_email(call: Call, args: list[Word]) -> None:
    call.rule("message.sent")


_VERBS = {
    "push": _push,
    "send-pack": _push,
    "fetch": _fetch,
    "pull": _fetch,
    "ls-remote": _fetch,
    "clone": _clone,
    "reset": _reset,
    "clean": _clean,
    "checkout": _checkout,
    "restore": _restore,
    "branch": _branch,
    "stash": _stash,
    "config": _config,
    "remote": _remote_verb,
    "submodule": _submodule,
    "filter-branch": _history,
    "filter-repo": _history,
    "update-ref": _history,
    "replace": _history,
    "prune": _history,
    "reflog": _reflog,
    "credential": _credential,
    "credential-cache": _credential,
    "credential-store": _credential,
    "daemon": _daemon,
    "instaweb": _daemon,
    "send-email": _send_email,
    "request-pull": _send_email,
}


HANDLERS: dict[str, Handler] = {
    "git": _git,
}
