"""The tables of docs/configuration.md: every setting, from the JSON schema that pydantic makes of the settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from core.llm.settings import SettingsSection
from core.settings.config import Settings
from core.settings.editable_settings import fields_of
from core.settings.screen_settings import ScreenSettings

Schema = Mapping[str, Any]
_BOUNDS = (
    ("minimum", "at least"),
    ("exclusiveMinimum", "more than"),
    ("maximum", "at most"),
    ("exclusiveMaximum", "less than"),
)
_TYPES = {"boolean": "true or false", "integer": "whole number", "number": "number", "string": "text", "array": "list"}


def tables() -> str:
    """A heading, the description and a table for each section, those with names of the user's own included."""
    schema = _schema()
    parts = [_section(title, body, schema) for title, body in _sections(schema, schema, "")]
    return "\n\n".join(parts)


def _schema() -> Schema:
    """The schema, with the docstrings of the fields as descriptions."""
    schema = Settings.model_json_schema()
    sections: list[type] = [ScreenSettings, *_below(SettingsSection)]
    for section in sections:
        body = schema if section is Settings else schema["$defs"].get(section.__name__)
        for name, info in fields_of(section).items() if body else ():
            if info.description:
                body["properties"][name].setdefault("description", info.description)
    return schema


def _below(section: type[SettingsSection]) -> Iterator[type[SettingsSection]]:
    for one in section.__subclasses__():
        yield one
        yield from _below(one)


def names() -> set[str]:
    """Every setting by its full name, such as `agent.confirm`, and every section by its own."""
    schema = _schema()
    found = set()
    for title, body in _sections(schema, schema, ""):
        found |= {title} | {f"{title}.{name}".lstrip(".") for name in body["properties"]}
    return found


def _sections(body: Schema, schema: Schema, title: str) -> Iterator[tuple[str, Schema]]:
    """Each section with its name; the settings outside sections come first, with an empty name."""
    yield title, body
    for name, field in body["properties"].items():
        below = f"{title}.{name}".lstrip(".")
        if _is_section(field, schema):
            yield from _sections(_resolved(field, schema), schema, below)
        for each in field.get("patternProperties", {}).values():
            yield from _sections(_resolved(each, schema), schema, f"{below}.NAME")


def _is_section(field: Schema, schema: Schema) -> bool:
    return "properties" in _resolved(field, schema)


def _resolved(field: Schema, schema: Schema) -> Schema:
    """The field with the definition that it refers to laid under it."""
    if "$ref" not in field:
        return field
    definition: Schema = schema["$defs"][field["$ref"].rpartition("/")[2]]
    return {**definition, **field}


def _section(title: str, body: Schema, schema: Schema) -> str:
    about = "" if not title else _line(body.get("description", "")).partition(". ")[0].rstrip(".") + "."
    rows = ["| setting | value | default | meaning |", "|---|---|---|---|"]
    for name, field in body["properties"].items():
        if "patternProperties" in field or _is_section(field, schema):
            continue
        resolved = _resolved(field, schema)
        required = name in body.get("required", ())
        default = "required" if required else _default(resolved.get("default"))
        meaning = _line(field.get("description") or resolved.get("description", ""))
        rows.append(f"| `{name}` | {_value(resolved, schema)} | {default} | {_cell(meaning)} |")
    heading = f"## {title or 'Outside sections'}"
    if len(rows) == 2:
        rows = []
    return "\n\n".join(part for part in (heading, about, "\n".join(rows)) if part)


def _value(field: Schema, schema: Schema) -> str:
    """The allowed values."""
    if "anyOf" in field:
        kinds = [_resolved(kind, schema) for kind in field["anyOf"] if kind.get("type") != "null"]
        return " or ".join(dict.fromkeys(_value(kind, schema) for kind in kinds))
    if "enum" in field:
        return ", ".join(f"`{choice}`" for choice in field["enum"])
    bounds = [f"{words} {field[name]:g}" for name, words in _BOUNDS if name in field]
    return ", ".join([_TYPES.get(field.get("type", ""), "table"), *bounds])


def _default(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "–"
    if isinstance(value, list):
        return ", ".join(f"`{part}`" for part in value)
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
