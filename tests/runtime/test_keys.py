"""Keys by their names: the bytes that a terminal sends, and who gets them."""

from __future__ import annotations

import shlex
import sys

import pytest

from runtime.server.keys import control_key, cursor_mode, named_key
from tests.runtime.conftest import Shell

KEY_BY_KEY = (
    "import sys, termios, tty; tty.setcbreak(0); print('ready', flush=True); "
    "keys = b''\nwhile b'q' not in keys: keys += __import__('os').read(0, 100)\nprint(keys.partition(b'q')[0])"
)


@pytest.mark.parametrize(
    ("name", "key"),
    [("C-c", b"\x03"), ("C-Z", b"\x1a"), (" C-d\n", b"\x04"), ("C-[", b"\x1b"), ("C-\\", b"\x1c"), ("C-@", b"\0")],
)
def test_control_characters(name: str, key: bytes) -> None:
    assert control_key(name) == key


@pytest.mark.parametrize("text", ["", "c", "C-", "C-cc", "c-c", "C-1", "C-ä", "Ctrl-C", "echo C-c"])
def test_what_is_no_control_character(text: str) -> None:
    assert control_key(text) is None


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Up", b"\x1b[A"),
        ("End", b"\x1b[F"),
        ("Escape", b"\x1b"),
        ("F1", b"\x1bOP"),
        ("F5", b"\x1b[15~"),
        ("F12", b"\x1b[24~"),
    ],
)
def test_named_keys(name: str, key: bytes) -> None:
    assert named_key(name, application=False) == key


def test_the_cursors_keys_have_another_form() -> None:
    assert named_key("Left", application=True) == b"\x1bOD"
    assert named_key("up", application=True) is None


def test_the_form_is_the_one_asked_for_last() -> None:
    assert cursor_mode(b"\x1b[?1h\x1b[?1049h", False)
    assert not cursor_mode(b"\x1b[?1h drawn \x1b[?1l", True)
    assert cursor_mode(b"text \x1b[?12l", True)


class TestInTheShell:
    async def test_a_program_that_takes_keys_gets_them(self, shell: Shell) -> None:
        await shell.run(f"{sys.executable} -I -c {shlex.quote(KEY_BY_KEY)}")
        for name in ("Up", "C-a", "Escape"):
            await shell.run(name, is_input=True)
        assert (await shell.run("q", is_input=True)).content == str(b"\x1b[A\x01\x1b")

    async def test_a_program_that_asked_for_the_other_form_gets_it(self, shell: Shell) -> None:
        await shell.run(f"printf '\\033[?1h'; {sys.executable} -I -c {shlex.quote(KEY_BY_KEY)}")
        await shell.run("Down", is_input=True)
        assert (await shell.run("q", is_input=True)).content == str(b"\x1bOB")

    async def test_a_program_that_reads_lines_gets_the_word(self, shell: Shell) -> None:
        await shell.run("read x; echo $x")
        assert (await shell.run("Left", is_input=True)).content == "Left"
