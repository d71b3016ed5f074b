"""Convert what a server offers and answers into lines of the MCP host: tools, prompts, resources, results. Pure.

Every text is cleaned and limited.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any

from core.llm.host_protocol import Line
from core.mcp.cleanup import MAX_DESCRIPTION_CHARS, clean, clean_line, digest, schema_of

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
    room = MAX_TOOLS_CHARS
    for tool in found:
        shown = clean_line(tool.name, 80)
        schema = schema_of(tool.input_schema)
        if tool.name in names:
            left_out.append(f"{shown}: a second tool of this name")
        elif not shown or len(tool.name) > 256:
            left_out.append(f"{shown}: no name that can be used")
        elif schema is None:
            left_out.append(f"{shown}: its parameters cannot be used")
        elif len(tools) == MAX_TOOLS or (room := room - len(json.dumps(schema)) - 100) < 0:
            left_out.append(f"{shown}: there are too many")
        else:
            names.add(tool.name)
            said = tool.model_dump(mode="json", by_alias=True, exclude={"meta", "icons"})
            about = clean(tool.description, MAX_DESCRIPTION_CHARS)
            reads, closed = _marks(tool.annotations)
            told = {"name": tool.name, "about": about, "schema": schema, "hash": digest(said)}
            tools.append({**told, "reads": reads, "closed": closed})
    return tools, left_out[:20]


def _marks(annotations: Any) -> tuple[bool, bool]:
    """Whether the annotations explicitly declare a tool read-only, and closed-world."""
    return (
        getattr(annotations, "read_only_hint", None) is True,
        getattr(annotations, "open_world_hint", None) is False,
    )


def prompt_of(prompt: Any) -> Line:
    """Convert the description of a prompt."""
    arguments = [
        {"name": argument.name, "about": clean_line(argument.description, 200), "required": bool(argument.required)}
        for argument in (prompt.arguments or [])[:20]
    ]
    return {"name": prompt.name, "about": clean_line(prompt.description, 300), "arguments": arguments}


def prompt_text(said: Any) -> str:
    """Join the messages of a prompt into one text, without images."""
    texts = [message.content.text for message in said.messages if message.content.type == "text"]
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


EMPTY = "[The tool answered nothing.]"


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
