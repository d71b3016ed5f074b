"""Voices about the risk of an action: ours and those of other packages, combined; the strictest wins.

Another package adds one by the entry point group `handloom.analyzers`, whose entries name a callable without arguments
that gives an Analyzer. One that fails or takes longer than two seconds counts as UNKNOWN with the reason, and stops
nothing. Follows the analyzers of OpenHands V0 (`openhands/security/analyzer.py`), where one alone is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from core.errors import ConfigurationError
from core.events import Action, ActionSecurityRisk
from core.security.analyzers.action_history import Past
from core.security.facts import Facts
from core.security.risk_rules import strictest, strictness

ENTRY_POINTS = "handloom.analyzers"
TIMEOUT_S = 2.0
"""For one analyzer: a person waits for the answer of all."""
MAX_REASONS, MAX_CHARS = 8, 300


@dataclass(frozen=True, slots=True)
class Assessment:
    """What an analyzer says of an action."""

    risk: ActionSecurityRisk
    reasons: tuple[str, ...] = ()


class Analyzer(Protocol):
    """One voice."""

    name: str

    async def assess(self, action: Action, facts: Facts, history: Sequence[Past]) -> Assessment | None:
        """What it says of the action, after what was carried out before; None where it has nothing to say.

        Cancelling it means that nobody waits any more.
        """
        ...


MakeAnalyzer = Callable[[], Analyzer]


def _ours() -> dict[str, MakeAnalyzer]:
    from core.security.analyzers.invariant import Invariant
    from core.security.analyzers.local import Local, ModelRating

    return {Local.name: Local, ModelRating.name: ModelRating, Invariant.name: Invariant}


OURS = ("local", "model", "invariant")
"""Those that are asked unless the settings say otherwise."""


def analyzers(chosen: Iterable[str] = OURS) -> list[Analyzer]:
    """The analyzers of these names. Raises ConfigurationError; metadata of packages is read only for others' names."""
    known, wanted = _ours(), list(dict.fromkeys(chosen))
    if set(wanted) - known.keys():
        known = {**_installed(), **known}
    made = []
    for name in wanted:
        if name not in known:
            raise ConfigurationError(f"There is no analyzer {name[:80]!r}. Choose among: {', '.join(sorted(known))}.")
        try:
            made.append(known[name]())
        except Exception as error:  # the boundary to foreign code
            why = f"{type(error).__name__}: {error}"
            text = f"The analyzer {name!r} cannot be started: {why}. Remove it from the settings."
            raise ConfigurationError(text) from error
    return made


def _installed() -> dict[str, MakeAnalyzer]:
    from importlib import metadata  # takes longer than all else here

    found: dict[str, MakeAnalyzer] = {}
    for entry in metadata.entry_points(group=ENTRY_POINTS):
        found[entry.name] = _Loading(entry)
    return found


class _Loading:
    """Imports an analyzer of another package when it is chosen."""

    def __init__(self, entry: object) -> None:
        self._entry = entry

    def __call__(self) -> Analyzer:
        made: Analyzer = self._entry.load()()  # type: ignore[attr-defined]
        return made


async def assess(
    voices: Sequence[Analyzer], action: Action, facts: Facts, history: Sequence[Past], *, timeout_s: float = TIMEOUT_S
) -> Assessment:
    """What all of them say together: the strictest risk, and the reasons of those that gave it, then of the rest.

    Cancelling it cancels them all.
    """
    said = await asyncio.gather(*(_one(voice, action, facts, history, timeout_s) for voice in voices))
    heard = [assessment for assessment in said if assessment is not None]
    ordered = sorted(heard, key=lambda assessment: -strictness(assessment.risk))
    reasons = dict.fromkeys(reason[:MAX_CHARS] for assessment in ordered for reason in assessment.reasons)
    return Assessment(strictest(*(assessment.risk for assessment in heard)), tuple(reasons)[:MAX_REASONS])


async def _one(
    voice: Analyzer, action: Action, facts: Facts, history: Sequence[Past], timeout_s: float
) -> Assessment | None:
    name = str(getattr(voice, "name", type(voice).__name__))[:80]
    try:
        async with asyncio.timeout(timeout_s):
            said = await voice.assess(action, facts, history)
        if said is not None and not isinstance(said, Assessment):
            raise TypeError(f"it answered {type(said).__name__}, no Assessment")
    except TimeoutError:
        return Assessment(ActionSecurityRisk.UNKNOWN, (f"The analyzer {name} took longer than {timeout_s:g} s.",))
    except Exception as error:  # noqa: BLE001  # the boundary to foreign code
        text = f"The analyzer {name} failed: {type(error).__name__}: {error}"
        return Assessment(ActionSecurityRisk.UNKNOWN, (text[:MAX_CHARS],))
    return said
