"""The file of permissions: written, read, refused and revoked."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.errors import ConfigurationError, UsageError
from core.security.confirmation import Verdict
from core.security.patterns import Pattern
from core.security.permissions import MAX_BYTES, Permission, PermissionFile, Scope, new_permission

LS = Pattern("bash", "ls")
ENTRY: dict[str, Any] = {"verdict": "allow", "pattern": "bash(ls)", "scope": "everywhere"}


def allow(scope: Scope = Scope.EVERYWHERE, *, folder: str = "/w", informed: bool = False) -> Permission:
    return new_permission(Verdict.ALLOW, LS, scope, folder=folder, conversation="c", informed=informed)


def test_stored_permission_round_trips(tmp_path: Path) -> None:
    file = PermissionFile(tmp_path / "new" / "home")
    assert file.read() == ()
    kept = [allow(), allow(Scope.PROJECT), allow(informed=True), replace(allow(), verdict=Verdict.DENY, at="")]
    file.add(kept)
    assert file.read() == tuple(kept)
    assert file.path.parent.stat().st_mode & 0o777 == 0o700
    text = file.path.read_text("utf-8")
    assert text.endswith("\n")
    assert [sorted(entry) for entry in json.loads(text)["permissions"]] == [
        ["at", "conversation", "id", "pattern", "scope", "verdict"],
        ["at", "conversation", "folder", "id", "pattern", "scope", "verdict"],
        ["at", "conversation", "id", "informed", "pattern", "scope", "verdict"],
        ["conversation", "id", "pattern", "scope", "verdict"],
    ]
    assert [one.name for one in file.path.parent.iterdir() if one.suffix != ".lock"] == [file.path.name]


def test_permission_has_time_and_folder(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    one = allow(Scope.PROJECT, folder=str(tmp_path / "link"))
    assert (one.folder, one.conversation, one.informed) == (str(tmp_path), "c", False)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", one.at)
    assert re.fullmatch(r"[0-9a-f]{8}", one.id)
    assert one.id != allow().id
    assert [allow(scope).folder for scope in (Scope.EVERYWHERE, Scope.CONVERSATION)] == ["", ""]
    assert one.holds_in(str(tmp_path))
    assert not one.holds_in("/elsewhere")
    assert allow().holds_in("/elsewhere")
    assert str(replace(one, id="x")) == "permission x (project) allow bash(ls)"
    assert str(replace(one, id="")) == "permission (project) allow bash(ls)"


def test_same_permission_is_stored_once(tmp_path: Path) -> None:
    file = PermissionFile(tmp_path)
    first = allow()
    file.add([first])
    others = [
        allow(informed=True),
        allow(Scope.PROJECT),
        allow(Scope.PROJECT, folder="/other"),
        replace(allow(), verdict=Verdict.DENY),
        replace(allow(), pattern=Pattern("bash", "pwd")),
    ]
    file.add([allow(), *others, replace(allow(), conversation="d")])
    assert file.read() == (first, *others)


def test_revoking_an_unknown_permission_fails(tmp_path: Path) -> None:
    file = PermissionFile(tmp_path)
    one, two, three = allow(), allow(informed=True), allow(Scope.PROJECT)
    file.add([one, two, three])
    with pytest.raises(UsageError, match=r"There is no permission x, y\. See"):
        file.revoke([one.id, "y", "x"])
    assert file.read() == (one, two, three)
    file.revoke([one.id, three.id])
    assert file.read() == (two,)


@pytest.mark.parametrize(
    "entry",
    [
        {},
        [],
        "x",
        ENTRY | {"verdict": "maybe"},
        ENTRY | {"scope": "forever"},
        ENTRY | {"scope": "project"},
        ENTRY | {"scope": "project", "folder": ""},
        ENTRY | {"pattern": "ls"},
        ENTRY | {"pattern": 3},
    ],
)
def test_file_with_an_invalid_entry_is_not_overwritten(tmp_path: Path, entry: Any) -> None:
    file = PermissionFile(tmp_path)
    file.path.write_text(json.dumps({"permissions": [ENTRY, entry]}), "utf-8")
    before = file.path.read_bytes()
    for change in (file.read, lambda: file.add([allow()]), lambda: file.revoke(["x"])):
        with pytest.raises(ConfigurationError, match=re.escape(f"{file.path} cannot be read: ")):
            change()
    assert file.path.read_bytes() == before


@pytest.mark.parametrize("text", ["", "[]", "{}", "3", '{"permissions": 3}', "[" * 100_000])
def test_invalid_file_is_an_error(tmp_path: Path, text: str) -> None:
    file = PermissionFile(tmp_path)
    file.path.write_text(text, "utf-8")
    with pytest.raises(ConfigurationError, match="Until then, every action needs approval"):
        file.read()


def test_too_large_file_is_an_error(tmp_path: Path) -> None:
    file = PermissionFile(tmp_path)
    text = json.dumps({"permissions": [ENTRY]})
    file.path.write_text(text + " " * (MAX_BYTES - len(text)), "utf-8")
    assert file.read() == (Permission(Verdict.ALLOW, LS, Scope.EVERYWHERE),)
    file.path.write_text(text + " " * (MAX_BYTES - len(text) + 1), "utf-8")
    with pytest.raises(ConfigurationError, match="it is too long"):
        file.read()


def test_informed_must_be_true(tmp_path: Path) -> None:
    file = PermissionFile(tmp_path)
    entries = [ENTRY | {"informed": said} for said in (True, 1, "yes", False)]
    file.path.write_text(json.dumps({"permissions": entries}), "utf-8")
    assert [one.informed for one in file.read()] == [True, False, False, False]


def test_failed_write_saves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    file = PermissionFile(tmp_path / "file")
    assert file.read() == ()
    with pytest.raises(ConfigurationError, match=r"cannot be written: .* Nothing was saved"):
        file.add([allow()])
