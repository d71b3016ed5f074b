"""A home that cannot be used, or no longer: a clear message, a stated end, and nothing that was shown is lost."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from core.store.database import VERSION, sqlite3
from tests.doubles import FINISH, bash, write_script
from tests.program import HANDLOOM, Ended, Handloom, events_in_archive


def refused(done: Ended, *said: str) -> None:
    """Nothing was started: no conversation, no output, and one line with the problem and advice."""
    assert done.status in (1, 2)
    assert done.out == ""
    assert "Traceback" not in done.err
    assert "conversation" not in done.err
    for text in said:
        assert text in done.err, done.err


def in_every_command(handloom: Handloom, tmp_path: Path, *said: str) -> None:
    model = write_script(tmp_path, [FINISH])
    refused(handloom("run", "x", "--model", model), *said)
    listed = handloom("list")
    refused(listed, *said)
    assert listed.status == 2
    refused(handloom("export", "x"), *said)


def test_home_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    handloom = Handloom(tmp_path, HANDLOOM_HOME=str(tmp_path / "file" / "home"))
    in_every_command(handloom, tmp_path, "cannot be", "HANDLOOM_HOME")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc here")
def test_home_that_cannot_be_created_is_refused(tmp_path: Path) -> None:
    in_every_command(Handloom(tmp_path, HANDLOOM_HOME="/proc/handloom"), tmp_path, "/proc/handloom", "HANDLOOM_HOME")


def test_newer_database_is_refused_and_unchanged(tmp_path: Path) -> None:
    handloom = Handloom(tmp_path)
    assert handloom("list").status == 0
    database = handloom.home / "handloom.db"
    with sqlite3.connect(database) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    before = database.read_bytes()
    in_every_command(handloom, tmp_path, "newer Handloom", "Install the newer one")
    assert database.read_bytes() == before


@pytest.mark.parametrize("damage", ["no database", "cut off", "torn"])
def test_damaged_database_is_refused_and_unchanged(damage: str, tmp_path: Path) -> None:
    handloom = Handloom(tmp_path)
    model = write_script(tmp_path, [FINISH])
    assert handloom("run", "x", "--model", model).status == 0
    database = handloom.home / "handloom.db"
    whole = database.read_bytes()
    pages = {
        "no database": b"this is something else " * 1000,
        "cut off": whole[:100],
        "torn": whole[:100] + b"\xff" * (len(whole) - 100),
    }
    database.write_bytes(pages[damage])
    in_every_command(handloom, tmp_path, "damaged" if damage != "cut off" else "handloom.db")
    assert database.read_bytes() == pages[damage]


IN_A_MOUNT = ("unshare", "--map-root-user", "--mount", "sh", "-c")


def in_a_mount(handloom: Handloom, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script where a file system of its own can be mounted; `$0` and what follows are `arguments`."""
    return subprocess.run(
        [*IN_A_MOUNT, script, *arguments],
        env=handloom.environ,
        cwd=handloom.workspace,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.mount
def test_read_only_home_is_refused(tmp_path: Path) -> None:
    handloom = Handloom(tmp_path)
    model = write_script(tmp_path, [FINISH])
    assert handloom("run", "x", "--model", model).status == 0
    script = 'home="$0"; mount --bind "$home" "$home"; mount -o remount,ro,bind "$home"; exec "$@"'
    for command in (["run", "x", "--model", model], ["list"]):
        done = in_a_mount(handloom, script, str(handloom.home), *HANDLOOM, *command)
        refused(Ended(done.returncode, done.stdout, done.stderr), "Read-only file system", "HANDLOOM_HOME")


FULL_DISK = r"""
home="$0"; model="$1"; kept="$2"; shift 2
mkdir -p "$home"; mount -t tmpfs -o size=2m none "$home"
"$@" run go --model "$model" --json >"$kept/first.out" 2>"$kept/first.err"; echo $? >"$kept/first"
rm "$home/ballast"
id=$(sed -n 's/^conversation \([0-9a-f]*\)$/\1/p' "$kept/first.err")
"$@" run 'go on' --resume "$id" --json >"$kept/again.out" 2>"$kept/again.err"; echo $? >"$kept/again"
"$@" export "$id" --format archive --allow-secrets -o "$kept/archive.zip"
"""


@pytest.mark.mount
def test_full_disk_ends_the_run_which_resumes_when_there_is_space(tmp_path: Path) -> None:
    handloom = Handloom(tmp_path)
    fill = 'head -c 20M /dev/zero > "$HANDLOOM_HOME/ballast"; echo full'
    model = write_script(tmp_path, [{"tool_calls": [bash("seq 1 3000")]}, {"tool_calls": [bash(fill)]}, FINISH, FINISH])
    done = in_a_mount(handloom, FULL_DISK, str(handloom.home), model, str(tmp_path), *HANDLOOM)
    assert done.returncode == 0, done.stderr

    def ended(name: str) -> Ended:
        out, err = (tmp_path / f"{name}.{kind}" for kind in ("out", "err"))
        return Ended(int((tmp_path / name).read_text()), out.read_text(), err.read_text())

    first, again = ended("first"), ended("again")
    assert first.status == 1
    assert "The disk is full: free some space, then try again. Nothing that was shown is lost." in first.err
    assert "Traceback" not in first.err
    assert again.status == 0, again.err
    exported = events_in_archive(tmp_path / "archive.zip")
    assert [event["id"] for event in exported] == list(range(len(exported)))
    assert exported[: len(first.events)] == first.events
    for action in (event for event in exported if event.get("action") == "run"):
        assert len([e for e in exported if e.get("cause") == action["id"] and "observation" in e]) == 1
