"""What the agent reads of a page after a step, word for word as OpenHands V0 builds it. Pure.

Follows `get_agent_obs_text` of `openhands/runtime/browser/utils.py`. Notes are ours: what was refused, dismissed or cut
is said in a line of its own, and there is none where nothing happened.

Where pictures of pages are kept: outside of the workspace, in the session's data folder.

The worker is told by a variable of its environment. Without it, no picture is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

MAX_CONTENT_CHARS = 200_000
"""Of a page's text or tree: more is never read by a model."""
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
    """For a page that was opened."""
    said = _ERROR.format(what="trying to visit the URL", error=error) if error else ""
    return (
        f"[Current URL: {url}]\n{said}{_lines(notes)}"
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
    """For a step of calls; `tree` is None where there is no page to look at."""
    saved = f"[Screenshot saved to: {screenshot_path}]\n" if screenshot_path else ""
    said = (
        _ERROR.format(what="executing the last action", error=error) if error else "[Action executed successfully.]\n"
    )
    text = f"[Current URL: {url}]\n[Focused element bid: {focused}]\n{saved}\n{said}{_lines(notes)}"
    if tree is None:
        return text
    return (
        f"{text}{_COMPLETE}{_BIDS}"
        f"============== BEGIN accessibility tree ==============\n{cut(tree)}\n"
        "============== END accessibility tree ==============\n"
    )


def of_failure(trigger: Literal["browse", "browse_interactive"], url: str, error: str) -> str:
    """For a step after which there is no page."""
    return after_browsing(url, error, error) if trigger == "browse" else after_interacting(url, error, None)


def of_html(html: str) -> str:
    """A page as Markdown, with the settings of V0's BrowserEnv. Takes a second for a million characters."""
    import html2text  # a tenth of a second, for the first page only

    converter = html2text.HTML2Text()
    converter.ignore_links = False
    converter.ignore_images = True
    converter.images_to_alt = True
    converter.body_width = 0
    return converter.handle(html)


def cut(text: str) -> str:
    """A text of at most MAX_CONTENT_CHARS, and how much is left out."""
    left = len(text) - MAX_CONTENT_CHARS
    return text if left <= 0 else text[:MAX_CONTENT_CHARS] + TRUNCATED.format(left=left)


def _lines(notes: Sequence[str]) -> str:
    return "".join(f"[{note}]\n" for note in notes)


PICTURES = "HANDLOOM_PICTURES"
"""The variable; its value is a folder, made with the first picture."""
