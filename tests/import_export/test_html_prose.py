"""Messages in the HTML export: Markdown is rendered, nothing is lost, and nothing can run, load or hide."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.import_export.html_prose import prose_html

TAGS = {
    *("p", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "hr", "br", "pre", "code", "em", "strong", "s", "a"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
ATTRIBUTES = {"href", "title", "rel", "class", "style", "start"}
DROPPED_BY_A_PARSER = [">" * 300 + " deep", "- " * 300 + "deep", "[a]: https://example.org\n[b]: x"]


def shown(html: str) -> str:
    """What a reader sees, without the space between words."""
    return re.sub(r"\s", "", unescape(re.sub(r"<[^>]*>", "", html)))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("# Title", "<h3>Title</h3>"),
        ("**bold** and *thin*", "<strong>bold</strong> and <em>thin</em>"),
        ("- one\n  - two", "<li>one\n<ul>\n<li>two</li>"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "<td>1</td>\n<td>2</td>"),
        ("```py\nx < 1\n```", '<code class="language-py">x &lt; 1\n</code>'),
        ("> said", "<blockquote>\n<p>said</p>"),
        ("~~gone~~", "<s>gone</s>"),
        ("[docs](https://example.org/a)", 'href="https://example.org/a" title="https://example.org/a" rel="noreferrer'),
    ],
)
def test_markdown_is_rendered(text: str, part: str) -> None:
    assert part in prose_html(text)


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "![x](https://example.org/pixel.png)",
        "[x](javascript:alert(1))",
        "[x](data:text/html,<script>alert(1)</script>)",
        '[x](https://e.org "&quot; onmouseover=alert(1)")',
        "```x\" onclick='a\ncode\n```",
        "&lt;img src=x onerror=alert(1)&gt;",
    ],
)
def test_text_cannot_become_html_that_acts(text: str) -> None:
    check_tags(prose_html(text))


@given(st.text(alphabet="ab <>\"'&;#*_~`[](){}!|-+=:/\\\n\t1.x", max_size=80))
def test_any_text_becomes_known_tags_only(text: str) -> None:
    check_tags(prose_html(text))


def check_tags(html: str) -> None:
    for name, attributes in re.findall(r"<(/?[^\s>]*)([^>]*)>", html):
        assert name.strip("/") in TAGS
        assert set(re.findall(r'([\w-]+)="[^"]*"', attributes)) <= ATTRIBUTES
        assert re.fullmatch(r'(\s+[\w-]+="[^"]*")*\s*/?', attributes)
    assert not re.search(r'href="(?!https?:|mailto:|#|/|\w|\.|%|\?)', html)
    assert not re.search(r'href="\s*(javascript|vbscript|data|file):', html, re.IGNORECASE)


@pytest.mark.parametrize("text", DROPPED_BY_A_PARSER, ids=["quotes", "lists", "references"])
def test_nothing_is_dropped(text: str) -> None:
    assert shown(prose_html(text)) == re.sub(r"\s", "", text)


def test_hidden_characters_are_visible_even_as_entities() -> None:
    html = prose_html("a\u202eb &#8238; &#x1b;[31m <https://example.org/%E2%80%AE>")
    assert not re.search("[\x1b\u202e]", html)
    assert html.count("⟦U+202E⟧") >= 2
