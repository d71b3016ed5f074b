"""What stands between two lines `---` at the start of a Markdown file, as names and values.

It is a small part of YAML: texts, numbers, lists and tables, a few levels deep. Anchors, tags, names that are there
twice, and more than anybody writes by hand are refused with the line, before anything is built of them. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

FENCE = "---"
MAX_CHARS = 16 * 1024
MAX_DEPTH = 6
MAX_NODES = 1_000


class FrontError(ValueError):
    """A file that cannot be understood: the line, counted from 1, and what to do."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line


@dataclass(frozen=True, slots=True)
class Front:
    """What a file says of itself, and what follows."""

    values: dict[str, Any]
    body: str
    lines: dict[str, int] = field(default_factory=dict)
    """By name, the line in the file."""
    is_there: bool = True
    """Whether the file says anything of itself."""

    def line(self, name: str) -> int:
        """Where a name stands; the first line where it does not."""
        return self.lines.get(name, 1)

    def text(self, name: str, default: str = "") -> str:
        """A value of one printable line. Raises FrontError."""
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, list | dict) or not (said := " ".join(str(value).split())).isprintable():
            raise FrontError(self.line(name), f"{name} is one line of text")
        return said

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts, or one alone; those that are empty are left out. Raises FrontError."""
        value = self.values.get(name)
        many = value if isinstance(value, list) else [] if value is None else [value]
        if any(isinstance(one, list | dict) for one in many):
            raise FrontError(self.line(name), f"{name} is a list of texts")
        return tuple(dict.fromkeys(said for one in many if one is not None and (said := str(one).strip())))


def parse(text: str) -> Front:
    """The front matter and the rest of a text without carriage returns. Raises FrontError."""
    lines = text.split("\n")
    if lines[0].strip() != FENCE:
        return Front({}, text.strip(), is_there=False)
    end = next((n for n, line in enumerate(lines[1:], 1) if line.strip() == FENCE), None)
    if end is None:
        raise FrontError(len(lines), f"what it says of itself has no end. Put {FENCE} behind it.")
    about = "\n".join(lines[1:end])
    if len(about) > MAX_CHARS:
        raise FrontError(1, f"what it says of itself is longer than {MAX_CHARS // 1024} KB. Shorten it.")
    values, at = _values(about)
    return Front(values, "\n".join(lines[end + 1 :]).strip(), at)


def _values(text: str) -> tuple[dict[str, Any], dict[str, int]]:
    """The names and values, and the line of each name in the file."""
    import yaml

    try:
        _check(yaml, text)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is None:
            return {}, {}
        if not isinstance(node, yaml.MappingNode):
            raise FrontError(2, "it is no list of names and values, like `name: my-notes`")
        built = _build(yaml, yaml.SafeLoader(""), node)
    except yaml.MarkedYAMLError as error:
        raise FrontError(
            error.problem_mark.line + 2 if error.problem_mark else 1, f"not YAML: {error.problem}"
        ) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, FrontError):
            raise
        raise FrontError(1, f"not YAML: {str(error).splitlines()[0] if str(error) else 'it is broken'}") from error
    return built, {str(key.value): key.start_mark.line + 2 for key, _ in node.value}


def _check(yaml: Any, text: str) -> None:
    """Refuse what could be more than it seems, event by event."""
    depth = nodes = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 2
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise FrontError(line, "anchors (& and *) are not read. Write the value out.")
        if isinstance(event, yaml.NodeEvent):
            nodes += 1
            if getattr(event, "tag", None):
                raise FrontError(line, "tags (!) are not read. Leave them out.")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH or nodes > MAX_NODES:
            raise FrontError(line, "that is more than is read. Make it simpler.")


def _build(yaml: Any, loader: Any, node: Any) -> Any:
    """The value of a node, with names that are there twice refused."""
    if isinstance(node, yaml.MappingNode):
        table: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 2
            if not isinstance(key, yaml.ScalarNode):
                raise FrontError(line, "a name is a text")
            if key.value in table:
                raise FrontError(line, f"{key.value[:40]} is there twice")
            table[key.value] = _build(yaml, loader, value)
        return table
    if isinstance(node, yaml.SequenceNode):
        return [_build(yaml, loader, one) for one in node.value]
    if node.tag in ("tag:yaml.org,2002:null",):
        return None
    if node.tag == "tag:yaml.org,2002:bool":
        return loader.construct_yaml_bool(node)
    return node.value  # as it is written: a version 1.10 is no number
