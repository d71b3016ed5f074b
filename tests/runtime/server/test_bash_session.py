"""BashSession against a real bash: what the model reads, what the user sees, and what survives."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time
from pathlib import Path

import pytest

from core.events import CmdOutputMetadata, CmdOutputObservation, CmdRunAction, Frame, TerminalOutput
from core.events.observations import TRUNCATION_NOTICE
from runtime.protocol import NO_ACTION_ID
from runtime.server.bash_session import DEFAULT_TIMEOUT_S, BashSession
from runtime.server.bash_session import NO_CHANGE_TIMEOUT_S as NO_CHANGE_S
from runtime.server.shell import Environment
from runtime.server.terminal import Terminal
from tests.runtime.conftest import NO_CHANGE_TIMEOUT_S, Shell, settled
from tests.stopped_clock import stopped_clock

HELP = (
    "You may wait longer to see additional output by sending empty command '', "
    "send other commands to interact with the current process, "
    'send keys ("C-c", "C-z", "C-d") to interrupt/kill the previous command before sending your new command, '
    "or use the timeout parameter in execute_bash for future commands."
)
SILENT = f"\n[The command has no new output after {NO_CHANGE_TIMEOUT_S} seconds. {HELP}]"
COMPLETED = "\n[The command completed with exit code 0.]"
CONTINUED = "[Below is the output of the previous command.]\n"


class TestOneCommand:
    async def test_answers_output_exit_code_and_folder(self, shell: Shell, tmp_path: Path) -> None:
        observation = await shell.run("echo hi")
        metadata = observation.metadata
        assert observation == CmdOutputObservation(
            command="echo hi",
            content="hi",
            metadata=CmdOutputMetadata(
                exit_code=0,
                username=metadata.username,
                hostname=metadata.hostname,
                working_dir=str(tmp_path),
                py_interpreter_path=metadata.py_interpreter_path,
                suffix=COMPLETED,
            ),
        )
        assert metadata.username
        assert metadata.hostname

    async def test_shows_the_command_dim_and_the_output_as_it_is(self, shell: Shell) -> None:
        await shell.run("printf '\\033[31mred\\033[0m\\n'", action_id=12)
        assert {frame.cause for frame in shell.watcher.frames if isinstance(frame, TerminalOutput)} == {12}
        assert shell.watcher.shown == (
            b"\x1b[2m$ printf '\\033[31mred\\033[0m\\n'\x1b[0m\r\n" + b"\x1b[31mred\x1b[0m\r\n"
        )

    async def test_leaves_escape_sequences_out_of_what_the_model_reads(self, shell: Shell) -> None:
        assert (await shell.run("printf '\\033[31mred\\033[0m\\n'")).content == "red"

    async def test_reports_the_exit_code_of_a_failure(self, shell: Shell) -> None:
        observation = await shell.run("false")
        assert observation.metadata.exit_code == 1
        assert observation.metadata.suffix == "\n[The command completed with exit code 1.]"

    async def test_escape_sequence_in_a_command_is_not_drawn(self, shell: Shell) -> None:
        await shell.run("true '\x1b[2J'")
        assert b"\x1b[2J" not in shell.watcher.shown

    async def test_replaces_invalid_utf8(self, shell: Shell) -> None:
        observation = await shell.run("printf '\\377\\376ok\\n'")
        assert observation.content == "��ok"
        assert b"\xff\xfeok" in shell.watcher.shown

    async def test_survives_random_bytes(self, shell: Shell) -> None:
        await shell.run("head -c 300000 /dev/urandom; stty sane")
        assert (await shell.run("echo still here")).content == "still here"

    async def test_truncates_a_long_command_and_blanks_unprintable_characters(self, shell: Shell) -> None:
        await shell.run("true\n: \t" + "x" * 5000)
        assert shell.watcher.shown == b"\x1b[2m$ true\r\n:  " + b"x" * 3990 + b"\x1b[0m\r\n"

    async def test_default_timeout_is_120_seconds_or_the_sessions(self, tmp_path: Path) -> None:
        assert (DEFAULT_TIMEOUT_S, NO_CHANGE_S) == (120, 10)
        session = BashSession(str(tmp_path), default_timeout_s=0.3, no_change_timeout_s=60)
        await session.start()
        for fields in ({}, {"is_static": True}):
            observation = await Shell(session).run("sleep 100", blocking=True, **fields)
            assert observation.metadata.suffix.startswith("\n[The command timed out after 0.3 seconds.")
            await Shell(session).run("C-c", is_input=True)
        await session.aclose()


class TestState:
    async def test_keeps_folder_variables_and_status(self, shell: Shell) -> None:
        await shell.run("cd /usr && word=kept && (exit 4)")
        observation = await shell.run('echo "$? $word $PWD"')
        assert observation.content == "4 kept /usr"
        assert observation.metadata.working_dir == "/usr"
        assert shell.session.cwd == "/usr"

    async def test_folder_may_have_any_name(self, shell: Shell, tmp_path: Path) -> None:
        name = 'a "b" \\n c\n###PS1END'
        (tmp_path / name).mkdir()
        observation = await shell.run("cd a*")
        assert observation.metadata.working_dir == str(tmp_path / name)

    async def test_background_output_does_not_break_the_prompt(self, shell: Shell) -> None:
        await shell.run("mkdir $'a\\nb'; cd a*; (while :; do echo loud; done) & (while :; do echo loud; done) &")
        for number in range(100):
            observation = await shell.run(f"(exit {number})")
            assert observation.metadata.exit_code == number
        await shell.run("kill %1 %2")

    async def test_command_may_replace_the_prompt(self, shell: Shell) -> None:
        await shell.run("PS1='mine> ' PROMPT_COMMAND='echo never'; PS2=more")
        assert (await shell.run("echo hi")).content == "hi"

    async def test_command_may_redirect_the_shells_own_output(self, shell: Shell, tmp_path: Path) -> None:
        await shell.run(f"exec 2>{tmp_path}/log")
        assert (await shell.run(f"echo hi; ls {tmp_path}/none")).content == "hi"
        assert f"{tmp_path}/none" in (tmp_path / "log").read_text()

    @pytest.mark.parametrize("option", ["-u", "-e", "-f", "-o pipefail"])
    async def test_command_may_set_options(self, shell: Shell, option: str) -> None:
        await shell.run(f"set {option}")
        assert (await shell.run("echo hi")).content == "hi"

    async def test_tracing_hides_our_own_commands(self, shell: Shell) -> None:
        observation = await shell.run("set -x\necho a\nset +x")
        assert observation.content == "++ echo a\na\n++ set +x"

    async def test_terminal_modes_are_restored(self, shell: Shell) -> None:
        await shell.run("stty raw echo")
        assert (await shell.run("echo a; echo b")).content == "a\nb"

    async def test_background_job_continues_and_its_pid_is_reported(self, shell: Shell) -> None:
        observation = await shell.run("sleep 100 &")
        assert observation.metadata.exit_code == 0
        assert os.path.exists(f"/proc/{observation.metadata.pid}")
        assert observation.content == f"[1] {observation.metadata.pid}"
        assert "sleep 100" in (await shell.run("jobs")).content

    async def test_job_is_announced_once_with_its_number(self, shell: Shell) -> None:
        await shell.run("sleep 99 &")
        assert (await shell.run("echo hi")).content == "hi"
        observation = await shell.run("set -u; sleep 98 | sleep 97 &")
        assert observation.content == f"[2] {observation.metadata.pid}"

    async def test_output_of_a_job_between_commands_is_shown(self, shell: Shell) -> None:
        await shell.run("mkfifo go; { read x <go; echo from the job; } &")
        await shell.run("echo >go; wait")
        await shell.run("true")
        assert b"from the job" in shell.watcher.shown

    async def test_paging_is_off(self, shell: Shell) -> None:
        assert (await shell.run("echo $TERM $PAGER $GIT_PAGER")).content == "xterm-256color cat cat"


class TestAnyText:
    async def test_several_lines_run_in_order(self, shell: Shell) -> None:
        observation = await shell.run("x=1\necho $x\ncd /\n\necho $PWD\nfalse")
        assert observation.content == "1\n/"
        assert observation.metadata.exit_code == 1

    async def test_here_document_is_passed_unchanged(self, shell: Shell, tmp_path: Path) -> None:
        await shell.run("cat > f <<'EOF'\n  $HOME `id` \"'\n\ttab\nEOF\necho done")
        assert (tmp_path / "f").read_text() == "  $HOME `id` \"'\n\ttab\n"

    async def test_constructs_over_lines_run(self, shell: Shell) -> None:
        observation = await shell.run("f() {\n  echo in $1\n}\nfor i in a b; do\n  f $i\ndone")
        assert observation.content == "in a\nin b"

    @pytest.mark.parametrize("command", ["echo 'open", 'echo "open', "if true; then", "echo $(", ")", "cat <<E"])
    async def test_syntax_errors_are_reported(self, shell: Shell, command: str) -> None:
        observation = await shell.run(command)
        assert observation.metadata.exit_code in (0, 1, 2)
        assert "line" in observation.content
        after = await shell.run("echo hi")
        if "A fresh shell was started" in after.metadata.suffix:  # bash 5.2 may end after an open $( in a file
            after = await shell.run("echo hi")
        assert after.content == "hi"

    async def test_command_of_100_kb_runs(self, shell: Shell) -> None:
        word = "x" * 100_000
        assert (await shell.run(f"w='{word}'; echo ${{#w}}")).content == "100000"

    async def test_line_may_be_a_comment_or_end_in_a_backslash(self, shell: Shell) -> None:
        assert (await shell.run("echo a # comment")).content == "a"
        assert (await shell.run("echo b \\")).content == "b"

    async def test_history_is_not_expanded(self, shell: Shell) -> None:
        assert (await shell.run('echo "hi!" !!')).content == "hi! !!"

    async def test_lone_surrogates_and_nul_do_no_harm(self, shell: Shell) -> None:
        assert (await shell.run("echo a\ud800\0b")).content == "a?b"


class TestSpoofing:
    async def test_printing_the_markers_does_not_end_a_command(self, shell: Shell) -> None:
        block = '###PS1JSON###\\n{"pid": "", "exit_code": "7"}\\n###PS1END###'
        observation = await shell.run(f"printf '\\036{block}\\n'; echo after; exit_with() {{ return 5; }}; exit_with")
        assert observation.metadata.exit_code == 5
        assert observation.content.endswith("after")
        assert "###PS1END###" in observation.content

    async def test_printing_the_shells_variables_does_not_end_a_command(self, shell: Shell) -> None:
        observation = await shell.run('set; declare -f; echo "$PS1"; echo after')
        assert observation.content.endswith("after")

    async def test_delayed_prompt_does_not_end_the_next_command(self, shell: Shell) -> None:
        await shell.run("C-c")
        observations = [await shell.run(f"C-c\necho {number}") for number in range(5)]
        assert [observation.content.split("\n")[-1] for observation in observations] == list("01234")


class TestMuchOutput:
    async def test_all_output_is_shown_and_the_model_reads_both_ends(self, shell: Shell) -> None:
        observation = await shell.run("seq 1 100000")
        shown = shell.watcher.shown.partition(b"\r\n")[2]
        assert shown == b"".join(b"%d\r\n" % number for number in range(1, 100_001))
        assert observation.content.startswith("1\n2\n")
        assert observation.content.endswith("\n100000")
        assert len(observation.content) == 30_000 + len(TRUNCATION_NOTICE)

    async def test_hidden_action_is_not_truncated(self, shell: Shell) -> None:
        observation = await shell.run("seq 1 20000", hidden=True)
        assert observation.content == "\n".join(map(str, range(1, 20_001)))

    async def test_memory_is_limited(self, shell: Shell) -> None:
        async def forget(frame: Frame) -> None:
            """Discards live output."""

        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        action = CmdRunAction(command="head -c 100000000 /dev/zero | tr '\\0' x; echo; echo end", timeout=60)
        observation = await shell.session.execute(action, 1, forget)
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert observation.content.endswith("\nend")
        assert grown_kib < 50 * 1024

    async def test_slow_reader_slows_the_command_down(self, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
        paused = asyncio.Event()
        pause = Terminal.pause

        def told_pause(terminal: Terminal) -> None:
            pause(terminal)
            paused.set()

        async def slow(frame: Frame) -> None:
            if b"99" in shell.watcher.shown:
                await paused.wait()
            shell.watcher(frame)

        monkeypatch.setattr(Terminal, "pause", told_pause)
        observation = await shell.session.execute(CmdRunAction(command="seq 1 200000"), 1, slow)
        assert paused.is_set()
        assert observation.content.endswith("200000")
        assert shell.watcher.shown.count(b"\n") == 200_001


class TestTime:
    async def test_silence_gives_a_hint_and_the_command_continues(self, shell: Shell) -> None:
        observation = await shell.run("echo a; sleep 100; echo b")
        assert observation.content == "a"
        assert observation.metadata == CmdOutputMetadata(suffix=SILENT)
        observation = await shell.run("C-c", is_input=True)
        assert observation.metadata.suffix == "\n[The command completed with exit code 130. CTRL+C was sent.]"

    async def test_timeout_is_reported_and_the_command_continues(self, shell: Shell) -> None:
        command = "while true; do echo x; read -t 0.05; done"
        observation = await shell.run(command, timeout=0.5)
        assert observation.metadata.suffix == f"\n[The command timed out after 0.5 seconds. {HELP}]"
        assert observation.metadata.exit_code == -1
        observation = await shell.run("", timeout=0.2)
        assert observation.metadata.prefix == CONTINUED
        assert observation.content.startswith("x")

    async def test_blocking_action_ignores_silence(self, shell: Shell) -> None:
        began = time.monotonic()
        observation = await shell.run("sleep 0.8; echo done", blocking=True, timeout=10)
        assert observation.content == "done"
        assert time.monotonic() - began > NO_CHANGE_TIMEOUT_S
        observation = await shell.run("read x", blocking=True, timeout=0.6)
        assert observation.metadata.suffix.startswith("\n[The command timed out after 0.6 seconds.")

    async def test_command_is_answered_immediately_at_its_end(self, shell: Shell) -> None:
        with stopped_clock():
            for _ in range(20):
                assert (await shell.run("true")).exit_code == 0

    async def test_output_delays_the_hint(self, shell: Shell) -> None:
        observation = await shell.run("for i in 1 2 3 4 5; do sleep 0.2; echo $i; done")
        assert observation.content == "1\n2\n3\n4\n5"

    async def test_new_command_is_not_executed_while_one_runs(self, shell: Shell) -> None:
        await shell.run("echo a; read x; echo b; read y")
        observation = await shell.run("echo new")
        assert observation.metadata.suffix == (
            '\n[Your command "echo new" is NOT executed. '
            "The previous command is still running - You CANNOT send new commands "
            "until the previous command is completed. "
            f"By setting `is_input` to `true`, you can interact with the current process: {HELP}]"
        )
        assert observation.metadata.prefix == CONTINUED
        assert observation.content == ""

    async def test_empty_command_continues_waiting(self, shell: Shell, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "go")
        await shell.run("echo a; read x <go; echo b")
        waiting = asyncio.create_task(shell.run(""))
        await asyncio.to_thread((tmp_path / "go").write_text, "\n")
        observation = await waiting
        assert (observation.content, observation.metadata.suffix) == ("b", COMPLETED)

    async def test_result_of_a_command_that_ended_meanwhile_precedes_the_next(
        self, shell: Shell, tmp_path: Path
    ) -> None:
        os.mkfifo(tmp_path / "go")
        await shell.run("echo a; read x <go; echo b; (exit 3)")
        await asyncio.to_thread((tmp_path / "go").write_text, "\n")
        await settled(shell.session)
        observation = await shell.run("echo next")
        assert observation.content == "next"
        assert observation.metadata.prefix == CONTINUED + "b\n[The command completed with exit code 3.]\n"


class TestInput:
    async def test_retrieving_logs_needs_a_running_command(self, shell: Shell) -> None:
        observation = await shell.run("")
        assert observation == CmdOutputObservation(
            command="", content="ERROR: No previous running command to retrieve logs from."
        )

    async def test_input_needs_a_running_command(self, shell: Shell) -> None:
        observation = await shell.run("y", is_input=True)
        assert observation.content == "ERROR: No previous running command to interact with."

    async def test_input_line_reaches_the_program(self, shell: Shell) -> None:
        assert (await shell.run('read -p "Name: " name; echo "Hello $name"')).content == "Name:"
        observation = await shell.run("Ada", is_input=True)
        assert observation.content == "Hello Ada"
        assert observation.metadata.suffix == COMPLETED
        assert b"\x1b[2mAda\x1b[0m\r\n" in shell.watcher.shown

    async def test_unread_input_is_limited_to_a_mebibyte(self, shell: Shell) -> None:
        await shell.run("stty raw; echo; sleep 100", timeout=0.2)
        shell.session.type(b"x" * 1024 * 1024)
        assert shell.session._shell.terminal is not None
        room = 1024 * 1024 - shell.session._shell.terminal.unsent_bytes
        with pytest.raises(ValueError, match="has not read the previous input"):
            shell.session.type(b"x" * (room + 1))
        assert shell.session._shell.terminal.unsent_bytes == 1024 * 1024 - room
        shell.session.type(b"x" * room)

    async def test_newline_alone_presses_enter(self, shell: Shell) -> None:
        await shell.run("read x; echo got:$x")
        assert (await shell.run("\n", is_input=True)).content == "got:"

    async def test_line_longer_than_the_terminals_limit_arrives_complete(self, shell: Shell) -> None:
        await shell.run("read x; echo ${#x}; read y; echo $y; stty -a")
        assert (await shell.run("y" * 50_000, is_input=True)).content == "50000"
        ended = (await shell.run("short", is_input=True)).content
        assert ended.startswith("short\n")
        assert " echo " in ended, "the echo is back"

    async def test_python_prompt_can_be_used(self, shell: Shell) -> None:
        assert await self.says(shell, ">>>", f"PYTHON_BASIC_REPL=1 {sys.executable} -I -q")
        assert await self.says(shell, "42", "print(6 * 7)", is_input=True)
        observation = await shell.run("C-d", is_input=True)
        assert observation.metadata.exit_code == 0
        assert observation.metadata.suffix == "\n[The command completed with exit code 0. CTRL+D was sent.]"

    async def says(self, shell: Shell, text: str, command: str, *, is_input: bool = False) -> bool:
        """Send a command or input, and wait until `text` was printed; pytest's timeout ends a wait in vain."""
        said = (await shell.run(command, is_input=is_input)).content
        while text not in said:
            said += (await shell.run("")).content
        return True

    async def test_white_space_is_an_empty_command(self, shell: Shell) -> None:
        assert (await shell.run(" \n\t")).content == "ERROR: No previous running command to retrieve logs from."
        await shell.run("echo a; sleep 100", timeout=0.3)
        assert (await shell.run("  ", timeout=0.1)).metadata.suffix.startswith("\n[The command timed out after 0.1 s")

    async def test_input_after_the_command_ended_reports_both(self, shell: Shell, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "go")
        await shell.run("read x <go; echo b; (exit 3)")
        await asyncio.to_thread((tmp_path / "go").write_text, "\n")
        await settled(shell.session)
        observation = await shell.run("y", is_input=True)
        assert observation.content == "b"
        assert observation.metadata.prefix == "ERROR: No previous running command to interact with.\n" + CONTINUED
        assert observation.metadata.suffix == "\n[The command completed with exit code 3.]"

    async def test_key_without_is_input_is_a_new_command(self, shell: Shell) -> None:
        await shell.run("sleep 100")
        observation = await shell.run("C-c")
        assert observation.metadata.suffix.startswith('\n[Your command "C-c" is NOT executed. ')
        assert (await shell.run("C-c", is_input=True)).exit_code == 130

    @pytest.mark.parametrize(("key", "exit_code"), [("C-d", 0), ("C-c", 130), ("C-\\", 131), (" c-C ", None)])
    async def test_control_keys_are_pressed_without_enter(self, shell: Shell, key: str, exit_code: int | None) -> None:
        await shell.run("cat >f")
        observation = await shell.run(key, is_input=True)
        if exit_code is None:
            assert observation.exit_code == -1
            assert (await shell.run("C-d", is_input=True)).exit_code == 0
            assert (await shell.run("cat f")).content == key.rstrip()
        else:
            sent = f" CTRL+{key[-1].upper()} was sent."
            assert observation.metadata.suffix == f"\n[The command completed with exit code {exit_code}.{sent}]"

    @pytest.mark.parametrize(
        "command",
        [
            "while true; do sleep 100; done",
            "read x",
            "while true; do :; done",
            "trap '' TSTP; sleep 100",
            "sleep 100 | cat",
        ],
    )
    async def test_session_continues_after_c_z(self, shell: Shell, command: str) -> None:
        await shell.run(command)
        observation = await shell.run("C-z", is_input=True)
        if observation.exit_code == -1:  # what does not stop can be interrupted
            observation = await shell.run("C-c", is_input=True)
        assert observation.exit_code in (130, 148)
        assert (await shell.run("echo usable")).content.splitlines()[0] == "usable"
        assert (await shell.run("exit 3")).exit_code == 3

    async def test_c_z_stops_and_fg_continues(self, shell: Shell) -> None:
        await shell.run("sleep 100")
        observation = await shell.run("C-z", is_input=True)
        assert observation.metadata.exit_code == 148
        assert "Stopped" in (await shell.run("jobs")).content
        await shell.run("fg")
        assert (await shell.run("C-c", is_input=True)).metadata.exit_code == 130

    async def test_c_c_in_an_idle_shell_is_harmless(self, shell: Shell) -> None:
        observation = await shell.run("C-c")
        assert observation.metadata.suffix == "\n[The command completed with exit code 130. CTRL+C was sent.]"


