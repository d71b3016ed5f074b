"""Names, texts and schemas of servers in a form that models, providers and screens can take. Pure.

Whatever a server says is foreign. A text loses what no reader sees, a name keeps to the alphabet that every provider
takes, and a schema that is too large or no object is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from typing import Any

MAX_NAME_CHARS = 64
"""Providers refuse a longer name of a tool."""
MAX_DESCRIPTION_CHARS = 4_000
MAX_SCHEMA_CHARS = 32_000
"""Of one tool's schema as JSON: every one is sent with every request."""
MAX_SCHEMA_DEPTH = 24
SEPARATOR = "__"
"""Between the name of a server and that of its tool; no tool of ours has it."""

_UNSEEN = {"Cc", "Cf", "Cs", "Co"}


def clean(text: Any, limit: int) -> str:
    """The text without control and invisible characters, cut at `limit` characters; empty for what is no text."""
    if not isinstance(text, str):
        return ""
    head = text[: limit + 1].replace("\r\n", "\n")
    kept = "".join(char for char in head if char in "\n\t" or unicodedata.category(char) not in _UNSEEN)
    return kept if len(text) <= limit else kept[: limit - 1] + "…"


def clean_line(text: Any, limit: int) -> str:
    """As `clean`, on one line."""
    return " ".join(clean(text, limit).split())


def tool_name(server: str, tool: str) -> str:
    """What a model calls a tool of a server: `server__tool`, of at most 64 safe characters.

    A name that has to be changed ends in a part of its hash, so that two tools never become one.
    """
    safe = re.sub(r"[^a-zA-Z0-9_-]", "_", tool)
    name = f"{server}{SEPARATOR}{safe}"
    if safe == tool and len(name) <= MAX_NAME_CHARS:
        return name
    return f"{name[: MAX_NAME_CHARS - 9]}_{digest(tool)[:8]}"


def digest(value: Any) -> str:
    """SHA-256 of a JSON value, in hexadecimal; the same whatever the order of keys."""
    data = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return hashlib.sha256(data.encode()).hexdigest()


def schema_of(value: Any) -> dict[str, Any] | None:
    """A tool's schema as providers take it; None where it is no object's, too large or too deep."""
    if not isinstance(value, dict) or value.get("type", "object") != "object" or _depth(value) > MAX_SCHEMA_DEPTH:
        return None
    properties = value.get("properties", {})
    if not isinstance(properties, dict) or not all(isinstance(part, dict) for part in properties.values()):
        return None
    required = value.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        return None
    schema = _cleaned({**value, "type": "object", "properties": properties})
    return schema if len(json.dumps(schema)) <= MAX_SCHEMA_CHARS else None


def _depth(value: Any) -> int:
    """How deep a JSON value is; stops counting soon above what is allowed."""
    level, deepest = [value], 0
    while level and deepest <= MAX_SCHEMA_DEPTH:
        deepest += 1
        below = [list(item.values()) if isinstance(item, dict) else item for item in level
                 if isinstance(item, dict | list)]  # fmt: skip
        level = [part for parts in below for part in parts]
    return deepest


def _cleaned(value: Any) -> Any:
    match value:
        case str():
            return clean(value, MAX_DESCRIPTION_CHARS)
        case list():
            return [_cleaned(item) for item in value]
        case dict():
            return {clean(key, 200): _cleaned(item) for key, item in value.items()}
        case _:
            return value
