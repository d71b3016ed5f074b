"""What rules deny is out of reach of every program in a sandbox, and nothing is left on the host."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from core.errors import RuntimeUnavailableError
from core.events import ErrorObservation, FileEditAction, FileReadAction
from core.sandbox_types import Denials
from runtime.isolation.protected_paths import Mount, Mounts, Visibility, deny
from runtime.local.local_runtime import LocalRuntime
from tests.runtime.isolation.confined import BUBBLEWRAP, isolated, own, repository, run

pytestmark = [pytest.mark.alone, pytest.mark.bubblewrap]

READS = {
    "the name": "cat secret.txt",
    "a variable": 'name=secret; cat "$name.txt"',
    "a glob": "cat s*t.txt",
    "another shell": "sh -c 'cat sec\"\"ret.txt'",
    "a redirect": 'echo "$(< secret.txt)"',
    "Python": "python3 -c 'print(open(\"secret.txt\").read())'",
    "system calls": "python3 -c 'import os; print(os.read(os.open(\"secret.txt\", os.O_RDONLY), 99))'",
    "a symbolic link": "ln -s secret.txt link; cat link",
    "a link that was there": "cat older-link",
    "a hard link": "ln secret.txt hard; cat hard",
    "a hard link that was there": "cat older-name",
    "the root of a process": "cat /proc/self/root$PWD/secret.txt",
    "the folder of a process": "cat /proc/self/cwd/secret.txt",
    "another name for its folder": "cat keys/../secret.txt",
    "a copy": "cp secret.txt copy; cat copy",
    "a move": "mv secret.txt moved; cat moved",
    "rights": "chmod 777 secret.txt keys; cat secret.txt keys/key",
    "an archive": "tar cf - . | grep -ao canary",
    "a search": "grep -r canary .",
    "a folder": "cat keys/key",
    "a listing and a folder": "cat $(ls -d keys/*)",
    "the folder of a descriptor": "exec 9< keys; cat /proc/self/fd/9/key",
    "an open path": 'python3 -c \'import os; os.fchdir(os.open("keys", os.O_PATH)); print(open("key").read())\'',
    "another user namespace": "unshare -rm sh -c 'umount secret.txt; cat secret.txt'",
    "a mount": "umount secret.txt; mount --bind . /mnt; cat secret.txt /mnt/secret.txt",
    "a parent that is moved": "mv deep moved; cat moved/er/secret",
    "git": "git add -A -f; git show :secret.txt",
}
WRITES = {
    "a redirect": "echo changed > fixed.txt",
    "a variable": 'name=fixed; echo changed >> "$name.txt"',
    "Python": 'python3 -c \'open("fixed.txt", "w").write("changed")\'',
    "a symbolic link": "ln -s fixed.txt link; echo changed > link",
    "a hard link": "ln fixed.txt hard; echo changed > hard",
    "a hard link that was there": "echo changed > older-fixed",
    "the root of a process": "echo changed > /proc/self/root$PWD/fixed.txt",
    "a move over it": "echo changed > new; mv -f new fixed.txt",
    "a removal": "rm -f fixed.txt; echo changed > fixed.txt",
    "sed": "sed -i s/./changed/ fixed.txt",
    "truncation": "truncate -s 0 fixed.txt",
    "rights": "chmod 777 fixed.txt; echo changed > fixed.txt",
    "a new file in a folder": "echo changed > docs/new",
    "a file in a folder": "echo changed > docs/deep/page",
    "a folder that is moved": "mv docs moved; mkdir -p docs/deep; echo changed > docs/deep/page",
    "a parent that is moved": "mv a moved; mkdir -p a/b; echo changed > a/b/fixed",
    "what is hidden": "echo changed > secret.txt; rm -f secret.txt; echo changed > keys/key; rm -rf keys",
    "git": "git checkout -f fixed.txt; git rm -f --cached fixed.txt; git stash -u",
}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = repository(tmp_path / "workspace")
    for name in ("keys", "docs/deep", "a/b", "deep/er"):
        (folder / name).mkdir(parents=True)
    for name in ("secret.txt", "keys/key", "deep/er/secret"):
        (folder / name).write_text("canary\n")
    for name in ("fixed.txt", "docs/deep/page", "a/b/fixed"):
        (folder / name).write_text("as it was\n")
    (folder / "older-link").symlink_to("secret.txt")
    (folder / "older-name").hardlink_to(folder / "secret.txt")
    (folder / "older-fixed").hardlink_to(folder / "fixed.txt")
    own(folder)
    return folder


def denials_in(workspace: Path) -> Denials:
    hidden = ("secret.txt", "older-name", "keys", "deep/er/secret")
    fixed = ("fixed.txt", "older-fixed", "docs", "a/b/fixed")
    return Denials(tuple(f"{workspace}/{name}" for name in hidden), tuple(f"{workspace}/{name}" for name in fixed))


def contents(folder: Path) -> dict[str, bytes | str]:
    """Every file and link below a folder with its content, except for git's."""
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if ".git" not in path.relative_to(folder).parts and (path.is_symlink() or path.is_file())
    }


