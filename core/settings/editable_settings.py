"""EditableSettings: the settings with their help, bounds, values and origins, as a user reads and changes them.

Everything is derived from the model in `core.settings.config`. Changes are validated and then saved in `config.toml`;
the environment and the command line override the file at every start. Blocks.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from enum import Enum, StrEnum
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass
from pydantic.fields import FieldInfo

from core.errors import ConfigurationError
from core.settings.config import PREFIX, Origin, Settings, layers, load, save_settings


class Kind(StrEnum):
    """The kind of a field's value, as text for the user."""

    SWITCH = "yes or no"
    CHOICE = "one of these"
    WHOLE = "whole number"
    NUMBER = "number"
    TEXT = "text"
    LIST = "list"


class Effect(StrEnum):
    """When a change takes effect, as text for the user."""

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
"""By field, else by section; any other setting takes effect for conversations that are opened later."""
BY_ENVIRONMENT = "The environment variable {name} overrides the file. Unset it and restart."
BY_OPTION = "The command-line option {name} overrides the file. Restart without it."


@dataclass(frozen=True, slots=True)
class Setting:
    """One field."""

    name: str
    """The full name, such as `agent.confirm`."""
    help: str
    kind: Kind
    value: Any
    default: Any
    origin: Origin
    effect: Effect
    choices: tuple[str, ...] = ()
    optional: bool = False
    """Whether it may be unset."""
    bounds: str = ""
    """The allowed numbers, as text for the user; empty if all are."""

    @property
    def section(self) -> str:
        """Its section; empty for the fields at the top."""
        return self.name.rpartition(".")[0]

    @property
    def field(self) -> str:
        """Its name within the section."""
        return self.name.rpartition(".")[2]

    @property
    def text(self) -> str:
        """The value as text for the screen and the environment."""
        return as_text(self.value)

    @property
    def fixed(self) -> str:
        """Why a change of the file has no effect; empty if it has."""
        reason, name = self.fixed_by
        return reason.format(name=name)

    @property
    def fixed_by(self) -> tuple[str, str]:
        """The text of `fixed` with a placeholder, and the name of the variable or option."""
        if self.origin is Origin.ENVIRONMENT:
            short = f" or HANDLOOM_{self.name.upper()}" if self.name in ("model", "runtime") else ""
            variable = PREFIX + self.name.upper().replace(".", "__")
            return BY_ENVIRONMENT, variable + short
        if self.origin is Origin.COMMAND_LINE:
            return BY_OPTION, f"--{self.field}"
        return "", ""


class EditableSettings:
    """The settings of one process."""

    def __init__(self, home: Path, environ: Mapping[str, str], options: Mapping[str, Any]) -> None:
        """`options` are those of the command line, as `core.settings.config.load` takes them."""
        self._home, self._environ, self._options = home, environ, options

    def read(self) -> tuple[Settings, list[Setting]]:
        """Load the settings, and return each field in the model's order. Raises ConfigurationError."""
        settings = load(self._home, self._environ, **self._options)
        by_origin = layers(self._home, self._environ, **self._options)
        return settings, [_setting(name, info, settings, by_origin) for name, info in fields(Settings)]

    def change(self, name: str, text: str | bool) -> tuple[Settings, list[Setting]]:
        """Save a value and return like `read`. A list is text with commas; an empty text may reset the field.

        Raises ConfigurationError for an invalid value; then nothing is changed.
        """
        if text == "" and empty_is_default(name):
            return self.reset(name)
        value = checked(name, text)
        save_settings(self._home, {name: value})
        return self.read()

    def reset(self, name: str) -> tuple[Settings, list[Setting]]:
        """Remove a field from the file, so that its default applies. Returns like `read`."""
        save_settings(self._home, {name: None})
        return self.read()


def fields(model: type, above: str = "") -> list[tuple[str, FieldInfo]]:
    """Return every field with a value by its full name, in the model's order, without sections named by the user.

    The description of a field is its docstring.
    """
    found = []
    for name, info in fields_of(model).items():
        if get_origin(info.annotation) is dict:
            continue  # sections named by the user are edited in the file
        if (section := _section_of(info)) is not None:
            found += fields(section, f"{above}{name}.")
        else:
            found.append((above + name, info))
    return found


