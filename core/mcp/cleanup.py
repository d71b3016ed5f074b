"""Clean names, texts and schemas of servers for models, providers and screens. Pure.

Everything from a server is untrusted. Invisible characters are removed from texts, names are reduced to the characters
that every provider accepts, and schemas that are too large or not of an object are refused.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from typing import Any

MAX_NAME_CHARS = 64
"""Providers refuse longer tool names."""
MAX_DESCRIPTION_CHARS = 4_000
MAX_SCHEMA_CHARS = 32_000
"""Limit for one tool's schema as JSON, because all schemas are sent with every request."""
MAX_SCHEMA_DEPTH = 24
SEPARATOR = "__"
"""Separates the names of server and tool; no built-in tool's name contains it."""

_UNSEEN = {"Cc", "Cf", "Cs", "Co"}


def clean(text: Any, limit: int) -> str:
    """Remove control and invisible characters, and truncate to `limit` characters; empty if it is not a string."""
    if not isinstance(text, str):
        return ""
    head = text[: limit + 1].replace("\r\n", "\n")
    kept = "".join(char for char in head if char in "\n\t" or unicodedata.category(char) not in _UNSEEN)
    return kept if len(text) <= limit else kept[: limit - 1] + "…"


def clean_line(text: Any, limit: int) -> str:
    """Clean a text as `clean` does, and put it on one line."""
    return " ".join(clean(text, limit).split())


def tool_name(server: str, tool: str) -> str:
    """Return the name of a server's tool for models: `server__tool`, at most 64 safe characters.

    A name that has to be changed ends with a part of its hash, so that names stay unique.
    """
    safe = re.sub(r"[^a-zA-Z0-9_-]", "_", tool)
    name = f"{server}{SEPARATOR}{safe}"
    if safe == tool and len(name) <= MAX_NAME_CHARS:
        return name
    return f"{name[: MAX_NAME_CHARS - 9]}_{digest(tool)[:8]}"


def digest(value: Any) -> str:
    """Return the SHA-256 of a JSON value in hexadecimal, independent of the order of keys."""
    data = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return hashlib.sha256(data.encode()).hexdigest()


def schema_of(value: Any) -> dict[str, Any] | None:
    """Return a tool's schema in a form that providers accept; None if it is not an object's, too large or too deep."""
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
    """Return the depth of a JSON value; stops counting above the limit."""
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
