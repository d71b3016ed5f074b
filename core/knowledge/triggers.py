"""Whether a text brings up a trigger. Pure.

A trigger counts where it stands as a word of its own: `git` is in "git push" and not in "digit". Scripts that put no
space between words, such as Chinese and Japanese, have no such border: there it counts wherever it stands. Case does
not matter, nor do width and composition of letters. Follows V0, where any part of a word counted.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

MAX_QUERY_CHARS = 100_000
"""Of a message that are looked through: a longer one is a pasted file."""
MAX_TRIGGER_CHARS = 200
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Thai, Lao, Burmese, Khmer, Chinese and Japanese. Korean puts spaces, but hangs particles onto words."""
_HANGUL = re.compile("[\uac00-\ud7af]")


def folded(text: str) -> str:
    """A text as it is compared."""
    return unicodedata.normalize("NFKC", text[:MAX_QUERY_CHARS]).casefold()


def brings_up(query: str, triggers: Iterable[str]) -> str:
    """The first of the triggers that stands in a query, which is `folded`; empty where none does."""
    return next((trigger for trigger in triggers if _stands_in(folded(trigger).strip(), query)), "")


def _stands_in(trigger: str, query: str) -> bool:
    if not trigger or len(trigger) > MAX_TRIGGER_CHARS:
        return False
    at = query.find(trigger)
    while at >= 0:
        end = at + len(trigger)
        if _borders(query[at - 1 : at], trigger[0]) and _ends(query[end : end + 1], trigger[-1]):
            return True
        at = query.find(trigger, at + 1)
    return False


def _borders(before: str, first: str) -> bool:
    """Whether a word may begin between these two; `/name` begins a word only where nothing stands before it."""
    if first == "/":
        return not before or before.isspace()
    return not _joins(before, first)


def _ends(after: str, last: str) -> bool:
    return bool(_HANGUL.match(last)) or not _joins(last, after)


def _joins(one: str, other: str) -> bool:
    """Whether two letters beside each other are of one word."""
    if not one or not other or _UNSPACED.match(one) or _UNSPACED.match(other):
        return False
    return _is_letter(one) and _is_letter(other)


def _is_letter(letter: str) -> bool:
    return letter == "_" or unicodedata.category(letter)[0] in "LNM"
