"""Risk analyzers: several assess each action, and the strictest assessment counts.

Other packages add analyzers with the entry point group `handloom.analyzers`, whose entries name a callable without
arguments that returns an Analyzer. One that fails or takes longer than two seconds counts as UNKNOWN, with the reason.
Follows the analyzers of OpenHands V0 (`openhands/security/analyzer.py`), which asks only one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from core.errors import ConfigurationError
from core.events import Action, ActionSecurityRisk, Envelope, ErrorObservation, Observation, UserRejectObservation
from core.security.facts import Facts, facts_of
from core.security.risk_rules import strictest, strictness

ENTRY_POINTS = "handloom.analyzers"
TIMEOUT_S = 2.0
"""For each analyzer, because a person waits for the answer."""
MAX_REASONS, MAX_CHARS = 8, 300
MAX_PAST = 500
"""Actions that are kept for the analyzers, the newest."""


@dataclass(frozen=True, slots=True)
class Past:
    """An action that was carried out."""

    event: int
    """The action's id."""
    action: Action
    facts: Facts


@dataclass(frozen=True, slots=True)
class History:
    """The actions that were carried out, in order, without those that were rejected or failed. A fold over the log."""

    workspace: str
    read_only: frozenset[str] = frozenset()
    done: tuple[Past, ...] = ()
    waiting: tuple[Past, ...] = ()

    def after(self, envelope: Envelope) -> History:
        """The history after one more event. Events come in the order of their ids."""
        event = envelope.event
        if isinstance(event, Action) and event.acts:
            facts = facts_of(event, workspace=self.workspace, read_only=self.read_only)
            return replace(self, waiting=(*self.waiting, Past(envelope.id, event, facts))[-MAX_PAST:])
        if not isinstance(event, Observation) or envelope.cause is None:
            return self
        answered = tuple(past for past in self.waiting if past.event == envelope.cause)
        waiting = tuple(past for past in self.waiting if past.event != envelope.cause)
        was_run = not isinstance(event, UserRejectObservation | ErrorObservation)
        return replace(self, waiting=waiting, done=(*self.done, *(answered if was_run else ()))[-MAX_PAST:])


@dataclass(frozen=True, slots=True)
class Assessment:
    """The risk of an action as one analyzer rates it."""

    risk: ActionSecurityRisk
    reasons: tuple[str, ...] = ()


class Analyzer(Protocol):
    """Rates the risk of actions."""

    name: str

    async def assess(self, action: Action, facts: Facts, history: Sequence[Past]) -> Assessment | None:
        """Rate an action, given those that were carried out before it; None for no opinion. May be cancelled."""
        ...


class Local:
    """The rating by the rules of `core.security.risk_rules`."""

    name = "local"

    async def assess(self, action: Action, facts: Facts, history: Sequence[Past]) -> Assessment:
        """The risk in the facts."""
        return Assessment(facts.risk, facts.reasons)


class ModelRating:
    """The model's rating of its own action, which can only make the risk higher."""

    name = "model"

    async def assess(self, action: Action, facts: Facts, history: Sequence[Past]) -> Assessment | None:
        """The field `security_risk`; None if it is not set."""
        risk = getattr(action, "security_risk", ActionSecurityRisk.UNKNOWN)
        if risk is ActionSecurityRisk.UNKNOWN:
            return None
        is_low = risk is ActionSecurityRisk.LOW
        return Assessment(risk, () if is_low else (f"The model rated this action {risk.name}.",))


MakeAnalyzer = Callable[[], Analyzer]
OURS = ("local", "model", "invariant")
"""The analyzers that are used unless the settings name others."""


def analyzers(chosen: Iterable[str] = OURS, policies: Path | None = None) -> list[Analyzer]:
    """Make the analyzers of these names, with the user's file of policies if it exists. Raises ConfigurationError."""
    from core.security.analyzers.invariant import Invariant

    known: dict[str, MakeAnalyzer] = {kind.name: kind for kind in (Local, ModelRating)}
    known[Invariant.name] = partial(_invariant, policies)
    wanted = list(dict.fromkeys(chosen))
    if set(wanted) - known.keys():
        known = {**_installed(), **known}
    made = []
    for name in wanted:
        if name not in known:
            raise ConfigurationError(f"There is no analyzer {name[:80]!r}. Choose among: {', '.join(sorted(known))}.")
        try:
            made.append(known[name]())
        except ConfigurationError:
            raise
        except Exception as error:  # the boundary to foreign code
            why = f"{type(error).__name__}: {error}"
            text = f"The analyzer {name!r} cannot be started: {why}. Remove it from the settings."
            raise ConfigurationError(text) from error
    return made


def _invariant(policies: Path | None) -> Analyzer:
    from core.security.analyzers.invariant import Invariant, user_policies

    return Invariant(user_policies(policies) if policies is not None else ())


def _installed() -> dict[str, MakeAnalyzer]:
    """The analyzers of other packages. Each is imported when it is made."""
    from importlib import metadata  # takes longer than all else here

    def load(entry: metadata.EntryPoint) -> Analyzer:
        made: Analyzer = entry.load()()
        return made

    return {entry.name: partial(load, entry) for entry in metadata.entry_points(group=ENTRY_POINTS)}


async def assess(
    chosen: Sequence[Analyzer], action: Action, facts: Facts, history: Sequence[Past], *, timeout_s: float = TIMEOUT_S
) -> Assessment:
    """Ask all analyzers at once: the strictest risk, and their reasons, the strictest first."""
    found = await asyncio.gather(*(_assess(one, action, facts, history, timeout_s) for one in chosen))
    ordered = sorted(filter(None, found), key=lambda assessment: -strictness(assessment.risk))
    reasons = dict.fromkeys(reason[:MAX_CHARS] for assessment in ordered for reason in assessment.reasons)
    return Assessment(strictest(*(assessment.risk for assessment in ordered)), tuple(reasons)[:MAX_REASONS])


async def _assess(
    analyzer: Analyzer, action: Action, facts: Facts, history: Sequence[Past], timeout_s: float
) -> Assessment | None:
    name = str(getattr(analyzer, "name", type(analyzer).__name__))[:80]
    try:
        async with asyncio.timeout(timeout_s):
            found = await analyzer.assess(action, facts, history)
        if found is not None and not isinstance(found, Assessment):
            raise TypeError(f"it answered {type(found).__name__}, no Assessment")
    except TimeoutError:
        return Assessment(ActionSecurityRisk.UNKNOWN, (f"The analyzer {name} took longer than {timeout_s:g} s.",))
    except Exception as error:  # noqa: BLE001  # the boundary to foreign code
        text = f"The analyzer {name} failed: {type(error).__name__}: {error}"
        return Assessment(ActionSecurityRisk.UNKNOWN, (text[:MAX_CHARS],))
    return found
