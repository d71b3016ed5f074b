"""Keeps parsed style sheets from one app to the next, so that a test does not parse the same CSS again.

Textual keeps parsed rules in each `Stylesheet`, and each test has an app and so a stylesheet of its own. Rules depend
on the text and on the variables of the theme only, and Textual does not change them once they are parsed.
"""

from __future__ import annotations

from typing import Any

from textual.css.stylesheet import Stylesheet

_PARSED: dict[tuple[Any, ...], list[Any]] = {}


def install() -> None:
    """Let every `Stylesheet` look among all parsed rules before it parses."""
    original = Stylesheet._parse_rules

    def parse_rules(self: Stylesheet, css: str, read_from: Any, *args: Any, **kwargs: Any) -> list[Any]:
        variables = tuple(sorted(self._variables.items()))
        key = (variables, css, read_from, args, tuple(sorted(kwargs.items())))
        if (rules := _PARSED.get(key)) is None:
            rules = _PARSED[key] = original(self, css, read_from, *args, **kwargs)
        return rules

    setattr(Stylesheet, "_parse_rules", parse_rules)  # noqa: B010
