"""Hooks of mkdocs for the web site of the manual.

Links to files outside docs/ become plain text, because the site has no such pages; in the repository, where the pages
are read as Markdown, they lead to the code and the tests. After the build, no page may load anything from another host.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

OUTSIDE = re.compile(r"\[([^\]\n]+)\]\(\.\./[^)\s]*\)")
LOADED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=[\"']?((?:https?:)?//[^\s\"'>]+)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the page's Markdown with links to the rest of the repository replaced by their texts."""
    return OUTSIDE.sub(r"\1", markdown)


def on_post_build(config: Mapping[str, Any], **_: Any) -> None:
    """End the build with an error if a page loads something from another host."""
    for page in sorted(Path(config["site_dir"]).rglob("*.html")):
        if found := LOADED.search(page.read_text("utf-8")):
            raise SystemExit(f"{page} would load {found[1]}")
