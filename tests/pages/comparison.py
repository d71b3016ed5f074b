"""The differences between BrowserGym's side and Handloom's, and which of them are intended.

Meant everywhere: a page gets no attributes from us but `bid`, so an error does not name BrowserGym's on an element;
and a frame can itself be acted on, where BrowserGym looks for it within itself.
"""

from __future__ import annotations

import base64
import difflib
import json
import re
from collections.abc import Iterator
from io import BytesIO
from itertools import chain
from typing import Any

from PIL import Image, ImageChops

from runtime.plugins.browser import axtree, page_observation

State = dict[str, Any]

MEANT = (
    (
        "labels",
        r"\[34\]|\[35\]|'Submit'|'Reset'",
        "BrowserGym writes `value` into the page, which empties the label of a submit or reset button that has none of "
        "its own. We leave the page's values alone; a form can still be reset to what it was.",
    ),
    (
        "unicode",
        r"ListMarker",
        "For the same reason list items keep their numbers, where BrowserGym makes each a 0.",
    ),
)
"""The page, the subject of the difference, and its reason."""

_ELEMENT = re.compile(r"<(\w+)([^<>]*)>")


def differences(name: str, theirs: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """A line for each difference that is not meant, and for each that is meant and does not show."""
    found = list(chain.from_iterable(map(_of_states, theirs["states"], ours["states"])))
    for page, about, _ in MEANT:
        if page == name:
            others = [line for line in found if not re.search(about, line)]
            found = others if len(others) < len(found) else [*others, f"nothing differs in {about}, which was expected"]
    return found


def of_what_is_made(made: dict[str, Any], styles: list[dict[str, Any]]) -> Iterator[str]:
    """Where our pure parts make something else of what BrowserGym read: the texts, and the picture with marks."""
    for style, text in zip(styles, made["texts"], strict=True):
        ours = axtree.flatten(made["tree"], made["properties"])
        for line in difflib.unified_diff(text.split("\n"), ours.split("\n"), lineterm="", n=0):
            yield f"{style}: {line}"
    marked = page_observation.draw_marks(base64.b64decode(made["picture"]), made["properties"])
    theirs = Image.open(BytesIO(base64.b64decode(made["marked"]))).convert("RGB")
    differs = ImageChops.difference(theirs, Image.open(BytesIO(marked)).convert("RGB")).getbbox()
    if differs:
        yield f"the marks differ within {differs}"


def _of_states(theirs: State, ours: State) -> Iterator[str]:
    step = "opened" if theirs["step"] is None else json.dumps(theirs["step"], ensure_ascii=False)
    if _gist(theirs["error"]) != _gist(ours["error"]):
        yield f"{step}: error {theirs['error']!r} / {ours['error']!r}"
    if theirs["focused"] != ours["focused"]:
        yield f"{step}: focused {theirs['focused']!r} / {ours['focused']!r}"
    for line in difflib.unified_diff(theirs["text"], ours["text"], lineterm="", n=0):
        if not line.startswith(("---", "+++", "@@")):
            yield f"{step}: text {line}"
    for field in ("elements", "properties"):
        left, right = theirs[field], ours[field]
        for bid in sorted(left.keys() | right.keys()):
            if left.get(bid) != right.get(bid):
                yield f"{step}: {field} [{bid}] {left.get(bid)} / {right.get(bid)}"


def _gist(error: str) -> list[str]:
    """The content of an error without duplicates.

    The number of playwright's attempts depends on the machine, and the attributes of an element on who read the page.
    """
    lines = (re.sub(r"^\s*(- |\d+ × )", "", line).strip() for line in _ELEMENT.sub(_bare, error).split("\n"))
    return list(dict.fromkeys(line for line in lines if not re.fullmatch(r"waiting \d+ms", line)))


def _bare(element: re.Match[str]) -> str:
    bid = re.search(r' bid="\w+"', element[2])
    return f"<{element[1]}{bid[0] if bid else ''}>"
