"""Searches for files, and what is done with what they find."""

from __future__ import annotations

import re

from core.security.places import Region
from core.security.shell.programs import Call, Handler
from core.security.shell.words import Out, Word, literal

_SECRETS = re.compile(r"id_rsa|id_ed25519|\.pem|credential|\.env$|secret|passw|\.aws|\.ssh|\.kube")


def _find(call: Call) -> Out:
    args, roots = call.args, list[Word]()
    for word in args:
        if word.text.startswith(("-", "(", "!")) and roots is not None:
            break
        roots.append(word)
    given = call.reads(*roots) if roots else Out(None, frozenset({"file"}))
    texts = [word.text for word in args]
    if call.name in ("fd", "fdfind"):
        roots = []
    root = roots[0] if roots else literal(".")
    if "-name" in texts and any(map(_SECRETS.search, texts)):
        call.rule("secret.search")
    if "-delete" in texts:
        _found_removed(call, root)
    behind = 0
    for at, text in enumerate(texts):
        if text in ("-fprint", "-fprintf", "-fls", "-fprint0") and at + 1 < len(args):
            call.writes(args[at + 1])
        if at >= behind and text in ("-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"):
            behind = end = next((n for n in range(at + 1, len(args)) if texts[n] in (";", "+")), len(args))
            inner = [_found(word, root) for word in args[at + 1 : end]]
            if inner:
                if inner[0].text in ("rm", "shred", "unlink", "/bin/rm"):
                    _found_removed(call, root)
                call.again(inner, Out(""))
    return Out(None, given.kinds)


def _found(word: Word, root: Word) -> Word:
    """A word of `-exec` with what stands for the files that are found."""
    if "{}" not in word.text:
        return word
    below = f"{root.text.rstrip('/')}/found"
    return Word(word.text.replace("{}", below), word.text.replace("{}", below), root.known and word.known)


def _found_removed(call: Call, root: Word) -> None:
    path, is_known = call.path(root)
    place = call.reader.findings.places.place(path)
    if not is_known or place not in (Region.INSIDE, Region.TEMPORARY):
        call.rule("destroy.outside" if path != "/" else "destroy.root")
    else:
        narrowed = any(
            word.text in ("-name", "-iname", "-path", "-regex", "-mtime", "-empty", "-size") for word in call.args
        )
        call.rule("destroy.found" if narrowed else "destroy.root")


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("find", "fd", "fdfind"), _find),
}
