"""`handloom run` with `/compact` and with instructions for a whole conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.settings.config import AgentSettings
from tests.doubles import FINISH, bash, write_script
from tests.program import Handloom
from tui.cli.command_line import MAX_INSTRUCTIONS_CHARS


def short_memory(tmp_path: Path, *summary: dict[str, Any]) -> Handloom:
    model = write_script(tmp_path, summary or [{"text": "They echoed numbers."}], "summary.yaml")
    return Handloom(tmp_path, HANDLOOM__LLM__SUMMARY_MODEL=model)


def worked(handloom: Handloom, tmp_path: Path) -> str:
    turns = [*({"tool_calls": [bash(f"echo {n}")]} for n in range(8)), FINISH]
    done = handloom("run", "echo numbers", "--model", write_script(tmp_path, turns))
    assert done.status == 0, done.err
    return done.conversation


def test_compact_condenses_and_does_not_wake_the_agent(tmp_path: Path) -> None:
    handloom = short_memory(tmp_path)
    id = worked(handloom, tmp_path)
    before = len(handloom.export(id))
    done = handloom("run", "/compact the third number", "--resume", id, "--json")
    assert done.status == 0, done.err
    assert "Compacted: from the next message on, a summary replaces" in done.err
    added = handloom.export(id)[before:]
    (asked,) = [e for e in added if e.get("action") == "condensation_request"]
    assert asked["args"]["keep"] == "the third number"
    (action,) = [e for e in added if e.get("action") == "condensation"]
    assert action["args"]["summary"] == "They echoed numbers."
    assert not [e for e in added if e.get("action") in ("message", "run", "finish")]


def test_failed_summary_is_an_error_and_a_short_history_is_not(tmp_path: Path) -> None:
    handloom = short_memory(tmp_path, {"text": "", "fault": "server_error"})
    failed = handloom("run", "/compact", "--resume", worked(handloom, tmp_path))
    assert failed.status == 1
    assert "No summary: " in failed.err
    short = handloom("run", "hello", "--model", write_script(tmp_path, [FINISH]))
    done = handloom("run", "/compact", "--resume", short.conversation)
    assert (done.status, "Nothing to compact yet" in done.err) == (0, True), done.err


def test_compact_without_a_conversation_explains_how_to_name_one(tmp_path: Path) -> None:
    handloom = Handloom(tmp_path)
    done = handloom("run", "/compact", "--model", write_script(tmp_path, [FINISH]))
    assert done.status == 2
    assert "handloom run --resume ID /compact" in done.err
    assert handloom.conversations() == []
    path = handloom("run", "/compactor/read.me is what?", "--model", write_script(tmp_path, [FINISH]))
    assert path.status == 0, path.err


def test_instructions_apply_to_a_new_conversation_and_are_limited(tmp_path: Path) -> None:
    handloom = Handloom(tmp_path)
    done = handloom("run", "hello", "--instructions", "Answer in French.", "--model", write_script(tmp_path, [FINISH]))
    assert done.status == 0, done.err
    (context,) = [e for e in handloom.export(done.conversation) if e.get("observation") == "recall"]
    assert context["extras"]["conversation_instructions"] == "Answer in French."
    again = handloom("run", "hello", "--resume", done.conversation, "--instructions", "x")
    assert (again.status, "--resume and --instructions cannot be combined" in again.err) == (2, True)
    long = handloom("run", "hello", "--instructions", "x" * 17_000, "--model", write_script(tmp_path, [FINISH]))
    assert (long.status, "--instructions can have at most 16,000" in long.err) == (2, True)
    for arguments in (["--instructions", "x" * 17_000], ["acp", "--instructions", "x" * 17_000]):
        refused = handloom(*arguments)
        assert (refused.status, "--instructions can have at most 16,000" in refused.err) == (2, True)
    refused = handloom("--resume", done.conversation, "--instructions", "x")
    assert (refused.status, "--resume and --instructions cannot be combined" in refused.err) == (2, True)


def test_limit_of_instructions_matches_the_setting() -> None:
    (bound,) = AgentSettings.model_fields["instructions"].metadata
    assert bound.max_length == MAX_INSTRUCTIONS_CHARS
