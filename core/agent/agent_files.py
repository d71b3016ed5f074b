"""Agents as Markdown files: front matter, then the instructions for the model.

    ---
    name: Reviewer
    description: Reads a change and says what is wrong with it.
    tools: [grep, view, mcp, time__*]       # optional; by default those of CodeActAgent and all from elsewhere
    model: anthropic/claude-sonnet-5-5      # optional
    ---
    You review changes. ...

Tools of MCP servers are named as in the example, with `*` for any characters; `mcp` means all of them, and `plugins`
those of plugins.

The files are `agents/*.md` of the user's home and `.handloom/agents/*.md` of a project. A broken file is reported with
its line, and the others load. A project's file is untrusted: it is read with a size limit and without following links,
and the agent runs only while its text is exactly what the user has allowed. Allowed agents are stored in
`allowed-agents.json` in the home; if that file cannot be read, none is allowed.
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

from core.agent.tool_agent import MoreTools, ToolAgent, no_more_tools
from core.agent.tools import CODEACT_TOOLS, OUR_TOOLS, Tool
from core.errors import ConfigurationError
from core.memory.frontmatter import FENCE, FrontMatter, FrontMatterError
from core.memory.frontmatter import parse as parse_front_matter
from core.plugin_requirements import PluginRequirement
from core.protocols import LLM
from core.regular_files import read_text

PROJECT_FOLDER = Path(".handloom") / "agents"
MAX_BYTES = 64 * 1024
"""More than a user can read before allowing it is refused."""
MAX_FILES = 100
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_KEYS = ("name", "description", "tools", "model")
MCP, PLUGINS = "mcp", "plugins"
_FOREIGN = re.compile(r"[A-Za-z0-9_*-]{1,64}__[A-Za-z0-9_*-]{1,64}")
"""The name or pattern of MCP tools."""


@dataclass(frozen=True, slots=True)
class AgentFile:
    """A parsed agent file."""

    path: Path
    name: str
    description: str
    prompt: str
    tools: tuple[Tool, ...] | None
    """None means those of CodeActAgent and all from elsewhere."""
    model: str = ""
    more: tuple[str, ...] = ()
    """Patterns of the tools from elsewhere, if the file names its tools."""
    text: str = field(default="", repr=False)
    """The whole file."""

    @property
    def digest(self) -> str:
        """The SHA-256 of the whole file."""
        return hashlib.sha256(self.text.encode()).hexdigest()


class FileAgent(ToolAgent):
    """An agent defined by a file."""

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


def read_folder(folder: Path) -> tuple[list[AgentFile], list[str]]:
    """Return the agents of a folder by file name, and one line for each problem."""
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
        except FrontMatterError as error:
            problems.append(f"{path}:{error.line}: {error}")
    return found, problems


def read_project(workspace: Path) -> tuple[list[AgentFile], list[str]]:
    """Return the same for a project. A symbolic link is not followed."""
    folder = workspace / PROJECT_FOLDER
    if folder.is_dir() and folder.resolve() != workspace.resolve() / PROJECT_FOLDER:
        return [], [f"{folder}: a link, which is not followed"]
    return read_folder(folder)


def _read(path: Path) -> str:
    """Return the text of a regular file that is not a link. Raises OSError, FrontMatterError."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise FrontMatterError(1, "not a regular file")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise FrontMatterError(1, f"more than {MAX_BYTES} bytes. Shorten it.")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise FrontMatterError(data[: error.start].count(b"\n") + 1, "not UTF-8. Save it as UTF-8.") from error


def parse(path: Path, text: str) -> AgentFile:
    """Return the agent that a text defines. Raises FrontMatterError."""
    front = parse_front_matter(text)
    if not front.is_there:
        raise FrontMatterError(1, f"start with a line {FENCE}, then name and description, then {FENCE} again")
    for key in front.values:
        if key not in _KEYS:
            raise FrontMatterError(front.line(key), f"{key[:40]!r} is not known; known are {', '.join(_KEYS)}")
    name, description, model = front.text("name", path.stem), front.text("description"), front.text("model")
    if not _NAME.fullmatch(name):
        raise FrontMatterError(front.line("name"), "name: a letter, then letters, digits, _ and -; 64 at most")
    if not description:
        raise FrontMatterError(1, "description is missing: say in one line what the agent is for")
    if not front.body:
        end = text.count("\n") + 1
        raise FrontMatterError(end, f"there are no instructions. Write them below the second {FENCE}.")
    tools, more = _tools(front)
    return AgentFile(path, name, description, front.body, tools, model, more, text)


def _tools(front: FrontMatter) -> tuple[tuple[Tool, ...] | None, tuple[str, ...]]:
    """Return Handloom's tools that are named, with finish, and patterns of others; None if no tools are named."""
    if "tools" not in front.values:
        return None, ()
    ours: list[str] = []
    more: list[str] = []
    for name in (name.strip() for text in front.texts("tools") for name in text.split(",")):
        if name in OUR_TOOLS:
            ours.append(name)
        elif name == MCP:
            more += ["*__*", "mcp_*_resource*"]
        elif name == PLUGINS or _FOREIGN.fullmatch(name):
            more.append(name)
        elif name:
            known = ", ".join(sorted(OUR_TOOLS))
            raise FrontMatterError(
                front.line("tools"),
                f"tools: {name[:40]!r} is not known; known are {known}, {MCP}, {PLUGINS}, and SERVER__TOOL",
            )
    return tuple(OUR_TOOLS[name] for name in dict.fromkeys([*ours, "finish"])), tuple(dict.fromkeys(more))


ALLOWED_FILE = "allowed-agents.json"


class AllowedAgents:
    """The project agents that the user of one home has allowed, by path and digest."""

    def __init__(self, home: Path) -> None:
        self._path = home / ALLOWED_FILE

    def has(self, file: AgentFile) -> bool:
        """Return whether the user has allowed exactly this text at this path."""
        return self._read().get(str(file.path)) == file.digest

    def add(self, file: AgentFile) -> None:
        """Allow the current text. Raises ConfigurationError if that cannot be stored."""
        self._write({**self._read(), str(file.path): file.digest})

    def forget_below(self, folder: str) -> None:
        """Revoke all agents of a project. Raises ConfigurationError if that cannot be stored."""
        before = self._read()
        kept = {path: digest for path, digest in before.items() if Path(folder) not in Path(path).parents}
        if kept != before:
            self._write(kept)

    def _write(self, digests: dict[str, str]) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=ALLOWED_FILE)
            with os.fdopen(handle, "w", encoding="utf-8") as new:
                json.dump(digests, new, indent=1)
            os.replace(name, self._path)
        except OSError as error:
            raise ConfigurationError(f"{self._path} cannot be written: {error.strerror}") from error

    def _read(self) -> dict[str, str]:
        try:
            digests = json.loads(read_text(self._path))
        except (OSError, ValueError, RecursionError):
            return {}
        return digests if isinstance(digests, dict) else {}
