"""One shell that keeps its state, gives V0's messages, and stays usable."""

from __future__ import annotations

import asyncio
import random

import pytest

from core.events import TerminalOutput
from core.events.observations import MAX_CMD_OUTPUT_CHARS
from core.secrets.command_secrets import injecting
from runtime.server import prompt
from tests.contract.conftest import NO_CHANGE_TIMEOUT_S, Life, Place


class TestOneCommand:
    @pytest.mark.parametrize(
        ("command", "exit_code"),
        [("true", 0), ("false", 1), ("(exit 42)", 42), ("no-such-command", 127), ("bash -c 'kill -9 $$'", 137)],
    )
    async def test_exit_code_is_returned(self, place: Place, command: str, exit_code: int) -> None:
        observation = await place.run(command)
        assert observation.metadata.exit_code == exit_code
        assert observation.metadata.suffix == f"\n[The command completed with exit code {exit_code}.]"

    async def test_command_runs_in_the_workspace_and_its_output_is_shown(self, place: Place) -> None:
        assert (await place.run("pwd")).content == str(place.folder)
        assert place.watcher.shown == f"\x1b[2m$ pwd\x1b[0m\r\n{place.folder}\r\n".encode()

    async def test_frames_name_the_command_as_their_cause(self, place: Place) -> None:
        await place.run("echo one")
        await place.run("echo two")
        causes = [frame.cause for frame in place.watcher.frames if isinstance(frame, TerminalOutput)]
        assert causes == sorted(causes)
        assert set(causes) == {1, 2}

    async def test_several_lines_run_in_order(self, place: Place) -> None:
        observation = await place.run("echo one\nfalse\ncat <<E\ntwo\nE\nfor n in 3 4\ndo echo $n\ndone")
        assert observation.content == "one\ntwo\n3\n4"

    async def test_text_in_any_script_is_kept(self, place: Place) -> None:
        assert (await place.run("printf 'ünï 汉字 🦆\\n'")).content == "ünï 汉字 🦆"

    async def test_invalid_utf8_is_replaced_and_shown_unchanged(self, place: Place) -> None:
        observation = await place.run(r"printf 'a\xff\xfe\x00b\n'")
        assert observation.content.replace("\0", "") == "a\ufffd\ufffdb"
        assert b"a\xff\xfe\x00b\r\n" in place.watcher.shown

    @pytest.mark.alone
    async def test_long_output_is_shown_completely_and_returned_truncated(self, place: Place) -> None:
        observation = await place.run("seq 1 100000")
        assert len(observation.content) <= MAX_CMD_OUTPUT_CHARS + 200
        assert observation.content.startswith("1\n2\n")
        assert observation.content.endswith("\n100000")
        lines = place.watcher.shown.split(b"\r\n")
        assert lines[1:-1] == [b"%d" % number for number in range(1, 100_001)]


class TestState:
    async def test_folder_variables_and_functions_are_kept(self, place: Place) -> None:
        await place.run("mkdir sub && cd sub && export kept=1 && told() { echo told $kept; }")
        observation = await place.run("pwd; told")
        assert observation.content == f"{place.folder}/sub\ntold 1"
        assert observation.metadata.working_dir == f"{place.folder}/sub"

    @pytest.mark.parametrize(("command", "exit_code"), [("exit 3", 3), ("kill -9 $$", 137), ("set -e; false", 1)])
    async def test_exit_returns_its_code_and_starts_a_fresh_shell(
        self, place: Place, command: str, exit_code: int
    ) -> None:
        await place.run("cd /usr; kept=1")
        observation = await place.run(command)
        assert observation.metadata.exit_code == exit_code
        assert f"[The shell ended with it. {prompt.fresh_shell('/usr')}]" in observation.metadata.suffix
        assert (await place.run("echo $PWD [$kept]")).content == "/usr []"


class TestTime:
    async def test_silence_gives_v0s_hint_and_an_empty_command_keeps_waiting(self, place: Place) -> None:
        observation = await place.run("echo begun; read line; echo $line")
        assert observation.metadata.suffix in (prompt.WAITS, prompt.no_new_output(NO_CHANGE_TIMEOUT_S))
        assert (observation.content, observation.metadata.exit_code) == ("begun", -1)
        waited = await place.run("")
        assert waited.metadata.prefix == prompt.CONTINUED
        assert (waited.content, waited.metadata.suffix) == ("", prompt.no_new_output(NO_CHANGE_TIMEOUT_S))
        ended = await place.run("said", is_input=True)
        assert (ended.content.splitlines()[-1], ended.metadata.exit_code) == ("said", 0)

    async def test_hard_timeout_gives_v0s_message(self, place: Place) -> None:
        observation = await place.run("echo begun; sleep 100", timeout=0.3, blocking=True)
        assert observation.metadata.suffix == prompt.timed_out(0.3)
        assert (observation.content, observation.metadata.exit_code) == ("begun", -1)

    async def test_new_command_is_refused_until_the_running_one_is_ended_by_a_key(self, place: Place) -> None:
        await place.run("sleep 100", timeout=0.3)
        refused = await place.run("echo second")
        assert refused.metadata.suffix == prompt.not_executed("echo second")
        stopped = await place.run("C-c", is_input=True)
        assert stopped.metadata.suffix == "\n[The command completed with exit code 130. CTRL+C was sent.]"
        assert (await place.run("echo usable")).content == "usable"

    async def test_without_a_running_command_there_is_nothing_to_wait_for(self, place: Place) -> None:
        assert (await place.run("")).content == "ERROR: No previous running command to retrieve logs from."
        assert (await place.run("y", is_input=True)).content == ("ERROR: No previous running command to interact with.")


class TestInterrupt:
    async def test_cancelling_ends_the_command(self, place: Place, life: Life) -> None:
        running = asyncio.create_task(place.run("bash -c 'exec 9>life; echo begun; exec sleep 100'", blocking=True))
        await place.watcher.sees(b"\r\nbegun\r\n")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert life.has_ended()
        assert (await place.run("echo usable")).content == "usable"

    async def test_cancelling_at_any_moment_leaves_a_working_shell(self, place: Place, seed: int) -> None:
        moments = random.Random(seed)
        for turn in range(20):
            running = asyncio.create_task(place.run("for n in 1 2 3; do echo $n; sleep 0.01; done; exit 3"))
            await asyncio.wait([running], timeout=moments.uniform(0, 0.06))
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert (await place.run(f"echo usable {turn}")).content.endswith(f"usable {turn}")


class TestLentSecrets:
    async def test_secret_reaches_one_command_on_every_transport(self, place: Place) -> None:
        with injecting({"TOKEN": "tk-77 'x'\nsecond"}):
            printed = (await place.run('printf "%s|" "$TOKEN"; printenv TOKEN')).content
        assert printed == "tk-77 'x'\nsecond|tk-77 'x'\nsecond"
        assert (await place.run('echo "[${TOKEN-none}]"; printenv TOKEN')).content == "[none]"
        assert b"tk-77" not in place.watcher.shown.replace(b"tk-77 'x'\r\nsecond|tk-77 'x'\r\nsecond", b"")
