"""Messages as HTML: their Markdown is rendered, their HTML is text, and their pictures are links. Pure."""

from __future__ import annotations

from functools import cache
from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token

from core.import_export.document_text import readable

LOWEST_HEADING = 6
HEADINGS_BELOW = 2
"""Levels of headings that the page itself uses."""


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False})
    return parser.enable(["table", "strikethrough"]).disable(["image", "html_block", "html_inline", "reference"])


def prose_html(text: str) -> str:
    """Markdown (CommonMark with tables and strikethrough) as HTML that loads nothing and runs no script.

    Links to `javascript:`, `vbscript:`, `file:` and `data:` addresses stay text. Control characters and hidden ones are
    made visible. Text that is nested too deeply for the parser, which would drop it, is shown as it was typed.
    """
    parser = _parser()
    tokens = parser.parse(readable(text))
    if any(token.nesting == 1 and token.level >= parser.options.maxNesting - 1 for token in tokens):
        return f"<pre>{escape(readable(text))}</pre>"
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(LOWEST_HEADING, int(token.tag[1]) + HEADINGS_BELOW)}"
        for child in token.children or ():
            if child.type == "link_open":
                _tame(child)
    return readable(parser.renderer.render(tokens, parser.options, {}))  # entities can be hidden characters


def _tame(link: Token) -> None:
    """Show where a link leads, and send its page nothing about this one."""
    link.attrSet("title", str(link.attrs.get("href", "")))
    link.attrSet("rel", "noreferrer noopener nofollow")
