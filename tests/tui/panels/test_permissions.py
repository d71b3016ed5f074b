"""The screen of permissions: what stands in it, and how it is taken back."""

from __future__ import annotations

from pathlib import Path

from core.security.judgement import Verdict
from core.security.patterns import parse
from core.security.permissions import PermissionFile, Scope, given
from tests.tui.doubles import ManagerDouble
from tests.tui.frame.running import running, until


async def test_permissions_of_every_scope_are_listed_followed_and_taken_back(tmp_path: Path) -> None:
    manager = ManagerDouble()
    manager.store.home = tmp_path
    file = PermissionFile(tmp_path)
    (tmp_path / "policy.toml").write_text('deny = ["read(~/.ssh/**)"]')

    def add(pattern: str, scope: Scope, verdict: Verdict = Verdict.ALLOW) -> None:
        file.add([given(verdict, parse(pattern), scope, folder="/nowhere", conversation="abc")])

    add("bash(git push *)", Scope.PROJECT)
    async with running(manager=manager) as it:
        own = given(Verdict.ALLOW, parse("bash(ls)"), Scope.CONVERSATION, folder="", conversation="abc")
        it.session.guard.conversation.append(own)
        await it.press("ctrl+x", "Y")
        await until(it.pilot, lambda: "bash(git push *)" in it.screen_text())
        assert "this conversation" in it.screen_text()
        assert "policy.toml:1 deny read(~/.ssh/**)" in it.screen_text()
        add("mcp(mail__\u202e)", Scope.EVERYWHERE, Verdict.DENY)  # another program
        await until(it.pilot, lambda: "U+202E" in it.screen_text())
        await it.press("d")
        await until(it.pilot, lambda: "bash(ls)" not in it.screen_text())
        assert it.session.wishes == [("take_back", "bash(ls)")]
        await it.press("d")
        await until(it.pilot, lambda: "git push" not in it.screen_text())
        assert [one.verdict for one in file.read()] == [Verdict.DENY]
        await it.press("escape")
        assert it.shows_the_workspace


async def test_a_broken_file_is_told_and_left_alone(tmp_path: Path) -> None:
    manager = ManagerDouble()
    manager.store.home = tmp_path
    (tmp_path / "permissions.json").write_text("{")
    async with running(manager=manager) as it:
        await it.press("ctrl+x", "Y")
        await until(it.pilot, lambda: "Mend" in it.screen_text())
    assert (tmp_path / "permissions.json").read_text() == "{"
