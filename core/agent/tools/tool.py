"""What a tool is, and how the arguments of a call are checked.

A tool is made from an action: `parameters_of` takes the types of its parameters from the action's class. Arguments are
checked only here and never changed: a call that does not fit is refused with a message for the model. The messages are
those of OpenHands V0 (`openhands/agenthub/codeact_agent/function_calling.py`).

`problem_of` implements the part of JSON Schema that tools use: type, enum, items, properties, required and
additionalProperties. The action's class checks the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from core.events import Action, ActionSecurityRisk

SHOWN_NAME_CHARS = 64
_MAX_DEPTH = 16
"""Deeper than any of Handloom's schemas; stops at recursive ones of MCP servers."""


def problem_of(value: Any, schema: Mapping[str, Any], place: str = "", depth: int = 0) -> str:
    """Return what is wrong with a value, such as `must be a string`, or "".

    `place` is its path within the argument, such as `[0].title`.
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


Arguments = dict[str, Any]

RISK_PARAMETER: dict[str, Any] = {
    "type": "string",
    "enum": ["LOW", "MEDIUM", "HIGH"],
    "description": (
        "How much harm the action could do. LOW: it only reads, or changes what is easily put back in the "
        "workspace. MEDIUM: it changes files of the project or installs packages. HIGH: it leaves the "
        "workspace, deletes, sends data out, or handles secrets."
    ),
}


class InvalidCall(ValueError):
    """The arguments of a call do not fit its tool. The text is for the model."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the model can call."""

    name: str
    description: str
    parameters: Mapping[str, Mapping[str, Any]]
    """The JSON Schema of each parameter, by name."""
    required: tuple[str, ...]
    actions: tuple[type[Action], ...]
    """The classes of actions that a call can become."""
    to_action: Callable[[Arguments], Action]
    """Creates the action from checked arguments. May raise InvalidCall for what the schema cannot express."""
    plugin: str = ""
    """The sandbox plugin that executes it; "" if every sandbox can."""
    more: Mapping[str, str] = field(default_factory=dict)
    """Texts added to the description if the sandbox has the plugin of this name."""

    alone: bool = False
    """Whether it must be the only call of a response."""

    def with_plugins(self, names: Collection[str]) -> Tool:
        """Return the tool for a sandbox with these plugins."""
        return replace(self, description="".join([self.description, *(self.more[n] for n in self.more if n in names)]))

    def schema(self) -> dict[str, Any]:
        """Return the tool in the form of OpenAI's chat completions."""
        parameters = {
            "type": "object",
            "properties": {name: dict(schema) for name, schema in self.parameters.items()},
            "required": list(self.required),
            "additionalProperties": False,
        }
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": parameters},
        }

    def action_of(self, arguments: Mapping[str, Any]) -> Action:
        """Return the action for a call with these arguments. Raises InvalidCall."""
        return self.to_action(self._checked(arguments))

    def _checked(self, arguments: Mapping[str, Any]) -> Arguments:
        for name in self.required:
            # A model that forgets to grade a risk has not said that there is none: it stays unknown.
            if name not in arguments and name != "security_risk":
                raise InvalidCall(f'Missing required argument "{name}" in tool call {self.name}')
        checked: Arguments = {}
        for name, value in arguments.items():
            schema = self.parameters.get(name)
            if schema is None:
                allowed = set(self.parameters)
                raise InvalidCall(
                    f"Unexpected argument {name[:SHOWN_NAME_CHARS]} in tool call {self.name}. "
                    f"Allowed arguments are: {', '.join(sorted(allowed))}"
                )
            if value is None and name not in self.required:
                continue
            if name != "security_risk" and (problem := problem_of(value, schema)):
                raise InvalidCall(f'Argument "{name}" in tool call {self.name} {problem}')
            checked[name] = value
        return checked


def parameters_of(action: type[Action], **described: str) -> dict[str, dict[str, Any]]:
    """Return the JSON Schemas of parameters that are named and typed like fields of an action's class."""
    fields = action.model_fields
    return {name: {**_schema_of(fields[name].annotation), "description": text} for name, text in described.items()}


_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def _schema_of(annotation: Any) -> dict[str, Any]:
    """Return the JSON Schema of a field's type. Optional fields are omitted instead of null.

    pydantic's own would build the validators of the whole class, which a start has no time for.
    """
    if annotation in _TYPES:
        return {"type": _TYPES[annotation]}
    kind, inner = get_origin(annotation), [one for one in get_args(annotation) if one is not NoneType]
    if kind is Literal:
        return {"type": "string", "enum": inner}
    if len(inner) != 1:
        raise TypeError(f"a parameter of a tool cannot have the type {annotation}")
    return {"type": "array", "items": _schema_of(inner[0])} if kind is list else _schema_of(inner[0])


def risk_of(arguments: Arguments) -> ActionSecurityRisk:
    """Return how the model graded the risk; UNKNOWN if it did not, or not with a known word."""
    value = arguments.get("security_risk")
    if isinstance(value, str) and value in RISK_PARAMETER["enum"]:
        return ActionSecurityRisk[value]
    return ActionSecurityRisk.UNKNOWN
