"""Keys by their names: the bytes that a terminal sends, and who gets them."""

from __future__ import annotations

import shlex
import sys

import pytest

from runtime.server.terminal import control_key, has_application_keys, named_key
from tests.runtime.conftest import Shell

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
