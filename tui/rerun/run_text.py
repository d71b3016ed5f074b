"""What is said of a run, and the marks of its actions: the same on the screen and on the command line."""

from __future__ import annotations

from collections.abc import Iterable

from core.rerun.alignment import Pairing
from core.rerun.comparison import Outcome
from tui.i18n import _

MARKS = {
    Outcome.SAME: "✓",
    Outcome.ALIKE: "≈",
    Outcome.DIFFERENT: "✕",
    Outcome.MISSING: "□",
    Outcome.NOT_RUN: "○",
}
"""One glyph for each outcome; what is not known yet has a dot."""
OPEN = "·"
WORDS = {
    Outcome.SAME: _("same"),
    Outcome.ALIKE: _("same but for what always differs"),
    Outcome.DIFFERENT: _("different"),
    Outcome.MISSING: _("missing"),
    Outcome.NOT_RUN: _("not run again"),
}
RULES = {
    "addresses": _("addresses"),
    "commits": _("commits"),
    "durations": _("durations"),
    "file dates": _("file dates"),
    "host": _("host"),
    "ids": _("ids"),
    "interpreters": _("interpreters"),
    "kernel ids": _("kernel ids"),
    "ports": _("ports"),
    "process ids": _("process ids"),
    "temporary paths": _("temporary paths"),
    "times": _("times"),
    "workspace": _("workspace"),
}
"""What always differs, by the names of its rules."""


def rule_words(names: Iterable[str]) -> str:
    """The names of rules, for people."""
    return _(", ").join(RULES[name] for name in sorted(names))


def summary(pairing: Pairing) -> str:
    """How many actions came out how, in one line."""
    counts = pairing.counts()
    parts = [f"{counts[outcome]} {WORDS[outcome]}" for outcome in Outcome if counts[outcome]]
    if still := len(pairing.pairs) - counts.total():
        parts.append(_("{count} not reached").format(count=still))
    return _(", ").join(parts)
