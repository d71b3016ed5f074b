"""The settings as a user reads and changes them: each with its help, its bounds, its value and where that comes from.

Everything is made from the model in `core.settings.config`, so a field that is added there is here too. What is changed
goes into `config.toml` and nowhere else, is checked as a whole before a byte is written, and cannot beat the
environment or the command line, which win over the file at every start. Used by the manager; blocks for a file.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from enum import Enum, StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass
from pydantic.fields import FieldInfo

from core.errors import ConfigurationError
from core.settings.config import PREFIX, Origin, Settings, layers, load, save_settings


class Kind(StrEnum):
    """What can be said in a field."""

    SWITCH = "yes or no"
    CHOICE = "one of these"
    WHOLE = "whole number"
    NUMBER = "number"
    TEXT = "text"
    LIST = "list"


class Effect(StrEnum):
    """From when on a change counts."""

    AT_ONCE = "at once"
    NEXT_CONVERSATION = "for conversations that are opened later"
    NEXT_START = "after the next start of Handloom"


EFFECTS = {
    "runtime": Effect.NEXT_START,
    "llm": Effect.NEXT_CONVERSATION,
    "conversations": Effect.AT_ONCE,
    "conversations.max_concurrent": Effect.NEXT_START,
    "conversations.cleanup_interval_s": Effect.NEXT_START,
    "conversations.close_delay_s": Effect.NEXT_START,
    "sandbox.plugins": Effect.NEXT_START,
    "screen": Effect.NEXT_START,
}
"""By field, else by section; whatever is not here counts for the conversations that are opened later."""


BY_ENVIRONMENT = "The environment variable {name} overrides the file. Unset it and restart."
BY_OPTION = "The command-line option {name} overrides the file. Restart without it."


@dataclass(frozen=True, slots=True)
class Setting:
    """One field with what is known of it."""

    name: str
    """As `agent.confirm`."""
    help: str
    kind: Kind
    value: Any
    default: Any
    origin: Origin
    effect: Effect
    choices: tuple[str, ...] = ()
    optional: bool = False
    """Whether it may be without a value."""
    bounds: str = ""
    """Which numbers are allowed, for people; empty where all are."""

    @property
    def section(self) -> str:
        """The section that it lies in; empty for those on top."""
        return self.name.rpartition(".")[0]

    @property
    def field(self) -> str:
        """Its name within the section."""
        return self.name.rpartition(".")[2]

    @property
    def text(self) -> str:
        """The value as it is written in the environment, or in a field of the screen."""
        return as_text(self.value)

    @property
    def fixed(self) -> str:
        """Why it cannot be changed in the file with any effect; empty where it can."""
        said, name = self.fixed_by
        return said.format(name=name)

    @property
    def fixed_by(self) -> tuple[str, str]:
        """The sentence of `fixed` with a place for the name, and the name of what sets it."""
        if self.origin is Origin.ENVIRONMENT:
            short = f" or HANDLOOM_{self.name.upper()}" if self.name in ("model", "runtime") else ""
            variable = PREFIX + self.name.upper().replace(".", "__")
            return BY_ENVIRONMENT, variable + short
        if self.origin is Origin.COMMAND_LINE:
            return BY_OPTION, f"--{self.field}"
        return "", ""


class SettingsBook:
    """The settings of one start, to be read and changed."""

    def __init__(self, home: Path, environ: Mapping[str, str], options: Mapping[str, Any]) -> None:
        """`options` are those of the command line, as `core.settings.config.load` takes them."""
        self._home, self._environ, self._options = home, environ, options

    def read(self) -> tuple[Settings, list[Setting]]:
        """The settings as the places say now, and each field in the model's order. Raises ConfigurationError."""
        settings = load(self._home, self._environ, **self._options)
        said = layers(self._home, self._environ, **self._options)
        return settings, [_setting(name, info, settings, said) for name, info in fields(Settings)]

    def change(self, name: str, text: str | bool) -> tuple[Settings, list[Setting]]:
        """Put a value into the file and answer as `read`; an empty text where that is no value takes it out.
        A list comes as text with commas.

        Raises ConfigurationError with what is wrong with the value; then nothing is changed.
        """
        if text == "" and empty_is_default(name):
            return self.reset(name)
        value = checked(name, text)
        save_settings(self._home, {name: value})
        return self.read()

    def reset(self, name: str) -> tuple[Settings, list[Setting]]:
        """Take a field out of the file, so that its default counts. Answers as `read`."""
        save_settings(self._home, {name: None})
        return self.read()


def fields(model: type[BaseModel], above: str = "") -> list[tuple[str, FieldInfo]]:
    """Every field that holds a value, by its full name, in the model's order; sections with names of the user's own
    are not among them."""
    return _fields(model.model_fields, above)


def _fields(infos: Mapping[str, FieldInfo], above: str) -> list[tuple[str, FieldInfo]]:
    found = []
    for name, info in infos.items():
        below = _section_of(info)
        if get_origin(info.annotation) is dict:
            continue  # tables with names of the user's own are written in the file
        if below is not None:
            found += _fields(below, f"{above}{name}.")
        elif get_origin(info.annotation) is not dict:  # names of the user's own, each with a section in the file
            found.append((above + name, info))
    return found


