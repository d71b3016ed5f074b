"""Every kind of event with hostile text in every string of it, nested ones too, made from the registry of kinds."""

from __future__ import annotations

import types
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from core.events import Action, Event, Observation
from tests.events.test_codec import ARGS, EXTRAS


def hostile_events(text: str) -> list[Event]:
    """One event of every kind, all of its strings being `text`."""
    return [_hostile(cls, text) for kinds in (Action.kinds, Observation.kinds) for cls in kinds.values()]


def unfilled(events: list[Event], text: str) -> set[tuple[str, str]]:
    """The string fields, as (kind, name), that do not hold the text."""
    return {
        (event.kind, name)
        for event in events
        for name, field in type(event).model_fields.items()
        if _holds_text(field.annotation) and not _contains(getattr(event, name), text)
    }


def _hostile(cls: type[Event], text: str) -> Event:
    example = {**ARGS.get(cls.kind, {}), **EXTRAS.get(cls.kind, {})}
    wanted = {
        name: _filled(field.annotation, text)
        for name, field in cls.model_fields.items()
        if _holds_text(field.annotation)
    }
    fields = {name: value for name, value in example.items() if name in cls.model_fields} | wanted
    while True:
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            refused = str(error.errors()[0]["loc"][0]) if error.errors()[0]["loc"] else ""
            if refused not in wanted:
                raise
            del wanted[refused]
            fields.pop(refused)
            if refused in example:
                fields[refused] = example[refused]


def _holds_text(annotation: Any) -> bool:
    return _contains(_filled(annotation, "text"), "text")


def _contains(value: Any, text: str) -> bool:
    """Whether one of the strings in a value is this text."""
    match value:
        case str():
            return value == text
        case BaseModel():
            return _contains(value.model_dump(), text)
        case dict():
            return any(_contains(part, text) for pair in value.items() for part in pair)
        case list() | tuple():
            return any(_contains(part, text) for part in value)
    return False


def _filled(annotation: Any, text: str) -> Any:
    """A value of this type that is as hostile as it can be; None where no string belongs there."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is str:
        return text
    if origin is Literal or (isinstance(annotation, type) and issubclass(annotation, Enum)):
        return None
    if origin in (Union, types.UnionType):
        return next((value for part in arguments if (value := _filled(part, text)) is not None), None)
    if origin in (list, tuple):
        item = _filled(arguments[0], text)
        return None if item is None else [item]
    if origin is dict:
        value = _filled(arguments[1], text)
        return {text: 1 if value is None else value}
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        inner = {name: _filled(field.annotation, text) for name, field in annotation.model_fields.items()}
        chosen = {
            name: get_args(field.annotation)[0]
            for name, field in annotation.model_fields.items()
            if get_origin(field.annotation) is Literal
        }
        return {**chosen, **{name: value for name, value in inner.items() if value is not None}}
    if getattr(annotation, "__name__", "") == "JsonValue":
        return {text: [text, {text: text}], "title": text, "status": text}
    return None
