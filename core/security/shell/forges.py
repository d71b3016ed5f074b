"""Programs of the hosts of repositories, and other systems of versions."""

from __future__ import annotations

from core.security.shell.git import fetched
from core.security.shell.programs import Call, Handler
from core.security.shell.words import Out, options

_READING_VERBS = frozenset(["view", "list", "status", "diff", "checks", "search", "browse", "ls", "get", "show"])


def _hub(call: Call) -> Out:
    """`gh` and `glab`: what only looks is a call, the rest reaches people."""
    _, rest = options(
        call.args,
        "-R --repo -H --header -f -F --field --raw-field -X --method --jq -q -t --title -b --body --json -L -s",
    )
    texts = [word.text for word in rest]
    if texts[:1] == ["auth"]:
        call.rule("secret.keyring" if texts[1:2] != ["status"] else "net.fetch")
    elif texts[:1] == ["api"]:
        flags = {word.text for word in call.args}
        call.rule("message.sent" if flags & {"-f", "-F", "--field", "-X", "--method", "--input"} else "net.fetch")
    elif (len(texts) > 1 and texts[1] in _READING_VERBS) or texts[:1] in (
        ["version"],
        ["help"],
        ["search"],
        ["status"],
    ):
        call.rule("net.fetch")
    elif texts[:2] in (
        ["repo", "clone"],
        ["pr", "checkout"],
        ["repo", "sync"],
        ["release", "download"],
        ["run", "watch"],
        ["run", "download"],
    ):
        call.rule("git.fetch")
    elif texts[:1] == ["repo"] and texts[1:2] == ["delete"]:
        call.rule("destroy.history")
    elif texts:
        call.rule("message.sent")
    return Out(None, frozenset({"remote"}))


def _other(call: Call) -> Out:
    """Subversion and Mercurial."""
    _, rest = options(call.args, "-m -r --config")
    verb = rest[0].text if rest else ""
    if any(word.text.startswith("--config") for word in call.args):
        call.rule("run.hooked")
    if verb in ("commit", "ci", "push", "import") and (call.name == "svn" or verb == "push"):
        call.rule("git.push")
    elif verb in ("checkout", "co", "update", "up", "clone", "pull", "export", "incoming"):
        fetched(call, [word for word in rest[1:2] if "://" in word.text], "git.fetch", "git.fetch")
    elif verb in ("revert", "purge", "strip"):
        call.rule("destroy.work")
    return Out(None)


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("gh", "glab", "hub"), _hub),
    **dict.fromkeys(("svn", "hg"), _other),
}
