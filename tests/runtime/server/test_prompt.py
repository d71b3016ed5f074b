"""The end of a command is detected however its bytes are split."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from core.events import CmdOutputMetadata
from runtime.server import prompt
from runtime.server.outputs import Output
from runtime.server.prompt import Prompt, PromptFilter, command_line, init_script, parse_prompt

NONCE = "0123456789abcdef"
BLOCK = (
    b"\x1e###PS1JSON###0123456789abcdef\r\n"
    b'{"number": "3", "pid": "", "exit_code": "7",\r\n'
    b'"username": "ada", "hostname": "host", "working_dir": "/a \\"b\\"",\r\n'
    b'"py_interpreter_path": ""}\r\n###PS1END###'
)
PROMPT = Prompt(3, CmdOutputMetadata(exit_code=7, username="ada", hostname="host", working_dir='/a "b"'))


@pytest.mark.parametrize("size", [1, 2, 3, 10, 50, 1000])
def test_prompt_is_found_however_it_is_split(size: int) -> None:
    data = b"before\r\n" + BLOCK + b"between" + BLOCK + b"after"
    divider = PromptFilter(NONCE)
    pieces = [piece for at in range(0, len(data), size) for piece in divider.feed(data[at : at + size])]
    assert [piece for piece in pieces if isinstance(piece, Prompt)] == [PROMPT, PROMPT]
    assert b"".join(piece for piece in pieces if isinstance(piece, bytes)) == b"before\r\nbetweenafter"


def test_text_like_a_prompt_is_output() -> None:
    data = BLOCK.replace(NONCE.encode(), b"fedcba9876543210")
    assert list(PromptFilter(NONCE).feed(data)) == [data]


def test_output_is_held_back_only_where_a_prompt_may_have_begun() -> None:
    divider = PromptFilter(NONCE)
    assert list(divider.feed(b"#### 50% ###PS1")) == [b"#### 50% ###PS1"]
    assert list(divider.feed(b"a\x1e###PS")) == [b"a"]
    assert list(divider.feed(b"2")) == [b"\x1e###PS2"]


@pytest.mark.parametrize("end", range(1, 29))
def test_partial_start_of_a_prompt_is_held_back(end: int) -> None:
    divider = PromptFilter(NONCE)
    assert list(divider.feed(b"out" + BLOCK[:end])) == [b"out"]
    assert list(divider.feed(BLOCK[end:] + b"more")) == [PROMPT, b"more"]


def test_incomplete_marker_is_passed_on_as_output() -> None:
    divider = PromptFilter(NONCE)
    assert list(divider.feed(BLOCK[:20])) == []
    assert list(divider.feed(b"other")) == [BLOCK[:20] + b"other"]
    assert list(divider.feed(b"\x1e")) == []
    assert list(divider.feed(BLOCK)) == [b"\x1e", PROMPT]


def test_prompt_is_parsed_completely() -> None:
    block = b'{"number": "999999999", "pid": "12", "exit_code": "0", "username": "", "py_interpreter_path": "/p"}'
    assert parse_prompt(block) == Prompt(
        999_999_999, CmdOutputMetadata(exit_code=0, pid=12, username=None, py_interpreter_path="/p")
    )
    assert parse_prompt(b'{"number": "1234567890", "exit_code": 7}') == Prompt(-1, CmdOutputMetadata())


def test_command_line_names_the_secrets() -> None:
    assert b" 12 /c.begun ''; }" in command_line("/c", 12)
    assert b" 12 /c.begun /e '/a pipe' one two; }" in command_line(
        "/c", 12, environment="/e", pipe="/a pipe", names=("one", "two")
    )


def test_unreadable_fields_keep_defaults() -> None:
    assert parse_prompt(b"{broken") == Prompt(-1, CmdOutputMetadata())
    assert parse_prompt(b"[" * 100_000) == parse_prompt(b"[1]") == Prompt(-1, CmdOutputMetadata())
    assert parse_prompt(b'{"exit_code": "1; rm", "pid": []}') == Prompt(-1, CmdOutputMetadata())


def test_init_script_does_not_contain_the_markers() -> None:
    assert list(PromptFilter(NONCE).feed(init_script(NONCE).encode())) == [init_script(NONCE).encode()]


def test_command_line_is_short_and_quotes_the_path() -> None:
    line = command_line("/tmp/it's", 12)
    assert b". '/tmp/it'\"'\"'s';" in line
    assert line.endswith(b"\n")
    assert len(line) < 250


@pytest.mark.parametrize(
    ("command", "sent"),
    [("ls", ""), ("C-c", " CTRL+C was sent."), (" C-z\n", " CTRL+Z was sent."), ("C-cc", ""), ("", "")],
)
def test_completion_hint_names_the_key_that_was_sent(command: str, sent: str) -> None:
    assert prompt.completed(7, command) == f"\n[The command completed with exit code 7.{sent}]"


def test_hints_show_times_without_needless_digits() -> None:
    assert prompt.no_new_output(10.0) == f"\n[The command has no new output after 10 seconds. {prompt.HELP}]"
    assert prompt.timed_out(0.5) == f"\n[The command timed out after 0.5 seconds. {prompt.HELP}]"


def test_hint_names_the_command_that_was_not_executed() -> None:
    assert prompt.not_executed(" ls\n").startswith(
        '\n[Your command "ls" is NOT executed. The previous command is still'
    )
    assert prompt.not_executed("ls").endswith(f"you can interact with the current process: {prompt.HELP}]")


def test_storage_note_names_the_file_or_the_loss() -> None:
    output = Output(3, "/a b", 100)
    output.loss = "full"
    assert output.storage_note() == "\n[What is not shown of the output is lost: full.]"
    output.is_written, output.lines, output.size_bytes = True, 5, 70
    assert output.storage_note().startswith(
        "\n[All that was kept of the output is output:3 (5 lines, 70 bytes; full). Read it"
    )
    output.loss = ""
    assert output.storage_note() == (
        "\n[The whole output is output:3 (5 lines, 70 bytes). "
        "Read it a part at a time, such as with: sed -n '1,200p' '/a b']"
    )


def test_note_about_a_fresh_shell_names_its_folder() -> None:
    assert prompt.fresh_shell("/a") == (
        "A fresh shell was started in /a; the old one's variables, functions and aliases are gone."
    )


def test_names_of_secrets_are_not_evaluated(tmp_path: Path) -> None:
    (tmp_path / "init").write_text(init_script("n"), "utf-8")
    commands = "a=b; __handloom_lent='PIPESTATUS[$(>evaluated)] a'; __handloom_take_back; echo \"${a-unset}\""
    ran = subprocess.run(
        ["bash", "-c", f". ./init; {commands}"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert (ran.stdout, [path.name for path in tmp_path.iterdir()]) == ("unset\n", ["init"])
