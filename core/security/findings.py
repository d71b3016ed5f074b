"""What reading an action has found so far. Written by the readers of one action, then frozen as its Facts.

Everything in it is bounded: an action can be megabytes, and what is kept of it is shown to the user and to policies.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from core.security.places import Places, Region
from core.security.rules import RULES, names

MAX_ITEMS = 200
"""Commands, paths, hosts and rules each; a command line has far fewer."""
MAX_CHARS = 500
"""Of one item, as it is shown."""
MAX_COMMANDS_READ = 400
"""Simple commands that are read, those of functions and substitutions counted at each call."""


MANY_WORDS = 50


class TooMuch(Exception):
    """The action is larger than what is read; the rest of it is opaque."""


@dataclass(slots=True)
class Findings:
    """Collects; every list keeps the order in which things were seen, each thing once."""

    places: Places
    rules: dict[str, str] = field(default_factory=dict)
    """The rules that were named, each with what it was about."""
    commands: dict[str, None] = field(default_factory=dict)
    reads: dict[str, None] = field(default_factory=dict)
    writes: dict[str, None] = field(default_factory=dict)
    hosts: dict[str, None] = field(default_factory=dict)
    urls: dict[str, None] = field(default_factory=dict)
    runs: dict[str, None] = field(default_factory=dict)
    opaque: bool = False
    sends: bool = False
    carries: bool = False
    read: int = 0

    def name(self, rule: str, about: str = "") -> None:
        """A rule is met; `about` is the part of the action that it is about."""
        assert rule in RULES, rule
        self.rules.setdefault(rule, about[:MAX_CHARS])
        if rule.startswith(("opaque.", "python.")) or rule in ("run.decoded", "run.remote", "run.built"):
            self.opaque = True
        if rule in _SENDING:
            self.sends = True
        if rule in _CARRYING:
            self.sends = self.carries = True

    def add(self, items: dict[str, None], item: str) -> None:
        """Keep an item of one of the lists."""
        if len(items) < MAX_ITEMS:
            items.setdefault(item[:MAX_CHARS])

    def count(self, words: int) -> None:
        """One more simple command is read; one of many words counts for several. Raises TooMuch."""
        self.read += 1 + words // MANY_WORDS
        if self.read > MAX_COMMANDS_READ:
            raise TooMuch

    def reading(self, path: str, *, is_known: bool = True) -> bool:
        """A path is read; whether it holds secrets."""
        self.add(self.reads, path)
        rule = self.places.secret(path)
        if rule:
            self.name(rule, path)
        elif not is_known:
            self.name("read.unknown", path)
        elif self.places.place(path) is Region.HOME:
            self.name("read.outside", path)
        return bool(rule)

    def writing(self, path: str, *, is_known: bool = True) -> None:
        """A path is written, made or removed."""
        if path in ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "-"):
            return
        self.add(self.writes, path)
        if rule := self.places.persistence(path):
            self.name(rule, path)
            return
        if where := _WRITE_RULES.get(self.places.place(path)):
            self.name(where, path)
        elif not is_known:
            self.name("opaque.path", path)

    def calling(self, host: str, rule: str, about: str = "") -> None:
        """A host is called; the rule holds where it is another machine."""
        from core.security.network import is_local, is_metadata

        host = host.lower().strip("[]").rstrip(".")
        if is_metadata(host):
            self.name("secret.metadata", host)
        if is_local(host):
            self.name("net.local", host)
            return
        if host:
            self.add(self.hosts, host)
        self.sends = True
        self.name(rule, about or host)


_WRITE_RULES = {
    Region.HOME: "write.home",
    Region.OUTSIDE: "write.outside",
    Region.SYSTEM: "persist.system",
    Region.DEVICE: "destroy.disk",
}
_SENDING = names(
    "opaque.syntax opaque.size opaque.program opaque.text opaque.code opaque.input"
    " opaque.action program.unknown shell.interactive run.decoded run.remote run.built"
    " run.remotely net.fetch net.login net.probe net.scan net.listen git.fetch package.install"
    " package.install-url package.run container.run cloud.read page.open page.unknown"
    " python.syntax python.dynamic python.loads python.native python.magic mcp.call"
    " page.script run.hooked"
)
_CARRYING = names(
    "secret.sent net.upload net.post net.in-address net.raw net.open net.dns-data git.push"
    " git.push-elsewhere git.force package.publish cloud.change message.sent page.fill"
    " page.upload"
)
