"""A process on a pseudo-terminal: what it finds, what is typed to it, and what is left at its end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from runtime.server.terminal import Terminal
from tests.runtime.conftest import WITHIN_S, has_ended


class Screen:
    """A terminal and what was shown on it. A program says with `@` that it goes on to wait."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shown = b""
        self.statuses: list[int] = []
        self._changed = asyncio.Event()
        self.terminal = Terminal(self._on_output, self._on_exit)

    def _on_output(self, data: bytes) -> None:
        assert not self.statuses, "the end comes after the last output"
        self.shown += data
        self._changed.set()

    def _on_exit(self, status: int) -> None:
        self.statuses.append(status)
        self._changed.set()

    async def start(self, script: str, until: bytes = b"@", **options: object) -> None:
        settings = {"cwd": str(self.folder), "env": dict(os.environ), "umask": 0o022, **options}
        self.terminal.start(["bash", "-c", script], **settings)  # type: ignore[arg-type]
        await self.shows(until)

    async def shows(self, text: bytes) -> None:
        async with asyncio.timeout(WITHIN_S):
            while text not in self.shown and not self.statuses:
                self._changed.clear()
                await self._changed.wait()
        assert text in self.shown

    async def end(self) -> bytes:
        async with asyncio.timeout(WITHIN_S):
            while not self.statuses:
                self._changed.clear()
                await self._changed.wait()
        return self.shown


@pytest.fixture
async def screen(tmp_path: Path) -> AsyncIterator[Screen]:
    screen = Screen(tmp_path)
    yield screen
    with suppress(AttributeError):  # it was never started
        await screen.terminal.aclose()


class TestTheProgram:
    async def test_program_has_the_terminal_and_its_settings(self, screen: Screen) -> None:
        script = (
            'test -t 0 && test -t 1 && test -t 2 && stty size; umask; pwd; echo "$word"; cat /proc/$$/oom_score_adj'
        )
        await screen.start(script, b"", env={**os.environ, "word": "given"}, umask=0o027, size=(7, 91))
        said = (await screen.end()).split()
        assert said[:4] == [b"7", b"91", b"0027", os.fsencode(screen.folder)]
        assert said[4] == b"given"
        assert int(said[5]) > int(Path("/proc/self/oom_score_adj").read_text())
        assert screen.statuses == [0]

    async def test_terminal_has_30_rows_and_120_columns_until_resized(self, screen: Screen) -> None:
        await screen.start("trap 'stty size; exit 3' WINCH; stty size; echo @; while :; do sleep 0.01; done")
        screen.terminal.resize(40, 50)
        assert (await screen.end()).split() == [b"30", b"120", b"@", b"40", b"50"]
        assert screen.statuses == [3]
        screen.terminal.resize(1, 1)  # too late, which does no harm

    async def test_program_leads_its_session_in_the_foreground(self, screen: Screen) -> None:
        await screen.start("echo @; read x")
        assert os.getsid(screen.terminal.pid) == screen.terminal.pid
        assert screen.terminal.foreground_group == screen.terminal.pid
        await screen.terminal.aclose()
        assert screen.terminal.foreground_group == screen.terminal.pid

    async def test_failed_start_leaves_nothing_open(self, screen: Screen) -> None:
        before = set(os.listdir("/proc/self/fd"))
        with pytest.raises(FileNotFoundError):
            await screen.start("true", cwd=str(screen.folder / "none"))
        assert set(os.listdir("/proc/self/fd")) == before

    async def test_closing_ends_all_processes_and_descriptors(self, screen: Screen) -> None:
        before = set(os.listdir("/proc/self/fd"))
        await screen.start("setsid sleep 600 & echo $!; echo @; read x")
        child = int(screen.shown.split()[0])
        await screen.terminal.aclose()
        await screen.terminal.aclose()
        assert screen.statuses == [-9]
        assert set(os.listdir("/proc/self/fd")) == before
        assert has_ended(child)

    async def test_processes_of_an_ended_program_are_left(self, screen: Screen) -> None:
        await screen.start("trap '' HUP; setsid sleep 600 & echo $!", b"")
        child = int((await screen.end()).split()[0])
        await screen.terminal.aclose()
        assert "sleep" in Path(f"/proc/{child}/cmdline").read_text()
        os.kill(child, 9)


class TestModes:
    async def test_modes_are_reset(self, screen: Screen) -> None:
        await screen.start("stty raw -echo; echo @; read x")
        assert (screen.terminal.takes_lines, screen.terminal.echoes) == (False, False)
        screen.terminal.reset_modes()
        assert (screen.terminal.takes_lines, screen.terminal.echoes) == (True, True)
        screen.terminal.reset_modes()
        assert (screen.terminal.takes_lines, screen.terminal.echoes) == (True, True)

    async def test_held_back_echo_is_shown_after_a_reset(self, screen: Screen) -> None:
        await screen.start("stty -echo; echo @; read x; printf 'yes\\r'; read y")
        screen.terminal._echoes.expect(b"\n\n")
        screen.terminal.send(b"x\n")
        await screen.shows(b"yes")
        assert not screen.shown.endswith(b"\r")
        screen.terminal.reset_modes()
        assert screen.shown.endswith(b"yes\r")


