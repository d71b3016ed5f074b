"""Markdown drawn by Rich, without what Rich leaves out or decorates.

HTML is shown as it is written, since a tag that vanishes would take the model's words with it; links show
where they lead; headings and code stay plain. Imports Rich's Markdown, which is slow to load, so this
module is loaded when the first Markdown is drawn.
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
    """Sanitise again what was parsed: `&#x202e;` and its like only now are what they stand for."""
    for token in tokens:
        token.content = sanitize(token.content)
        if "href" in token.attrs:
            token.attrs["href"] = sanitize(str(token.attrs["href"]))
        if token.children:
            _clean(token.children)


def theme_console(styles: dict[str, Style]) -> Console:
    """A console whose Markdown has these styles and no others of Rich's.

    Takes the roles `text`, `muted`, `heading`, `code`, `link` and `accent`.
    """
    plain, bold = Style(), Style(bold=True)
    muted, heading, code, link = styles["muted"], styles["heading"], styles["code"], styles["link"]
    names = {
        "em": Style(italic=True),
        "emph": Style(italic=True),
        "strong": bold,
        "s": Style(strike=True),
        "paragraph": plain,
        "text": plain,
        "list": plain,
        "item": plain,
        "code": code,
        "code_block": code,
        "block_quote": muted,
        "hr": muted,
        "item.bullet": styles["accent"],
        "item.number": styles["accent"],
        "link": link,
        "link_url": muted,
        "kbd": bold,
        "h1.border": muted,
        "h7": heading,
        "table.border": muted,
        "table.header": bold,
    } | {f"h{level}": heading for level in range(1, 7)}
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
    """Clean Markdown as lines of exactly `width` cells, without blank lines around it."""
    options = console.options.update(width=width)
    lines = console.render_lines(_Markdown(text), options, style=style, pad=True)
    while lines and _is_blank(lines[0]):
        del lines[0]
    while lines and _is_blank(lines[-1]):
        del lines[-1]
    return lines


def _is_blank(line: list[Segment]) -> bool:
    return all(not segment.text.strip() for segment in line)
