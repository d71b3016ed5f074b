"""The parts of the documentation that are made from the program and its tests.

The README's table of keys, docs/vocabulary.md, docs/weaknesses.md, docs/threats.md, docs/asked.md and
docs/verdicts.md and the table in docs/contributing.md.

    python -m tests.documents     writes them

A test fails when they are not what this would write.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from core.events import Action, Observation
from core.events.base import Event
from tests import asked, tiers
from tests import threats as threat_model
from tests.asked import WISHES, Wish
from tests.security.verdicts import page as verdicts
from tests.threats import THREATS, Threat
from tests.weaknesses import TITLES, WEAKNESSES, Weakness
from tui.commands import markdown

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
VOCABULARY, WEAKNESS_PAGE = ROOT / "docs" / "vocabulary.md", ROOT / "docs" / "weaknesses.md"
THREAT_PAGE = ROOT / "docs" / "threats.md"
WISH_PAGE = ROOT / "docs" / "asked.md"
VERDICT_PAGE = ROOT / "docs" / "verdicts.md"
CONTRIBUTING = ROOT / "docs" / "contributing.md"
TIERS = re.compile(r"(<!-- tiers: begin -->\n).*?(<!-- tiers: end -->)", re.DOTALL)
KEYS = re.compile(r"(<!-- keys: begin -->\n).*?(<!-- keys: end -->)", re.DOTALL)

INTRODUCTION = """\
# The vocabulary

Made by `make documents` from `core/events`. An event is an action (a command) or an observation (a result), in an
envelope with `id`, `timestamp`, `source`, `cause` and `conversation_id`. The stored form is the JSON of OpenHands V0:
an action's fields stand under `args`, an observation's under `extras` beside its `content`. A dot marks the actions
that a runtime carries out; each of those gets exactly one observation.
"""

ABOUT_WEAKNESSES = """\
# What OpenHands V0 does badly, and the test that it would fail

Made by `make documents` from `tests/weaknesses.py`. The numbers and figures are those of a review of V0 at commit
`d6fab190bfb5` (2025-11-15), the figures measured on 2 cores; each weakness of a room that is built here has a test that
fails on V0's way of doing it.
"""

ABOUT_THREATS = """\
# What threatens the sandbox and the models, and the tests that show what is held against it

Made by `make documents` from `tests/threats.py`. What runs in a sandbox is taken to be hostile, and so are a
repository, its file names, other programs of this machine and pages in its browser. Rows in bold are blockers: nothing
is released without them. Not defended against: a hole in the kernel, a sandbox without walls (which is said all the
time), somebody who allows everything, and side channels.
"""


ABOUT_WISHES = """\
# What people ask of such a program, and what shows the answer

Made by `make documents` from `tests/asked.py`. Each wish is one that users of agents in a terminal, or of OpenHands,
bring up again and again, in our words. Behind it stand the tests and pictures that show what is done about it here. Not
answered, or not whole: {open}.
"""


def vocabulary() -> str:
    """The page about every kind of event."""
    return "\n".join([INTRODUCTION, *_table("Actions", Action), "", *_table("Observations", Observation)]) + "\n"


def _table(title: str, branch: type[Event]) -> list[str]:
    lines = [f"## {title}", "", "| kind | class | fields | meaning |", "|---|---|---|---|"]
    for kind, cls in branch.kinds.items():
        dot = " ·" if getattr(cls, "runnable", False) else ""
        fields = ", ".join(f"`{name}`" for name in cls.model_fields if name not in branch.model_fields)
        meaning = (cls.__doc__ or "").strip().split("\n")[0].replace("|", "\\|")
        lines.append(f"| `{kind}`{dot} | {cls.__name__} | {fields or '–'} | {meaning} |")
    return lines


def weaknesses() -> str:
    """The page about what is done better here, and how that is known."""
    lines = [ABOUT_WEAKNESSES]
    for weakness in WEAKNESSES:
        if weakness.number in TITLES:
            lines += [*([""] if len(lines) > 1 else []), f"## {TITLES[weakness.number]}", ""]
            lines += ["| number | what V0 does badly | how it is here | our test |", "|--:|---|---|---|"]
        lines.append(_row(weakness))
    return "\n".join(lines) + "\n"


def _row(weakness: Weakness) -> str:
    return f"| {weakness.number} | {weakness.there} | {weakness.here} | {_links(weakness.tests)} |"


def threats() -> str:
    """The page about what is held against whom, and how that is known."""
    lines = [ABOUT_THREATS]
    for threat in THREATS:
        if threat.number in threat_model.TITLES:
            lines += [*([""] if len(lines) > 1 else []), f"## {threat_model.TITLES[threat.number]}", ""]
            lines += ["| number | threat | what is held against it | our tests |", "|---|---|---|---|"]
        lines.append(_threat_row(threat))
    return "\n".join(lines) + "\n"


def _threat_row(threat: Threat) -> str:
    number = f"**{threat.number}**" if threat.is_blocker else threat.number
    return f"| {number} | {threat.threat} | {threat.control} | {_links(threat.tests)} |"


def wishes() -> str:
    """The page about what people ask for, and what answers it."""
    open_ = [wish.number for wish in WISHES if wish.missing]
    lines = [ABOUT_WISHES.format(open=", ".join(open_))]
    for wish in WISHES:
        if wish.number in asked.TITLES:
            lines += [*([""] if len(lines) > 1 else []), f"## {asked.TITLES[wish.number]}", ""]
            lines += ["| number | what is asked for | how it is here | what shows it |", "|---|---|---|---|"]
        lines.append(_wish_row(wish))
    return "\n".join(lines) + "\n"


def _wish_row(wish: Wish) -> str:
    missing = f"**Not answered**: {wish.missing}" if wish.missing else ""
    how = "<br>".join(filter(None, (wish.answer, missing)))
    pictures = [f"[{Path(path).name}]({os.path.relpath(path, 'docs')})" for path in wish.pictures]
    shown = "<br>".join(filter(None, (_links(wish.tests), *pictures)))
    return f"| {wish.number} | {wish.wish} | {how} | {shown or '–'} |"


def _links(tests: Iterable[str]) -> str:
    """Each test by its name, leading to its file."""
    split = [node.split("::") for node in tests]
    return "<br>".join(f"[{name}](../{path})" for path, *_, name in split)


def readme(text: str) -> str:
    """The README with today's table of keys. Raises ValueError where it has no place for one."""
    made, count = KEYS.subn(lambda match: match[1] + markdown() + "\n" + match[2], text)
    if count != 1:
        raise ValueError(f"the README has {count} places for the table of keys, between `keys: begin` and `keys: end`")
    return made


def contributing(text: str) -> str:
    """The guide for contributors with the current table of the second tier."""
    return TIERS.sub(lambda match: match[1] + tiers.table() + "\n" + match[2], text)


def main() -> None:
    VOCABULARY.write_text(vocabulary(), "utf-8")
    WEAKNESS_PAGE.write_text(weaknesses(), "utf-8")
    WISH_PAGE.write_text(wishes(), "utf-8")
    THREAT_PAGE.write_text(threats(), "utf-8")
    VERDICT_PAGE.write_text(verdicts(), "utf-8")
    CONTRIBUTING.write_text(contributing(CONTRIBUTING.read_text("utf-8")), "utf-8")
    README.write_text(readme(README.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
