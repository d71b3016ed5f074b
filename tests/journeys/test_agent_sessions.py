"""The sessions of other agents, as people find, replay and continue them; nothing of theirs changes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.journeys.recorder import Recorder
from tests.journeys.test_take_over import workspace
from tests.library.agents import MINI_TASK, claude_answer, write_all, write_broken_database, write_claude
from tests.program import Handloom

NAMED = ("Claude Code", "Codex", "mini-swe-agent")


@pytest.fixture
def user(handloom: Handloom) -> Path:
    """The home of a user who has worked with three agents."""
    home = handloom.workspace.parent
    write_all(home, handloom.workspace)
    return home


class TestCommands:
    def test_nothing_is_read_without_being_named(self, handloom: Handloom, user: Path) -> None:
        assert handloom("list").out == ""
        assert not (handloom.home / "agents").exists()

    def test_all_agents_are_one_list(self, handloom: Handloom, user: Path) -> None:
        before = _files(user)
        out = handloom("list", "--all-agents").out
        for name in NAMED:
            assert name in out
        assert _files(user) == before

    def test_one_agent_can_be_named(self, handloom: Handloom, user: Path) -> None:
        lines = handloom("list", "--from", "codex", "--json").events
        assert [line["agent"] for line in lines] == ["codex"]
        assert lines[0]["title"] == "Is there a spare part?"

    def test_unknown_agent_is_refused_with_the_names(self, handloom: Handloom) -> None:
        ended = handloom("list", "--from", "clod")
        assert ended.status == 2
        assert "claude-code" in ended.err

    def test_search_hits_all_three(self, handloom: Handloom, user: Path) -> None:
        hits = handloom("search", "washer", "--all-agents", "--json").events
        listed = {line["conversation_id"]: line["agent"] for line in _list(handloom)}
        assert {listed[hit["conversation_id"]] for hit in hits} == {"claude-code", "codex", "mini-swe-agent"}

    def test_session_is_shown_and_exported_by_the_beginning_of_its_id(self, handloom: Handloom, user: Path) -> None:
        id = _id(handloom, "claude-code")
        shown = handloom("show", "--all-agents", id[:10], "--json").events[0]
        assert shown["statistics"]["actions"]["run"]["count"] == 1
        page = handloom("export", "--all-agents", id[:10], "--format", "markdown").out
        assert "+new washer" in page
        events = json.loads(handloom("export", "--all-agents", id[:10]).out)
        assert [event.get("action") or event["observation"] for event in events][:3] == ["message", "message", "run"]

    def test_costs_of_all_agents(self, handloom: Handloom, user: Path) -> None:
        costs = handloom("show", "--all-agents", "--json").events[0]
        assert costs["agents"]["Claude Code"]["tokens"] == 360
        assert costs["agents"]["Claude Code"]["cost"] > 0
        assert costs["agents"]["mini-swe-agent"]["cost"] == 0.01
        assert {"2026-03-01", "2026-03-02"} < set(costs["days"])

    def test_copy_stays_when_the_agent_deletes_its_session(self, handloom: Handloom, user: Path) -> None:
        handloom("search", "washer", "--all-agents")
        shutil.rmtree(user / ".claude")
        id = _id(handloom, "claude-code")
        assert "new washer" in handloom("export", "--all-agents", id, "--format", "markdown").out

    def test_session_of_another_agent_is_not_taken_for_ours(self, handloom: Handloom, user: Path) -> None:
        id = _id(handloom, "codex")
        for command in (("run", "--resume", id[:8], "Go on"), ("rename", id, "New"), ("delete", "--yes", id)):
            ended = handloom(*command)
            assert ended.status == 2
            assert f"{command[-1] if command[0] == 'delete' else command[-2]} is a session of Codex" in ended.err
        assert handloom("rename", "0" * 32, "New").err.startswith("handloom: There is no conversation 000")

    def test_damaged_database_of_one_agent_hides_no_other(self, handloom: Handloom, user: Path) -> None:
        write_broken_database(user / ".local/share/opencode/opencode.db")
        out = handloom("list", "--all-agents").out
        assert all(name in out for name in NAMED)


def _list(handloom: Handloom) -> list[dict[str, str]]:
    return handloom("list", "--all-agents", "--json").events


def _id(handloom: Handloom, agent: str) -> str:
    return next(line["conversation_id"] for line in _list(handloom) if line["agent"] == agent)


def _files(home: Path) -> dict[str, tuple[int, bytes]]:
    paths = [path for name in (".claude", ".codex", ".config") for path in (home / name).rglob("*")]
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"") for path in paths}


@pytest.mark.tmux
class TestScreen:
    def test_found_searched_replayed_and_continued(self, handloom: Handloom, user: Path, tmp_path: Path) -> None:
        before = _files(user)
        turns: list[dict[str, object]] = [{"text": "I go on with the pump."}] * 6  # some were played by Claude Code
        with workspace(handloom, *turns, columns=120) as terminal:
            seen = Recorder(terminal, 120, 30)
            terminal.press("C-s")
            seen.sees("Claude Code, Codex and mini-swe-agent saved sessions on this machine.")
            terminal.choose(2)
            seen.sees("Mend the pump", "Is there a spare part?", MINI_TASK)
            terminal.press("Tab")
            terminal.type("washer")
            seen.sees("8 matches", "Claude Code: Mend", "Codex: Is there", "mini-swe-agent: Say")
            terminal.press("Tab")
            seen.sees("0 of 4", "No conversations match")
            terminal.press("C-u")
            seen.sees("Filter by title")
            terminal.type("Mend")
            seen.sees("1 of")
            terminal.press("Enter")
            seen.sees("Replay: Mend the pump", "cat pump.txt")
            terminal.press("End")
            seen.sees("new washer", "The washer is new now.", "at the end")
            terminal.press("f")
            seen.sees("Continue in which folder?", "its folder")
            terminal.press("Enter")
            seen.sees("(fork)", "stopped")
            terminal.type("Go on, please")
            terminal.press("Enter")
            seen.sees("This conversation was imported", "Others")
            terminal.choose(2)
            seen.sees("I go on with the pump.")
            terminal.type("/spending")
            terminal.press("Enter")
            seen.sees("Costs of other agents", "By model", "claude-opus-4-5")
            seen.save(tmp_path, "agents-120x30.cast")
            terminal.press("Escape", "C-q")
        assert _files(user) == before
        (forked,) = [line for line in handloom.conversations() if line["origin"] == "fork"]
        assert forked["title"] == "Mend the pump of the garden. (fork)"

    def test_growing_session_is_followed(self, handloom: Handloom, user: Path) -> None:
        with workspace(handloom, columns=120) as terminal:
            terminal.press("C-s")
            terminal.wait_for("saved sessions")
            terminal.choose(2)
            terminal.wait_for("Mend the pump")
            terminal.type("Mend")
            terminal.wait_for("1 of")
            terminal.press("Enter")
            terminal.wait_for("Replay: Mend the pump")
            terminal.press("End")
            terminal.wait_for("The washer is new now.", "at the end")
            write_claude(user, handloom.workspace, claude_answer(1, "And it does not drip."))
            terminal.wait_for("And it does not drip.")
            terminal.press("C-q")

    def test_no_is_remembered_and_nothing_is_read(self, handloom: Handloom, user: Path) -> None:
        with workspace(handloom) as terminal:
            terminal.press("C-s")
            terminal.wait_for("saved sessions")
            terminal.choose(4)
            terminal.wait_for("Filter by title")
            terminal.press("Escape")
            terminal.wait_for("Filter by title", gone=True)
            terminal.press("C-s")
            terminal.wait_for("Filter by title")
            terminal.press("Escape", "C-q")
        assert 'other_agents = "hide"' in (handloom.home / "config.toml").read_text()
        assert not (handloom.home / "agents").exists()
