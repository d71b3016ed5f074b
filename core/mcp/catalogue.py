"""Convert what a server offers and answers into lines of the MCP host: tools, prompts, resources, results. Pure.

Everything from a server is untrusted. Invisible characters are removed from texts, all texts are limited, names are
reduced to the characters that every provider accepts, and schemas that are too large or not of an object are refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from core.llm.host_protocol import Line

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


MAX_PAGES = 20
"""Page limit of a listing, for servers whose pages never end."""
MAX_TOOLS = 128
"""Tools of one server: providers refuse requests with more."""
MAX_TOOLS_CHARS = 512_000
"""Size of all tools of one server as JSON."""
MAX_TEXT_CHARS = 100_000
"""Text of one answer. The model sees less of it."""


def tools_of(found: Sequence[Any]) -> tuple[list[Line], list[str]]:
    """Return the usable tools, and a line for each unusable one.

    The hash covers the tool as the server sent it, so that changes in truncated parts and in annotations count.
    """
    tools: list[Line] = []
    left_out: list[str] = []
    names: set[str] = set()
    chars_left = MAX_TOOLS_CHARS
    for tool in found:
        shown = clean_line(tool.name, 80)
        schema = schema_of(tool.input_schema)
        if tool.name in names:
            left_out.append(f"{shown}: another tool has this name")
        elif not shown or len(tool.name) > 256:
            left_out.append(f"{shown}: its name is invalid")
        elif schema is None:
            left_out.append(f"{shown}: its parameters are invalid")
        elif len(tools) == MAX_TOOLS or (chars_left := chars_left - len(json.dumps(schema)) - 100) < 0:
            left_out.append(f"{shown}: too many tools")
        else:
            names.add(tool.name)
            raw = tool.model_dump(mode="json", by_alias=True, exclude={"meta", "icons"})
            tools.append(
                {
                    "name": tool.name,
                    "about": clean(tool.description, MAX_DESCRIPTION_CHARS),
                    "schema": schema,
                    "hash": digest(raw),
                    "reads": getattr(tool.annotations, "read_only_hint", None) is True,
                    "closed": getattr(tool.annotations, "open_world_hint", None) is False,
                }
            )
    return tools, left_out[:20]


def prompt_of(prompt: Any) -> Line:
    """Convert the description of a prompt."""
    arguments = [
        {"name": argument.name, "about": clean_line(argument.description, 200), "required": bool(argument.required)}
        for argument in (prompt.arguments or [])[:20]
    ]
    return {"name": prompt.name, "about": clean_line(prompt.description, 300), "arguments": arguments}


def prompt_text(prompt: Any) -> str:
    """Join the messages of a prompt into one text, without images."""
    texts = [message.content.text for message in prompt.messages if message.content.type == "text"]
    return clean("\n\n".join(texts), MAX_TEXT_CHARS)


def resource_of(read: Any) -> Line:
    """Convert a resource: its text, and its images as `data:` URLs."""
    texts: list[str] = []
    images: list[str] = []
    for part in read.contents:
        text = getattr(part, "text", None)
        kind = clean_line(part.mime_type or "", 60)
        if text is not None:
            texts.append(text)
        elif kind.startswith("image/") and is_base64(part.blob):
            images.append(f"data:{kind};base64,{part.blob}")
        else:
            texts.append(f"[{kind or 'bytes'}, {len(part.blob) * 3 // 4:,} bytes, left out]")
    return {"text": clean("\n".join(texts), MAX_TEXT_CHARS), "images": images, "is_error": False}


def is_base64(text: str) -> bool:
    """Whether a text is valid base64."""
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


EMPTY = "[The tool returned nothing.]"


def result_of(result: Any) -> Line:
    """Convert the result of a call. Content that is neither text nor image is named in the text."""
    texts: list[str] = []
    images: list[str] = []
    for part in result.content:
        match part.type:
            case "text":
                texts.append(part.text)
            case "image" if is_base64(part.data):
                images.append(f"data:{clean_line(part.mime_type, 60)};base64,{part.data}")
            case "resource" if (text := getattr(part.resource, "text", None)) is not None:
                texts.append(f"{part.resource.uri}\n{text}")
            case "resource_link":
                texts.append(f"[resource: {part.uri}]")
            case kind:
                texts.append(f"[{kind}, left out]")
    if not texts and result.structured_content is not None:
        texts.append(json.dumps(result.structured_content, ensure_ascii=False))
    text = clean("\n".join(texts), MAX_TEXT_CHARS)
    return {"text": text or ("" if images else EMPTY), "images": images, "is_error": bool(result.is_error)}
