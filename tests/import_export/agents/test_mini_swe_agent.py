"""Runs of mini-swe-agent. Both samples are shortened runs with a scripted model: of versions 2.4.6 and 1.17.5."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.import_export.agents.mini_swe_agent import discover, read
from core.import_export.agents.source import Places
from core.import_export.agents.transcript import Transcript, Usage
from tests.import_export.agents.fuzzed import survives
from tests.import_export.agents.shown import shown

TEMPLATE = "Please solve this issue: {{task}}\n\nYou can run commands.\n{{system}} {{machine}}\n"
PROMPT = "Please solve this issue: Count the files, please.\n\nYou can run commands.\nLinux x86_64"


def response(id: str, prompt: int, text: str = "") -> dict[str, Any]:
    usage = {"prompt_tokens": prompt, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 7}}
    return {"id": id, "model": "gpt-4o", "choices": [{"message": {"content": text}}], "usage": usage}


MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "user", "content": PROMPT},
    {
        "content": "I look around first.",
        "role": "assistant",
        "reasoning_content": "A small folder.",
        "tool_calls": [{"function": {"arguments": '{"command": "ls"}', "name": "bash"}, "id": "call_1_0"}],
        "extra": {
            "actions": [
                {"command": "ls; echo two > b.txt", "tool_call_id": "call_1_0"},
                {"command": "cat b.txt; exit 3", "tool_call_id": "call_1_1"},
            ],
            "response": response("chatcmpl-1", 101),
            "cost": 0.00044,
            "timestamp": 1795905179.4,
        },
    },
    {
        "content": '{"returncode": 3, "output": "two\\n"}',
        "extra": {"raw_output": "two\n", "returncode": 3, "timestamp": 1795905180.5, "exception_info": ""},
        "tool_call_id": "call_1_1",
        "role": "tool",
    },
    {
        "content": '{"returncode": 0, "output": ""}',
        "extra": {"raw_output": "", "returncode": 0, "timestamp": 1795905180.4, "exception_info": ""},
        "tool_call_id": "call_1_0",
        "role": "tool",
    },
    {
        "role": "user",
        "content": "Tool call error:\n\nNo tool calls found in the response.",
        "extra": {"interrupt_type": "FormatError", "cost": 0.0004, "response": response("chatcmpl-2", 102, "Oh.")},
    },
    {
        "content": "Now I finish.",
        "role": "assistant",
        "extra": {
            "actions": [{"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "tool_call_id": "call_3_0"}],
            "response": response("chatcmpl-3", 103),
            "cost": 0.00045,
            "timestamp": 1795905181.5,
        },
    },
    {
        "content": "",
        "extra": {"raw_output": "", "returncode": -1, "exception_info": "action was not executed"},
        "tool_call_id": "call_3_0",
        "role": "tool",
    },
    {"role": "exit", "content": "done\n", "extra": {"exit_status": "Submitted", "submission": "done\n"}},
]


def run(messages: list[Any], template: str = TEMPLATE, form: str = "mini-swe-agent-1.1") -> dict[str, Any]:
    config = {
        "agent": {"instance_template": template},
        "model": {"model_name": "openai/gpt-4o"},
        "environment": {"cwd": "/testbed"},
    }
    info = {"model_stats": {"instance_cost": 0.25, "api_calls": 3}, "config": config, "mini_version": "2.4.6"}
    return {"info": info, "messages": messages, "trajectory_format": form}


@pytest.fixture
def places(tmp_path: Path) -> Places:
    project = tmp_path / "project"
    (project / "results" / "one").mkdir(parents=True)
    return Places(tmp_path, {}, "linux", (project,))


def write(places: Places, value: Any) -> Path:
    file = places.config / "mini-swe-agent" / "last_mini_run.traj.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value, indent=2))
    return file


def read_one(places: Places) -> Transcript:
    (session,) = discover(places)
    return read(session)


def test_a_list_shows_the_task_the_model_and_the_cost(places: Places) -> None:
    file = write(places, run(MESSAGES))
    (session,) = discover(places)
    assert (session.id, session.title, session.folder) == ("last_mini_run", "Count the files, please.", "/testbed")
    assert (session.model, session.cost, session.size) == ("openai/gpt-4o", 0.25, file.stat().st_size)
    assert session.started_at is not None
    assert session.started_at.isoformat().startswith("2026-11-28T22:32:59")


def test_runs_in_a_project_have_an_id_of_their_own(places: Places) -> None:
    for name in ("one/django__django-1.traj.json", "two.traj.json"):
        (places.projects[0] / "results" / name).write_text(json.dumps(run(MESSAGES)))
    (places.projects[0] / "mine.traj.json").write_text(json.dumps(run(MESSAGES)))
    (places.projects[0] / "other.traj.json").write_text("[]")
    ids = sorted(session.id for session in discover(places))
    assert [id.rpartition("-")[0] for id in ids] == ["django__django-1", "mine", "two"]


def test_the_environment_can_move_the_folder(places: Places, tmp_path: Path) -> None:
    (tmp_path / "moved").mkdir()
    (tmp_path / "moved" / "last_mini_run.traj.json").write_text(json.dumps(run(MESSAGES)))
    moved = Places(tmp_path, {"MSWEA_GLOBAL_CONFIG_DIR": str(tmp_path / "moved")})
    assert [session.id for session in discover(moved)] == ["last_mini_run"]


def test_commands_have_their_own_exit_codes_and_calls_are_counted_once(places: Places) -> None:
    write(places, run(MESSAGES))
    transcript = read_one(places)
    assert shown(transcript) == [
        ("mini-swe-agent.system",),
        ("user", "Count the files, please."),
        ("mini-swe-agent.prompt",),
        ("thinks", "A small folder."),
        ("agent", "I look around first."),
        ("runs", "ls; echo two > b.txt"),
        ("runs", "cat b.txt; exit 3"),
        ("ran", 6, "two\n", 3),
        ("ran", 5, "", 0),
        ("agent", "Oh."),
        ("error result", None, "Tool call error:\n\nNo tool calls found in the response."),
        ("agent", "Now I finish."),
        ("runs", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"),
        ("ran", 12, "action was not executed", -1),
        ("agent", "done\n"),
        ("mini-swe-agent.exit",),
    ]
    assert replace(transcript.usage, cost=None) == Usage("", 306, 60, 21)
    assert transcript.usage.cost == pytest.approx(0.00129)
    assert transcript.model == "openai/gpt-4o"
    assert transcript.forms[0]["timestamp"] == "2026-11-28T22:32:59.400000+00:00"
    assert transcript.forms[7]["imported"]["record"] == {
        "agent": "mini-swe-agent", "place": "message 3", "kind": "tool",
    }  # fmt: skip
    assert not transcript.warnings


def test_version_1_has_commands_and_exit_codes_in_the_texts(places: Places) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": PROMPT},
        {"role": "assistant", "content": "THOUGHT: look\n\n```bash\nls -a\n```"},
        {"role": "user", "content": "<returncode>2</returncode>\n<output>\na\nb\n</output>"},
        {"role": "assistant", "content": "```bash\nsleep 100\n```"},
        {"role": "user", "content": "The last command timed out."},
        {"role": "assistant", "content": "Nothing to run."},
        {"role": "user", "content": "Always give ONE command, found 0.", "timestamp": 1795905189.5},
        {"role": "user", "content": "Go on."},
    ]
    old = run([{"timestamp": 1795905179.5, **message} for message in messages], form="mini-swe-agent-1")
    old["info"]["config"]["agent"]["format_error_template"] = "Always give ONE command, found {{actions}}."
    write(places, old)
    transcript = read_one(places)
    assert shown(transcript)[3:] == [
        ("agent", "THOUGHT: look"),
        ("runs", "ls -a"),
        ("ran", 4, "a\nb", 2),
        ("runs", "sleep 100"),
        ("ran", 6, "The last command timed out.", -1),
        ("agent", "Nothing to run."),
        ("error result", None, "Always give ONE command, found 0."),
        ("user", "Go on."),
    ]
    assert transcript.forms[0]["timestamp"] == "2026-11-28T22:32:59.500000+00:00"
    assert transcript.forms[-2]["timestamp"] == "2026-11-28T22:33:09.500000+00:00"
    assert transcript.usage.cost == 0.25


def test_what_the_user_said_in_between_is_a_prompt(places: Places) -> None:
    rejected = "Commands not executed. The user rejected your commands with the following message: not there"
    added = "The user added a new task: also the tests"
    messages: list[dict[str, Any]] = [
        *MESSAGES[:3],
        {"role": "user", "content": rejected, "extra": {"interrupt_type": "UserRejection"}},
        {"role": "user", "content": "Interrupted by user: stop it", "extra": {"interrupt_type": "UserInterruption"}},
        {"role": "user", "content": added, "extra": {"interrupt_type": "UserNewTask"}},
        {"role": "user", "content": "User command: ls", "extra": {"actions": [{"command": "ls"}]}},
        {"role": "user", "content": "<output>a</output>", "extra": {"returncode": 0, "raw_output": "a"}},
        {"role": "exit", "content": "no key", "extra": {"exit_status": "AuthenticationError"}},
    ]
    write(places, run(messages))
    assert shown(read_one(places))[7:] == [
        ("user_rejected result", 5, rejected),
        ("user_rejected result", 6, rejected),
        ("user", "not there"),
        ("state", "stopped"),
        ("user", "stop it"),
        ("user", "also the tests"),
        ("user", "User command: ls"),
        ("runs", "ls"),
        ("ran", 14, "a", 0),
        ("error result", None, "AuthenticationError: no key"),
        ("mini-swe-agent.exit",),
    ]


def test_messages_of_the_newer_interface_of_openai(places: Places) -> None:
    answer = {
        "object": "response",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hello"}]}, {"type": "reasoning"}],
        "extra": {"actions": [{"command": "ls", "tool_call_id": "fc_1"}]},
    }
    result = {"type": "function_call_output", "call_id": "fc_1", "output": "a", "extra": {"returncode": 0}}
    write(places, run([*MESSAGES[:2], answer, result]))
    assert shown(read_one(places))[3:] == [("agent", "Hello"), ("runs", "ls"), ("ran", 4, "a", 0)]


def test_a_newer_format_is_read_with_a_warning(places: Places) -> None:
    write(places, run(MESSAGES, form="mini-swe-agent-9"))
    transcript = read_one(places)
    assert len(transcript.forms) == 16
    assert transcript.warnings == ["The file has the format 'mini-swe-agent-9', which is newer than this reader."]


def test_a_prompt_that_is_not_of_the_template_is_shown_whole(places: Places) -> None:
    write(places, run(MESSAGES, template="Something else: {{task}}"))
    assert shown(read_one(places))[1] == ("user", PROMPT)


def test_damaged_runs_raise_nothing_else(places: Places) -> None:
    write(places, run(MESSAGES))
    (places.projects[0] / "old.traj.json").write_text(json.dumps(run(MESSAGES[:3], form="mini-swe-agent-1")))
    survives(discover, read, places)


def test_the_time_grows_with_the_number_of_messages_only(places: Places) -> None:
    write(places, run(MESSAGES[:2] + MESSAGES[2:5] * 3000))
    (session,) = discover(places)
    started = time.process_time()
    assert len(read(session).forms) > 9000
    assert time.process_time() - started < 2


def test_servers_can_restart_call_ids_with_each_answer(places: Places) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Clean up."}]
    for command in ("ls", "rm a.txt"):
        extra = {"actions": [{"command": command, "tool_call_id": "call_0"}]}
        messages.append({"role": "assistant", "content": "", "tool_calls": [{}], "extra": extra})
        printed = {"raw_output": f"{command}!", "returncode": 0}
        messages.append({"role": "tool", "content": "", "tool_call_id": "call_0", "extra": printed})
    write(places, run(messages, template=""))
    assert shown(read_one(places))[1:] == [
        ("runs", "ls"),
        ("ran", 1, "ls!", 0),
        ("runs", "rm a.txt"),
        ("ran", 3, "rm a.txt!", 0),
    ]


def test_only_commands_that_were_run_are_commands(places: Places) -> None:
    two = "First:\n```bash\nls\n```\nThen:\n```bash\npwd\n```"
    called = {"actions": [{"command": "ls", "tool_call_id": "a"}]}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": two},
        {"role": "user", "content": "Give one command."},
        {"role": "assistant", "content": two, "tool_calls": [{}], "extra": called},
        {"role": "tool", "content": "", "tool_call_id": "a", "extra": {"raw_output": "a.txt", "returncode": 0}},
    ]
    write(places, run(messages, template="", form="mini-swe-agent-1"))
    assert shown(read_one(places)) == [
        ("user", "Look."),
        ("agent", two),
        ("user", "Give one command."),
        ("agent", "First:\n\nThen:\n```bash\npwd\n```"),
        ("runs", "ls"),
        ("ran", 4, "a.txt", 0),
    ]


def test_a_command_of_the_user_is_the_users(places: Places) -> None:
    typed = {"role": "user", "content": "User command: ls", "extra": {"actions": [{"command": "ls"}]}}
    done = {"role": "user", "content": "", "extra": {"returncode": 0, "raw_output": "a.txt"}}
    write(places, run([{"role": "user", "content": "Look."}, typed, done], template=""))
    transcript = read_one(places)
    assert shown(transcript)[1:] == [("user", "User command: ls"), ("runs", "ls"), ("ran", 2, "a.txt", 0)]
    assert transcript.forms[2]["source"] == "user"
