"""Commands that were really run: none in disguise is let through, and most of everyday's are.

`data/disguised.jsonl` has sequences of commands that had the effect which their rules deny, or which the mode
"ask before risky actions" is there to ask about. `data/everyday.jsonl` has commands of the manuals and Makefiles of
public projects. `data/reaching.jsonl` has commands that look like everyday's: their values, globs, names of files and
what is piped to them make them do more. With HANDLOOM_RATES=1 the rates are printed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from core.security.command_check import check, request_of

DATA = Path(__file__).parent / "data"
HOME, WORKSPACE = "/home/rt", "/home/rt/ws"
ASKED = 0.23
"""Share of everyday commands that may ask."""


async def verdict(row: dict[str, object], home: Path) -> str:
    request = request_of({**row, "rules": row.get("rules", {}), "workspace": WORKSPACE, "home": HOME})
    return (await check(request, home=home, folder=WORKSPACE, user_home=HOME)).judgement.verdict


def rows(name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text("utf-8").splitlines()]


def told(capsys: pytest.CaptureFixture[str], text: str) -> None:
    if os.environ.get("HANDLOOM_RATES"):
        with capsys.disabled():
            print(f"\n{text}")


async def test_no_disguised_command_is_allowed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = [(row["class"], row["name"], await verdict(row, tmp_path)) for row in rows("disguised")]
    allowed = [(kind, name) for kind, name, said in found if said == "allow"]
    denied = sum(said == "deny" for _, _, said in found)
    told(capsys, f"disguised: {len(allowed)} of {len(found)} allowed, {denied} denied, the rest asks")
    assert len(found) > 900
    assert allowed == []


async def test_no_far_reaching_command_is_allowed(tmp_path: Path) -> None:
    allowed = [row["steps"] for row in rows("reaching") if await verdict(row, tmp_path) == "allow"]
    assert allowed == []


async def test_most_everyday_commands_are_allowed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = [await verdict(row, tmp_path) for row in rows("everyday")]
    asked = sum(said != "allow" for said in found)
    told(capsys, f"everyday: {asked} of {len(found)} ask, {asked / len(found):.1%}")
    assert len(found) > 900
    assert asked <= ASKED * len(found)
    assert "deny" not in found
