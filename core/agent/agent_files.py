"""Agents as Markdown files: some lines about them, then their instructions.

    ---
    name: Reviewer
    description: Reads a change and says what is wrong with it.
    tools: [grep, view, mcp, time__*]       # optional; those of CodeActAgent and all others else
    model: anthropic/claude-sonnet-5-5      # optional
    ---
    You review changes. ...

Of MCP servers it has the tools that are named so, with `*` for any letters; `mcp` stands for all of them, and `plugins`
for those of plugins.

They lie in `agents/*.md` of the user's home and in `.handloom/agents/*.md` of a project. A file that is broken is named
with its line, and the rest load. What a project holds is hostile: it is read without following links, bounded, and used
only after the user has read it (`core.agent.agent_files`).

Which of the projects' agents the user has read and allowed: by their file, and by what stood in it.

An agent from a project is a text by others that would direct a model here. It works only while it is, to the letter,
what the user was shown. Kept in `allowed-agents.json` of the home; one that cannot be read allows nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from core.agent.tool_agent import MoreTools, ToolAgent, no_more_tools
from core.agent.tools import CODEACT_TOOLS, OUR_TOOLS, Tool
from core.errors import ConfigurationError
from core.plugin_requirements import PluginRequirement
from core.protocols import LLM
from core.regular_files import read_text

PROJECT_FOLDER = Path(".handloom") / "agents"
MAX_BYTES = 64 * 1024
"""Instructions that nobody can read through are not consented to."""
MAX_FILES = 100
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_KEYS = ("name", "description", "tools", "model")
FENCE = "---"
MCP, PLUGINS = "mcp", "plugins"
_FOREIGN = re.compile(r"[A-Za-z0-9_*-]{1,64}__[A-Za-z0-9_*-]{1,64}")
"""The name of a server's tool, or of several."""


@dataclass(frozen=True, slots=True)
class AgentFile:
    """An agent as it is written down."""

    path: Path
    name: str
    description: str
    prompt: str
    tools: tuple[Tool, ...] | None
    """None is those of CodeActAgent, and those from elsewhere."""
    model: str = ""
    more: tuple[str, ...] = ()
    """Patterns of the tools from elsewhere that it has, where its tools are named."""
    text: str = field(default="", repr=False)
    """The whole file."""

    @property
    def digest(self) -> str:
        """Of the whole file."""
        return hashlib.sha256(self.text.encode()).hexdigest()


class FileAgent(ToolAgent):
    """An agent that a file describes."""

    def __init__(
        self,
        file: AgentFile,
        llm: LLM,
        plugins: Sequence[PluginRequirement] = (),
        more_tools: MoreTools = no_more_tools,
    ) -> None:
        self.name, self.prompt = file.name, file.prompt
        self.tools = CODEACT_TOOLS if file.tools is None else file.tools
        self.takes_more = file.tools is None or bool(file.more)

        async def chosen() -> Sequence[Tool]:
            return [tool for tool in await more_tools() if any(fnmatchcase(tool.name, one) for one in file.more)]

        wanted = plugins if file.tools is None or PLUGINS in file.more else [replace(one, tools="") for one in plugins]
        super().__init__(llm, wanted, more_tools if file.tools is None else chosen)


class _Broken(ValueError):
    """A file that is no agent: the line, counted from 1, and what to do."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line


def read_folder(folder: Path) -> tuple[list[AgentFile], list[str]]:
    """The agents of a folder in the order of their files' names, and what is wrong with others, a line each."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".md" and not path.name.startswith("."))
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [f"{folder}: {error.strerror}"]
    found: list[AgentFile] = []
    problems = [f"{folder}: only the first {MAX_FILES} agents are read"] if len(paths) > MAX_FILES else []
    for path in paths[:MAX_FILES]:
        try:
            found.append(parse(path, _read(path)))
        except OSError as error:
            problems.append(f"{path}: {error.strerror}")
        except _Broken as error:
            problems.append(f"{path}:{error.line}: {error}")
    return found, problems


def read_project(workspace: Path) -> tuple[list[AgentFile], list[str]]:
    """The same of a project; a folder that leads elsewhere is not read."""
    folder = workspace / PROJECT_FOLDER
    if folder.is_dir() and folder.resolve() != workspace.resolve() / PROJECT_FOLDER:
        return [], [f"{folder}: a link, which is not followed"]
    return read_folder(folder)