async def test_one_command_at_a_time(shell: Shell) -> None:
    await asyncio.gather(*(shell.run(f"echo begin {n}; echo end {n}", action_id=n) for n in range(5)))
    causes = [frame.cause for frame in shell.watcher.frames if isinstance(frame, TerminalOutput)]
    assert causes == sorted(causes)
    assert NO_ACTION_ID not in causes


async def test_static_action_runs_in_a_separate_shell(shell: Shell) -> None:
    await shell.run("word=kept")
    observation = await shell.run("cd /; echo static:$word:$PWD", is_static=True, cwd="/usr")
    assert observation.content == "static::/"
    assert (await shell.run("echo $word")).content == "kept"


async def test_static_shell_has_the_sessions_settings_and_ends_with_its_action(tmp_path: Path) -> None:
    environment = Environment({**os.environ, "word": "given"})
    session = BashSession(str(tmp_path), environment=environment, umask=0o077, no_change_timeout_s=1)
    await session.start()
    shell = Shell(session)
    observation = await shell.run("umask; echo $word; pwd; echo $$; sleep 100", is_static=True)
    umask, word, folder, pid = observation.content.split()
    assert (umask, word, folder) == ("0077", "given", str(tmp_path))
    assert observation.metadata.suffix.startswith("\n[The command has no new output after 1 seconds.")
    assert not os.path.exists(f"/proc/{pid}")
    assert session.outputs.find(1).read(0, 5) == b"0077\n"
    await shell.run("echo mine")
    assert session.outputs.find(2).read(0, 5) == b"mine\n"
    await session.aclose()
