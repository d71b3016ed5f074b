"""The commands of the README and the manual: how each is parsed, which of them are run, and where.

Every command is parsed as the shell and then the program itself would parse it. A command is also run, unless
`ONLY_PARSED` says why that is not possible in a test; those that open the workspace are run in a terminal. The other
commands of a page are run in their order by bash, in a home and a workspace of their own, with a scripted model; `ID`
stands for a conversation that is there.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from tests.doubles import FINISH, bash, write_script
from tests.manual.pages import ROOT, Command
from tests.program import Handloom
from tui.cli.command_line import parse

ON_SCREEN = re.compile(r"(\w+=\S+ )*handloom( demo| --model \S+| --resume ID| replay( --all-agents)? ID)?")
"""The whole of a command that opens the workspace here and now; each is run in a terminal."""
ONLY_PARSED: Mapping[str, str] = {
    f"^{ON_SCREEN.pattern}$": "opens the workspace, which waits for a person",
    r"handloom --(repo|runtime)": "needs a network, a container engine or a server",
    r"^handloom (serve|keys --test|--screen-reader)": "waits for a person; tests/serve and tests/journeys answer",
    r"^handloom secrets set (GITHUB_TOKEN( --git)?|SEARCH_API_KEY)$": "asks for a value; tests/secrets types one",
    r"^handloom secrets set ANTHROPIC_API_KEY --models$": "asks for a value; tests/secrets types one",
    r"^handloom batch attach": "opens the workspace; tests/journeys/test_batch.py does",
    r"^handloom '": "opens the workspace with a task; tests/tui/workspace sends one",
    r"^handloom completion": "writes into folders of the shells; tests/journeys/test_command_line.py uses it",
    r"^handloom agents --allow": "asks for a yes; tests/journeys/test_agents.py types it",
    r"^handloom doctor --(mend|index)$": "asks before it changes something; tests/journeys/test_mending.py answers",
    r"Planner|--approve-plan": "needs a model that plans; tests/journeys/test_agents.py has one",
    r"/compact": "needs a model that summarises; tests/journeys/test_compact.py has one",
    r"^handloom image": "needs a container engine; tests/docker builds the image",
    r"--(lives|key-file)|key > server": "starts an endless server; tests/runtime/server/test_lease.py starts it",
    r"^(uv|pipx|pip|apt-get) |/pip install ": "installs packages from a registry",
    r"^python3 -m venv |HANDLOOM_BROWSERGYM_PYTHON|browsergym/miniwob": "needs BrowserGym; tests/peers has it",
    r"^ray |--(engine|cluster) ray": "needs a cluster; tests/batch has one",
    r"^make ": "sets everything up, or takes minutes; CI runs these",
    r"^\.venv/bin/python -m (pytest|tests\.)": "runs other tests",
}
"""Commands that are parsed but not run: a pattern of the command, and the reason."""
TURNS: Sequence[Mapping[str, object]] = ({"text": "I count.", "tool_calls": [bash("wc -l < greeting.txt")]}, FINISH)
"""The answer of the model to every task."""
TASKS = 5
"""Tasks that one conversation of a page has at most."""
TOKEN = "ghp-not-a-real-token"

Words = list[str]


def why_only_parsed(command: Command) -> str:
    """The reason why a command is not run; empty if it is."""
    return next((why for pattern, why in ONLY_PARSED.items() if re.search(pattern, command.text)), "")


def opens_the_workspace(command: Command) -> bool:
    """Whether a command is run in a terminal."""
    return ON_SCREEN.fullmatch(command.text) is not None


def simple_commands(text: str) -> Iterator[Words]:
    """The words of each program call in a command line, without assignments before it and without redirections."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: Words = []
    skip = False
    for word in lexer:
        if skip:
            skip = False
        elif set(word) <= set("<>"):
            skip = True
        elif set(word) <= set("();|&"):
            if words:
                yield words
            words = []
        elif words or not re.match(r"[A-Z_]+=", word):
            words.append(word)
    if words:
        yield words


