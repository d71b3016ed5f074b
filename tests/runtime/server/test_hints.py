"""What the model is told about its commands, word for word."""

from __future__ import annotations

import pytest

from runtime.server import prompt
from runtime.server.outputs import Output


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
