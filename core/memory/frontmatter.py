"""The front matter of a Markdown file: names and values between two lines `---` at its start.

A small part of YAML: texts, numbers, lists and tables, a few levels deep. Anchors, tags, duplicate names and excessive
sizes are refused, with the line, before anything is built from them. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

FENCE = "---"
MAX_CHARS = 16 * 1024
MAX_DEPTH = 6
MAX_NODES = 1_000


class FrontMatterError(ValueError):
    """The front matter is not valid. `line` counts from 1; the text says what to do."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The front matter of a file, and the text after it."""

    values: dict[str, Any]
    body: str
    lines: dict[str, int] = field(default_factory=dict)
    """The line of each name in the file."""
    is_there: bool = True
    """False if the file has no front matter."""

    def line(self, name: str) -> int:
        """Return the line of a name; 1 if the name is missing."""
        return self.lines.get(name, 1)

    def text(self, name: str, default: str = "") -> str:
        """Return a value as one printable line. Raises FrontMatterError."""
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, list | dict) or not (text := " ".join(str(value).split())).isprintable():
            raise FrontMatterError(self.line(name), f"{name} is one line of text")
        return text

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts, or a single text as a list, without empty ones. Raises FrontMatterError."""
        value = self.values.get(name)
        many = value if isinstance(value, list) else [] if value is None else [value]
        if any(isinstance(one, list | dict) for one in many):
            raise FrontMatterError(self.line(name), f"{name} is a list of texts")
        return tuple(dict.fromkeys(text for one in many if one is not None and (text := str(one).strip())))


def parse(text: str) -> FrontMatter:
    """Split a text without carriage returns into front matter and body. Raises FrontMatterError."""
    lines = text.split("\n")
    if lines[0].strip() != FENCE:
        return FrontMatter({}, text.strip(), is_there=False)
    end = next((n for n, line in enumerate(lines[1:], 1) if line.strip() == FENCE), None)
    if end is None:
        raise FrontMatterError(len(lines), f"the front matter has no end. Put a line {FENCE} after it.")
    about = "\n".join(lines[1:end])
    if len(about) > MAX_CHARS:
        raise FrontMatterError(1, f"the front matter is longer than {MAX_CHARS // 1024} KB. Shorten it.")
    values, at = _values(about)
    return FrontMatter(values, "\n".join(lines[end + 1 :]).strip(), at)


def _values(text: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the names and values, and the line of each name in the file."""
    import yaml

    try:
        _check(yaml, text)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is None:
            return {}, {}
        if not isinstance(node, yaml.MappingNode):
            raise FrontMatterError(2, "the front matter consists of lines like `name: my-notes`")
        built = _build(yaml, yaml.SafeLoader(""), node)
    except yaml.MarkedYAMLError as error:
        raise FrontMatterError(
            error.problem_mark.line + 2 if error.problem_mark else 1, f"not YAML: {error.problem}"
        ) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, FrontMatterError):
            raise
        raise FrontMatterError(
            1, f"not YAML: {str(error).splitlines()[0] if str(error) else 'it is broken'}"
        ) from error
    return built, {str(key.value): key.start_mark.line + 2 for key, _ in node.value}


def _check(yaml: Any, text: str) -> None:
    """Refuse anchors, tags and excessive sizes, event by event."""
    depth = nodes = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 2
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise FrontMatterError(line, "anchors (& and *) are not supported. Write the value out.")
        if isinstance(event, yaml.NodeEvent):
            nodes += 1
            if getattr(event, "tag", None):
                raise FrontMatterError(line, "tags (!) are not supported. Remove them.")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH or nodes > MAX_NODES:
            raise FrontMatterError(
                line, f"too complex: at most {MAX_DEPTH} levels and {MAX_NODES:,} values. Make it simpler."
            )


def _build(yaml: Any, loader: Any, node: Any) -> Any:
    """Return the value of a node. Duplicate names are refused."""
    if isinstance(node, yaml.MappingNode):
        table: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 2
            if not isinstance(key, yaml.ScalarNode):
                raise FrontMatterError(line, "a name is a text")
            if key.value in table:
                raise FrontMatterError(line, f"{key.value[:40]} occurs twice")
            table[key.value] = _build(yaml, loader, value)
        return table
    if isinstance(node, yaml.SequenceNode):
        return [_build(yaml, loader, one) for one in node.value]
    if node.tag in ("tag:yaml.org,2002:null",):
        return None
    if node.tag == "tag:yaml.org,2002:bool":
        return loader.construct_yaml_bool(node)
    return node.value  # as written: the version 1.10 is not a number
