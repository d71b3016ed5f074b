"""InlineImages: replaces references to images in a request by their bytes.

The messages of a request refer to images as the log does (`core.store.blobs`). The bytes are read for each call and not
kept. If a request has too many, the oldest are left out and replaced by a note.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from core.protocols import Complete, FrameSink, LLMRequest, LLMResponse
from core.store.blobs import Blob, BlobRef

MAX_REQUEST_BYTES = 16 * 1024 * 1024
"""The size of all images of a request; providers refuse more."""
LEFT_OUT = "[A picture is left out: there are too many.]"
LOST = "[A picture is not there any more.]"
UNSEEN = "[A picture, which this model cannot see.]"

Message = dict[str, Any]
ReadBlob = Callable[[BlobRef], Awaitable[Blob | None]]


class InlineImages:
    """A step of the model call: puts the images into the request. `read` reads one from the store."""

    def __init__(self, read: ReadBlob) -> None:
        self._read = read

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int, next: Complete) -> LLMResponse:
        """As `LLM.complete`."""
        messages = await with_pictures(request.messages, self._read)
        return await next(replace(request, messages=messages), on_frame, cause)


async def with_pictures(messages: Sequence[Message], read: ReadBlob) -> Sequence[Message]:
    """Return the messages with `data:` URLs instead of references. Returns the same object if there are none."""
    if not any(map(_picture_parts, messages)):
        return messages
    left, found = MAX_REQUEST_BYTES, list(messages)
    for index in range(len(found) - 1, -1, -1):
        if not _picture_parts(found[index]):
            continue
        parts = []
        for part in reversed(found[index]["content"]):
            ref = _ref(part)
            if ref is not None:
                left -= ref.size
                part = await _image(ref, read) if left >= 0 else _text(LEFT_OUT)  # noqa: PLW2901
            parts.append(part)
        found[index] = {**found[index], "content": parts[::-1]}
    return found


def without_pictures(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages for a model without vision: a note replaces each image."""
    return [
        {**message, "content": [_text(UNSEEN) if _is_picture(part) else part for part in message["content"]]}
        if any(map(_is_picture, _parts(message)))
        else message
        for message in messages
    ]


async def _image(ref: BlobRef, read: ReadBlob) -> Message:
    blob = await read(ref)
    return _text(LOST) if blob is None else {"type": "image_url", "image_url": {"url": blob.data_url()}}


def _picture_parts(message: Message) -> bool:
    return any(_ref(part) for part in _parts(message))


def _parts(message: Message) -> list[Message]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _is_picture(part: Message) -> bool:
    return part.get("type") == "image_url"


def _ref(part: Message) -> BlobRef | None:
    return BlobRef.parse(part["image_url"]["url"]) if _is_picture(part) else None


def _text(text: str) -> Message:
    return {"type": "text", "text": text}
