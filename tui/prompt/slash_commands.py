"""Slash commands: rows of the command table by name, and messages that the user keeps as Markdown files.

`/name words` at the start of the prompt. The user's own lie in `commands/` of Handloom's home: `name.md`, with
`description` and `argument-hint` in front matter where wanted; the body becomes the message, `$ARGUMENTS` and `$1` to
`$9` replaced. Those of a project lie in `.handloom/commands/`, and count once the user has said yes to them. No
Textual; `load` blocks and is for a thread.
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
"""Below the home."""
MAX_BYTES = 256 * 1024
MAX_FILES = 500
NONE: Mapping[str, str] = MappingProxyType({})

BUILT_IN: Mapping[str, Command] = {command.slash: command for command in COMMANDS if command.slash}

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")
_FRONT = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_PLACE = re.compile(r"\$(?:ARGUMENTS\b|([1-9])(?!\d))")


@dataclass(frozen=True, slots=True)
class UserCommand:
    """A message that the user keeps under a name."""

    name: str
    body: str
    description: str = ""
    hint: str = ""
    """What is to be written behind the name."""

    def message(self, words: str) -> str:
        """The body with the words in their places; behind it where it has none."""
        given = _split(words)

        def put(place: re.Match[str]) -> str:
            number = place[1]
            if number is None:
                return words
            return given[int(number) - 1] if int(number) <= len(given) else ""

        if words and not _PLACE.search(self.body):
            return f"{self.body}\n\n{words}"
        return _PLACE.sub(put, self.body)


@dataclass(frozen=True, slots=True)
class Line:
    """A first word that begins with a slash, and the words behind it."""

    name: str
    words: str


def parse(text: str) -> Line | None:
    """What a text commands; None where it is none: no slash, two of them, or the path of something."""
    if not text.startswith("/") or text.startswith("//"):
        return None
    first, *rest = text[1:].split(maxsplit=1)[:2] or [""]
    if text[1:2].isspace() or "/" in first:
        return None
    return Line(first, rest[0].strip() if rest else "")


def load(home: Path, project: Mapping[str, str] = NONE) -> tuple[dict[str, UserCommand], list[str]]:
    """The user's own commands by name, then those of a trusted project, and what is wrong with the files that are none.

    `project` has the texts of the project's files by their paths.
    """
    found: dict[str, UserCommand] = {}
    problems: list[str] = []
    try:
        files = sorted((home / FOLDER).glob("*.md"))[:MAX_FILES]
    except OSError:
        files = []
    texts: list[tuple[str, str, Callable[[], str]]] = [(file.stem, file.name, partial(_text, file)) for file in files]
    texts += [(PurePosixPath(path).stem, path, partial(str, text)) for path, text in project.items()]
    for name, file, read in texts:
        if not _NAME.fullmatch(name):
            told = _("{file} is ignored: use lowercase letters, digits, - and _ in its name.")
            problems.append(told.format(file=file))
        elif name in BUILT_IN:
            told = _("{file} is ignored: /{name} is a built-in command.")
            problems.append(told.format(file=file, name=name))
        elif name in found:
            told = _("{file} is ignored: /{name} is one of your own commands.")
            problems.append(told.format(file=file, name=name))
        else:
            try:
                found[name] = _understood(name, read())
            except (OSError, ValueError) as error:
                problems.append(_("{file} is ignored: {why}").format(file=file, why=error))
    return found, problems


def _text(file: Path) -> str:
    """The text of one file. Raises OSError, ValueError."""
    if not file.is_file():
        raise ValueError(_("it is not a file."))
    if file.stat().st_size > MAX_BYTES:
        raise ValueError(_("it is larger than {n} KB.").format(n=MAX_BYTES // 1024))
    return file.read_text("utf-8").replace("\r\n", "\n")


def _understood(name: str, text: str) -> UserCommand:
    """What a text says. Raises ValueError."""
    told: dict[str, object] = {}
    if front := _FRONT.match(text):
        text = text[front.end() :]
        told = _front_matter(front[1])
    if not (body := text.strip()):
        raise ValueError(_("it is empty."))
    return UserCommand(name, body, _one_line(told.get("description")), _one_line(told.get("argument-hint")))


def _front_matter(text: str) -> dict[str, object]:
    from core.memory.frontmatter import FrontMatterError, parse  # with the first command, not with the first frame

    try:
        return parse(f"---\n{text}---\n").values
    except FrontMatterError as error:
        raise ValueError(_("its front matter, line {line}: {why}").format(line=error.line, why=error)) from error


def _one_line(value: object) -> str:
    return " ".join(str(value).split()) if isinstance(value, str | int | float | list) else ""


def _split(words: str) -> list[str]:
    """As a shell would part them; as spaces do where a quote is left open."""
    try:
        return shlex.split(words)
    except ValueError:
        return words.split()
