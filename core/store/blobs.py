"""Pictures of events, stored separately by digest; the event has a reference with type and size. Pure functions.

In V0's form a picture is a `data:` URL. In the log it is `blob:image/png;640x480;12345;<sha256>`, so that readers know
its size without its bytes. The class attribute `pictures` of an event names the fields that hold pictures. EventStream
takes pictures out, EventStore stores them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from core.events import Event
from core.image_types import HEAD_BYTES, measured

SCHEME = "blob:"
MAX_BYTES = 32 * 1024 * 1024
"""A larger picture is replaced by `TOO_LARGE`."""
TOO_LARGE = "data:text/plain,a%20picture%20of%20more%20than%2032%20MB%20was%20left%20out"
TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WebP": "image/webp", "BMP": "image/bmp"}

_DATA_URL = re.compile(r"data:image/[a-z0-9.+-]{1,40}(?:;[a-z0-9=.-]{1,40})*;base64,", re.IGNORECASE)
_REFERENCE = re.compile(r"blob:(image/[a-z]+);(\d{1,9})x(\d{1,9});(\d{1,12});([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class BlobRef:
    """An event's reference to a stored picture."""

    media_type: str
    width: int
    height: int
    """In pixels."""
    size: int
    """In bytes."""
    digest: str
    """SHA-256 of the bytes, in hexadecimal."""

    @classmethod
    def parse(cls, text: str) -> BlobRef | None:
        """Parse a reference; None for any other text."""
        found = _REFERENCE.fullmatch(text)
        return found and cls(found[1], int(found[2]), int(found[3]), int(found[4]), found[5])

    def __str__(self) -> str:
        return f"{SCHEME}{self.media_type};{self.width}x{self.height};{self.size};{self.digest}"


@dataclass(frozen=True, slots=True)
class Blob:
    """A picture's bytes and their reference."""

    ref: BlobRef
    data: bytes

    def row(self, key: int) -> tuple[object, ...]:
        """The values of `core.store.writer.ADD_BLOB` for the conversation with this key."""
        return key, self.ref.digest, self.ref.media_type, self.ref.width, self.ref.height, self.data

    def data_url(self) -> str:
        return f"data:{self.ref.media_type};base64,{base64.b64encode(self.data).decode('ascii')}"


def parse_data_url(url: str) -> Blob | None:
    """The picture in a `data:` URL; None for other URLs and for pictures of an unknown kind."""
    prefix = _DATA_URL.match(url)
    if prefix is None:
        return None
    try:
        data = base64.b64decode(url[prefix.end() :], validate=True)
    except (binascii.Error, ValueError):
        return None
    found = measured(data[:HEAD_BYTES])
    if found is None:
        return None
    kind, width, height = found
    return Blob(BlobRef(TYPES[kind], width, height, len(data), hashlib.sha256(data).hexdigest()), data)


def picture_urls(event: Event) -> list[str]:
    """The URLs of an event's pictures, in the order of its fields; references for a stored event."""
    found: list[str] = []
    for name in event.pictures:
        value = getattr(event, name)
        found += [value] if isinstance(value, str) else value or []
    return [url for url in found if url]


def extract_pictures(event: Event) -> tuple[Event, tuple[Blob, ...]]:
    """The event with references instead of pictures, and the pictures. The same event if it has none."""
    blobs: list[Blob] = []

    def to_reference(url: str) -> str:
        if len(url) > MAX_BYTES * 4 // 3 + 100:
            return TOO_LARGE
        blob = parse_data_url(url)
        if blob is None:
            return url
        blobs.append(blob)
        return str(blob.ref)

    changed = _replace_pictures(event, to_reference)
    return changed, tuple(blobs)


def embed_pictures(event: Event, blobs: dict[str, Blob]) -> Event:
    """The event with `data:` URLs instead of references, for the given blobs by digest."""

    def embed(url: str) -> str:
        ref = BlobRef.parse(url)
        blob = blobs.get(ref.digest) if ref else None
        return blob.data_url() if blob else url

    return _replace_pictures(event, embed)


def _replace_pictures(event: Event, replace: Callable[[str], str]) -> Event:
    update: dict[str, Any] = {}
    for name in event.pictures:
        old = getattr(event, name)
        new: Any = old
        if isinstance(old, str):
            new = replace(old) if old else old
        elif old:
            new = [replace(url) for url in old]
        if new != old:
            update[name] = new
    return event.model_copy(update=update) if update else event
