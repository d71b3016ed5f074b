"""Notices of models in another language: the text is translated, its values are not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from core import status_messages
from tui import i18n
from tui.i18n import in_words


@pytest.fixture(autouse=True)
def in_chinese() -> Iterator[None]:
    i18n.use("zh")
    yield
    i18n.use("en")


@pytest.mark.parametrize("form", status_messages.FORMS)
def test_every_notice_is_recognised_with_its_values(form: str) -> None:
    places = {"model": "a/b{x}", "other": "c; d", "error": "It failed.\nTwice", "tries": "2 / 5",
              "seconds": "3", "reason": status_messages.NO_ANSWER, "path": "/p: q", "names": "a, b",
              "host": "a.example:80", "rule": "policy.toml:1 deny net(a)", "what": "/a b, c"}  # fmt: skip
    said = in_words(form.format(**places))
    assert said == i18n._(form).format(**{**places, "reason": i18n._(status_messages.NO_ANSWER)})
    assert said != form.format(**places)


@pytest.mark.parametrize("text", ["", "Something else.", "{model} {0}", "MCP server s: is back"])
def test_unknown_text_stays_as_it_is(text: str) -> None:
    assert in_words(text) == text
