"""Pictures are stored with their events, unchanged, and are deleted with their conversation."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import pytest
from PIL import Image

from core.events import BrowserOutputObservation, EventSource, IPythonRunCellObservation, MessageAction
from core.store.blobs import (
    MAX_BYTES,
    TOO_LARGE,
    BlobRef,
    embed_pictures,
    extract_pictures,
    parse_data_url,
    picture_urls,
)
from core.store.event_store import EventStore
from core.stream import EventStream


def png(width: int = 3, height: int = 2, colour: str = "red") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(file, "PNG")
    return file.getvalue()


def url(data: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def test_picture_is_extracted_and_restored() -> None:
    page = BrowserOutputObservation(url="http://a", trigger_by_action="browse", screenshot=url(png()))
    bare, (blob,) = extract_pictures(page)
    assert isinstance(bare, BrowserOutputObservation)
    ref = BlobRef.parse(bare.screenshot)
    assert ref == blob.ref
    assert (blob.ref.media_type, blob.ref.width, blob.ref.height, blob.ref.size) == ("image/png", 3, 2, len(png()))
    assert embed_pictures(bare, {blob.ref.digest: blob}) == page


def test_type_follows_from_the_bytes_and_not_from_the_url() -> None:
    blob = parse_data_url(url(png(), "jpeg"))
    assert blob is not None
    assert blob.ref.media_type == "image/png"


@pytest.mark.parametrize(
    "text",
    ["https://example.org/a.png", "data:image/png;base64,####", "data:image/png;base64,AAAA", "data:text/html,x"],
)
def test_url_without_a_picture_is_kept(text: str) -> None:
    said = MessageAction(content="look", image_urls=[text])
    assert extract_pictures(said) == (said, ())


def test_too_large_picture_is_replaced() -> None:
    cell = IPythonRunCellObservation(code="", image_urls=["data:image/png;base64," + "A" * (2 * MAX_BYTES)])
    bare, blobs = extract_pictures(cell)
    assert (picture_urls(bare), blobs) == ([TOO_LARGE], ())


@pytest.mark.parametrize(("more", "is_kept"), [(0, True), (100, False)])
def test_picture_of_the_maximum_size_is_kept(more: int, is_kept: bool) -> None:
    data = png().ljust(MAX_BYTES + more, b"\0")
    _, blobs = extract_pictures(IPythonRunCellObservation(code="", image_urls=[url(data)]))
    assert [blob.ref.size for blob in blobs] == [MAX_BYTES] * is_kept


@pytest.mark.parametrize("text", ["blob:image/png;1x1;1;zz", "blob:text/html;1x1;1;" + "0" * 64, ""])
def test_only_valid_references_are_parsed(text: str) -> None:
    assert BlobRef.parse(text) is None


async def test_log_has_the_reference_and_the_store_the_bytes(tmp_path: Path) -> None:
    async with EventStore(tmp_path) as store:
        lease = await store.create_conversation("c", title="", workspace="/", model="m")
        stream = EventStream(store, lease)
        pictures = [png(), png(colour="blue"), png()]
        envelope = await stream.append(
            IPythonRunCellObservation(code="plot()", image_urls=list(map(url, pictures))), EventSource.AGENT
        )
        assert [stored.event for stored in await stream.read()] == [envelope.event]
        (body,) = await store.read_json("c")
        assert "base64" not in body
        refs = [BlobRef.parse(text) for text in picture_urls(envelope.event)]
        blobs = [await stream.blob(ref) for ref in refs if ref]
        assert [blob.data for blob in blobs if blob] == pictures
        assert refs[0] == refs[2], "one picture is kept once"
        await stream.aclose()


async def test_picture_of_another_conversation_is_not_returned(tmp_path: Path) -> None:
    async with EventStore(tmp_path) as store:
        stream = EventStream(store, await store.create_conversation("a", title="", workspace="/", model="m"))
        await store.create_conversation("b", title="", workspace="/", model="m")
        envelope = await stream.append(MessageAction(content="", image_urls=[url(png())]), EventSource.USER)
        ref = BlobRef.parse(picture_urls(envelope.event)[0])
        assert ref is not None
        assert await store.blob("b", ref) is None
        await stream.aclose()