def _section_of(info: FieldInfo) -> type | None:
    """Return the class of a section; None for a field with a value. The screen's section is a plain dataclass."""
    section = info.annotation
    if isinstance(section, type) and (issubclass(section, BaseModel) or is_dataclass(section)):
        return section
    return None


@cache
def fields_of(section: type) -> Mapping[str, FieldInfo]:
    """Return the fields of a section, with their docstrings as descriptions."""
    checked: Any = section if issubclass(section, BaseModel) else checked_dataclass(section, frozen=True)
    fields: Mapping[str, FieldInfo] = checked.__pydantic_fields__
    for owner in section.__mro__:
        if owner.__module__.startswith("core."):
            for name, text in _docstrings(owner).items():
                fields[name].description = fields[name].description or text
    return fields


def _docstrings(owner: type) -> dict[str, str]:
    """Return the docstrings of the fields that a class itself has. Reads its source, which a start has no time for."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(body.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def sections() -> dict[str, str]:
    """Return the description of each section by its name, which is empty for the fields at the top."""
    about = {"": "The most common settings."}
    for name, info in Settings.model_fields.items():
        if _section_of(info) is not None:
            about[name] = (info.annotation.__doc__ or "").strip().partition("\n")[0]
    return about


def empty_is_default(name: str) -> bool:
    """Return whether an empty text resets a field; otherwise it is a value."""
    info = dict(fields(Settings))[name]
    kind, (_, optional) = kind_of(info), _alternatives(info.annotation)
    return kind is not Kind.LIST and (optional or kind is not Kind.TEXT)


def checked(name: str, value: str | bool) -> Any:
    """Return the value for the file. Raises ConfigurationError if it is invalid."""
    *above, field = name.split(".")
    tree: dict[str, Any] = {field: value}
    for section in reversed(above):
        tree = {section: tree}
    try:
        settings = Settings.model_validate(tree)
    except ValidationError as error:
        message = error.errors()[0]["msg"]
        raise ConfigurationError(f"{message[:1].upper()}{message[1:]}.") from error
    return _for_file(_value_of(settings, name))


def kind_of(info: FieldInfo) -> Kind:
    """Return the kind of a field."""
    (bare, *others), _ = _alternatives(info.annotation)
    if others:
        return Kind.TEXT
    if _choices_of(bare):
        return Kind.CHOICE
    if (get_origin(bare) or bare) in (tuple, list, set, frozenset):
        return Kind.LIST
    return {bool: Kind.SWITCH, int: Kind.WHOLE, float: Kind.NUMBER}.get(bare, Kind.TEXT)


def as_text(value: Any) -> str:
    """Return a value as text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, (tuple, list)):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) and abs(value) < 1e6 else str(value)


def _setting(name: str, info: FieldInfo, settings: Settings, by_origin: Mapping[Origin, Mapping[str, Any]]) -> Setting:
    (bare, *_), optional = _alternatives(info.annotation)
    origins = [origin for origin, layer in by_origin.items() if _contains(layer, name)]
    section = name.partition(".")[0]
    return Setting(
        name=name,
        help=" ".join((info.description or "").split()),
        kind=kind_of(info),
        value=_value_of(settings, name),
        default=info.get_default(),
        origin=origins[-1] if origins else Origin.DEFAULT,
        effect=EFFECTS.get(name, EFFECTS.get(section, Effect.NEXT_CONVERSATION)),
        choices=_choices_of(bare),
        optional=optional,
        bounds=_bounds(info),
    )


def _alternatives(annotation: Any) -> tuple[list[Any], bool]:
    """Return the types of a field without their annotations, and whether it may be None."""
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


def _contains(layer: Mapping[str, Any], name: str) -> bool:
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
    """Convert a value to a type of TOML."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (tuple, list)):
        return [str(part) for part in value]
    return str(value) if isinstance(value, Path) else value
