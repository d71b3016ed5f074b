"""A hook of mkdocs: links to files outside docs/ become plain text on the web site, which has no such pages.

In the repository, where the pages are read as Markdown, these links lead to the code and the tests.
"""

from __future__ import annotations

import re
from typing import Any

OUTSIDE = re.compile(r"\[([^\]\n]+)\]\(\.\./[^)\s]*\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the page's Markdown with such links replaced by their texts."""
    return OUTSIDE.sub(r"\1", markdown)
