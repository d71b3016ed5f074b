"""Requests to check commands, and the answers as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.errors import UsageError
from core.security.command_check import MAX_COMMANDS, as_json, check, mode_of, request_of
from core.security.confirmation import ConfirmMode, Verdict


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("ls", "A request is an object"),
        ({"commands": ["ls"], "other": 1}, "no 'other'"),
        ({}, "`commands` is a list"),
        ({"commands": []}, "`commands` is a list"),
        ({"commands": [1]}, "`commands` is a list"),
        ({"commands": 1}, "`commands` is a list"),
        ({"commands": ["ls"] * (MAX_COMMANDS + 1)}, f"at most {MAX_COMMANDS}"),
        ({"commands": ["ls"], "workspace": "here"}, "absolute folders"),
        ({"commands": ["ls"], "home": 1}, "absolute folders"),
        ({"commands": ["ls"], "mode": "sometimes"}, "no mode 'sometimes'"),
        ({"commands": ["ls"], "rules": []}, "`rules` is an object"),
        ({"commands": ["ls"], "rules": {"forbid": []}}, "`rules` has lists"),
        ({"commands": ["ls"], "rules": {"deny": "bash(ls)"}}, "`rules` has lists"),
        ({"commands": ["ls"], "rules": {"deny": ["bash(ls"]}}, "is not a pattern"),
    ],
)
def test_invalid_request_is_refused(entry: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        request_of(entry)


def test_request_names_commands_mode_rules_and_folders() -> None:
    for key in ("commands", "steps"):
        assert request_of({key: ["ls", "pwd"]}).commands == ("ls", "pwd")
    plain = request_of({"command": "ls", "class": "a", "name": "b", "today": "c"})
    assert (plain.commands, plain.mode, plain.rules) == (("ls",), ConfirmMode.RISKY, None)
    assert (plain.workspace, plain.home) == ("", "")
    assert len(request_of({"commands": ["ls"] * MAX_COMMANDS}).commands) == MAX_COMMANDS
    full = request_of(
        {
            "commands": ["ls"],
            "mode": "always",
            "workspace": "/w",
            "home": "/h",
            "rules": {"deny": ["bash(a)", "bash(b)"]},
        }
    )
    assert (full.mode, full.workspace, full.home) == (mode_of("always"), "/w", "/h")
    assert full.rules is not None
    assert [(rule.verdict, str(rule.pattern)) for rule in full.rules] == [
        (Verdict.DENY, "bash(a)"),
        (Verdict.DENY, "bash(b)"),
    ]
    assert "rules:2" in str(full.rules[1])


async def test_strictest_verdict_counts(tmp_path: Path) -> None:
    entry = {"commands": ["cd src", "echo x > y", "cat y"], "rules": {"deny": ["write(src/y)"], "ask": ["bash(cat *)"]}}
    answer = as_json(await check(request_of(entry), home=tmp_path, folder="/w", user_home="/h"))
    assert (answer["verdict"], answer["not_understood"]) == ("deny", [])
    assert answer["enforcement"] is not None
    assert [one["verdict"] for one in answer["commands"]] == ["allow", "deny", "ask"]
    assert [one["command"] for one in answer["commands"]] == entry["commands"]
    assert answer["rule"] == answer["commands"][1]["rule"]
    assert answer["reasons"] == list(answer["commands"][1]["reasons"])


async def test_asking_answer_has_no_enforcement(tmp_path: Path) -> None:
    entry = {"commands": ["eval ls", "eval ls"], "workspace": "/w"}
    answer = as_json(await check(request_of(entry), home=tmp_path, folder="/elsewhere", user_home="/h"))
    assert (answer["verdict"], answer["enforcement"]) == ("ask", None)
    assert len(answer["not_understood"]) == len(set(answer["not_understood"])) > 0
    assert [one["risk"] for one in answer["commands"]] == ["UNKNOWN", "UNKNOWN"]
