"""What a tool answered, as a line of the MCP host: one text and its pictures, bounded and clean. Pure."""

from __future__ import annotations

import json
from typing import Any

from core.llm.wire import Line
from core.mcp.offers import MAX_TEXT_CHARS, is_base64
from core.mcp.tidy import clean, clean_line

EMPTY = "[The tool answered nothing.]"


def result_of(result: Any) -> Line:
    """The answer of a call. What is no text and no picture is named in the text."""
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
