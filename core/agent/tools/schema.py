"""Values against JSON Schema: the part of it that tools declare their parameters in.

`problem_of` says in words for the model what is wrong, and changes nothing: a value is taken as it is or not at all.
Understood are type, enum, items, properties, required and additionalProperties; what a schema says beyond them is left
to the action's own class.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

SHOWN_NAME_CHARS = 64
_MAX_DEPTH = 16
"""Deeper than any tool's schema goes; a foreign one that refers to itself ends here."""


def problem_of(value: Any, schema: Mapping[str, Any], place: str = "", depth: int = 0) -> str:
    """What is wrong with a value, such as `must be a string`; empty where it fits.

    `place` leads to it within the argument, such as `[0].title`.
    """
    kind, choices = schema.get("type"), schema.get("enum")
    where = f"{place} " if place else ""
    if isinstance(kind, str) and kind in _IS_OF and not _IS_OF[kind](value):
        return f"{where}must be {_NAMES[kind]}"
    if isinstance(choices, list) and not any(type(value) is type(choice) and value == choice for choice in choices):
        return f"{where}must be one of: {', '.join(map(str, choices))}"
    if depth < _MAX_DEPTH:
        if isinstance(value, list) and isinstance(items := schema.get("items"), Mapping):
            found = (problem_of(item, items, f"{place}[{n}]", depth + 1) for n, item in enumerate(value))
            return next(filter(None, found), "")
        if isinstance(value, dict) and isinstance(properties := schema.get("properties"), Mapping):
            return _problem_of_object(value, schema, properties, place, depth)
    return ""


def _problem_of_object(
    value: Mapping[str, Any], schema: Mapping[str, Any], properties: Mapping[str, Any], place: str, depth: int
) -> str:
    where = f"{place} " if place else ""
    for name in schema.get("required", ()):
        if name not in value:
            return f'{where}must have "{name}"'
    for name, item in value.items():
        known = properties.get(name)
        if isinstance(known, Mapping):
            if problem := problem_of(item, known, f"{place}.{name}", depth + 1):
                return problem
        elif schema.get("additionalProperties") is False:
            return f'{where}may not have "{name[:SHOWN_NAME_CHARS]}"'
    return ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


_IS_OF: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
_NAMES = {
    "string": "a string",
    "number": "a number",
    "integer": "an integer",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
