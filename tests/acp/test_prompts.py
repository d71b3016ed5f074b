"""Prompts of an editor are converted into messages."""

from __future__ import annotations

import acp
import pytest
from acp.exceptions import RequestError

from tui.acp.prompts import EMBEDDED_CHARS, MAX_PICTURES, mention, message_of


@pytest.mark.parametrize(
    ("uri", "mentioned"),
    [
        ("file:///work/src/a%20b.py", "@src/a b.py"),
        ("file:///work/a.py#L10:20", "@a.py:10"),
        ("file:///work/a.py#L10-20", "@a.py:10"),
        ("file:///etc/hosts", "@/etc/hosts"),
        ("file:///work2/a", "@/work2/a"),
        ("https://example.org/a#b", "https://example.org/a#b"),
        ("zed:///agent/thread/1", "zed:///agent/thread/1"),
        ("http://[", "http://["),
        ("file:///work/a%0Ab%1B", "@a␊b␛"),
    ],
)
def test_link_becomes_a_mention(uri: str, mentioned: str) -> None:
    assert mention(uri, "/work") == mentioned


def test_embedded_texts_are_limited() -> None:
    blocks = [
        acp.resource_block(acp.embedded_text_resource(f"file:///work/{n}", f"begin{n}" + "x" * 10**6 + f"end{n}"))
        for n in range(8)
    ]
    message = message_of([acp.text_block("Read:"), *blocks], "/work")
    assert message.text == "Read: " + " ".join(f"@{n}" for n in range(8))
    assert ("begin0" in message.context, "end0" in message.context) == (True, True)
    assert "900010 characters are left out" in message.context
    assert len(message.context) < 4 * EMBEDDED_CHARS + 8 * 200


def test_too_many_pictures_are_refused_before_they_are_decoded() -> None:
    data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    blocks = [acp.image_block(data, "image/png")] * MAX_PICTURES
    assert len(message_of(blocks, "/").pictures) == MAX_PICTURES
    assert message_of(blocks, "/").text == "(an image)"
    with pytest.raises(RequestError, match="at most"):
        message_of([*blocks, acp.image_block("???", "image/png")], "/")
