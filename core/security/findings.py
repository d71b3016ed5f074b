"""Findings: what the analysis of one action has found so far. They become its Facts.

Everything is limited, because an action can have megabytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from core.security.hosts import host_of, is_local, is_metadata, normalized_ipv4, urls_in
from core.security.paths import Places, Region
from core.security.risk_rules import RULES, names

MAX_ITEMS = 200
"""Limit for commands, paths and hosts each; an action with more is not understood."""
MAX_CHARS = 4_000
"""Limit for one item; an action with a longer one is not understood."""
MAX_SHOWN = 500
"""Characters that a rule quotes."""
MAX_URLS = 20
"""URLs that are looked for in a part that is not understood."""
MAX_COMMANDS_READ = 600
"""Limit for commands; those in loops count each time."""


@dataclass(slots=True)
class Findings:
    """Ordered lists without duplicates."""

    places: Places
    rules: dict[str, str] = field(default_factory=dict)
    """Rule ids, each with the part of the action that it applies to."""
    commands: dict[str, None] = field(default_factory=dict)
    reads: dict[str, None] = field(default_factory=dict)
    writes: dict[str, None] = field(default_factory=dict)
    hosts: dict[str, None] = field(default_factory=dict)
    whole: dict[str, None] = field(default_factory=dict)
    """Paths that are written with everything in them."""
    urls: dict[str, None] = field(default_factory=dict)
    runs: dict[str, None] = field(default_factory=dict)
    spellings: dict[str, None] = field(default_factory=dict)
    """Other spellings of the commands, for rules that deny or ask."""
    unknown: dict[str, None] = field(default_factory=dict)
    """Parts that are not understood."""
    unclear: dict[str, str] = field(default_factory=dict)
    """A part that may read, write or call something unknown, by tool: `read`, `write` or `net`."""
    opaque: bool = False
    sends: bool = False
    carries: bool = False
    read: int = 0

    def report(self, rule: str, about: str = "", *, knows_host: bool = False) -> None:
        """Report a rule; `about` is the part of the action that it applies to."""
        assert rule in RULES, rule
        self.rules.setdefault(rule, about[:MAX_SHOWN])
        if rule in _SENDING | _CARRYING:
            self.sends = True
            if not knows_host:
                self.unclear.setdefault("net", about[:MAX_SHOWN] or rule)
        if rule in _CARRYING:
            self.carries = True

    def not_understood(self, part: str, why: str = "") -> None:
        """Report a part of the action that is not understood."""
        text = " ".join(part.split()) or "the end"
        text = f"{text[:MAX_SHOWN]}{f' ({why})' if why else ''}"
        self.opaque = True
        if len(self.unknown) < MAX_ITEMS:
            self.unknown.setdefault(text)
        self.report("not-understood", text)
        for url in urls_in(part[:MAX_CHARS])[:MAX_URLS]:
            if host := host_of(url):
                self.call_host(host, "net.fetch", url)

    def add(self, items: dict[str, None], item: str) -> None:
        """Add an item to one of the lists."""
        if item in items:
            return
        if len(items) >= MAX_ITEMS or len(item) > MAX_CHARS:
            self.not_understood(item[:80], "too long" if len(item) > MAX_CHARS else "too many")
            return
        items[item] = None

    def count_command(self) -> bool:
        """Count a command; returns whether it is within the limit."""
        self.read += 1
        return self.read <= MAX_COMMANDS_READ

    def read_path(self, path: str) -> None:
        """Report a path that is read."""
        self.add(self.reads, path)
        if rule := self.places.secret(path):
            self.report(rule, path)
        elif self.places.place(path) in (Region.HOME, Region.DEVICE):
            self.report("read.outside", path)

    def write_path(self, path: str) -> None:
        """Report a path that is written, created or deleted."""
        self.add(self.writes, path)
        if rule := self.places.persistence(path):
            self.report(rule, path)
        elif where := _WRITE_RULES.get(self.places.place(path)):
            self.report(where, path)

    def call_host(self, host: str, rule: str, about: str = "") -> None:
        """Report a host that is called; the rule applies if it is another machine."""
        host = host.lower().strip("[]").rstrip(".")
        host = normalized_ipv4(host) or host
        if is_metadata(host):
            self.report("secret.metadata", host)
        if is_local(host):
            self.report("net.local", host)
            return
        if host:
            self.add(self.hosts, host)
        self.sends = True
        self.report(rule, about or host, knows_host=bool(host))


_WRITE_RULES = {
    Region.HOME: "write.home",
    Region.OUTSIDE: "write.outside",
    Region.SYSTEM: "persist.system",
    Region.DEVICE: "destroy.disk",
}
_SENDING = names(
    "not-understood action.unknown program.unknown shell.interactive run.remote"
    " run.remotely net.fetch net.login net.probe net.scan net.listen git.fetch package.install"
    " package.install-url package.run container.run cloud.read page.open page.unknown"
    " mcp.call page.script"
)
_CARRYING = names(
    "secret.sent net.upload net.post net.in-address net.raw net.open net.dns-data git.push"
    " git.push-elsewhere git.force package.publish cloud.change message.sent page.fill"
    " page.upload"
)
