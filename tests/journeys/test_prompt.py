"""The prompt in a real terminal: the user's editor, a long paste, the shell, and what is found again the next day."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doubles import FINISH, bash, write_script
from tests.journeys.terminal import Terminal
from tests.program import Handloom

pytestmark = [pytest.mark.tmux, pytest.mark.usefixtures("no_isolation")]


@pytest.fixture
def editor(handloom: Handloom) -> Path:
    """The user's editor; a test says what it does with the file `$1`."""
    program = handloom.workspace.parent / "editor"
    program.touch()
    program.chmod(0o755)
    handloom.environ = {**handloom.environ, "VISUAL": f"{program} --wait"}
    return program


@pytest.fixture
def terminal(editor: Path, handloom: Handloom) -> Iterator[Terminal]:
    opened = Terminal(handloom, 120, 36)
    yield opened
    opened.close()


def test_editor_has_the_terminal_and_its_text_becomes_the_prompt(
    handloom: Handloom, terminal: Terminal, editor: Path
) -> None:
    seen = handloom.workspace.parent / "seen"
    editor.write_text(
        "#!/bin/sh\n"
        'test "$1" = --wait || exit 9\n'
        f'stat -c "%a %n" "$2" "$(dirname "$2")" > {seen}; cat "$2" >> {seen}\n'
        "echo EDITING; read line\n"
        'printf "first, %s\\nsecond\\n" "$line" > "$2"\n'
    )
    turns = [{"tool_calls": [bash("for n in 1 2 3; do echo tick-$n; sleep 0.5; done")]}, FINISH]
    terminal.handloom("--model", write_script(handloom.workspace.parent, turns))
    terminal.wait_for("Ask for something")
    terminal.type("go")
    terminal.press("Enter")
    terminal.agree()
    terminal.wait_for("tick-1")
    terminal.type("draft")
    terminal.press("C-g")
    shown = terminal.wait_for("EDITING")
    assert not terminal.is_alternate
    assert "NO SANDBOX" not in shown
    handloom_is_done = handloom.workspace.parent / "done"
    assert not handloom_is_done.exists()
    terminal.type("typed there")
    terminal.press("Enter")
    terminal.wait_for("first, typed there", "second", "NO SANDBOX", "finished")
    assert terminal.is_alternate
    modes = seen.read_text().splitlines()
    assert [line.split()[0] for line in modes[:2]] == ["600", "700"]
    assert modes[2:] == ["draft"]
    assert not Path(modes[0].split(maxsplit=1)[1]).exists(), "the file is gone"
    terminal.press("Enter")
    terminal.wait_for("first, typed there", "the model failed")
    terminal.press("C-q")
    terminal.wait_for("NO SANDBOX", gone=True)


@pytest.mark.parametrize(("program", "told"), [("exit 3", "exited with status 3"), (None, "Cannot start the editor")])
def test_failing_editor_is_reported_and_the_prompt_kept(
    terminal: Terminal, editor: Path, program: str | None, told: str
) -> None:
    if program is None:
        editor.unlink()
    else:
        editor.write_text(f'#!/bin/sh\necho lost > "$2"\n{program}\n')
    terminal.handloom("demo")
    terminal.wait_for("Show me what you can do.", "NO SANDBOX")
    terminal.press("C-g")
    terminal.wait_for(told, "Show me what you can do.", "NO SANDBOX")
    terminal.press("C-q")
    terminal.wait_for("NO SANDBOX", gone=True)


def test_earlier_messages_are_found_with_shell_shortcuts(handloom: Handloom, terminal: Terminal) -> None:
    model = write_script(handloom.workspace.parent, [FINISH, FINISH])
    terminal.handloom("--model", model)
    terminal.wait_for("Ask for something")
    terminal.type("!echo shell-$((40+2)) > made; cat made")
    terminal.wait_for("shell: Enter runs")
    terminal.press("Enter")
    terminal.wait_for("shell-42")
    assert (handloom.workspace / "made").read_text() == "shell-42\n"
    terminal.type("remember the marmot")
    terminal.press("Enter")
    terminal.wait_for("All is done.", "finished")
    terminal.press("C-q")
    terminal.wait_for("All is done.", gone=True)
    terminal.handloom("--model", model)
    terminal.wait_for("Ask for something")
    terminal.press("C-r")
    terminal.wait_for("History:", "remember the marmot", "!echo shell-")
    terminal.type("marm")
    terminal.press("Enter")
    terminal.wait_for("remember the marmot")
    terminal.press("C-u", "Up")
    terminal.wait_for("remember the marmot")
    terminal.press("C-q")
    terminal.wait_for("NO SANDBOX", gone=True)
    files = [p for p in handloom.home.rglob("*") if p.is_file() and b"marmot" in p.read_bytes()]
    assert {p.name for p in files} <= {"handloom.db", "handloom.db-wal"}, "there is no second place for what was said"
    assert all(stat.S_IMODE(p.stat().st_mode) == 0o600 for p in files)
