"""The command line: exit statuses, pure output, and one clear message for everything that goes wrong."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from core.sqlite import sqlite3
from tests.doubles import FINISH, bash, call, write_script
from tests.journeys.conftest import PROGRAM, Person, with_environ

COUNT = [{"text": "I count.", "tool_calls": [bash("ls | wc -l")]}, {"expect": r"\d", **FINISH}]


# -- what works ----------------------------------------------------------------------------------------------------


def test_a_task_runs_to_its_end_and_its_events_are_those_of_the_export(person: Person, tmp_path: Path) -> None:
    done = person.does("run", "count the files", "--model", write_script(tmp_path, COUNT), "--json")
    assert done.returncode == 0
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["id"] for event in printed] == list(range(len(printed)))
    (conversation,) = person.conversations()
    assert printed == person.exported(conversation["conversation_id"])
    assert conversation["title"] == "count the files"
    assert conversation["conversation_id"] in done.stderr
    assert {event["conversation_id"] for event in printed} == {conversation["conversation_id"]}
    (output,) = [e for e in printed if e.get("observation") == "run"]
    assert (output["content"], output["success"]) == ("0", True)


def test_without_json_a_person_can_follow(person: Person, tmp_path: Path) -> None:
    done = person.does("run", "count", "--model", write_script(tmp_path, COUNT))
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["I count.", "> Running command: ls | wc -l", "0", "All is done."]
    assert "No isolation" in done.stderr


def test_the_task_may_come_from_standard_input(person: Person, tmp_path: Path) -> None:
    done = person.does("run", "-", "--model", write_script(tmp_path, [FINISH]), "--json", input="first\nsecond\n")
    assert done.returncode == 0
    message = next(e for e in map(json.loads, done.stdout.splitlines()) if e.get("action") == "message")
    assert message["args"]["content"] == "first\nsecond\n"


def test_a_conversation_is_gone_on_with(person: Person, tmp_path: Path) -> None:
    model = write_script(tmp_path, [FINISH, {"tool_calls": [bash("echo more")]}, FINISH])
    first = person.does("run", "begin", "--model", model, "--json")
    (conversation,) = person.conversations()
    second = person.does("run", "go on", "--resume", conversation["conversation_id"], "--json")
    assert (first.returncode, second.returncode) == (0, 0)
    printed = [json.loads(line) for line in (first.stdout + second.stdout).splitlines()]
    assert printed == person.exported(conversation["conversation_id"])
    assert [e["content"] for e in printed if e.get("observation") == "run"] == ["more"]


def test_an_export_goes_into_a_file_that_is_the_owners_alone(person: Person, tmp_path: Path) -> None:
    person.does("run", "x", "--model", write_script(tmp_path, [FINISH]))
    (conversation,) = person.conversations()
    file = tmp_path / "out.json"
    assert person.does("export", conversation["conversation_id"], "-o", str(file)).returncode == 0
    assert json.loads(file.read_text()) == person.exported(conversation["conversation_id"])
    assert file.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob("*.part"))


def test_the_demo_runs_without_key_or_network(person: Person) -> None:
    done = person.does("run", "show me", "--model", "demo", "--json")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [e for e in events if e.get("action") == "finish"]


def test_the_version_is_told(person: Person) -> None:
    done = person.does("--version")
    assert (done.returncode, bool(re.fullmatch(r"handloom \d+\.\d+\.\d+\n", done.stdout))) == (0, True)


# -- limits, interrupts, failures ----------------------------------------------------------------------------------


def test_a_reached_iteration_limit_is_status_4_and_says_how_to_go_on(person: Person, tmp_path: Path) -> None:
    model = write_script(tmp_path, COUNT)
    done = person.does("run", "count", "--model", model, "--max-iterations", "1")
    assert done.returncode == 4
    assert "Current iteration: 1, max iteration: 1" in done.stderr
    assert "--resume" in done.stderr
    (conversation,) = person.conversations()
    again = person.does("run", "go on", "--resume", conversation["conversation_id"], "--max-iterations", "5")
    assert again.returncode == 0, again.stderr


def test_a_reached_budget_is_status_4(person: Person, tmp_path: Path) -> None:
    turns = [{"tool_calls": [bash("true")], "usage": {"cost": 0.5}}, FINISH]
    done = person.does("run", "x", "--model", write_script(tmp_path, turns), "--max-budget", "0.4")
    assert done.returncode == 4
    assert "maximum budget" in done.stderr


def test_ctrl_c_is_status_130_and_everything_is_kept(person: Person, tmp_path: Path) -> None:
    turns = [{"tool_calls": [bash("echo begun; sleep 600")]}, FINISH]
    running = person.popen("run", "x", "--model", write_script(tmp_path, turns), "--json")
    assert running.stdout is not None
    printed = []
    for line in running.stdout:
        printed.append(json.loads(line))
        if printed[-1].get("action") == "run":
            break
    running.send_signal(signal.SIGINT)
    rest, _ = running.communicate(timeout=20)
    assert running.returncode == 130
    printed += [json.loads(line) for line in rest.splitlines()]
    assert printed == person.exported(printed[0]["conversation_id"])
    (output,) = [e for e in printed if e.get("observation") == "run"]
    assert output["cause"] == next(e["id"] for e in printed if e.get("action") == "run")


def test_a_model_that_fails_is_status_1(person: Person, tmp_path: Path) -> None:
    done = person.does("run", "x", "--model", write_script(tmp_path, [{"text": "x", "fault": "server_error"}]))
    assert done.returncode == 1
    assert done.stderr.strip()


def test_a_script_that_expected_something_else_is_status_1_and_shows_both(person: Person, tmp_path: Path) -> None:
    turns = [{"tool_calls": [bash("echo what-is")]}, {"expect": "what-should-be", **FINISH}]
    done = person.does("run", "x", "--model", write_script(tmp_path, turns))
    assert done.returncode == 1
    assert "what-should-be" in done.stderr
    assert "what-is" in done.stderr


def test_nonsense_of_the_model_is_told_to_it_and_the_work_goes_on(person: Person, tmp_path: Path) -> None:
    turns: list[dict[str, Any]] = [
        {"tool_calls": [call("fly", to="moon")]},
        {"tool_calls": [bash("x")], "fault": "malformed_arguments"},
        FINISH,
    ]
    done = person.does("run", "x", "--model", write_script(tmp_path, turns), "--json")
    assert done.returncode == 0
    assert done.stdout.count('"observation":"error"') == 2


def test_without_anybody_to_ask_nothing_is_carried_out(person: Person, tmp_path: Path) -> None:
    turns = [{"tool_calls": [bash("touch made")]}, FINISH]
    done = person.does("run", "x", "--model", write_script(tmp_path, turns), "--confirm", "always", "--json")
    assert done.returncode == 0
    assert not (person.workspace / "made").exists()
    assert '"observation":"user_rejected"' in done.stdout


def test_a_reader_that_goes_away_ends_the_run_quietly(person: Person, tmp_path: Path) -> None:
    model = write_script(tmp_path, [{"tool_calls": [bash("true")]}] * 30 + [FINISH])
    running = person.popen("run", "x", "--model", model, "--json")
    assert running.stdout is not None
    running.stdout.readline()
    running.stdout.close()
    assert running.stderr is not None
    told = running.stderr.read()
    running.stderr.close()
    assert running.wait(20) == 1
    assert "Traceback" not in told


# -- bad input: status 2, one message, nothing made ------------------------------------------------------------------

TASK = ("run", "x", "--model", "demo")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("run", "x", "--frobnicate"), "frobnicate"),
        (("frobnicate",), "invalid choice"),
        (("run",), "TASK"),
        (("run", "x", "--confirm", "sometimes"), "sometimes"),
        (("run", "x", "--max-iterations", "many"), "many"),
        (("run", "x", "--model", "demo", "--max-iterations", "0"), "max_iterations"),
        (("run", "x"), "No model is configured"),
        (("run", "  ", "--model", "demo"), "task is empty"),
        (("run", "x", "--model", "scripted:/no/such/file.yaml"), "/no/such/file.yaml"),
        (("run", "x", "--model", "nonsense"), "PROVIDER/NAME"),
        (("run", "x", "--model", "anthropic/claude-x"), "ANTHROPIC_API_KEY"),
        (("run", "x", "--model", "openai/gpt", "--workspace", "/no/such/folder"), "/no/such/folder"),
        (("run", "x", "--resume", "nothing"), "no conversation nothing"),
        (("export", "nothing"), "no conversation nothing"),
        ((), "needs a terminal"),
    ],
)
def test_what_the_caller_did_wrong_is_status_2_and_one_message(
    person: Person, arguments: tuple[str, ...], told: str
) -> None:
    done = person.does(*arguments)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert person.conversations() == []


def test_a_script_with_a_mistake_names_the_place(person: Person, tmp_path: Path) -> None:
    script = tmp_path / "bad.yaml"
    script.write_text("version: 1\nturns:\n  - text: hi\n    tool_call: []\n")
    done = person.does("run", "x", "--model", f"scripted:{script}")
    assert done.returncode == 2
    assert "bad.yaml" in done.stderr
    assert "tool_call" in done.stderr


def test_a_wrong_configuration_file_is_named(person: Person) -> None:
    (person.home / "config.toml").write_text("[agent]\nmax_iterations = 'many'\n")
    done = person.does(*TASK)
    assert done.returncode == 2
    assert "config.toml" in done.stderr
    assert "agent.max_iterations" in done.stderr


def test_a_home_that_cannot_be_used_is_status_2(person: Person, tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    done = with_environ(person, {"HANDLOOM_HOME": str(blocker)}).does(*TASK)
    assert done.returncode == 2
    assert "HANDLOOM_HOME" in done.stderr


def test_a_database_of_a_newer_version_is_status_2(person: Person) -> None:
    person.does("list")
    with sqlite3.connect(person.home / "handloom.db") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    done = person.does(*TASK)
    assert done.returncode == 2
    assert "newer Handloom" in done.stderr


def test_a_conversation_that_another_process_has_is_refused(person: Person, tmp_path: Path) -> None:
    model = write_script(tmp_path, [{"tool_calls": [bash("echo begun; sleep 600")]}, FINISH])
    running = person.popen("run", "x", "--model", model, "--json")
    assert running.stdout is not None
    id = json.loads(running.stdout.readline())["conversation_id"]
    done = person.does("run", "me too", "--resume", id)
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=20)
    assert done.returncode == 2
    assert f"(process {running.pid})" in done.stderr


@pytest.mark.mount
def test_a_full_disk_is_told_and_what_was_acknowledged_is_kept(person: Person, tmp_path: Path) -> None:
    disk, copy = tmp_path / "disk", tmp_path / "copy"
    disk.mkdir()
    big = [{"text": "x" * 60_000, "tool_calls": [bash("true")]}] * 40
    crowded = with_environ(person, {"HANDLOOM_HOME": str(disk / "home")})
    script = (
        'mount -t tmpfs -o size=1m none "$1" && copy=$2 && shift 2 && "$@"; status=$?; '
        'cp -r "$HANDLOOM_HOME" "$copy"; exit $status'
    )
    program = [*PROGRAM, "run", "x", "--model", write_script(tmp_path, [*big, FINISH]), "--json"]
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", str(disk), str(copy), *program],
        cwd=person.workspace,
        env=crowded.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "disk is full" in done.stderr
    assert "Traceback" not in done.stderr
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    kept = with_environ(person, {"HANDLOOM_HOME": str(copy)}).exported(printed[0]["conversation_id"])
    assert kept[: len(printed)] == printed
