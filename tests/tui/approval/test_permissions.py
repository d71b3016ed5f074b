"""The screen of permissions: its content, and revoking."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.widgets import OptionList

from core.security.confirmation import Verdict
from core.security.patterns import parse
from core.security.permissions import PermissionFile, Scope, new_permission
from core.settings.screen_settings import ScreenSettings
from tests.tui.doubles import ManagerDouble
from tests.tui.workspace.running_app import running, until
from tui.approval.permissions import PermissionsScreen
from tui.dialogs.dialog import SureScreen


async def test_permissions_are_listed_followed_and_revoked(tmp_path: Path) -> None:
    manager = ManagerDouble()
    manager.store.home = tmp_path
    file = PermissionFile(tmp_path)
    (tmp_path / "policy.toml").write_text('deny = ["read(~/.ssh/**)"]')

    def add(pattern: str, scope: Scope, verdict: Verdict = Verdict.ALLOW) -> None:
        file.add([new_permission(verdict, parse(pattern), scope, folder="/nowhere", conversation="abc")])

    add("bash(git push *)", Scope.PROJECT)
    async with running(manager=manager) as it:
        own = new_permission(Verdict.ALLOW, parse("bash(ls)"), Scope.CONVERSATION, folder="", conversation="abc")
        it.session.guard.conversation_permissions.append(own)
        await it.press("ctrl+x", "Y")
        await until(it.pilot, lambda: "bash(git push *)" in it.screen_text())
        assert "this conversation" in it.screen_text()
        assert "policy.toml:1 deny read(~/.ssh/**)" in it.screen_text()
        await until(it.pilot, lambda: "d revokes it · Esc closes" in it.screen_text())
        add("mcp(mail__\u202e)", Scope.EVERYWHERE, Verdict.DENY)  # another program
        await until(it.pilot, lambda: "U+202E" in it.screen_text())
        await it.press("d", "enter")
        assert it.session.wishes == [], "the highlight starts at the answer that does nothing"
        await it.press("d", "down")
        assert "Revoke this permission (allowed, this conversation)?" in it.screen_text()
        await it.press("enter")
        await until(it.pilot, lambda: "bash(ls)" not in it.screen_text())
        assert it.session.wishes == [("revoke", "bash(ls)")]
        await it.press("d", "down", "enter")
        await until(it.pilot, lambda: "git push" not in it.screen_text())
        assert [one.verdict for one in file.read()] == [Verdict.DENY]
        await it.press("escape")
        assert it.shows_the_workspace


async def test_early_keys_revoke_nothing(tmp_path: Path) -> None:
    manager = ManagerDouble()
    manager.store.home = tmp_path
    async with running(manager=manager, screen=ScreenSettings()) as it:
        own = new_permission(Verdict.ALLOW, parse("bash(ls)"), Scope.CONVERSATION, folder="", conversation="abc")
        it.session.guard.conversation_permissions.append(own)
        await it.press("ctrl+x", "Y")
        await until(it.pilot, lambda: "bash(ls)" in it.screen_text())
        await it.press("d")
        assert isinstance(it.app.screen, PermissionsScreen)
        it.clock.now += 1
        await it.press("d")
        await until(it.pilot, lambda: isinstance(it.app.screen, SureScreen))
        await it.press("down", "enter", "down", "enter")
        assert it.session.wishes == []


async def test_broken_file_is_reported_and_not_changed(tmp_path: Path) -> None:
    manager = ManagerDouble()
    manager.store.home = tmp_path
    (tmp_path / "permissions.json").write_text("{")
    async with running(manager=manager) as it:
        await it.press("ctrl+x", "Y")
        await until(it.pilot, lambda: "Fix it" in it.screen_text())
        await until(it.pilot, lambda: "Esc closes" in it.screen_text())
        assert "revokes it" not in it.screen_text(), "nothing is there to be taken back"
    assert (tmp_path / "permissions.json").read_text() == "{"


@pytest.mark.parametrize("size", [(80, 24), (160, 48)], ids=str)
async def test_each_permission_has_one_line_and_bad_rules_are_reported(tmp_path: Path, size: tuple[int, int]) -> None:
    manager = ManagerDouble()
    manager.store.home = tmp_path
    (tmp_path / "policy.toml").write_text('allow = ["bash(ls *)"]\ndeny = ["nonsense"]\n')
    long = f"write(/{'very/long/' * 12}x)"
    denial = new_permission(Verdict.DENY, parse(long), Scope.EVERYWHERE, folder="", conversation="abc")
    PermissionFile(tmp_path).add([denial])
    async with running(size, manager=manager) as it:
        await it.press("ctrl+x", "Y")
        await until(it.pilot, lambda: "denied" in it.screen_text())
        (row,) = [line for line in it.screen_text().split("\n") if "denied" in line]
        assert re.search(r"✕ denied +everywhere +20\d\d-\d\d-\d\d  write\(/very", row)
        assert it.app.screen.query_one(OptionList).region.height == 1
        # A long path is cut at the end of the line.
        await until(it.pilot, lambda: "policy.toml,line2" in re.sub(r"[\s│]", "", it.screen_text()))
