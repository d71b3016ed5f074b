"""Widgets that are gone take along what was drawn of them.

Textual keeps two colours for each widget that was ever drawn in a cache that is bounded by its entries, a thousand of
them; the key of each is the widget's own cache, with all its strips: hundreds of megabytes in a day of opening
dialogs. `install` has the colours alone be the key.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

from textual._styles_cache import StylesCache


def install() -> None:
    """Have colours be found by colours. May be called twice."""
    found: Any = StylesCache.get_inner_outer
    if hasattr(found, "__wrapped__") and not isinstance(found.__wrapped__, partial):
        by_colours = lru_cache(1024)(partial(found.__wrapped__, StylesCache))
        StylesCache.get_inner_outer = staticmethod(by_colours)  # type: ignore[assignment]