def _section_of(info: FieldInfo) -> Mapping[str, FieldInfo] | None:
    """The fields of a section; None for a field that holds a value. The screen's section is a plain dataclass."""
    below = info.annotation
    if isinstance(below, type) and issubclass(below, BaseModel):
        return below.model_fields
    if isinstance(below, type) and is_dataclass(below):
        return _of_dataclass(below)
    return None


@cache
def _of_dataclass(below: type) -> Mapping[str, FieldInfo]:
    """What pydantic makes of a dataclass of the standard library, with the help that stands under its fields."""
    made: Any = checked_dataclass(below, frozen=True)
    fields: Mapping[str, FieldInfo] = made.__pydantic_fields__
    said = TypeAdapter(below).json_schema()["properties"]
    for name, info in fields.items():
        info.description = said[name].get("description")
    return fields


def sections() -> dict[str, str]:
    """What each section is about, by its name; the fields on top have the empty one."""
    about = {"": "The most common settings."}
    for name, info in Settings.model_fields.items():
        if _section_of(info) is not None:
            about[name] = (info.annotation.__doc__ or "").strip().partition("\n")[0]
    return about


def empty_is_default(name: str) -> bool:
    """Whether an empty text stands for the default of a field; else it is a text or a list like any other."""
    info = dict(fields(Settings))[name]
    kind, (_, optional) = kind_of(info), _alternatives(info.annotation)
    return kind is not Kind.LIST and (optional or kind is not Kind.TEXT)


def checked(name: str, value: str | bool) -> Any:
    """The value as the file holds it. Raises ConfigurationError with what is wrong, for people."""
    *above, field = name.split(".")
    tree: dict[str, Any] = {field: value}
    for section in reversed(above):
        tree = {section: tree}
    try:
        settings = Settings.model_validate(tree)
    except ValidationError as error:
        raise ConfigurationError(_told(error)) from error
    return _for_file(_value_of(settings, name))


def kind_of(info: FieldInfo) -> Kind:
    """How a field is filled in."""
    (bare, *others), _ = _alternatives(info.annotation)
    if others:
        return Kind.TEXT
    if _choices_of(bare):
        return Kind.CHOICE
    if (get_origin(bare) or bare) in (tuple, list, set, frozenset):
        return Kind.LIST
    return {bool: Kind.SWITCH, int: Kind.WHOLE, float: Kind.NUMBER}.get(bare, Kind.TEXT)


def as_text(value: Any) -> str:
    """A value as people write it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, (tuple, list)):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) and abs(value) < 1e6 else str(value)


def _setting(name: str, info: FieldInfo, settings: Settings, said: Mapping[Origin, Mapping[str, Any]]) -> Setting:
    (bare, *_), optional = _alternatives(info.annotation)
    places = [origin for origin, layer in said.items() if _says(layer, name)]
    section = name.partition(".")[0]
    return Setting(
        name=name,
        help=" ".join((info.description or "").split()),
        kind=kind_of(info),
        value=_value_of(settings, name),
        default=info.get_default(),
        origin=places[-1] if places else Origin.DEFAULT,
        effect=EFFECTS.get(name, EFFECTS.get(section, Effect.NEXT_CONVERSATION)),
        choices=_choices_of(bare),
        optional=optional,
        bounds=_bounds(info),
    )


def _alternatives(annotation: Any) -> tuple[list[Any], bool]:
    """The types that a value may have, bare of what is annotated, and whether it may be None."""
    if get_origin(annotation) in (Union, types.UnionType):
        kinds, optional = [], False
        for part in get_args(annotation):
            if part is type(None):
                optional = True
            else:
                kinds += _alternatives(part)[0]
        return kinds, optional
    if hasattr(annotation, "__metadata__"):
        return _alternatives(get_args(annotation)[0])
    return [annotation], False


def _choices_of(bare: Any) -> tuple[str, ...]:
    if get_origin(bare) is Literal:
        return tuple(map(str, get_args(bare)))
    if isinstance(bare, type) and issubclass(bare, Enum):
        return tuple(str(member.value) for member in bare)
    return ()


_BOUNDS = (("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than"))


def _bounds(info: FieldInfo) -> str:
    parts = []
    for constraint in info.metadata:
        parts += [f"{words} {getattr(constraint, name):g}" for name, words in _BOUNDS if hasattr(constraint, name)]
    return ", ".join(parts)


def _says(layer: Mapping[str, Any], name: str) -> bool:
    *above, field = name.split(".")
    below: Any = layer
    for section in above:
        below = below.get(section) if isinstance(below, Mapping) else None
    return isinstance(below, Mapping) and field in below


def _value_of(settings: Settings, name: str) -> Any:
    value: Any = settings
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _for_file(value: Any) -> Any:
    """As TOML knows it."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (tuple, list)):
        return [str(part) for part in value]
    return str(value) if isinstance(value, Path) else value


def _told(error: ValidationError) -> str:
    """The first thing that is wrong, without the words of the library around it."""
    message = error.errors()[0]["msg"]
    return message[:1].upper() + message[1:] + "."