async def tried(runtime: LocalRuntime, commands: dict[str, str]) -> dict[str, str]:
    """What each command printed, one after the other in one shell, each in a shell of its own."""
    script = "".join(
        f"echo '>' {shlex.quote(name)}; timeout 10 bash -c {shlex.quote(command)} 2>&1\n"
        for name, command in commands.items()
    )
    found, last = dict[str, str](), ""
    for line in (await run(runtime, script, timeout=120)).content.splitlines():
        if line.startswith("> "):
            last = line[2:]
            found[last] = ""
        else:
            found[last] += f"{line}\n"
    assert list(found) == list(commands)
    return found


async def test_hidden_file_cannot_be_read_by_any_path(workspace: Path) -> None:
    before = contents(workspace)
    async with isolated(workspace, denials=denials_in(workspace)) as runtime:
        assert contents(workspace) == before
        said = await tried(runtime, READS)
    assert {name: text for name, text in said.items() if "canary" in text} == {}
    assert "Permission denied" in said["the name"]
    assert {name: content for name, content in contents(workspace).items() if name in before} == before


async def test_commands_can_read_without_rules(workspace: Path) -> None:
    async with isolated(workspace, denials=Denials()) as runtime:
        said = {name: (await tried(runtime, {name: READS[name]}))[name] for name in ("the name", "Python", "a folder")}
        assert all("canary" in text for text in said.values())


async def test_read_only_file_cannot_be_changed_by_any_path(workspace: Path) -> None:
    before = contents(workspace)
    async with isolated(workspace, denials=denials_in(workspace)) as runtime:
        said = await tried(runtime, WRITES)
        assert (await run(runtime, "cat fixed.txt docs/deep/page")).content == "as it was\nas it was"
    after = contents(workspace)
    kept = ("fixed.txt", "older-fixed", "docs/deep/page", "a/b/fixed", "secret.txt", "keys/key")
    assert {name: after.get(name) for name in kept} == {name: before[name] for name in kept}
    assert not (workspace / "docs" / "new").exists()
    assert "Read-only file system" in said["a redirect"]


async def test_file_tools_cannot_reach_denied_files(workspace: Path) -> None:
    async with isolated(workspace, denials=denials_in(workspace)) as runtime:
        read = await runtime.execute(FileReadAction(path=str(workspace / "secret.txt")), 1, lambda frame: None)
        assert isinstance(read, ErrorObservation)
        assert "canary" not in read.content
        edit = FileEditAction(path=str(workspace / "fixed.txt"), command="str_replace", old_str="was", new_str="is")
        assert isinstance(await runtime.execute(edit, 2, lambda frame: None), ErrorObservation)
    assert (workspace / "fixed.txt").read_text() == "as it was\n"


