"""Slash commands: rows of the command table by name, and messages that users save as Markdown files.

`/name words` at the start of the prompt. The user's own commands are files `commands/name.md` in Handloom's home, with
optional `description` and `argument-hint` in the front matter. The body is the message, in which `$ARGUMENTS` and `$1`
to `$9` are replaced. A project has its commands in `.handloom/commands/` and `.claude/commands/`; they apply once the
user trusts them. No Textual; `load` blocks and runs in a thread.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from tui.commands import COMMANDS, Command
from tui.i18n import _

FOLDER = "commands"
"""In Handloom's home."""
MAX_BYTES = 256 * 1024
MAX_FILES = 500

BUILT_IN: Mapping[str, Command] = {
    name: command for command in COMMANDS for name in (command.slash, *command.aliases) if name
}

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")
_FRONT = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_PLACEHOLDER = re.compile(r"\$(?:ARGUMENTS\b|([1-9])(?!\d))")


@dataclass(frozen=True, slots=True)
class UserCommand:
    """A message that is saved under a name."""

    name: str
    body: str
    description: str = ""
    hint: str = ""
    """The arguments, as the list shows them."""

    def message(self, words: str) -> str:
        """The body with its placeholders filled; without placeholders the words follow it."""
        try:
            arguments = shlex.split(words)
        except ValueError:  # an open quote
            arguments = words.split()

        def value(placeholder: re.Match[str]) -> str:
            if (number := placeholder[1]) is None:
                return words
            return arguments[int(number) - 1] if int(number) <= len(arguments) else ""

        if words and not _PLACEHOLDER.search(self.body):
            return f"{self.body}\n\n{words}"
        return _PLACEHOLDER.sub(value, self.body)


SHIPPED: Mapping[str, UserCommand] = {
    command.name: command
    for command in (
        UserCommand(
            "init",
            "Explore this project and write the file AGENTS.md at its top for agents that will work on it: what the "
            "project is, how to build, run and test it, where things are, and the conventions that the code follows. "
            "Keep it under 100 lines, and state only what you have found in the files. If AGENTS.md exists, correct "
            "and complete it instead.",
            _("Write AGENTS.md: what agents should know about this project"),
        ),
        UserCommand(
            "review",
            "Review the uncommitted changes in this repository, or, if there are none, its last commit. Look for "
            "mistakes, missing cases and missing tests. Change nothing. List what you find by severity, each with "
            "file and line and how to correct it. $ARGUMENTS",
            _("Review the uncommitted changes, or the last commit"),
            _("[what to look at]"),
        ),
    )
}
"""Messages that come with Handloom. A file of the user or the project with the same name replaces one."""


@dataclass(frozen=True, slots=True)
class Line:
    """The name behind the slash, and the words that follow it."""

    name: str
    words: str


def parse(text: str) -> Line | None:
    """The command in a text; None without a slash, and for two slashes or a path."""
    if not text.startswith("/") or text.startswith("//"):
        return None
    first, *rest = text[1:].split(maxsplit=1)[:2] or [""]
    if text[1:2].isspace() or "/" in first:
        return None
    return Line(first, rest[0].strip() if rest else "")


def load(home: Path, project: Mapping[str, str] = MappingProxyType({})) -> tuple[dict[str, UserCommand], list[str]]:
    """The user's own commands by name, then those of a trusted project; and what is wrong with ignored files.

    `project` maps the paths of the project's files to their texts.
    """
    found: dict[str, UserCommand] = {}
    problems: list[str] = []
    try:
        files = sorted((home / FOLDER).glob("*.md"))[:MAX_FILES]
    except OSError:
        files = []
    texts: list[tuple[str, str, Callable[[], str]]] = [(file.stem, file.name, partial(_read, file)) for file in files]
    texts += [(PurePosixPath(path).stem, path, partial(str, text)) for path, text in project.items()]
    for name, file, read in texts:
        problem = ""
        if not _NAME.fullmatch(name):
            problem = _("{file} is ignored: use lowercase letters, digits, - and _ in its name.")
        elif name in BUILT_IN:
            problem = _("{file} is ignored: /{name} is a built-in command.")
        elif name in found:
            problem = _("{file} is ignored: /{name} is one of your own commands.")
        else:
            try:
                found[name] = _parse_file(name, read())
            except (OSError, ValueError) as error:
                problems.append(_("{file} is ignored: {why}").format(file=file, why=error))
        if problem:
            problems.append(problem.format(file=file, name=name))
    return {**SHIPPED, **found}, problems


def _read(file: Path) -> str:
    """Raises OSError and ValueError."""
    if not file.is_file():
        raise ValueError(_("it is not a file."))
    if file.stat().st_size > MAX_BYTES:
        raise ValueError(_("it is larger than {n} KB.").format(n=MAX_BYTES // 1024))
    return file.read_text("utf-8").replace("\r\n", "\n")


def _parse_file(name: str, text: str) -> UserCommand:
    """Raises ValueError."""
    values: dict[str, object] = {}
    if front := _FRONT.match(text):
        from core.memory.frontmatter import FrontMatterError, parse  # with the first command, not with the first frame

        text = text[front.end() :]
        try:
            values = parse(f"---\n{front[1]}---\n").values
        except FrontMatterError as error:
            raise ValueError(_("its front matter, line {line}: {why}").format(line=error.line, why=error)) from error
    if not (body := text.strip()):
        raise ValueError(_("it is empty."))
    return UserCommand(name, body, _one_line(values.get("description")), _one_line(values.get("argument-hint")))


def _one_line(value: object) -> str:
    return " ".join(str(value).split()) if isinstance(value, str | int | float | list) else ""
