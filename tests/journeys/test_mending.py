"""A damaged home is reported with the repair command; after the repair all readable data is there."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from core.store.database import VERSION, sqlite3
from core.store.event_store import EventStore
from core.store.page_recovery import Pages
from tests.doubles import FINISH, bash, write_script
from tests.journeys.test_bad_homes import in_a_mount, refused
from tests.program import HANDLOOM, Ended, Handloom

TURNS = [{"text": "I look at the loom.", "tool_calls": [bash("seq 1 400")]}, FINISH, FINISH]
DAMAGED = "handloom.db.damaged-*"


@pytest.fixture(scope="module")
def woven(tmp_path_factory: pytest.TempPathFactory) -> tuple[Handloom, str]:
    """A home with a conversation that can go on, and its id."""
    folder = tmp_path_factory.mktemp("woven")
    handloom = Handloom(folder)
    done = handloom("run", "weave", "--model", write_script(folder, TURNS))
    assert done.status == 0, done.err
    return handloom, done.conversation


@pytest.fixture
def handloom(woven: tuple[Handloom, str], tmp_path: Path) -> Handloom:
    """The program on a copy of that home."""
    shutil.copytree(woven[0].home, tmp_path / "home")
    return Handloom(tmp_path)


def overwrite_events(file: Path) -> None:
    """Put noise in the place of the last page with events."""
    with Pages(file) as pages:
        holds = [n for n in range(2, pages.count + 1) if any(len(cell.record) == 8 for cell in pages.cells_of(n))]
    data = bytearray(file.read_bytes())
    place = (holds[-1] - 1) * 4096
    data[place : place + 4096] = random.Random(3).randbytes(4096)
    file.write_bytes(data)


def test_readable_data_is_recovered_and_the_conversation_continues(
    handloom: Handloom, woven: tuple[Handloom, str]
) -> None:
    conversation = woven[1]
    before = woven[0].export(conversation)
    database = handloom.home / "handloom.db"
    overwrite_events(database)
    damaged = database.read_bytes()

    looked = handloom("doctor", "--repair")
    assert looked.status == 1
    assert "is damaged" in looked.out
    assert "handloom doctor --repair --yes" in looked.out
    assert database.read_bytes() == damaged

    told = json.loads((done := handloom("doctor", "--repair", "--yes", "--json")).out)
    assert (done.status, told["ok"], told["mended"]) == (0, True, True)
    assert Path(told["kept"]).read_bytes() == damaged
    assert told["lost"]
    lost = {id for each in told["lost"] for id in range(each["first"], each["last"] + 1)}
    assert {each["conversation_id"] for each in told["lost"]} == {conversation}

    after = handloom.export(conversation)
    assert [event["id"] for event in after] == list(range(len(after)))
    for event in before:
        assert event["id"] in lost or after[event["id"]] == event
    told_of = [event["content"] for event in after if event.get("extras", {}).get("error_id") == "LOST"]
    assert told_of
    assert "lost: the database was damaged" in told_of[0]
    went_on = handloom("run", "weave on", "--resume", conversation)
    assert went_on.status == 0, went_on.err
    whole = handloom("doctor", "--repair", "--json")
    assert (whole.status, json.loads(whole.out)["mended"]) == (0, False)


def as_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def as_a_device(file: Path) -> None:
    file.unlink()
    file.symlink_to("/dev/null")


def as_noise(file: Path) -> None:
    file.write_bytes(b"\xff" * 100 + file.read_bytes()[100:])


def without_its_log(file: Path) -> None:
    file.with_name("handloom.db-wal").write_bytes(file.read_bytes())  # its content does not matter for the refusal
    os.truncate(file, 0)


@pytest.mark.parametrize("damage", [as_a_folder, as_a_device, as_noise, without_its_log])
def test_refusal_names_the_repair_command(damage: Callable[[Path], None], handloom: Handloom) -> None:
    database = handloom.home / "handloom.db"
    damage(database)
    mode = os.stat("/dev/null").st_mode
    refused(handloom("list"), "handloom doctor --repair")
    done = handloom("doctor", "--repair", "--yes")
    assert done.status == 0, done.out + done.err
    assert "Traceback" not in done.err
    assert list(handloom.home.glob(DAMAGED))
    assert os.stat("/dev/null").st_mode == mode
    listed = handloom("list")
    assert (listed.status, listed.err) == (0, "")
    assert damage is not as_noise or len(listed.lines) == 1


async def test_open_home_is_not_repaired(handloom: Handloom) -> None:
    database = handloom.home / "handloom.db"
    async with EventStore(handloom.home):
        connection = sqlite3.connect(database)
        connection.execute("DELETE FROM events WHERE id = 2")
        connection.commit()
        connection.close()
        done = handloom("doctor", "--repair", "--yes")
        assert done.status == 2
        assert not list(handloom.home.glob(DAMAGED))
        if sys.platform == "linux":
            assert f"process {os.getpid()}" in done.err
    assert handloom("doctor", "--repair", "--yes").status == 0
    assert list(handloom.home.glob(DAMAGED))


def test_newer_database_and_broken_user_files_are_reported_and_kept(handloom: Handloom) -> None:
    (handloom.home / "permissions.json").write_text("{")
    done = handloom("doctor", "--repair", "--yes", "--json")
    assert done.status == 1
    found = {Path(each["file"]).name: each["found"] for each in json.loads(done.out)["files"]}
    assert found["permissions.json"]
    assert found["handloom.db"] == []
    assert (handloom.home / "permissions.json").read_text() == "{"
    connection = sqlite3.connect(handloom.home / "handloom.db")
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    newer = handloom("doctor", "--repair", "--yes")
    assert newer.status == 2
    assert "newer Handloom" in newer.err


def test_index_is_rebuilt_on_demand(handloom: Handloom, woven: tuple[Handloom, str]) -> None:
    conversation = woven[1]
    assert conversation in handloom("search", "loom").out
    connection = sqlite3.connect(handloom.home / "handloom.db")
    connection.execute("UPDATE words_data SET block = zeroblob(20)")
    connection.commit()
    connection.close()
    assert conversation not in handloom("search", "loom").out
    done = handloom("doctor", "--index", "--yes", "--json")
    told = json.loads(done.out)
    assert (done.status, told["mended"], told["kept"]) == (0, True, None)
    assert told["indexed"] > 0
    assert conversation in handloom("search", "loom").out


FULL_DISK = r"""
home="$0"; kept="$1"; shift 1
cp -r "$home" "$kept/copy"
mount -t tmpfs -o size=20m none "$home"; cp -r "$kept/copy/." "$home"
free=$(df -k --output=avail "$home" | tail -n 1)
head -c $((free - 8))K /dev/zero >"$home/ballast"
"$@" doctor --repair --yes >"$kept/full.out" 2>"$kept/full.err"; echo $? >"$kept/full"
cmp "$home/handloom.db" "$kept/copy/handloom.db" && ls "$home" >"$kept/files"
rm "$home/ballast"
"$@" doctor --repair --yes >"$kept/room.out" 2>"$kept/room.err"; echo $? >"$kept/room"
"""


@pytest.mark.mount
def test_repair_on_a_full_disk_changes_nothing_and_succeeds_later(handloom: Handloom, tmp_path: Path) -> None:
    overwrite_events(handloom.home / "handloom.db")
    done = in_a_mount(handloom, FULL_DISK, str(handloom.home), str(tmp_path), *HANDLOOM)
    assert done.returncode == 0, done.stderr

    def ended(name: str) -> Ended:
        out, err = (tmp_path / f"{name}.{kind}" for kind in ("out", "err"))
        return Ended(int((tmp_path / name).read_text()), out.read_text(), err.read_text())

    full, room = ended("full"), ended("room")
    assert full.status == 2
    assert "could not be repaired" in full.err
    assert "Traceback" not in full.err
    files = (tmp_path / "files").read_text()
    assert "mending" not in files
    assert "damaged" not in files
    assert room.status == 0, room.err
