"""`handloom run`, `list` and `export` as scripts use them: what they print, and how they end."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from core.security.confirmation import ConfirmMode
from core.store import conversations
from tests.doubles import FINISH, bash, write_script
from tests.program import HANDLOOM, Ended, Handloom, events_in_archive
from tui.cli import command_line
from tui.cli.command_line import parse

WORK = [
    {"text": "I look.", "tool_calls": [bash("echo first; seq 1 50"), bash("echo second")]},
    {"expect": "second", "text": "Once more.", "tool_calls": [bash("printf 'a\\tb\\xff\\n'; false")]},
    {"expect": "exit code 1", **FINISH},
]
SLOW = [{"text": "I wait.", "tool_calls": [bash("echo begun; sleep 600")]}, FINISH]


@pytest.fixture
def handloom(tmp_path: Path) -> Handloom:
    return Handloom(tmp_path)


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Handloom, Ended]:
    """A task that was done, by a run that several tests look at."""
    folder = tmp_path_factory.mktemp("worked")
    handloom = Handloom(folder)
    return handloom, handloom("run", "look around", "--model", write_script(folder, WORK), "--json", "--title", "Tour")


def states(events: list[dict[str, Any]]) -> list[str]:
    """The states that the agent went through."""
    return [e["extras"]["agent_state"] for e in events if e.get("observation") == "agent_state_changed"]


class TestRun:
    def test_finished_task_exits_with_0_and_prints_only_events(self, worked: tuple[Handloom, Ended]) -> None:
        _, done = worked
        assert done.status == 0, done.err
        assert [event["id"] for event in done.events] == list(range(len(done.events)))
        assert {event["conversation_id"] for event in done.events} == {done.conversation}
        assert done.events[-1]["extras"]["agent_state"] == "finished"
        outputs = [event["content"] for event in done.events if event.get("observation") == "run"]
        assert outputs[1] == "second"
        assert done.out.endswith("\n")
        assert "\x1b" not in done.out + done.err

    def test_user_is_warned_without_a_sandbox(self, tmp_path: Path) -> None:
        handloom = Handloom(tmp_path)
        handloom.environ = {**handloom.environ, "HOME": str(handloom.workspace)}  # which no sandbox can hide, then
        done = handloom("run", "look around", "--model", write_script(tmp_path, [FINISH]))
        assert done.status == 0
        assert "No sandbox" in done.err

    def test_export_equals_the_printed_events(self, worked: tuple[Handloom, Ended]) -> None:
        handloom, done = worked
        assert json.dumps(handloom.export(done.conversation)) == json.dumps(done.events)

    def test_standard_output_has_the_final_answer_alone(self, handloom: Handloom, tmp_path: Path) -> None:
        model = write_script(tmp_path, WORK)
        done = handloom("run", "look around", "--model", model)
        assert (done.status, done.out) == (0, "All is done.\n")
        assert "I look." in done.err
        assert "> Running command: echo second" in done.err
        assert "\nsecond\n" not in done.err
        assert "\x1b" not in done.out + done.err
        assert "\nsecond\n" in handloom("run", "look around", "--model", model, "--verbose").err
        quiet = handloom("run", "look around", "--model", model, "--quiet")
        assert quiet.out == "All is done.\n"
        assert "> Running command" not in quiet.err
        assert "sandbox is ready" in done.err
        assert "sandbox is ready" not in quiet.err

    def test_problem_that_ends_a_run_is_printed_once(self, handloom: Handloom, tmp_path: Path) -> None:
        first = handloom("run", "look around", "--model", write_script(tmp_path, WORK))
        again = handloom("run", "go on", "--resume", first.conversation, "--quiet")
        assert again.status == 1
        assert again.err.count("have been played") == 1

    def test_last_conversation_is_continued(self, handloom: Handloom, tmp_path: Path) -> None:
        assert "no conversation yet" in handloom("run", "x", "--last", "--model", "demo").err
        first = handloom("run", "look around", "--model", write_script(tmp_path, WORK))
        again = handloom("run", "go on", "--last", "--model", write_script(tmp_path, [{"text": "More."}, FINISH]))
        assert again.conversation == first.conversation, again.err
        assert handloom("show", "last", "--json").status == 0

    def test_task_can_come_from_standard_input(self, handloom: Handloom, tmp_path: Path) -> None:
        done = handloom("run", "-", "--model", write_script(tmp_path, [FINISH]), "--json", stdin="from\na pipe\n")
        assert done.status == 0
        assert [event["args"]["content"] for event in done.events if event.get("action") == "message"] == [
            "from\na pipe\n"
        ]

    def test_conversation_is_resumed(self, worked: tuple[Handloom, Ended], tmp_path: Path) -> None:
        handloom, done = worked
        more = write_script(tmp_path, [*WORK, {"expect": "^$|.", "text": "More.", "tool_calls": [bash("pwd")]}, FINISH])
        again = handloom("run", "and more", "--resume", done.conversation, "--model", more, "--json")
        assert again.status == 0, again.err
        assert again.events[0]["id"] == len(done.events)
        assert handloom.export(done.conversation) == done.events + again.events

    def test_closed_output_pipe_ends_the_run_and_keeps_the_conversation(
        self, handloom: Handloom, tmp_path: Path
    ) -> None:
        model = write_script(tmp_path, [{"text": "I count.", "tool_calls": [bash(f"echo {n}")]} for n in range(30)])
        process = handloom.start("run", "count", "--model", model, "--json")
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read().decode()
        process.stderr.close()
        assert process.wait(20) == 1
        assert "Traceback" not in err
        events = handloom.export(Ended(1, "", err).conversation)
        assert states(events)[-1] == "stopped"
        assert not [event for event in events if event.get("extras", {}).get("error_id") == "SUBSCRIBER$FAILED"]

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
    def test_unwritable_answer_is_reported_and_kept(self, handloom: Handloom, tmp_path: Path) -> None:
        with open("/dev/full", "wb") as full:
            process = handloom.start("run", "look", "--model", write_script(tmp_path, WORK), stdout=full)
            _, err = process.communicate(timeout=20)
        assert process.returncode == 1
        assert b"The answer cannot be written: No space left on device. It is kept: handloom export " in err
        assert b"Traceback" not in err

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
    def test_unwritable_output_is_reported_and_stops_the_run(self, handloom: Handloom, tmp_path: Path) -> None:
        model = write_script(tmp_path, WORK)
        with open("/dev/full", "wb") as full:
            process = handloom.start("run", "look", "--model", model, "--json", stdout=full)
            _, err = process.communicate(timeout=20)
        assert process.returncode == 1
        assert b"The output cannot be written: No space left on device." in err
        assert b"handloom run --resume" in err
        assert b"Traceback" not in err


class TestEnds:
    def test_ctrl_c_exits_with_130_and_leaves_nothing_open(self, handloom: Handloom, tmp_path: Path) -> None:
        process = handloom.start("run", "wait", "--model", write_script(tmp_path, SLOW), "--json")
        assert process.stdout is not None
        assert process.stderr is not None
        lines = []
        while b'"action":"run"' not in (line := process.stdout.readline()):
            assert line, process.stderr.read()
            lines.append(line)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert process.returncode == 130, err
        done = Ended(130, b"".join([*lines, line, out]).decode(), err.decode())
        (action,) = [event for event in done.events if event.get("action") == "run"]
        assert len([e for e in done.events if e.get("cause") == action["id"] and "observation" in e]) == 1
        assert states(done.events)[-1] == "stopped"
        assert handloom.export(done.conversation) == done.events

    def test_iteration_limit_exits_with_4_and_says_how_to_continue(self, handloom: Handloom, tmp_path: Path) -> None:
        model = write_script(tmp_path, WORK)
        done = handloom("run", "x", "--model", model, "--max-iterations", "1", "--json")
        assert done.status == 4
        assert f"handloom run --resume {done.conversation} 'go on' --max-iterations N" in done.err
        again = handloom("run", "go on", "--resume", done.conversation, "--max-iterations", "10", "--json")
        assert (again.status, again.events[-1]["extras"]["agent_state"]) == (0, "finished"), again.err

    def test_cost_limit_exits_with_4(self, handloom: Handloom, tmp_path: Path) -> None:
        dear = [{**turn, "usage": {"prompt_tokens": 1000, "cost": 0.3}} for turn in WORK]
        done = handloom("run", "x", "--model", write_script(tmp_path, dear), "--max-budget", "0.5")
        assert done.status == 4
        assert "Current budget: 0.30, max budget: 0.50; the next call is expected to take $0.30" in done.err

    def test_failing_model_exits_with_1(self, handloom: Handloom, tmp_path: Path) -> None:
        done = handloom("run", "x", "--model", write_script(tmp_path, [{"text": "x", "fault": "server_error"}]))
        assert done.status == 1
        assert "The provider failed, on every attempt." in done.err

    def test_invalid_model_answer_is_returned_to_the_model(self, handloom: Handloom, tmp_path: Path) -> None:
        nonsense: list[dict[str, Any]] = [
            {"tool_calls": [bash("echo x")], "fault": "malformed_arguments"},
            {"tool_calls": [bash("echo x")], "fault": "unknown_tool"},
            {"tool_calls": [{"name": "execute_bash", "arguments": {"command": ["no", "text"]}}]},
            {"tool_calls": [{"name": "execute_bash", "arguments": {}}]},
        ]
        done = handloom("run", "x", "--model", write_script(tmp_path, [*nonsense[:3], FINISH]), "--json")
        assert done.status == 0, done.err
        assert len([event for event in done.events if event.get("observation") == "error"]) == 3
        assert not [event for event in done.events if event.get("action") == "run"]
        done = handloom("run", "x", "--model", write_script(tmp_path, [*nonsense, FINISH]), "--json")
        assert done.status == 3, "after three repairs the user is asked"

    def test_missing_model_answer_exits_with_1(self, handloom: Handloom, tmp_path: Path) -> None:
        done = handloom("run", "x", "--model", write_script(tmp_path, [{"text": "x", "fault": "empty"}]))
        assert done.status in (0, 1)
        assert "Traceback" not in done.err


class TestWrongUse:
    """Exit status 2, one line that says what to do next, nothing on standard output, and no traceback."""

    def refused(self, done: Ended, *said: str) -> None:
        assert done.status == 2, (done.status, done.err)
        assert done.out == ""
        assert "Traceback" not in done.err
        for text in said:
            assert text in done.err

    def test_unknown_option_is_refused(self, handloom: Handloom) -> None:
        self.refused(handloom("run", "x", "--colour"), "--colour")
        self.refused(handloom("paint"), "paint")
        self.refused(handloom("run"), "TASK")

    @pytest.mark.parametrize("number", ["0", "-3", "many"])
    def test_invalid_limit_is_refused(self, number: str, handloom: Handloom) -> None:
        self.refused(handloom("run", "x", "--model", "demo", "--max-iterations", number), "max")

    def test_empty_task_is_refused(self, handloom: Handloom) -> None:
        self.refused(handloom("run", "-", "--model", "demo", stdin="  \n"), "task is empty")

    def test_missing_model_is_refused(self, handloom: Handloom) -> None:
        self.refused(handloom("run", "x"), "No model is configured", "--model")

    @pytest.mark.parametrize(
        ("model", "said"),
        [
            ("gpt", "is not a model name"),
            ("nobody/gpt", "Known providers"),
            ("openai/gpt-x", "OPENAI_API_KEY is not set"),
            ("scripted:", "needs the name of a script"),
            ("scripted:/nowhere.yaml", "cannot be read"),
        ],
    )
    def test_unusable_model_is_refused(self, model: str, said: str, handloom: Handloom) -> None:
        self.refused(handloom("run", "x", "--model", model), said)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("version: 2\nturns: [{text: x}]", "version"),
            ("version: 1\nturns: []", "turns"),
            ("version: 1\nturns:\n  - text: [", "line"),
            ("version: 1\nturns: [{text: x}, {txet: y}]", "turn 2, txet"),
            ("version: 1\nturns: [{expect: '(', text: x}]", "not a regular expression"),
            ("\x00\x01", "not YAML"),
        ],
    )
    def test_invalid_script_is_refused(self, text: str, said: str, handloom: Handloom, tmp_path: Path) -> None:
        script = tmp_path / "bad.yaml"
        script.write_text(text)
        self.refused(handloom("run", "x", "--model", f"scripted:{script}"), "bad.yaml", said, "Correct it")

    def test_missing_workspace_is_refused(self, handloom: Handloom, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        model = write_script(tmp_path, [FINISH])
        for place in ("nowhere", "file"):
            done = handloom("run", "x", "--model", model, "--workspace", str(tmp_path / place))
            self.refused(done, place, "--workspace")

    def test_unknown_conversation_is_refused(self, handloom: Handloom) -> None:
        self.refused(handloom("run", "x", "--resume", "nope"), "no conversation nope", "handloom list")
        self.refused(handloom("export", "nope"), "no conversation nope", "handloom list")

    def test_invalid_setting_is_refused(self, handloom: Handloom) -> None:
        handloom.home.mkdir()
        (handloom.home / "config.toml").write_text("[agent]\nmax_iteration = 3\n")
        self.refused(handloom("run", "x", "--model", "demo"), "agent.max_iteration", "config.toml")
        (handloom.home / "config.toml").write_text("[agent\n")
        self.refused(handloom("run", "x", "--model", "demo"), "config.toml", "Correct it")

    def test_workspace_needs_a_terminal(self, handloom: Handloom) -> None:
        self.refused(handloom(), "needs a terminal", "handloom run")

    def test_unwritable_export_file_is_refused(self, worked: tuple[Handloom, Ended], tmp_path: Path) -> None:
        handloom, done = worked
        self.refused(handloom("export", done.conversation, "-o", str(tmp_path / "no" / "x")), "cannot be written")
        assert list(tmp_path.iterdir()) == []


class TestListAndExport:
    def test_list_has_one_line_for_each_conversation(self, worked: tuple[Handloom, Ended]) -> None:
        handloom, done = worked
        (line,) = [line for line in handloom("list").out.splitlines() if done.conversation in line]
        assert re.search(r"\d+ events +\$\d\.\d\d +[\d.]+ kB ✓ Tour  \(", line)

    def test_json_list_has_one_object_on_each_line(self, worked: tuple[Handloom, Ended]) -> None:
        handloom, done = worked
        listed = handloom("list", "--json")
        (info,) = [json.loads(line) for line in listed.out.splitlines()]
        assert info["conversation_id"] == done.conversation
        assert info["workspace"] == str(handloom.workspace)
        assert info["title"] == "Tour"
        assert info["event_count"] >= len(done.events)

    def test_empty_home_lists_nothing(self, handloom: Handloom) -> None:
        listed = handloom("list", "--json")
        assert (listed.status, listed.out) == (0, "")

    def test_export_file_is_complete_and_private(self, worked: tuple[Handloom, Ended], tmp_path: Path) -> None:
        handloom, done = worked
        file = tmp_path / "session.zip"
        ended = handloom("export", done.conversation, "--format", "archive", "-o", str(file))
        assert (ended.status, ended.out) == (0, "")
        assert events_in_archive(file)[: len(done.events)] == done.events
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert os.listdir(tmp_path) == ["session.zip"]

    def test_export_to_a_closed_pipe_prints_no_error(self, worked: tuple[Handloom, Ended]) -> None:
        handloom, done = worked
        process = handloom.start("export", done.conversation)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read().decode()
        assert all("your home folder" in line for line in said.splitlines()), said
        process.stderr.close()
        assert process.wait(20) in (0, 1)

    def test_version_is_printed(self, handloom: Handloom) -> None:
        assert re.fullmatch(r"handloom \d+\.\d+\.\d+\n", handloom("--version").out)


@pytest.mark.parametrize(
    ("arguments", "task", "rest"),
    [
        (["fix the parser"], "fix the parser", {"command": None, "resume": None}),
        (["--model", "a name", "fix it\nnow"], "fix it\nnow", {"model": "a name"}),
        (["fix the parser", "--model", "demo"], "fix the parser", {"model": "demo"}),
        (["--resume", "fix the parser"], "fix the parser", {"resume": ""}),
        (["--resume", "abc", "fix the parser"], "fix the parser", {"resume": "abc"}),
        (["run", "fix the parser"], "fix the parser", {"command": "run"}),
        (["--resume", "abc"], "", {"resume": "abc"}),
        (["rename", "abc", "a new title"], "", {"command": "rename"}),
    ],
)
def test_sentence_is_a_task_for_the_workspace(arguments: list[str], task: str, rest: dict[str, object]) -> None:
    parsed = vars(parse(arguments))
    assert parsed.get("task", "") == task
    assert {name: parsed[name] for name in rest} == rest


@pytest.mark.parametrize("arguments", [["fixit"], ["fix it", "list"], ["fix it", "and that too"]])
def test_what_is_neither_a_command_nor_a_sentence_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code == 2


def test_bash_completes_commands_options_and_ids(tmp_path: Path) -> None:
    handloom = Handloom(tmp_path)
    script = tmp_path / "completion.bash"
    script.write_text(handloom("completion", "bash").out)
    model = write_script(tmp_path, [{"text": "Done."}])
    id = handloom("run", "Say that it is done.", "--model", model).conversation
    complete = f"""
        handloom() {{ {shlex.join(HANDLOOM)} "$@"; }}
        source {script}
        function=$(complete -p handloom | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        COMP_WORDS=(handloom "$@"); COMP_CWORD=$#; $function handloom "${{COMP_WORDS[-1]}}" "${{COMP_WORDS[-2]}}"
        echo "${{COMPREPLY[@]}}"
    """
    expected = {("exp",): "export", ("run", "--la"): "--last", ("completion", "f"): "fish"}
    for words, found in (*expected.items(), (("show", id[:4]), id), (("run", "--resume", ""), id)):
        command = ["bash", "-c", complete, "bash", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=handloom.environ)
        assert done.stdout.split() == [found], done.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_completions_of_every_command(shell: str, tmp_path: Path) -> None:
    done = Handloom(tmp_path)("completion", shell)
    assert done.status == 0, done.err
    assert all(command in done.out for command in ("export", "completion", "--max-budget"))


def test_last_means_the_same_on_the_command_line_and_in_the_store() -> None:
    assert command_line.LAST == conversations.LAST


def test_modes_of_the_command_line_are_those_of_the_engine() -> None:
    assert set(command_line.MODES) == set(ConfirmMode)
