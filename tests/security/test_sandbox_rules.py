"""The rules that a sandbox enforces: its denials, and the status of each rule."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from core.events import CmdOutputObservation, Status
from core.sandbox_types import DeniedHosts
from core.security import sandbox_rules
from core.security.confirmation import Verdict
from core.security.guard import CHANGED
from core.security.patterns import WorkFolders, parse
from core.security.policy import Rule
from core.security.sandbox_rules import CUT, TOO_MANY, denials, status
from runtime.local.local_runtime import LocalRuntime
from tests.doubles import FINISH, bash
from tests.runtime.isolation.confined import BUBBLEWRAP, own
from tests.session.test_session import conversation, of_type, send_and_settle


def deny(*patterns: str) -> list[Rule]:
    return [Rule(Verdict.DENY, parse(pattern), f"policy.toml:{line}") for line, pattern in enumerate(patterns, 1)]


@pytest.fixture
def folders(tmp_path: Path) -> WorkFolders:
    """A workspace in a home, with some files."""
    home = tmp_path / "home"
    workspace = home / "work"
    for name in ("src/deep", "keys/old", "odd*name"):
        (workspace / name).mkdir(parents=True)
    for name in (".env", "src/a.py", "src/b.pem", "src/deep/c.pem", "keys/one", "keys/old/two.pem", "odd*name/x"):
        (workspace / name).touch()
    (workspace / "link").symlink_to("keys/one")
    (workspace / "out").symlink_to("/etc/passwd")
    (workspace / "up").symlink_to("..")
    (home / ".ssh").mkdir()
    return WorkFolders(str(workspace), str(home))


def paths_of(folders: WorkFolders, *patterns: str) -> list[str]:
    """The denied paths relative to the workspace, hidden ones first."""
    found = denials(deny(*patterns), folders)
    return [os.path.relpath(path, folders.workspace) for path in (*found.unreadable, *found.unwritable)]


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("read(.env)", [".env"]),
        ("read(./src/../.env)", [".env"]),
        ("read(keys/**)", ["keys"]),
        ("read(keys/)", ["keys"]),
        ("read(keys)", ["keys"]),
        ("read(~/.ssh/**)", ["../.ssh"]),
        ("read(~/work/.env)", [".env"]),
        ("read(missing)", []),
        ("read(link)", ["keys/one"]),
        ("read(odd\\*name/**)", ["odd*name"]),
        ("read(**/*.pem)", ["keys/old/two.pem", "src/b.pem", "src/deep/c.pem"]),
        ("read(src/*.pem)", ["src/b.pem"]),
        ("read(*/old/**)", ["keys/old"]),
        ("read(*)", [".env", "keys/one"]),
        ("read(**)", []),
        ("read(/**)", []),
        ("read(~/**)", []),
        ("read(up)", []),
        ("read(/etc/passwd)", ["../../../../../../etc/passwd"]),
        ("write(src/a.py)", ["src/a.py"]),
        ("write(**)", ["."]),
        ("write(~/**)", ["."]),
        ("write(src/**)", ["src"]),
        ("bash(rm *)", []),
        ("read(a\0b)", []),
    ],
)
def test_existing_denied_paths_are_enforced(folders: WorkFolders, pattern: str, paths: list[str]) -> None:
    found = [path for path in paths_of(folders, pattern) if not path.endswith("/etc/passwd")]
    assert sorted(found) == sorted(path for path in paths if not path.endswith("/etc/passwd"))


def test_hard_links_of_a_denied_file_are_denied(folders: WorkFolders) -> None:
    workspace = Path(folders.workspace)
    (workspace / "src" / "same").hardlink_to(workspace / "keys" / "one")
    (workspace / "src" / "other").hardlink_to(workspace / "src" / "a.py")
    assert paths_of(folders, "read(keys/**)") == ["keys", "src/same"]
    assert paths_of(folders, "write(src/a.py)") == ["src/a.py", "src/other"]


def test_only_deny_rules_are_enforced(folders: WorkFolders) -> None:
    allowing = [Rule(Verdict.ALLOW, parse("read(.env)"), "x"), Rule(Verdict.ASK, parse("net(*)"), "x")]
    found = denials([*allowing, *deny("net(*.example.org)", "net(*)")], folders)
    assert found.unreadable == ()
    assert found.hosts == (
        DeniedHosts("*.example.org", "policy.toml:1 deny net(*.example.org)"),
        DeniedHosts("*", "policy.toml:2 deny net(*)"),
    )
    assert found.denies_every_host
    assert status(allowing[0], folders) is None


def test_limits_of_wildcards_are_reported(folders: WorkFolders, monkeypatch: pytest.MonkeyPatch) -> None:
    assert denials(deny("read(**/*.pem)"), folders).notes == ()
    monkeypatch.setattr(sandbox_rules, "MAX_PATHS", 2)
    found = denials(deny("read(**/*.pem)"), folders)
    assert (len(found.unreadable), found.notes) == (2, (TOO_MANY,))
    monkeypatch.setattr(sandbox_rules, "MAX_ENTRIES", 3)
    assert denials(deny("read(**/*.pem)"), folders).notes == (CUT,)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("read(.env)", "enforced by the sandbox: {w}/.env is hidden."),
        ("read(keys/**)", "enforced by the sandbox: {w}/keys is hidden."),
        ("write(src/a.py)", "enforced by the sandbox: {w}/src/a.py is read-only."),
        ("write(**)", "enforced by the sandbox: the workspace is read-only."),
        ("write(/etc/**)", "enforced by the sandbox: nothing outside the workspace can be written."),
        ("read(~/.ssh/**)", "enforced by the sandbox: it is outside the workspace, and hidden."),
        (
            "net(example.org)",
            "enforced by the sandbox: its proxy, the only connection to the network, refuses the host.",
        ),
        ("net(*)", "enforced by the sandbox: its proxy, the only connection to the network, refuses the host."),
        ("read(**/*.pem)", "partly enforced by the sandbox: files of the workspace that match when it starts are"),
        ("write(src/*.py)", "partly enforced by the sandbox: files of the workspace that match when it starts are"),
        ("read(missing)", "not enforced by the sandbox: it does not exist."),
        ("read(**)", "not enforced by the sandbox: commands need the workspace."),
        ("read(up/**)", "not enforced by the sandbox: commands need the workspace."),
        ("read(/etc/passwd)", "not enforced by the sandbox: programs in the sandbox need files of the system."),
        ("read(out)", "not enforced by the sandbox: programs in the sandbox need files of the system."),
        ("net(localhost)", "not enforced by the sandbox: calls within the sandbox do not use the proxy."),
        ("bash(git push *)", "not enforced by the sandbox: each action is checked before it runs."),
        ("mcp(*)", "not enforced by the sandbox: each action is checked before it runs."),
        ("*", "not enforced by the sandbox: every action is denied before it runs."),
        ("read(a\0b)", "not enforced by the sandbox: each action is checked before it runs."),
    ],
)
def test_enforcement_of_each_rule(folders: WorkFolders, pattern: str, says: str) -> None:
    assert str(status(deny(pattern)[0], folders)).startswith(says.format(w=folders.workspace))


@pytest.mark.bubblewrap
async def test_sandbox_enforces_rules_for_scripts(tmp_path: Path) -> None:
    """A script is not read, and the mode asks nothing: only the sandbox is left."""
    (tmp_path / "home").mkdir()
    policy = tmp_path / "home" / "policy.toml"
    policy.write_text('deny = ["read(secret.txt)"]')
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    for name in ("secret.txt", "other.txt"):
        (workspace / name).write_text(f"canary of {name}\n")
    (workspace / "script").write_text("cat *.txt\n")
    own(workspace)
    turns = [{"tool_calls": [bash("sh script")]}, FINISH]
    make_runtime = partial(LocalRuntime, isolation=BUBBLEWRAP)
    async with conversation(tmp_path, [*turns, *turns], make_runtime=make_runtime) as session:
        statuses = list[str]()
        session.frames.watch(lambda frame: statuses.append(frame.message) if isinstance(frame, Status) else None)
        (done,) = of_type(await send_and_settle(session), CmdOutputObservation)
        assert done.content.splitlines() == ["canary of other.txt", "cat: secret.txt: Permission denied"]
        assert CHANGED not in statuses
        policy.write_text('deny = ["read(secret.txt)", "read(other.txt)"]')
        _, done = of_type(await send_and_settle(session), CmdOutputObservation)
        assert "canary of other.txt" in done.content
        assert CHANGED in statuses