class TestTyping:
    async def test_echo_of_a_line_is_removed_and_of_a_key_is_not(self, screen: Screen) -> None:
        await screen.start("echo @; read x; echo got:$x; read y; echo got:$y")
        screen.terminal.send_line(b"one")
        await screen.shows(b"got:one")
        screen.terminal.send(b"two\n")
        assert (await screen.end()).split() == [b"@", b"got:one", b"two", b"got:two"]

    @pytest.mark.parametrize("size", [3999, 4000, 4001, 8000, 20_000])
    async def test_long_line_arrives_complete_and_the_echo_returns(self, screen: Screen, size: int) -> None:
        await screen.start("echo @; read -r x; echo ${#x}; read -r y; echo ${#y}; echo @; read z")
        screen.terminal.send_line(b"x" * size)
        assert screen.terminal.echoes is (size <= 4000)
        await screen.shows(b"%d" % size)
        screen.terminal.send_line(b"short")
        assert screen.terminal.echoes
        await screen.shows(b"\n5\r\n@")
        assert screen.shown.split() == [b"@", b"%d" % size, b"5", b"@"]

    async def test_echo_turned_off_by_a_program_stays_off(self, screen: Screen) -> None:
        await screen.start("stty -echo; echo @; read -r x; echo ${#x}; read -r y; echo $y; read z")
        screen.terminal.send_line(b"x" * 5000)
        await screen.shows(b"5000")
        screen.terminal.send_line(b"secret")
        assert not screen.terminal.echoes
        await screen.shows(b"secret")
        assert screen.shown.count(b"secret") == 1

    async def test_keys_reach_a_raw_program_unchanged(self, screen: Screen) -> None:
        await screen.start("stty raw -echo; echo @; head -c 5002 | tail -c 7 | od -An -c; stty sane; echo @")
        screen.terminal.send_line(b"x" * 5000 + b"y")
        screen.shown = b""
        await screen.shows(b"@")
        assert screen.shown.split()[:-1] == [b"x"] * 5 + [b"y", b"\\n"]

    async def test_unsent_input_waits_and_can_be_discarded(self, screen: Screen) -> None:
        await screen.start("stty raw -echo; echo @; sleep 600")
        screen.terminal.send(b"z" * 500_000)
        assert 0 < screen.terminal.unsent_bytes < 500_000
        screen.terminal.discard_input()
        assert screen.terminal.unsent_bytes == 0

    async def test_unread_input_can_be_discarded(self, screen: Screen) -> None:
        await screen.start("mkfifo go; echo @; read x <go; read y; echo got:$y")
        screen.terminal.send(b"lost")
        await screen.shows(b"lost")
        screen.terminal.discard_input()
        await asyncio.to_thread((screen.folder / "go").write_text, "\n")
        screen.terminal.send(b"kept\n")
        assert b"got:kept" in await screen.end()

    async def test_large_input_arrives_complete(self, screen: Screen) -> None:
        await screen.start("stty raw -echo; echo @; head -c 300000 | cksum; stty sane")
        data = b"".join(b"%06d" % number for number in range(50_000))
        screen.terminal.send(data)
        shown = (await screen.end()).split()
        same = await asyncio.create_subprocess_exec("cksum", stdin=-1, stdout=-1)
        assert shown[1:] == (await same.communicate(data))[0].split()
        assert screen.terminal.unsent_bytes == 0

    async def test_writer_is_removed_when_everything_is_sent(self, screen: Screen) -> None:
        await screen.start("stty raw -echo; echo @; head -c 300000 >/dev/null; echo taken; sleep 600")
        screen.terminal.send(b"x" * 300_000)
        await screen.shows(b"taken")
        assert screen.terminal.unsent_bytes == 0
        # It can take more at once, so a loop that went on to wait for that would never rest.
        assert not asyncio.get_running_loop().remove_writer(screen.terminal._master)

    async def test_writer_is_removed_when_the_program_ends(self, screen: Screen) -> None:
        await screen.start("stty raw -echo; echo @; sleep 600")
        screen.terminal.send(b"z" * 500_000)
        descriptor = screen.terminal._master  # the number is given to somebody else afterwards
        await screen.terminal.aclose()
        assert screen.terminal.unsent_bytes > 0
        assert not asyncio.get_running_loop().remove_writer(descriptor)


class TestReading:
    async def test_a_pause_makes_the_program_wait(self, screen: Screen) -> None:
        await screen.start("echo @; read x; head -c 1000000 /dev/zero | tr '\\0' y; touch done")
        screen.terminal.pause()
        screen.terminal.pause()
        screen.terminal.send(b"\n")
        await asyncio.to_thread((screen.folder / "seen").touch)
        assert b"y" not in screen.shown
        assert not (screen.folder / "done").exists()
        screen.terminal.resume()
        screen.terminal.resume()
        assert (await screen.end()).count(b"y") == 1_000_000
        screen.terminal.resume()  # too late, which does no harm

    async def test_last_output_is_read(self, screen: Screen) -> None:
        await screen.start("seq 1 50000; exit 7", b"")
        assert await screen.end() == b"".join(b"%d\r\n" % number for number in range(1, 50_001))
        assert screen.statuses == [7]