def _read(path: Path) -> str:
    """The text of a regular file that is no link. Raises OSError, _Broken."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise _Broken(1, "no regular file")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise _Broken(1, f"more than {MAX_BYTES} bytes. Shorten it.")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise _Broken(data[: error.start].count(b"\n") + 1, "not UTF-8. Save it as UTF-8.") from error


def parse(path: Path, text: str) -> AgentFile:
    """The agent that stands in a text. Raises ValueError with the `line` that is wrong."""
    lines = text.split("\n")
    if lines[0].strip() != FENCE:
        raise _Broken(1, f"it begins with a line {FENCE}, then name and description, then {FENCE} again")
    end = next((n for n, line in enumerate(lines[1:], 1) if line.strip() == FENCE), None)
    if end is None:
        raise _Broken(len(lines), f"the lines about the agent have no end. Put {FENCE} behind them.")
    said = _about("\n".join(lines[1:end]))
    name, at = said.get("name", (path.stem, 1))
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _Broken(at, "name: a letter, then letters, digits, _ and -; 64 at most")
    values = {key: _line(said, key) for key in ("description", "model")}
    if not values["description"]:
        raise _Broken(1, "description is missing: what the agent is for, in one line")
    prompt = "\n".join(lines[end + 1 :]).strip()
    if not prompt:
        raise _Broken(end + 1, f"there are no instructions. Write them below the second {FENCE}.")
    tools, more = _tools(said)
    return AgentFile(path, name, values["description"], prompt, tools, values["model"], more, text)


def _about(text: str) -> dict[str, tuple[Any, int]]:
    """What the lines between the fences say, with the line in the file of each. Values are as written, untyped."""
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        raise _Broken(line, f"not YAML: {error.problem}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise _Broken(1, f"not YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(node, yaml.MappingNode):
        raise _Broken(2, f"it has lines like `name: Reviewer`; known are {', '.join(_KEYS)}")
    said: dict[str, tuple[Any, int]] = {}
    for key, value in node.value:
        line = key.start_mark.line + 2
        if key.value not in _KEYS:
            raise _Broken(line, f"{str(key.value)[:40]!r} is not known; known are {', '.join(_KEYS)}")
        if key.value in said:
            raise _Broken(line, f"{key.value} is there twice")
        if isinstance(value, yaml.ScalarNode):
            said[key.value] = (value.value.strip(), line)
        elif isinstance(value, yaml.SequenceNode) and all(isinstance(item, yaml.ScalarNode) for item in value.value):
            said[key.value] = ([item.value.strip() for item in value.value], line)
        else:
            raise _Broken(line, f"{key.value} is a text, or for tools a list of names")
    return said


def _line(said: dict[str, tuple[Any, int]], key: str) -> str:
    """A value of one line of printable text; empty where there is none."""
    value, line = said.get(key, ("", 1))
    if not isinstance(value, str) or not value.isprintable():
        raise _Broken(line, f"{key} is one line of text")
    return value


def _tools(said: dict[str, tuple[Any, int]]) -> tuple[tuple[Tool, ...] | None, tuple[str, ...]]:
    """The tools of ours that are named, and finish, and patterns of others; None where nothing is said of them."""
    if "tools" not in said:
        return None, ()
    value, line = said["tools"]
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else value
    ours: list[str] = []
    more: list[str] = []
    for name in filter(None, names):
        if name in OUR_TOOLS:
            ours.append(name)
        elif name == MCP:
            more += ["*__*", "mcp_*_resource*"]
        elif name == PLUGINS or _FOREIGN.fullmatch(name):
            more.append(name)
        else:
            known = ", ".join(sorted(OUR_TOOLS))
            raise _Broken(
                line, f"tools: {name[:40]!r} is not known; known are {known}, {MCP}, {PLUGINS}, and SERVER__TOOL"
            )
    return tuple(OUR_TOOLS[name] for name in dict.fromkeys([*ours, "finish"])), tuple(dict.fromkeys(more))


NAME = "allowed-agents.json"


class Allowed:
    """The book of one home."""

    def __init__(self, home: Path) -> None:
        self._path = home / NAME

    def has(self, file: AgentFile) -> bool:
        """Whether the user has allowed this very text at this place."""
        return self._read().get(str(file.path)) == file.digest

    def add(self, file: AgentFile) -> None:
        """Allow it as it stands. Raises ConfigurationError where that cannot be written down."""
        self._write({**self._read(), str(file.path): file.digest})

    def forget_below(self, folder: str) -> None:
        """Allow none of a project's any more. Raises ConfigurationError where that cannot be written down."""
        before = self._read()
        kept = {path: digest for path, digest in before.items() if Path(folder) not in Path(path).parents}
        if kept != before:
            self._write(kept)

    def _write(self, book: dict[str, str]) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=NAME)
            with os.fdopen(handle, "w", encoding="utf-8") as new:
                json.dump(book, new, indent=1)
            os.replace(name, self._path)
        except OSError as error:
            raise ConfigurationError(f"{self._path} cannot be written: {error.strerror}. Make room there.") from error

    def _read(self) -> dict[str, str]:
        try:
            book = json.loads(read_text(self._path))
        except (OSError, ValueError, RecursionError):
            return {}
        return book if isinstance(book, dict) else {}
