"""Draws Markdown with Rich, but shows HTML and the targets of links, and keeps headings and code plain.

Rich's Markdown is slow to load, so this module is imported when the first Markdown is drawn.
"""

from __future__ import annotations

from io import StringIO
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from rich.theme import Theme

from tui.terminal_io.sanitizer import sanitize

_parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])


class _PlainHeading(Heading):
    """A heading at the left margin."""

    LEVEL_ALIGN: ClassVar = {}


class _PlainCode(CodeBlock):
    """Code inside a list or a quotation: one colour, wrapped."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = Text(str(self.text).rstrip(), style=console.get_style("markdown.code_block"))
        text.overflow = "fold"
        yield text


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _PlainHeading,
        "fence": _PlainCode,
        "code_block": _PlainCode,
    }

    def __init__(self, markup: str) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = _parser.parse(markup)
        _clean(self.parsed)


def _clean(tokens: list[Token]) -> None:
    """Sanitise the parsed text again: entities such as `&#x202e;` are decoded by now."""
    for token in tokens:
        token.content = sanitize(token.content)
        if "href" in token.attrs:
            token.attrs["href"] = sanitize(str(token.attrs["href"]))
        if token.children:
            _clean(token.children)


def theme_console(styles: dict[str, Style]) -> Console:
    """Return a console that draws Markdown in these styles, by role."""
    muted, heading, code, accent = styles["muted"], styles["heading"], styles["code"], styles["accent"]
    names = {
        **dict.fromkeys(("paragraph", "text", "list", "item"), Style()),
        **dict.fromkeys(("em", "emph"), Style(italic=True)),
        **dict.fromkeys(("strong", "kbd", "table.header"), Style(bold=True)),
        **dict.fromkeys(("block_quote", "hr", "link_url", "h1.border", "table.border"), muted),
        **dict.fromkeys((f"h{level}" for level in range(1, 8)), heading),
        **dict.fromkeys(("code", "code_block"), code),
        **dict.fromkeys(("item.bullet", "item.number"), accent),
        "s": Style(strike=True),
        "link": styles["link"],
    }
    theme = Theme({f"markdown.{name}": style for name, style in names.items()})
    return Console(
        file=StringIO(),
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
        theme=theme,
        highlight=False,
        markup=False,
        emoji=False,
    )


def markdown_lines(console: Console, text: str, width: int, style: Style) -> list[list[Segment]]:
    """Draw clean Markdown as lines of exactly `width` cells, without blank lines around it."""
    options = console.options.update(width=width)
    lines = console.render_lines(_Markdown(text), options, style=style, pad=True)
    used = [number for number, line in enumerate(lines) if any(segment.text.strip() for segment in line)]
    return lines[used[0] : used[-1] + 1] if used else []
