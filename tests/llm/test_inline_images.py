"""A model with vision gets the bytes of referenced pictures; no other model does."""

from __future__ import annotations

from typing import Any

import pytest

from core.llm import inline_images
from core.llm.inline_images import LEFT_OUT, LOST, UNSEEN, with_pictures, without_pictures
from core.store.blobs import Blob, BlobRef, parse_data_url
from tests.store.test_blobs import png, url

RED, BLUE = (blob for colour in ("red", "blue") if (blob := parse_data_url(url(png(colour=colour)))))
KEPT = {blob.ref: blob for blob in (RED, BLUE)}


async def read(ref: BlobRef) -> Blob | None:
    return KEPT.get(ref)


def said(*parts: str | Blob | BlobRef) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, str):
            content.append({"type": "text", "text": part})
        else:
            shown = part.data_url() if isinstance(part, Blob) else str(part)
            content.append({"type": "image_url", "image_url": {"url": shown}})
    return {"role": "user", "content": content}


async def test_reference_becomes_the_picture() -> None:
    before = [
        {"role": "system", "content": "Be good."},
        said("look", RED.ref),
        {"role": "assistant", "content": "Red."},
    ]
    assert await with_pictures(before, read) == [before[0], said("look", RED), before[2]]


async def test_messages_without_pictures_are_unchanged() -> None:
    messages = [{"role": "user", "content": "hello"}, said("look", RED)]
    assert await with_pictures(messages, read) is messages


async def test_oldest_pictures_beyond_the_limit_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inline_images, "MAX_REQUEST_BYTES", BLUE.ref.size)
    assert await with_pictures([said(RED.ref), said(BLUE.ref)], read) == [said(LEFT_OUT), said(BLUE)]


async def test_missing_picture_is_reported_as_lost() -> None:
    ref = BlobRef("image/png", 1, 1, 70, "0" * 64)
    assert await with_pictures([said(ref)], read) == [said(LOST)]


def test_model_without_vision_gets_a_note_about_the_picture() -> None:
    messages = [{"role": "user", "content": "hello"}, said("look", RED)]
    assert without_pictures(messages) == [messages[0], said("look", UNSEEN)]
