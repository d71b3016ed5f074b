"""Taint: the untrusted content that the model has read, and the actions that need approval because of it.

Web pages, answers of MCP tools, downloaded and cloned files and imported conversations may contain instructions for the
model. After the model has read any, actions that could send data out, write outside the workspace or run code that was
written since need approval in every mode. Undo does not remove the taint. Not detected: data in many short, ordinary
URLs of a host that the user named, and what a click in a page sends. A pure fold over the log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from core.events import (
    Action,
    BrowserOutputObservation,
    ConsentAction,
    Envelope,
    ErrorObservation,
    EventSource,
    FileDownloadObservation,
    FileEditAction,
    FileWriteAction,
    MCPObservation,
    MessageAction,
    Observation,
    UserRejectObservation,
)
from core.security.facts import Facts, facts_of
from core.security.hosts import host_of, hosts_named, is_local, urls_in
from core.security.paths import Places, Region

MAX_SEEN = 4_000
"""URLs that are remembered, the newest."""
MAX_WAITING = 100
MAX_SOURCES = 200
MORE = "more than can be listed"

_DEPENDENCIES = re.compile(
    r"/(?:node_modules|site-packages|dist-packages|vendor|third_party|\.cargo/registry|pkg/mod)/"
)
"""Folders of third-party packages, also in the workspace."""
_FETCHED = frozenset(
    {"net.fetch", "net.login", "net.raw", "run.remote", "net.post", "net.upload", "page.open", "net.in-address"}
)
_ANYTHING = frozenset({"not-understood", "program.unknown", "package.run", "page.unknown", "mcp.call", "page.script"})
_CODE = re.compile(
    r"(?:\.(?:py|pyx|ipynb|sh|bash|zsh|fish|js|mjs|cjs|ts|tsx|jsx|rb|pl|php|lua|go|rs|c|h|cc|cpp|java|kt|scala|swift|cs|r|jl|mk|cmake"
    r"|gradle|toml|cfg|ini|json|ya?ml|env|ps1|bat)|/[^./]+)$",
    re.IGNORECASE,
)
_REACHES_OUT = re.compile(
    r"socket|request|urllib|http|aio|ftp|smtp|curl|wget|fetch|XMLHttp|\bnet\b|subprocess|system|popen|exec|eval|spawn|child_process"
    r"|Runtime|ProcessBuilder|__import__|importlib|ctypes|base64|getattr|\bnc\b|/dev/|ssh|scp|\bgit\b|\bpip\b|\bnpm\b|dns|telnet|environ"
    r"|script|hook|image:|uses:|run:",
    re.IGNORECASE,
)
"""Words that code needs to send data out."""


@dataclass(frozen=True, slots=True)
class Source:
    """Untrusted content that was read."""

    what: str
    """A URL, a path or a tool."""
    event: int


@dataclass(frozen=True, slots=True)
class Taint:
    """The state after some events."""

    workspace: str
    read_only: frozenset[str] = frozenset()
    """MCP tools that change nothing, as their servers say."""
    sources: tuple[Source, ...] = ()
    """Untrusted content that was read, in order."""
    named: frozenset[str] = frozenset()
    """Hosts that the user mentioned."""
    visited: frozenset[str] = frozenset()
    """Hosts that answered before; the first call of any other host needs approval."""
    seen: tuple[str, ...] = ()
    """URLs that the user mentioned or that were in what was read."""
    foreign: frozenset[str] = frozenset()
    """Files and folders from untrusted sources."""
    armed: frozenset[str] = frozenset()
    """Files written since then that could send data out when they are run."""
    waiting: tuple[tuple[int, Facts], ...] = field(default=(), repr=False)
    """Actions without an observation so far."""

    def after(self, envelope: Envelope) -> Taint:
        """The state after one more event. Events come in the order of their ids."""
        event = envelope.event
        match event:
            case MessageAction() if envelope.source is EventSource.USER:
                return self._with_named(event.content)
            case ConsentAction():
                return self._with_source(f"a conversation imported from {event.origin[:200]}", envelope.id)
            case Action() if event.acts:
                return self._with_action(event, envelope.id)
            case Observation():
                return self._with_observation(event, envelope)
        return self

    def asks(self, facts: Facts, action: Action, is_fine: Callable[[str], bool] = lambda source: False) -> str | None:
        """Why this action needs approval; None if it does not. `is_fine` says which sources are trusted."""
        why = self._why(facts) if self.sources else ""
        if not why:
            return None
        sources = [source for source in self.sources if not is_fine(source.what)]
        if not sources:
            return None
        source = sources[-1]
        more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
        return f"{why}, after reading {source.what} (event {source.event}{more})."

    def _why(self, facts: Facts) -> str:
        places = Places(self.workspace)
        if "mcp.call" in facts.rules:
            return "It calls a tool that may send data out"
        if facts.carries:
            return "It sends data out"
        if found := next((rule for rule in facts.rules if rule.startswith("secret.")), ""):
            return f"It reads files that may contain secrets ({found})"
        for path in facts.writes:
            if places.place(path) not in (Region.INSIDE, Region.TEMPORARY):
                return f"It writes outside the workspace ({path[:100]})"
        if found := next((rule for rule in facts.rules if rule.startswith("persist.")), ""):
            return f"It changes something persistent ({found})"
        if facts.opaque or _ANYTHING & set(facts.rules):
            return "Handloom cannot tell what it does"
        for host in facts.hosts:
            if not self._is_known(host):
                return f"It calls {host[:100]}, which you have not mentioned"
        for url in facts.urls:
            if self._is_made_up(url):
                return f"It calls a URL that the agent made up ({url[:100]})"
        if facts.sends and not facts.hosts:
            return "It uses the network"
        for path in facts.runs:
            if armed := next(
                (one for one in sorted(self.armed) if one == path or (_is_below(one, path) and _CODE.search(one))), ""
            ):
                return f"It runs code that was written since then and could send data out ({armed[:100]})"
            if self._is_untrusted(path):
                return f"It runs code from an untrusted source ({path[:100]})"
        return ""

    def _is_known(self, host: str) -> bool:
        return host in self.named or host.removeprefix("www.") in self.named or host in self.visited

    def _is_made_up(self, url: str) -> bool:
        """Whether a URL could carry data: it was not seen before, and has parts that are not ordinary words."""
        plain, _, fragment = url.partition("#")
        if fragment and _looks_like_data(fragment):
            return True
        if plain.rstrip("/") in self.seen or is_local(host_of(url)):
            return False
        try:
            parts = urlsplit(url)
        except ValueError:
            return True
        if parts.username or parts.password:
            return True
        named = host_of(url) in self.named or host_of(url).removeprefix("www.") in self.named
        if not named and (parts.query or parts.path.strip("/")):
            return True
        return any(_looks_like_data(piece) for piece in re.split(r"[/&=?+,;]", f"{parts.path}?{parts.query}"))

    def _with_named(self, text: str) -> Taint:
        hosts, urls = hosts_named(text) - self.named, urls_in(text)
        return replace(self, named=self.named | hosts, seen=self._seen_with(urls)) if hosts or urls else self

    def _seen_with(self, urls: Collection[str]) -> tuple[str, ...]:
        fresh = [url.partition("#")[0].rstrip("/") for url in urls]
        return (
            (*self.seen, *dict.fromkeys(url for url in fresh if url not in self.seen))[-MAX_SEEN:]
            if fresh
            else self.seen
        )

    def _with_source(self, what: str, event: int) -> Taint:
        if any(source.what == what for source in self.sources):
            return self
        if len(self.sources) >= MAX_SOURCES:  # none is forgotten, so one that is fine does not push out one that is not
            return (
                self if self.sources[-1].what == MORE else replace(self, sources=(*self.sources, Source(MORE, event)))
            )
        return replace(self, sources=(*self.sources, Source(what, event)))

    def _with_action(self, action: Action, number: int) -> Taint:
        facts = facts_of(action, workspace=self.workspace, read_only=self.read_only)
        waiting = (*self.waiting, (number, facts))[-MAX_WAITING:]
        return replace(self, waiting=waiting, armed=self.armed | self._armed_by(action, facts))

    def _armed_by(self, action: Action, facts: Facts) -> frozenset[str]:
        """The files that an action writes and that could send data out when they are run."""
        if not self.sources:
            return frozenset()
        text = None
        if isinstance(action, FileWriteAction):
            text = action.content
        elif isinstance(action, FileEditAction):
            text = "\n".join(part for part in (action.file_text, action.new_str, action.content) if part)
        if text is not None and not _REACHES_OUT.search(text):
            return frozenset()
        return frozenset(facts.writes)

    def _with_observation(self, event: Observation, envelope: Envelope) -> Taint:
        facts = next((facts for number, facts in self.waiting if number == envelope.cause), None)
        rest = replace(self, waiting=tuple(pair for pair in self.waiting if pair[0] != envelope.cause))
        if isinstance(event, UserRejectObservation | ErrorObservation):
            return rest
        match event:
            case BrowserOutputObservation():
                host = host_of(event.url)
                if not host or is_local(host):
                    return rest
                agreed = set(facts.hosts) if facts is not None else {host}  # a redirect is not
                return (
                    rest._with_visited(agreed)
                    ._with_text(event.content, [event.url])
                    ._with_source(event.url[:200], envelope.id)
                )
            case MCPObservation():
                return rest._with_text(event.content)._with_source(
                    f"an answer of the tool {event.name[:100]}", envelope.id
                )
            case FileDownloadObservation():
                return replace(rest, foreign=rest.foreign | {event.file_path})
        return rest._with_result(facts, event, envelope.id) if facts is not None else rest

    def _with_result(self, facts: Facts, event: Observation, number: int) -> Taint:
        """The state after the result of an action."""
        taint = self
        if facts.hosts:
            taint = taint._with_visited(set(facts.hosts))
        if "git.fetch" in facts.rules or (_FETCHED & set(facts.rules) and facts.writes):
            taint = replace(taint, foreign=taint.foreign | frozenset(facts.writes))
        if _FETCHED & set(facts.rules):
            what = (*facts.urls, *facts.hosts, *facts.commands, "the network")[0]
            return taint._with_text(event.content)._with_source(what[:200], number)
        for path in facts.reads:
            if taint._is_untrusted(path):
                return taint._with_text(event.content)._with_source(path[:200], number)
        return taint

    def _is_untrusted(self, path: str) -> bool:
        if _DEPENDENCIES.search(path) or any(path == one or _is_below(path, one) for one in self.foreign):
            return True
        return Places(self.workspace).place(path) in (Region.HOME, Region.OUTSIDE)

    def _with_visited(self, hosts: set[str]) -> Taint:
        return self if hosts <= self.visited else replace(self, visited=self.visited | hosts)

    def _with_text(self, text: str, urls: Collection[str] = ()) -> Taint:
        return replace(self, seen=self._seen_with([*urls, *urls_in(text[:200_000])][:500]))


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _looks_like_data(piece: str) -> bool:
    """Whether a part of a URL is not an ordinary word: long, escaped, or digits and letters mixed."""
    longest = max((len(word) for word in re.split(r"[-_.]", piece)), default=0)
    is_mixed = bool(re.search(r"\d", piece) and re.search(r"[a-zA-Z]", piece)) and len(piece) >= 10
    return longest > 20 or len(piece) > 48 or is_mixed or piece.count("%") > 2 or piece.count("-") > 8
