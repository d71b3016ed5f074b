"""What rules of the user deny as far as a sandbox can enforce it: files, folders and hosts. Pure data.

Made by `core.security.sandbox_rules`, enforced by the runtime, which knows no rules. A file or folder that does not
exist is not among them, because there is nothing to mount on.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeniedHosts:
    """Hosts that one rule denies."""

    glob: str
    """As `core.globs` reads it."""
    rule: str
    """The rule, for people."""


@dataclass(frozen=True, slots=True)
class Denials:
    """Paths are absolute and without symbolic links; a folder stands for everything in it."""

    unreadable: tuple[str, ...] = ()
    unwritable: tuple[str, ...] = ()
    hosts: tuple[DeniedHosts, ...] = ()
    notes: tuple[str, ...] = ()
    """Which existing files are denied and not enforced, for the user; a line each."""

    @property
    def denies_every_host(self) -> bool:
        """Whether nothing but this machine itself may be called."""
        return any(host.glob == "*" for host in self.hosts)
