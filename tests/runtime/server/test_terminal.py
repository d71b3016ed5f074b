"""A process on a pseudo-terminal: its environment, its input, and its end."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from runtime.server.terminal import Echoes, Terminal, control_key, echo_of, has_application_keys, named_key
from tests.runtime.conftest import WITHIN_S, Shell, has_ended


class Screen:
    """A terminal and its output. A program prints `@` when it continues to wait."""

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
        async with asyncio.timeout(10):
            while "sleep" not in Path(f"/proc/{child}/cmdline").read_text():  # empty while a program is loaded
                await asyncio.sleep(0.05)
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
        descriptor = screen.terminal._master  # the number is reused afterwards
        await screen.terminal.aclose()
        assert screen.terminal.unsent_bytes > 0
        assert not asyncio.get_running_loop().remove_writer(descriptor)


class TestReading:
    async def test_pause_makes_the_program_wait(self, screen: Screen) -> None:
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


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        (b"a\n", b"a\r\n"),
        (b"\r", b"\r\n"),
        (b"\x03", b"^C"),
        (b"\0\x1f \x1b[A", b"^@^_ ^[[A"),
        (b"\x7f", b"^?"),
        (b"a\tb", b"a\tb"),
        ("é".encode(), "é".encode()),
    ],
)
def test_echo_is_what_a_terminal_shows(typed: bytes, shown: bytes) -> None:
    assert echo_of(typed) == shown


def test_echo_is_removed_once_however_it_is_split() -> None:
    for cut in range(1, 9):
        echoes = Echoes()
        echoes.expect(b"yes\n")
        said = b"ok?yes\r\nyes\r\n"
        assert echoes.feed(said[:cut]) + echoes.feed(said[cut:]) == b"ok?yes\r\n"


def test_missing_echo_does_not_hold_back_output() -> None:
    echoes = Echoes()
    echoes.expect(b"lost\n")
    echoes.expect(b"b\n")
    assert echoes.feed(b"a b\r\nc") == b"a c"
    assert echoes.feed(b"lost\r\n") == b"lost\r\n"


def test_held_back_output_is_not_lost() -> None:
    echoes = Echoes()
    echoes.expect(b"yes\n")
    assert echoes.feed(b"say ye") == b"say "
    assert echoes.clear() == b"ye"


def test_echoes_are_removed_in_order() -> None:
    echoes = Echoes()
    for typed in (b"1\n", b"2\n", b"1\n"):
        echoes.expect(typed)
    assert echoes.feed(b"1\r\none 2\r\ntwo 1\r\n1\r\n") == b"one two 1\r\n"
    assert echoes.feed(b"2\r\n1") == b"2\r\n1"


def test_output_that_only_starts_like_an_echo_is_passed_on() -> None:
    echoes = Echoes()
    echoes.expect(b"abc\n")
    said = [echoes.feed(piece) for piece in (b"x", b"xa", b"b", b"b", b"ab", b"abc\r", b"\n", b"a")]
    assert said == [b"x", b"x", b"", b"abb", b"", b"ab", b"", b"a"]


def test_longest_possible_start_of_an_echo_is_held_back() -> None:
    echoes = Echoes()
    echoes.expect(b"b\n")
    echoes.expect(b"aab\n")
    assert echoes.feed(b"aaab") == b"a"
    assert echoes.clear() == b"aab"
    assert echoes.clear() == b""
    assert echoes.feed(b"b\r\n") == b"b\r\n"


def test_at_most_eight_echoes_are_expected() -> None:
    echoes = Echoes()
    for number in range(1, 10):
        echoes.expect(b"%d\n" % number)
    assert echoes.feed(b"1\r\n") == b"1\r\n"
    assert echoes.feed(b"2\r\nrest") == b"rest"


KEY_BY_KEY = (
    "import sys, termios, tty; tty.setcbreak(0); print('ready', flush=True); "
    "keys = b''\nwhile b'q' not in keys: keys += __import__('os').read(0, 100)\nprint(keys.partition(b'q')[0])"
)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("C-c", b"\x03"),
        ("C-Z", b"\x1a"),
        (" C-d\n", b"\x04"),
        ("C-[", b"\x1b"),
        ("C-\\", b"\x1c"),
        ("C-@", b"\0"),
        ("C-_", b"\x1f"),
    ],
)
def test_control_characters(name: str, key: bytes) -> None:
    assert control_key(name) == key


@pytest.mark.parametrize(
    "text", ["", "c", "C-", "C-cc", "c-c", "C-1", "C-ä", "C-?", "C-`", "D-c", "C+c", "Ctrl-C", "echo C-c"]
)
def test_other_text_is_not_a_control_character(text: str) -> None:
    assert control_key(text) is None


@pytest.mark.parametrize(
    ("name", "key"),
    [
        *((name, b"\x1b[" + end) for name, end in (("Up", b"A"), ("Down", b"B"), ("Right", b"C"), ("Left", b"D"))),
        *((name, b"\x1b[" + end) for name, end in (("Home", b"H"), ("End", b"F"), ("BTab", b"Z"))),
        *(("Escape", b"\x1b"), ("Enter", b"\r"), ("Tab", b"\t"), ("BSpace", b"\x7f")),
        *((name, b"\x1b[%d~" % number) for name, number in (("IC", 2), ("DC", 3), ("PageUp", 5), ("PPage", 5))),
        *((name, b"\x1b[%d~" % number) for name, number in (("PageDown", 6), ("NPage", 6))),
        *((f"F{number}", b"\x1bO" + end) for number, end in enumerate((b"P", b"Q", b"R", b"S"), 1)),
        *((f"F{number}", b"\x1b[%d~" % code) for number, code in enumerate((15, 17, 18, 19, 20, 21, 23, 24), 5)),
    ],
)
def test_named_keys(name: str, key: bytes) -> None:
    assert named_key(name, application=False) == key


def test_cursor_keys_in_application_mode() -> None:
    assert named_key("Left", application=True) == b"\x1bOD"
    assert named_key(" Home\n", application=True) == b"\x1bOH"
    assert named_key("Tab", application=True) == b"\t"
    assert [named_key(name, application=True) for name in ("up", "F0", "F13", "")] == [None] * 4


def test_last_mode_of_the_cursor_keys_counts() -> None:
    assert has_application_keys(b"\x1b[?1h\x1b[?1049h", False)
    assert not has_application_keys(b"\x1b[?1h drawn \x1b[?1l", True)
    assert has_application_keys(b"text \x1b[?12l", True)


class TestInTheShell:
    async def test_program_that_reads_keys_gets_keys(self, shell: Shell) -> None:
        await shell.run(f"{sys.executable} -I -c {shlex.quote(KEY_BY_KEY)}")
        for name in ("Up", "C-a", "Escape"):
            await shell.run(name, is_input=True)
        assert (await shell.run("q", is_input=True)).content == str(b"\x1b[A\x01\x1b")

    async def test_program_in_application_mode_gets_its_keys(self, shell: Shell) -> None:
        await shell.run(f"printf '\\033[?1h'; {sys.executable} -I -c {shlex.quote(KEY_BY_KEY)}")
        await shell.run("Down", is_input=True)
        assert (await shell.run("q", is_input=True)).content == str(b"\x1bOB")

    async def test_program_that_reads_lines_gets_the_name(self, shell: Shell) -> None:
        await shell.run("read x; echo $x")
        assert (await shell.run("Left", is_input=True)).content == "Left"
