"""Policies about sequences of actions: they raise the risk of an action that follows certain others.

In the spirit of the Invariant analyzer of OpenHands V0. Policies are data: `policies.toml` describes their form and has
those that come with Handloom; a user's own are in `invariant.toml` in Handloom's home.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from core.errors import ConfigurationError
from core.events import Action, ActionSecurityRisk, MCPAction
from core.regular_files import read_text
from core.security.analyzers import Assessment, Past
from core.security.facts import Facts
from core.security.risk_rules import strictest

_PATTERNS = ("kind", "tool", "rules", "commands", "reads", "writes", "hosts", "not_hosts")
_FLAGS = ("sends", "carries", "opaque")
MAX_POLICIES = 200
USER_FILE = "invariant.toml"
"""The user's own policies, in Handloom's home."""


@dataclass(frozen=True, slots=True)
class Step:
    """Conditions for one action."""

    patterns: Mapping[str, tuple[str, ...]]
    flags: Mapping[str, bool]

    def matches(self, action: Action, facts: Facts) -> bool:
        """Whether the action meets all conditions."""
        return all(getattr(facts, name) is wanted for name, wanted in self.flags.items()) and all(
            self._has(name, patterns, action, facts) for name, patterns in self.patterns.items()
        )

    def _has(self, name: str, patterns: tuple[str, ...], action: Action, facts: Facts) -> bool:
        if name == "not_hosts":
            return any(not _any(patterns, [host]) for host in facts.hosts)
        if name == "kind":
            return _any(patterns, [action.kind])
        if name == "tool":
            return isinstance(action, MCPAction) and _any(patterns, [action.name])
        return _any(patterns, getattr(facts, name))


def _any(patterns: Sequence[str], values: Sequence[str]) -> bool:
    return any(fnmatchcase(value, pattern) for value in values for pattern in patterns)


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy."""

    id: str
    risk: ActionSecurityRisk
    reason: str
    before: tuple[Step, ...]
    """Actions that were carried out, in this order."""
    then: Step

    def events(self, action: Action, facts: Facts, history: Sequence[Past]) -> list[int] | None:
        """The ids of the earlier actions that match; None if the policy does not apply to this action."""
        if not self.then.matches(action, facts):
            return None
        found, past = list[int](), iter(history)
        for step in self.before:
            match = next((one for one in past if step.matches(one.action, one.facts)), None)
            if match is None:
                return None
            found.append(match.event)
        return found


def read_policies(text: str, origin: str) -> list[Policy]:
    """Parse policies in TOML. Raises ConfigurationError, which names `origin` and the policy."""
    try:
        rows = tomllib.loads(text).get("policy", [])
        if not isinstance(rows, list) or len(rows) > MAX_POLICIES:
            raise ValueError(f"`policy` has to be a list of at most {MAX_POLICIES} tables")
        return [_policy(row) for row in rows]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ConfigurationError(f"{origin}: {error}. Correct it.") from error


def _policy(row: Any) -> Policy:
    if not isinstance(row, dict) or not isinstance(row.get("id"), str):
        raise ValueError("every policy needs an `id`")
    name = row["id"][:80]
    if unknown := set(row) - {"id", "risk", "reason", "when", "after", "then"}:
        raise ValueError(f"{name}: {sorted(unknown)[0]!r} is no key of a policy")
    if row.get("risk") not in ("MEDIUM", "HIGH", "UNKNOWN"):
        raise ValueError(f"{name}: `risk` is MEDIUM, HIGH or UNKNOWN; a policy never lowers a risk")
    if not isinstance(row.get("reason"), str) or "then" not in row:
        raise ValueError(f"{name}: a policy needs a `reason` and a `then`")
    before = [*([row["when"]] if "when" in row else []), *row.get("after", [])]
    return Policy(
        name, ActionSecurityRisk[row["risk"]], row["reason"][:200], tuple(_step(name, one) for one in before),
        _step(name, row["then"]),
    )  # fmt: skip


def _step(name: str, row: Any) -> Step:
    if not isinstance(row, dict) or not row:
        raise ValueError(f"{name}: a step is a table with at least one key")
    patterns: dict[str, tuple[str, ...]] = {}
    flags: dict[str, bool] = {}
    for key, value in row.items():
        if key in _FLAGS and isinstance(value, bool):
            flags[key] = value
        elif key in _PATTERNS and isinstance(value, str):
            patterns[key] = (value,)
        elif key in _PATTERNS and isinstance(value, list) and value and all(isinstance(one, str) for one in value):
            patterns[key] = tuple(value)
        else:
            raise ValueError(f"{name}: {key!r} is no key of a step, or its value is of the wrong kind")
    return Step(patterns, flags)


@cache
def shipped() -> tuple[Policy, ...]:
    """The policies that come with Handloom."""
    path = Path(__file__).with_name("policies.toml")
    return tuple(read_policies(read_text(path), path.name))


def user_policies(file: Path) -> list[Policy]:
    """The policies of a user's file, none if it does not exist. Raises ConfigurationError."""
    try:
        return read_policies(read_text(file), str(file))
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} cannot be read: {error}. Correct or remove it.") from error


class Invariant:
    """The rating by policies."""

    name = "invariant"

    def __init__(self, policies: Sequence[Policy] = ()) -> None:
        self._policies = (*shipped(), *policies)

    async def assess(self, action: Action, facts: Facts, history: Sequence[Past]) -> Assessment | None:
        """The strictest risk of the policies that apply."""
        risks, reasons = list[ActionSecurityRisk](), list[str]()
        for policy in self._policies:
            if (events := policy.events(action, facts, history)) is not None:
                risks.append(policy.risk)
                earlier = f"; events {', '.join(map(str, events))}" if events else ""
                reasons.append(f"{policy.reason} ({policy.id}{earlier})")
        return Assessment(strictest(*risks), tuple(reasons)) if risks else None
