"""`handloom export` on the command line: what is exported, reported and refused."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import zipfile
from pathlib import Path

import pytest

from core.events import AgentFinishAction, MessageAction
from tests.import_export.conversations import AGENT, BEGAN_AT, ORDINARY, USER, home_with
from tests.import_export.test_secret_scan import SECRET
from tests.program import HANDLOOM, Handloom


@pytest.fixture
async def quiet(tmp_path: Path) -> Handloom:
    """A home with one conversation, `c`, that has no secrets."""
    async with home_with(tmp_path, [(MessageAction(content="hello"), USER, None)]):
        return Handloom(tmp_path)


@pytest.fixture
async def leaky(tmp_path: Path) -> Handloom:
    """A home whose conversation has a token in it."""
    events = [(MessageAction(content=f"take {SECRET}"), USER, None), (AgentFinishAction(), AGENT, 0)]
    async with home_with(tmp_path, events):
        return Handloom(tmp_path)


def test_text_is_written_to_standard_output_also_for_dash(quiet: Handloom) -> None:
    bare, dash = quiet("export", "c"), quiet("export", "c", "-o", "-")
    assert (bare.status, bare.err) == (0, "")
    assert bare.out == dash.out
    assert json.loads(bare.out)[0]["timestamp"] > BEGAN_AT.isoformat()
    assert not (quiet.workspace / "-").exists()


@pytest.mark.parametrize(
    ("format", "begins"), [("html", "<!doctype html>"), ("markdown", "# A task"), ("asciicast", '{"version": 2')]
)
def test_every_text_format_can_be_piped(format: str, begins: str, quiet: Handloom) -> None:
    assert quiet("export", "c", "--format", format).out.startswith(begins)


def test_archive_can_be_piped_and_saved(quiet: Handloom, tmp_path: Path) -> None:
    piped = subprocess.run(
        [*HANDLOOM, "export", "c", "--format", "archive"], capture_output=True, env=quiet.environ, check=True
    )
    (tmp_path / "piped.zip").write_bytes(piped.stdout)
    assert quiet("export", "c", "--format", "archive", "-o", str(tmp_path / "saved.zip")).status == 0
    for name in ("piped.zip", "saved.zip"):
        with zipfile.ZipFile(tmp_path / name) as archive:
            assert archive.testzip() is None
            assert json.loads(archive.read("handloom.json"))["counts"]["events"] == 1


def test_archive_is_not_written_to_a_terminal(quiet: Handloom) -> None:
    status, said, _ = at_a_terminal(quiet, "export", "c", "--format", "archive")
    assert status == 2
    assert "cannot be printed to a terminal. Name a file with -o" in said


def test_secrets_are_not_exported_without_a_terminal(leaky: Handloom, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    done = leaky("export", "c", "-o", str(file))
    assert (done.status, done.out) == (2, "")
    assert "event 0, args.content: a GitHub token" in done.err
    assert "--mask" in done.err
    assert "--allow-secrets" in done.err
    assert SECRET not in done.err
    assert not file.exists()


def test_secrets_are_exported_redacted_or_if_allowed(leaky: Handloom) -> None:
    redacted, open_ = leaky("export", "c", "--mask"), leaky("export", "c", "--allow-secrets")
    assert (redacted.status, open_.status) == (0, 0)
    assert json.loads(redacted.out)[0]["args"]["content"] == "take <secret_hidden>"
    assert json.loads(open_.out)[0]["args"]["content"] == f"take {SECRET}"
    assert "a GitHub token" in redacted.err
    assert leaky("export", "c", "--mask", "--allow-secrets").status == 2


@pytest.mark.parametrize(("answer", "status"), [("write", 0), ("redact", 0), ("w", 1), ("y", 1), ("", 1)])
def test_export_asks_on_a_terminal(answer: str, status: int, leaky: Handloom, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    ended, said, asked = at_a_terminal(leaky, "export", "c", "-o", str(file), answer=answer)
    assert asked
    assert ended == status, said
    assert file.exists() == (status == 0)
    if status == 0:
        assert (SECRET in file.read_text()) == (answer == "write")
    else:
        assert "Export cancelled; nothing was written." in said


async def test_unsearched_pictures_are_reported(tmp_path: Path) -> None:
    async with home_with(tmp_path, ORDINARY):
        handloom = Handloom(tmp_path)
    done = handloom("export", "c", "--format", "html")
    assert (done.status, done.err) == (0, "Exported images that were not searched for secrets: 1.\n")
    assert handloom("export", "c").err == ""  # a trajectory has no screenshots


def test_values_of_the_environment_are_searched_for(tmp_path: Path, quiet: Handloom) -> None:
    done = Handloom(tmp_path, GREETING_KEY="/work/project", SHORT_TOKEN="hello")("export", "c", "--format", "markdown")
    assert done.status == 2
    assert "the value of GREETING_KEY" in done.err
    assert "SHORT_TOKEN" not in done.err  # five letters are in every text


def at_a_terminal(handloom: Handloom, *arguments: str, answer: str = "") -> tuple[int, str, bool]:
    """Run on a pseudo-terminal. Returns the exit status, the output, and whether it asked."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*HANDLOOM, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=handloom.environ, close_fds=True
    )
    os.close(theirs)
    said, asked = b"", False
    try:
        while select.select([ours], [], [], 30)[0]:
            try:
                said += os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if b"Enter alone cancels: " in said and not asked:
                asked = True
                os.write(ours, f"{answer}\n".encode())
        return process.wait(30), said.decode(), asked
    finally:
        process.kill()
        process.wait()
        os.close(ours)
