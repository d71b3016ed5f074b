"""Rules and permissions without a screen: `handloom run` and `handloom permissions` as real programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.security.confirmation import Verdict
from core.security.patterns import parse
from core.security.permissions import PermissionFile, Scope, new_permission
from tests.doubles import FINISH, bash, write_script
from tests.runtime.isolation.confined import own


def handloom(tmp_path: Path, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "HANDLOOM_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-m", "tui", *arguments]
    return subprocess.run(
        command,
        env=environ,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=100,
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.mark.parametrize(
    ("policy", "options", "is_made", "read"),
    [
        ('ask = ["bash(touch *)"]', [], False, "asked by: policy.toml:1 ask bash"),
        ('ask = ["bash(touch *)"]', ["--yes"], True, ""),
        ('deny = ["bash(touch *)"]', ["--yes"], False, "policy.toml:1 deny bash"),
        ("", ["--confirm", "always"], False, "asked by: mode always"),
        ('allow = ["bash(touch *)"]', ["--confirm", "always"], True, ""),
        ("broken", [], False, "asked by: a broken file"),
    ],
)
def test_headless_run_denies_what_would_ask(
    tmp_path: Path, policy: str, options: list[str], is_made: bool, read: str
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "policy.toml").write_text(policy)
    (tmp_path / "workspace").mkdir()
    model = write_script(tmp_path, [{"tool_calls": [bash("touch made")]}, {"expect": read, **FINISH}])
    done = handloom(tmp_path, "run", "go", "--model", model, "--workspace", str(tmp_path / "workspace"), *options)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "workspace" / "made").exists() is is_made
    if policy == "broken":
        assert "policy.toml, line 1" in done.stderr


def test_permissions_are_listed_and_revoked(tmp_path: Path) -> None:
    file = PermissionFile(tmp_path / "home")
    file.add(
        [
            new_permission(
                Verdict.ALLOW, parse("bash(git push *)"), Scope.PROJECT, folder=str(tmp_path), conversation="c"
            )
        ]
    )
    file.add([new_permission(Verdict.DENY, parse("bash(x \x1b[2J)"), Scope.EVERYWHERE, folder="", conversation="c")])
    listed = handloom(tmp_path, "permissions", "list").stdout
    one, two = listed.splitlines()
    assert one.split()[1:4] == ["allow", "bash(git", "push"]
    assert str(tmp_path) in one
    assert "\x1b" not in two
    first, second = (
        json.loads(line) for line in handloom(tmp_path, "permissions", "list", "--json").stdout.splitlines()
    )
    assert (first["pattern"], second["verdict"]) == ("bash(git push *)", "deny")
    assert handloom(tmp_path, "permissions", "revoke", first["id"]).returncode == 0
    assert [one.id for one in file.read()] == [second["id"]]
    gone = handloom(tmp_path, "permissions", "revoke", first["id"])
    assert gone.returncode == 2
    assert "handloom permissions list" in gone.stderr


def test_check_exits_with_the_verdict(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "policy.toml").write_text('deny = ["bash(git push *)"]')
    allowed = handloom(tmp_path, "permissions", "check", "git status", "--mode", "never")
    asked = handloom(tmp_path, "permissions", "check", "cd src", "eval x")
    denied = handloom(tmp_path, "permissions", "check", "--json", "git -C . push")
    assert [one.returncode for one in (allowed, asked, denied)] == [0, 3, 4]
    assert "not understood: eval x" in asked.stdout
    answer = json.loads(denied.stdout)
    assert (answer["verdict"], answer["rule"]) == ("deny", "policy.toml:1 deny bash(git push *)")


@pytest.mark.bubblewrap
def test_list_shows_enforcement_of_deny_rules(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "policy.toml").write_text(
        'deny = ["read(.env)", "write(*.lock)", "net(example.org)", "bash(git push *)"]\nallow = ["bash(ls)"]'
    )
    file = PermissionFile(tmp_path / "home")
    file.add([new_permission(Verdict.DENY, parse("read(.env)"), Scope.EVERYWHERE, folder="", conversation="c")])
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / ".env").touch()
    own(workspace)
    ours = "  enforced by the sandbox"
    listed = handloom(tmp_path, "permissions", "list", cwd=workspace).stdout.splitlines()
    assert [line.rpartition("  ")[1:] for line in listed[:2]] == [("  ", ours.strip())] * 2
    assert listed[1:] == [
        f"policy.toml:1  deny   read(.env){ours}",
        "policy.toml:1  deny   write(*.lock)  partly enforced by the sandbox",
        f"policy.toml:1  deny   net(example.org){ours}",
        "policy.toml:1  deny   bash(git push *)  not enforced by the sandbox",
        "policy.toml:2  allow  bash(ls)",
    ]
    checked = handloom(tmp_path, "permissions", "check", "cat .env", cwd=workspace).stdout.splitlines()
    assert checked[1] == f"    enforced by the sandbox: {workspace}/.env is hidden."
    answer = json.loads(handloom(tmp_path, "permissions", "check", "--json", "git push", cwd=workspace).stdout)
    assert answer["enforcement"] == "read"
    told = handloom(tmp_path, "permissions", "list", "--json", cwd=workspace).stdout.splitlines()
    assert [json.loads(line).get("enforcement") for line in told[1:]] == ["sandbox", "partly", "sandbox", "read", None]
    (tmp_path / "home" / "config.toml").write_text('[sandbox]\nisolation = "none"')
    listed = handloom(tmp_path, "permissions", "list", cwd=workspace).stdout.splitlines()
    assert [line.rpartition("  ")[2] for line in listed[:5]] == ["not enforced by the sandbox"] * 5


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("x", "Line 1 is not JSON"),
        ('{"commands": 3}', "`commands` is a list of texts"),
        ('{"commands": ["ls"], "mode": "x"}', "There is no mode 'x'"),
        ('{"commands": ["ls"], "rules": {"deny": ["x"]}}', "is not a pattern"),
        ('{"commands": ["ls"], "what": 1}', "has no 'what'"),
        ("[" * 100_000, "Line 1 is not JSON"),
    ],
)
def test_invalid_request_is_one_message(tmp_path: Path, line: str, says: str) -> None:
    done = checked(tmp_path, line)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_each_line_of_standard_input_is_answered(tmp_path: Path) -> None:
    rows = [{"commands": ["ls"]}, {"steps": ["git push"], "rules": {"deny": ["bash(git push *)"]}, "class": "PUSH"}]
    done = checked(tmp_path, "\n".join(map(json.dumps, rows)))
    assert [json.loads(line)["verdict"] for line in done.stdout.splitlines()] == ["allow", "deny"]
    assert done.returncode == 0


def checked(tmp_path: Path, text: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tui", "permissions", "check", "--json", "-"]
    environ = {**os.environ, "HANDLOOM_HOME": str(tmp_path / "home")}
    return subprocess.run(command, env=environ, input=text, capture_output=True, text=True, timeout=100, check=False)
