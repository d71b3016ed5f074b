"""Short commands, one for each piece of syntax, with all facts of each.

A row of `data/read.jsonl` has the commands of one shell and what is told of the last one: what is not named is empty,
and the shell behind it is in the workspace with nothing set. Where a command is not understood, that it is opaque and
could send goes without saying. `python -m tests.security.test_commands_read COMMAND...` prints a row, to be read before
it is kept.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from core.events import CmdRunAction
from core.security.facts import facts_of

WORKSPACE = "/workspace/app"
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parent / "data" / "read.jsonl").read_text("utf-8").splitlines()
]
_LISTS = ("rules", "reads", "writes", "hosts", "urls", "runs", "not_understood", "spellings")
_FLAGS = ("opaque", "sends", "carries")


def told(steps: list[str]) -> dict[str, Any]:
    """The row of some commands."""
    shell = None
    for step in steps:
        facts = facts_of(CmdRunAction(command=step), workspace=WORKSPACE, shell=shell)
        shell = facts.shell
    assert shell is not None
    row: dict[str, Any] = {"steps": steps, "risk": facts.risk.name}
    row |= {name: list(getattr(facts, name)) for name in _LISTS}
    row |= {name: getattr(facts, name) for name in _FLAGS if not (facts.not_understood and name != "carries")}
    if not facts.not_understood:
        row["unclear"] = dict(facts.unclear)
    elif not (facts.opaque and facts.sends):
        row["hides"] = True
    if list(facts.commands) != steps[-1:]:
        row["commands"] = list(facts.commands)
    if shell.folders != (WORKSPACE,):
        row["folders"] = list(shell.folders)
    row |= {"variables": shell.variables, "environment": shell.environment, "lost": shell.lost}
    row |= {"written": sorted(shell.written - set(facts.writes)), "links": sorted(shell.links)}
    return {name: value for name, value in row.items() if value or name in ("commands", "folders")}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ;; ".join(row["steps"])[:60])
def test_facts_of_a_command_match_its_row(row: dict[str, Any]) -> None:
    assert told(row["steps"]) == row


if __name__ == "__main__":
    print(json.dumps(told(sys.argv[1:]), ensure_ascii=False))