def check(words: Words) -> None:
    """Raise AssertionError if the program, its verb or one of its options does not exist."""
    program, *arguments = words
    match Path(program).name, arguments:
        case "handloom", _:
            _check_handloom(arguments)
        case "handloom-server", _:
            _check_module("runtime.server", arguments)
        case "make", _:
            _check_make(arguments)
        case (("python" | "python3"), ["-c", code]):
            compile(code, "manual", "exec")
        case (("python" | "python3"), ["-m", module, *options]):
            _check_module(module, options)
        case "uv", ["tool", "install", *options]:
            _check_package(options)
        case "pipx", ["install", *options]:
            _check_package(options)
        case "apt-get", ["install", package]:
            assert package.isalnum()
        case _, [] if program.startswith("docs/examples/"):
            assert os.access(ROOT / program, os.X_OK)
        case "pip", ["install", *_]:
            pass
        case "export", [_]:
            pass
        case "ray", ["start" | "stop", *_]:
            pass
        case (("echo" | "printf" | "tee" | "umask"), _):
            pass
        case _:
            raise AssertionError(f"nobody knows how to check {program}")


def _check_handloom(arguments: Words) -> None:
    try:
        parse(arguments)
    except SystemExit as exit_:
        raise AssertionError(f"handloom does not take {shlex.join(arguments)}") from exit_


def _check_make(arguments: Words) -> None:
    text = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", text, re.MULTILINE))
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        assert f"$({name})" in text if equals else argument in targets, f"make has no {argument}"


def _check_module(module: str, arguments: Words) -> None:
    if module == "pytest":
        assert all((ROOT / path).exists() for path in arguments if "/" in path)
        return
    found = find_spec(module)
    assert found is not None, f"there is no module {module}"
    folders = found.submodule_search_locations
    files = (
        [path for folder in folders for path in Path(folder).glob("*.py")] if folders else [Path(found.origin or "")]
    )
    source = "".join(path.read_text("utf-8") for path in files)
    for argument in arguments:
        assert not argument.startswith("--") or f'"{argument}"' in source, f"{module} has no option {argument}"


def _check_package(arguments: Words) -> None:
    """The package is this repository, and its constraints and its extra exist."""
    *options, package = arguments
    assert options in ([], ["--constraints", "requirements.lock"])
    assert (ROOT / "requirements.lock").is_file()
    path, _, extra = package.rstrip("]").partition("[")
    assert (ROOT / path / "pyproject.toml").is_file()
    assert not extra or f"\n{extra} = [" in (ROOT / "pyproject.toml").read_text("utf-8")


class Desk:
    """A home and a workspace in which the commands of a page are run, one after the other."""

    def __init__(self, folder: Path) -> None:
        """Make the workspace, and one conversation in the home."""
        self.handloom = Handloom(
            folder,
            HANDLOOM_MODEL=write_script(folder, [dict(turn) for turn in TURNS] * TASKS),
            GITHUB_TOKEN=TOKEN,
            PYTHON_KEYRING_BACKEND="keyring.backends.fail.Keyring",
        )
        examples = ROOT / "docs" / "examples"
        shutil.copy(examples / "greeting.txt", self.handloom.workspace)
        shutil.copytree(examples, self.handloom.workspace / "docs" / "examples")
        programs = folder / "bin"
        programs.mkdir()
        (programs / "handloom").write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m tui "$@"\n')
        (programs / "handloom").chmod(0o755)
        self.handloom.environ = {
            **self.handloom.environ,
            "PATH": f"{programs}{os.pathsep}{self.handloom.environ['PATH']}",
        }
        done = self.handloom("run", "say something about the greeting", "--title", "Greeting")
        assert done.status == 0, done.err
        self.conversation = done.conversation

    def text(self, command: Command) -> str:
        """The command with the id of an existing conversation."""
        return re.sub(r"\bID\b", self.conversation, command.text)

    def run(self, command: Command) -> None:
        """Run a command. Raises AssertionError if it ends with another status than the page says."""
        ran = subprocess.run(
            ["bash", "-c", self.text(command)],
            cwd=self.handloom.workspace,
            env=self.handloom.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode == command.status, f"{command}\n{ran.stdout}\n{ran.stderr}"
