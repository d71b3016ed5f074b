"""`handloom list`, `search`, `rename`, `delete` and beginnings of ids, as people and scripts use them."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import FINISH, bash, write_script
from tests.program import HANDLOOM, Ended, Handloom
from tui.cli import command_line
from tui.cli.command_line import parse
from tui.library.cli import home_of
from tui.replay.replay_start import resolve_source
from tui.sessions import filter_chips

CANARY = "kanarienvogel4711"
OTHER = "nachtigall0815"


def task(canary: str, file: Path) -> list[dict[str, Any]]:
    """Work that leaves a word everywhere: in the log, in a checkpoint, and in the way back of an edit."""
    edit = {"command": "str_replace", "path": str(file), "old_str": canary, "new_str": "gone"}
    create = {"command": "create", "path": str(file), "file_text": f"one {canary}\n"}
    return [
        {"text": f"I look for {canary}.", "tool_calls": [bash(f"echo printed {canary}")]},
        {"tool_calls": [{"name": "str_replace_editor", "arguments": create}]},
        {"tool_calls": [{"name": "str_replace_editor", "arguments": edit}]},
        FINISH,
    ]


def files_with(home: Path, word: str) -> Iterator[str]:
    """The files of a home that contain a word, also compressed."""
    for path in sorted(home.rglob("*")):
        if not path.is_file() or path.is_relative_to(home / "logs"):
            continue
        data = path.read_bytes()
        with suppress(zlib.error):
            data += zlib.decompress(data)
        if word.encode() in data:
            yield str(path.relative_to(home))


def begin(folder: Path, canary: str = CANARY, title: str = "Tour") -> tuple[Handloom, Ended]:
    """A home with one conversation."""
    handloom = Handloom(folder)
    script = write_script(folder, task(canary, handloom.workspace / f"{canary}.txt"), f"{canary}.yaml")
    done = handloom("run", f"look for {canary}", "--model", script, "--json", "--title", title)
    assert done.status == 0, done.err
    return handloom, done


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Handloom, Ended, Ended]:
    """A home with two conversations, which tests look at and do not change."""
    folder = tmp_path_factory.mktemp("two")
    handloom, first = begin(folder)
    second = begin(folder, OTHER, "夜莺 and \x1b[31mred")[1]
    return handloom, first, second


class TestList:
    def test_line_has_what_scripts_and_people_need(self, two: tuple[Handloom, Ended, Ended]) -> None:
        handloom, first, second = two
        lines = handloom("list").lines
        assert [line.split()[0] for line in lines] == [second.conversation, first.conversation]
        assert re.search(r"\d+ events +\$0\.00 +\S+ kB ✓ Tour  \(", lines[1])
        assert "\x1b" not in lines[0]

    def test_json_has_one_object_on_each_line_with_stable_fields(self, two: tuple[Handloom, Ended, Ended]) -> None:
        handloom, first, _ = two
        found = [json.loads(line) for line in handloom("list", "--json").lines][1]
        assert set(found) == {
            "conversation_id", "title", "workspace", "model", "created_at", "updated_at", "event_count", "first_line",
            "state", "cost", "size_bytes", "origin", "origin_of", "parent", "agent",
        }  # fmt: skip
        assert found["conversation_id"] == first.conversation
        assert found["first_line"] == f"look for {CANARY}"
        assert found["state"] == "finished"

    def test_filters_exclude_conversations(self, two: tuple[Handloom, Ended, Ended]) -> None:
        handloom, first, _ = two
        model = json.loads(handloom("list", "--json").lines[1])["model"]
        assert [line.split()[0] for line in handloom("list", "--model", model).lines] == [first.conversation]
        assert len(handloom("list", "--workspace", ".").lines) == 2
        assert handloom("list", "--workspace", "/nowhere").lines == []
        assert handloom("list", "--state", "error").lines == []
        assert len(handloom("list", "--state", "finished", "--since", "1").lines) == 2
        assert handloom("list", "--since", "0").lines == []

    def test_invalid_filter_is_refused(self, two: tuple[Handloom, Ended, Ended]) -> None:
        for wrong in (("--since", "-1"), ("--since", "nan"), ("--state", "odd")):
            assert two[0]("list", *wrong).status == 2

    def test_states_match_those_on_the_screen(self) -> None:
        assert set(command_line.STATES) == set(filter_chips.STATES)


class TestSearch:
    def test_hits_are_below_their_conversation(self, two: tuple[Handloom, Ended, Ended]) -> None:
        handloom, first, _ = two
        lines = handloom("search", f"printed {CANARY}").lines
        assert lines[0].startswith(first.conversation)
        assert re.match(r"  #\d+ +run ", lines[1])
        assert CANARY in lines[1]

    def test_json_contains_positions(self, two: tuple[Handloom, Ended, Ended]) -> None:
        handloom, first, _ = two
        hits = [json.loads(line) for line in handloom("search", CANARY, "--json", "--limit", "2").lines]
        assert len(hits) == 2
        assert {hit["conversation_id"] for hit in hits} == {first.conversation}
        start, end = hits[0]["spans"][0]
        assert hits[0]["text"][start:end] == CANARY
        assert set(hits[0]) == {"conversation_id", "title", "event_id", "timestamp", "kind", "text", "spans"}

    def test_no_hit_is_success_and_an_empty_query_an_error(self, two: tuple[Handloom, Ended, Ended]) -> None:
        nothing = two[0]("search", "zzzznever")
        assert (nothing.status, nothing.out) == (0, "")
        assert two[0]("search", " ").status == 2


class TestIds:
    def test_unique_prefix_of_an_id_is_enough(self, two: tuple[Handloom, Ended, Ended]) -> None:
        handloom, first, _ = two
        shown = json.loads(handloom("show", first.conversation[:12], "--json").out)
        assert shown["conversation_id"] == first.conversation
        exported = handloom("export", first.conversation[:12])
        assert exported.out == handloom("export", first.conversation).out != ""
        options = parse(["replay", first.conversation[:12]])
        with ExitStack() as stack:
            found = resolve_source(first.conversation[:12], partial(home_of, handloom.home, options), stack)
            assert found == (handloom.home, first.conversation)

    def test_conversation_is_renamed(self, two: tuple[Handloom, Ended, Ended]) -> None:
        handloom, _, second = two
        assert handloom("rename", second.conversation[:12], " A new \n name ").status == 0
        assert json.loads(handloom("list", "--json").lines[0])["title"] == "A new name"
        assert handloom("rename", second.conversation, "  ").status == 2
        assert handloom("rename", "nope", "x").status == 2


class TestDelete:
    def test_deleted_conversation_leaves_nothing_in_any_file(self, tmp_path: Path) -> None:
        handloom, first = begin(tmp_path)
        (handloom.workspace / f"{CANARY}.txt").unlink()  # or it is part of the other's checkpoints, too
        second = begin(tmp_path, OTHER)[1]
        handloom("search", CANARY)  # which brings the index up to date
        held = list(files_with(handloom.home, CANARY))
        assert any(name.startswith("handloom.db") for name in held)
        assert any(name.startswith("checkpoints/") for name in held)
        assert (handloom.home / "sandboxes" / first.conversation).exists()
        done = handloom("delete", first.conversation, "--yes")
        assert done.status == 0, done.err
        assert list(files_with(handloom.home, CANARY)) == []
        assert list((handloom.home / "sandboxes").glob(f"{first.conversation}*")) == []
        assert [line.split()[0] for line in handloom("list").lines] == [second.conversation]
        assert handloom("search", CANARY).out == ""
        assert list(files_with(handloom.home, OTHER)) != []

    def test_without_a_terminal_deletion_needs_the_yes_option(self, two: tuple[Handloom, Ended, Ended]) -> None:
        handloom, first, _ = two
        refused = handloom("delete", first.conversation)
        assert refused.status == 2
        assert "--yes" in refused.err
        assert handloom("delete", "nope", "--yes").status == 2
        assert len(handloom("list").lines) == 2

    def test_deletion_asks_on_a_terminal(self, tmp_path: Path) -> None:
        handloom, done = begin(tmp_path)
        for answer, left in ((b"n\n", 1), (b"y\n", 1), (b"yes\n", 0)):
            ours, theirs = pty.openpty()
            process = handloom.start("delete", done.conversation, stdin=theirs, stdout=theirs, stderr=theirs)
            os.close(theirs)
            said = b""
            while b"Type yes" not in said:
                said += os.read(ours, 1000)
            os.write(ours, answer)
            with suppress(OSError):
                while os.read(ours, 1000):
                    pass
            os.close(ours)
            assert process.wait(30) == left
            assert len(handloom("list").lines) == left

    def test_conversation_that_is_open_elsewhere_is_refused(self, tmp_path: Path) -> None:
        handloom = Handloom(tmp_path)
        script = write_script(tmp_path, [{"tool_calls": [bash("echo begun; sleep 600")]}])
        at_work = handloom.start("run", "wait", "--model", script, "--json")
        assert at_work.stdout is not None
        line = b""
        while b'"action":"run"' not in line:
            line = at_work.stdout.readline()
            assert line
        refused = handloom("delete", json.loads(line)["conversation_id"], "--yes")
        at_work.send_signal(signal.SIGINT)
        at_work.communicate(timeout=30)
        assert refused.status == 1
        assert "is open in another Handloom" in refused.err
        assert len(handloom("list").lines) == 1

    def test_killed_deletion_can_be_repeated(self, tmp_path: Path) -> None:
        handloom, done = begin(tmp_path)
        killed = subprocess.run(
            [HANDLOOM[0], "-c", _DIES_IN_THE_MIDDLE, done.conversation], env=handloom.environ, timeout=60, check=False
        )
        assert killed.returncode == -signal.SIGKILL
        assert not (handloom.home / "sandboxes" / done.conversation).exists()
        assert len(handloom("list").lines) == 1
        assert handloom("delete", done.conversation, "--yes").status == 0
        assert list(files_with(handloom.home, CANARY)) == []


_DIES_IN_THE_MIDDLE = """
import os, signal, sys
from core.store.event_store import EventStore
from tui.__main__ import main
EventStore.delete_conversation = lambda *given: os.kill(os.getpid(), signal.SIGKILL)
main(["delete", sys.argv[1], "--yes"])
"""
"""`handloom delete` that is killed right before the database's turn."""