async def test_unwritable_workspace_and_its_repository_are_read_only(workspace: Path) -> None:
    before = contents(workspace)
    async with isolated(workspace, denials=Denials(unwritable=(str(workspace),))) as runtime:
        for command in ("echo x > new", "echo x > .git/new", "git commit --allow-empty -m x", "echo x > keys/new"):
            assert (await run(runtime, command)).exit_code != 0, command
        assert (await run(runtime, "cat keys/key && echo x > /tmp/x && cat /tmp/x")).content == "canary\nx"
    assert contents(workspace) == before


async def test_readable_paths_are_hidden_by_rules_and_stay_read_only(workspace: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    (tools / "deep").mkdir(parents=True)
    (tools / "deep" / "token").write_text("canary")
    (tools / "deep" / "tool").write_text("sharp")
    own(tools)
    denied = Denials(unreadable=(f"{tools}/deep/token", str(tmp_path / "elsewhere")))
    async with isolated(workspace, denials=denied, readable_paths=(tools,)) as runtime:
        assert "canary" not in (await run(runtime, f"cat {tools}/deep/token; mv {tools}/deep {tools}/d")).content
        assert (await run(runtime, f"cat {tools}/deep/tool")).content == "sharp"
        assert (await run(runtime, f"echo x > {tools}/deep/tool")).exit_code != 0
    async with isolated(workspace, denials=Denials(unreadable=(str(tmp_path),)), readable_paths=(tools,)) as runtime:
        assert "sharp" not in (await run(runtime, f"cat {tools}/deep/tool")).content
        assert (await run(runtime, "cat fixed.txt")).content == "as it was"


async def test_replacing_a_denied_file_on_the_host_ends_the_sandbox(workspace: Path) -> None:
    async with isolated(workspace, denials=denials_in(workspace)) as runtime:
        (workspace / "new").write_text("canary\n")
        (workspace / "new").rename(workspace / "secret.txt")
        with pytest.raises(RuntimeUnavailableError, match=r"secret\.txt was replaced"):
            await run(runtime, "cat secret.txt")
        await runtime.start()
        assert "canary" not in (await run(runtime, "cat secret.txt")).content


async def test_changed_rules_are_enforced_at_the_next_start(workspace: Path) -> None:
    denials = Denials()
    runtime = LocalRuntime(workspace, isolation=BUBBLEWRAP)
    runtime.deny(lambda: denials)
    try:
        await runtime.start()
        denials = denials_in(workspace)
        assert (await run(runtime, "cat secret.txt")).content == "canary"
        await runtime.aclose()
        await runtime.start()
        assert "canary" not in (await run(runtime, "cat secret.txt")).content
    finally:
        await runtime.aclose()


class TestMounts:
    """Merging of the mounts for rules with those that protect the workspace."""

    def test_stricter_mount_wins_and_mounts_below_hidden_folders_are_dropped(self, tmp_path: Path) -> None:
        git = tmp_path / ".git"
        (git / "hooks").mkdir(parents=True)
        found = Mounts([Mount(git, "open"), Mount(git / "hooks", "empty", is_placeholder=True)], [git / "hooks"])
        deny(found, Denials(unreadable=(str(git),)), tmp_path, Visibility())
        assert (found.mounts, found.placeholders) == ([Mount(git, "hidden folder")], [])

    def test_folder_below_a_read_only_one_is_not_mounted_writable(self, tmp_path: Path) -> None:
        secret = tmp_path / ".vscode" / "deep" / "secret"
        secret.parent.mkdir(parents=True)
        secret.touch()
        found = Mounts([Mount(tmp_path / ".vscode", "read-only")])
        deny(found, Denials(unreadable=(str(secret),)), tmp_path, Visibility())
        assert found.mounts == [Mount(tmp_path / ".vscode", "read-only"), Mount(secret, "hidden file")]

    def test_needed_and_invisible_paths_are_not_mounted(self, tmp_path: Path) -> None:
        (tmp_path / "home").mkdir()
        (tmp_path / "venv" / "bin").mkdir(parents=True)
        sight = Visibility(hidden=(tmp_path / "home",), needed=(tmp_path / "venv" / "bin",))
        found = Mounts()
        deny(found, Denials((f"{tmp_path}/home/x", f"{tmp_path}/venv")), tmp_path, sight)
        assert found.mounts == []
