"""The table of verdicts: every rule, and every command of the corpora with what is said of it.

python -m tests.security.verdicts     prints it; `make documents` keeps it in docs/verdicts.md
"""

from __future__ import annotations

from core.events import CmdRunAction
from core.security.facts import facts_of
from core.security.risk_rules import RULES
from tests.security.risk_wrapping import WORKSPACE, Row, corpus

INTRODUCTION = f"""\
# What is said of commands

Made by `make documents` from `core/security/risk_rules.py` and `tests/security/corpora`. A command is read by a closed
grammar and a table of programs; the strictest rule that it meets is its risk, and what is not understood is UNKNOWN.
UNKNOWN stands between MEDIUM and HIGH. In the mode `risky`, UNKNOWN and HIGH ask. The workspace is `{WORKSPACE}`.
See [permissions.md](permissions.md).
"""


def page() -> str:
    """The page in Markdown."""
    rules = [f"| `{rule.id}` | {rule.risk.name} | {rule.reason} |" for rule in RULES.values()]
    return "\n".join(
        [
            INTRODUCTION,
            "## The rules",
            "",
            "| rule | risk | reason |",
            "|---|---|---|",
            *rules,
            *_table("Commands that ask", corpus("bad")),
            *_table("Commands that do not", corpus("good")),
            "",
        ]
    )


def _table(title: str, rows: list[Row]) -> list[str]:
    lines = ["", f"## {title}", "", "| command | risk | rules |", "|---|---|---|"]
    for row in rows:
        facts = facts_of(CmdRunAction(command=row.command), workspace=WORKSPACE)
        lines.append(f"| {_code(row.command)} | {facts.risk.name} | {', '.join(facts.rules) or '–'} |")
    return lines


def _code(command: str) -> str:
    """A command on one line of a table; a line's end as `⏎`."""
    text = command.replace("\n", " ⏎ ").replace("|", "\\|")
    return f"`` {text} ``" if "`" in text else f"`{text}`"


if __name__ == "__main__":
    print(page())
