"""grep, glob and view in a real shell: they find files and lines, and change nothing whatever the arguments."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.agent.tools import OUR_TOOLS, InvalidCall
from core.events import (
    ActionSecurityRisk,
    AgentDelegateAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    ToolCallMetadata,
)

GREP, GLOB, VIEW = OUR_TOOLS["grep"], OUR_TOOLS["glob"], OUR_TOOLS["view"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("w")
    for name in ("a.py", "src/b.py", "src/deep/test_c.py", "src/deep/c.txt", ".git/config", "-x/d.py", "a+b/(e).py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"needle in {name}\nit's $HOME `x`\n" + "y" * 5000)
    return root


def found(tool: Any, folder: Path, **arguments: str) -> list[str]:
    action = tool.action_of(arguments)
    assert isinstance(action, CmdRunAction)
    assert action.security_risk is ActionSecurityRisk.LOW
    done = subprocess.run(["bash", "-c", action.command], cwd=folder, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        ({"pattern": "*.py"}, ["./-x/d.py", "./a+b/(e).py", "./a.py", "./src/b.py", "./src/deep/test_c.py"]),
        ({"pattern": "src/**/*.py"}, ["./src/b.py", "./src/deep/test_c.py"]),
        ({"pattern": "src/*.py"}, ["./src/b.py"]),
        ({"pattern": "test_?.py", "path": "src"}, ["./src/deep/test_c.py"]),
        ({"pattern": "(e).py"}, ["./a+b/(e).py"]),
        ({"pattern": "*", "path": "-x"}, ["./-x/d.py"]),
        ({"pattern": "./a.py"}, ["./a.py"]),
        ({"pattern": "config"}, []),
        ({"pattern": "'; touch gone; '"}, []),
    ],
)
def test_glob_finds_files_by_name(folder: Path, arguments: dict[str, str], files: list[str]) -> None:
    assert found(GLOB, folder, **arguments) == files


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ({"pattern": "^needle"}, 6),
        ({"pattern": "needle|nothing", "include": "*.txt"}, 1),
        ({"pattern": "it's $HOME `x`", "path": "a.py"}, 0),  # $ is the end of a line
        ({"pattern": r"it's \$HOME `x`", "path": "src/b.py"}, 1),
        ({"pattern": "needle", "path": "-x"}, 1),
        ({"pattern": "--help"}, 0),
        ({"pattern": "yy+", "path": "a.py"}, 1),
    ],
)
def test_grep_finds_lines_by_an_expression(folder: Path, arguments: dict[str, str], count: int) -> None:
    lines = found(GREP, folder, **arguments)
    assert len(lines) == count
    assert all(len(line) <= 400 for line in lines)


@pytest.mark.parametrize("tool", [GREP, GLOB])
@pytest.mark.parametrize("text", ["a\nb", "a\x03", "\x1b[A", "a\tb", "x" * 3000])
def test_control_characters_in_arguments_are_refused(tool: Any, text: str) -> None:
    with pytest.raises(InvalidCall):
        tool.action_of({"pattern": text})
    with pytest.raises(InvalidCall):
        tool.action_of({"pattern": "x", "path": text})


@given(tool=st.sampled_from([GREP, GLOB]), pattern=st.text(min_size=1, max_size=30), path=st.text(max_size=20))
def test_arguments_are_quoted_as_one_word(tool: Any, pattern: str, path: str) -> None:
    import shlex

    try:
        action = tool.action_of({"pattern": pattern, "path": path})
    except InvalidCall:
        return
    plain = tool.action_of({"pattern": "x", "path": "p"})
    assert len(shlex.split(action.command)) == len(shlex.split(plain.command))
    assert [word for word in shlex.split(action.command) if word in {"|", "-print", "command"}] == [
        word for word in shlex.split(plain.command) if word in {"|", "-print", "command"}
    ] or pattern in {"|", "-print", "command"} or path.lstrip("./") in {"|", "-print", "command"}  # fmt: skip


def test_only_commands_of_these_tools_count_as_reading() -> None:
    def run(name: str, **fields: Any) -> CmdRunAction:
        metadata = ToolCallMetadata(function_name=name, tool_call_id="a")
        return CmdRunAction(command="grep", tool_call_metadata=metadata, **fields)

    assert run("grep").only_reads
    assert FileReadAction(path="/a").only_reads
    for action in (run("execute_bash"), run("grep", is_input=True), CmdRunAction(command="grep")):
        assert not action.only_reads
    assert not FileEditAction(path="/a").only_reads
    assert not AgentDelegateAction(agent="CodeActAgent").only_reads


def test_view_reads_a_file() -> None:
    action = VIEW.action_of({"path": "/a", "view_range": [1, 2]})
    assert isinstance(action, FileReadAction)
    assert action.view_range == [1, 2]
