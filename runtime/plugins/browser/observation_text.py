"""The text of a browser observation, word for word as OpenHands V0 builds it. Pure.

Follows `get_agent_obs_text` of `openhands/runtime/browser/utils.py`. Notes are an addition of Handloom: one line each
for what was refused, dismissed or truncated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

MAX_CONTENT_CHARS = 200_000
"""Limit for a page's text or tree: a model never reads more."""
TRUNCATED = "\n[... truncated: {left} more characters are not shown ...]"

_BIDS = (
    "Note: [bid] is the unique alpha-numeric identifier at the beginning of lines for each element in the AXTree. "
    "Always use bid to refer to elements in your actions.\n"
)
_COMPLETE = "Accessibility tree of the COMPLETE webpage:\n"
_ERROR = (
    "================ BEGIN error message ===============\n"
    "The following error occurred when {what}:\n"
    "{error}\n"
    "================ END error message ===============\n"
)


def after_browsing(url: str, error: str, page_text: str, notes: Sequence[str] = ()) -> str:
    """Return the text for a page that was opened."""
    status = _ERROR.format(what="trying to visit the URL", error=error) if error else ""
    return (
        f"[Current URL: {url}]\n{status}{_lines(notes)}"
        f"============== BEGIN webpage content ==============\n{cut(page_text)}"
        "\n============== END webpage content ==============\n"
    )


def after_interacting(
    url: str,
    error: str,
    tree: str | None,
    notes: Sequence[str] = (),
    *,
    focused: str = "",
    screenshot_path: str | None = None,
) -> str:
    """Return the text for a step of calls; `tree` is None if there is no page."""
    saved = f"[Screenshot saved to: {screenshot_path}]\n" if screenshot_path else ""
    status = (
        _ERROR.format(what="executing the last action", error=error) if error else "[Action executed successfully.]\n"
    )
    text = f"[Current URL: {url}]\n[Focused element bid: {focused}]\n{saved}\n{status}{_lines(notes)}"
    if tree is None:
        return text
    return (
        f"{text}{_COMPLETE}{_BIDS}"
        f"============== BEGIN accessibility tree ==============\n{cut(tree)}\n"
        "============== END accessibility tree ==============\n"
    )


def of_failure(trigger: Literal["browse", "browse_interactive"], url: str, error: str) -> str:
    """Return the text for a step after which there is no page."""
    return after_browsing(url, error, error) if trigger == "browse" else after_interacting(url, error, None)


def of_html(html: str) -> str:
    """Convert a page to Markdown with the settings of V0's BrowserEnv. Takes a second for a million characters."""
    import html2text  # the import takes 0.1 s

    converter = html2text.HTML2Text()
    converter.ignore_links = False
    converter.ignore_images = True
    converter.images_to_alt = True
    converter.body_width = 0
    return converter.handle(html)


def cut(text: str) -> str:
    """Truncate a text to MAX_CONTENT_CHARS and say how much is left out."""
    left = len(text) - MAX_CONTENT_CHARS
    return text if left <= 0 else text[:MAX_CONTENT_CHARS] + TRUNCATED.format(left=left)


def _lines(notes: Sequence[str]) -> str:
    return "".join(f"[{note}]\n" for note in notes)


PICTURES = "HANDLOOM_PICTURES"
"""Environment variable of the worker: the folder for screenshots, in the session's data folder. Without it, none is
saved."""
