"""What the isolation refused an action, as one line each for the chat, headless output and the agent.

Two sources. The egress proxy knows which hosts it refused: only such a host can be offered to the user, because
whatever a command prints may come from an attacker. Other refusals are read from the last lines of an action that
failed, where programs report them in a few well known forms, and a path counts only if the sandbox closes it, which
`Boundaries.reason` knows. They are told and never offered. Pure.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from core.events import CmdOutputObservation, IPythonRunCellObservation, Observation, Refusal
from core.status_messages import (
    HOST_DENIED,
    HOST_PRIVATE,
    HOST_REFUSED,
    NO_PROXY,
    PATH_DENIED,
    PATH_HIDDEN,
    PATH_OUTSIDE,
    PATH_PROTECTED,
)
from runtime.isolation.egress_proxy import Call

READ_CHARS = 8_000
"""The end of an output, where programs say why they failed."""
MAX_NAMED = 3
"""Paths or hosts that one line names."""
TARGET_CHARS = 200

_HOST = r"([A-Za-z0-9](?:[A-Za-z0-9.-]{0,98}[A-Za-z0-9])?)"
_UNRESOLVED = re.compile(
    rf"Could not resolve host(?:name)?:? {_HOST}"  # curl, git, ssh
    rf"|unable to resolve host address [‘'`]{_HOST}"  # wget
    rf"|Failed to resolve '{_HOST}'"  # urllib3, and so pip and requests
    rf"|getaddrinfo (?:EAI_AGAIN|ENOTFOUND) {_HOST}"  # node, npm
    rf"|{_HOST}: (?:Temporary failure in name resolution|Name or service not known)"  # ping and others
)
_ERRORS = (
    "No such file or directory|Permission denied|Read-only file system|Operation not permitted|Device or resource busy"
)
_UNREACHED = re.compile(
    rf"([^\s:'\"‘’`]{{1,{TARGET_CHARS}}})['\"’]?: (?:{_ERRORS})"  # coreutils, bash, git
    rf"|\[Errno (?:1|2|13|16|30)\] [^:\n]{{1,80}}: '([^'\n]{{1,{TARGET_CHARS}}})'"  # Python
    rf"|(?:ENOENT|EACCES|EPERM|EBUSY|EROFS): [^'\n]{{1,80}}'([^'\n]{{1,{TARGET_CHARS}}})'"  # node
)
_GONE = ("No such file or directory", "[Errno 2]", "ENOENT")
_OWN = ("/tmp", "/var/tmp", "/dev", "/proc", "/sys", "/run")  # noqa: S108
"""Folders that the sandbox has for itself, so that a missing file there is missing."""
_SYSTEM = ("/usr", "/opt", "/nix", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/var")


@dataclass(frozen=True, slots=True)
class Boundaries:
    """What a sandbox closes. Paths are absolute and normal."""

    workspace: str
    home: str
    """The home folder, in whose place the sandbox has one of its own."""
    visible: tuple[str, ...] = ()
    """Readable paths outside of the workspace, besides those of the system."""
    read_only: tuple[str, ...] = ()
    """Read-only paths in the workspace."""
    hidden: tuple[str, ...] = ()
    """Hidden paths in the workspace."""
    denied: tuple[str, ...] = ()
    """The paths of these that a rule of the user denies."""

    def reason(self, path: str, error: str) -> str:
        """Return the template of the line for a path with this error, or "" if the sandbox is not the cause.

        Whether the path exists outside is not looked up: the agent could ask for any path.
        """
        is_gone = any(one in error for one in _GONE)
        closed = self.hidden if is_gone else (*self.hidden, *self.read_only)
        if _is_below(path, self.workspace):
            if not _is_below(path, *closed):
                return ""
            return PATH_DENIED if _is_below(path, *self.denied) else PATH_PROTECTED
        if _is_below(path, *_OWN) and not _is_below(path, self.home):
            return ""
        if is_gone:
            return "" if _is_below(path, *_SYSTEM, *self.visible) else PATH_HIDDEN
        return "" if _is_below(path, self.home) and not _is_below(path, *self.visible) else PATH_OUTSIDE


def _is_below(path: str, *folders: str) -> bool:
    return any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in folders)


def host_refusals(calls: Iterable[Call]) -> list[Refusal]:
    """Return the lines for calls that the proxy refused: one for each host, since the user answers for each."""
    found = []
    for call in calls:
        match call.why:
            case "denied":
                found.append(Refusal(text=HOST_DENIED.format(host=call.host, rule=call.rule)))
            case "private":
                found.append(Refusal(text=HOST_PRIVATE.format(host=call.host)))
            case "refused":
                found.append(Refusal(text=HOST_REFUSED.format(host=call.host), host=call.host))
            case "unnamed":
                found.append(Refusal(text=HOST_REFUSED.format(host=call.host)))
    return found


def printed_refusals(observation: Observation, boundaries: Boundaries, refused: Sequence[Call]) -> list[Refusal]:
    """Return the lines for what a failed command or cell printed; nothing about hosts that the proxy knows."""
    text, folder = _printed(observation)
    if not text:
        return []
    groups: dict[str, dict[str, None]] = {}
    for found in _UNREACHED.finditer(text):
        path = next(filter(None, found.groups()))
        full = posixpath.normpath(posixpath.join(folder or boundaries.workspace, path))
        if template := boundaries.reason(full, found[0]):
            groups.setdefault(template, {})[full] = None
    known = {call.host.partition(":")[0] for call in refused}
    for found in _UNRESOLVED.finditer(text):
        host = next(filter(None, found.groups())).lower()
        if host not in known:
            groups.setdefault(NO_PROXY, {})[host] = None
    return [Refusal(text=template.format(what=_named([*whats]))) for template, whats in groups.items()]


def _printed(observation: Observation) -> tuple[str, str]:
    """Return the end of the output of a failed command or cell, and its folder; empty for anything else."""
    match observation:
        case CmdOutputObservation(content=text, metadata=metadata) if metadata.exit_code > 0:
            return text[-READ_CHARS:], metadata.working_dir or ""
        case IPythonRunCellObservation(content=text) if "Error" in text:
            return text[-READ_CHARS:], ""
    return "", ""


def _named(whats: Sequence[str]) -> str:
    shown = ["".join(letter for letter in what if letter.isprintable()) for what in whats[:MAX_NAMED]]
    more = f" and {len(whats) - MAX_NAMED} more" if len(whats) > MAX_NAMED else ""
    return ", ".join(shown) + more
