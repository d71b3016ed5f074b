"""`handloom run` with a remote server: work happens there, the result is printed here, and the server is released."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doubles import FINISH, bash, write_script
from tests.program import Handloom
from tests.runtime.action_server import KEY, Process

WORK = [{"text": "I look.", "tool_calls": [bash("sleep 4324 & pwd > where; env | grep HANDLOOM")]}, FINISH]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Process]:
    folder = tmp_path / "there"
    folder.mkdir()
    process = Process(folder)
    process.start("--lives", where=("--port", "0"))
    yield process
    assert process.child is not None
    with process.child:
        process.child.terminate()


def handloom(folder: Path, url: str, **environ: str) -> Handloom:
    return Handloom(folder / "here", HANDLOOM__REMOTE__URL=url, **environ)


def test_two_tasks_run_on_the_remote_server(server: Process, tmp_path: Path) -> None:
    program = handloom(tmp_path, server.ready().split()[1], HANDLOOM_REMOTE_KEY=KEY)
    for _ in range(2):
        ended = program("run", "look", "--runtime", "remote", "--model", write_script(tmp_path, WORK))
        assert ended.status == 0, ended
        assert KEY not in ended.out + ended.err
        assert (server.folder / "where").read_text() == f"{server.folder}\n"
        (server.folder / "where").unlink()
    assert list(program.workspace.iterdir()) == []


def test_missing_requirements_are_reported_first(tmp_path: Path) -> None:
    words = ("run", "look", "--runtime", "remote", "--model", write_script(tmp_path, WORK))
    insecure = handloom(tmp_path, "http://sandbox.example", HANDLOOM_REMOTE_KEY=KEY)(*words)
    assert insecure.status == 2
    assert "http is not encrypted" in insecure.err
    assert "no remote runtime. Set remote.url" in handloom(tmp_path, "", HANDLOOM_REMOTE_KEY=KEY)(*words).err
    without_key = handloom(tmp_path, "https://127.0.0.1:1")(*words)
    assert without_key.status == 1
    assert "into the environment variable HANDLOOM_REMOTE_KEY" in without_key.err
