"""What a tool is, and how the arguments of a call are checked against what the tool declares.

A tool is made from an action: `parameters_of` takes the types of its parameters from the action's class. Arguments are
checked here and nowhere else, and never changed: what does not fit is refused, in words for the model. The texts are
those of OpenHands V0 (`openhands/agenthub/codeact_agent/function_calling.py`).

Values against JSON Schema: the part of it that tools declare their parameters in.

`problem_of` says in words for the model what is wrong, and changes nothing: a value is taken as it is or not at all.
Understood are type, enum, items, properties, required and additionalProperties; what a schema says beyond them is left
to the action's own class.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from core.events import Action, ActionSecurityRisk

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
    """A call whose arguments do not fit its tool; the text tells the model."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One entry of the table of tools."""

    name: str
    description: str
    parameters: Mapping[str, Mapping[str, Any]]
    """By name, each in JSON Schema."""
    required: tuple[str, ...]
    actions: tuple[type[Action], ...]
    """The classes of action that a call can become."""
    to_action: Callable[[Arguments], Action]
    """Makes the action from checked arguments. May raise InvalidCall for what a schema cannot say."""
    plugin: str = ""
    """The plugin of the sandbox that carries it out; empty for what every sandbox can do."""
    more: Mapping[str, str] = field(default_factory=dict)
    """What the description goes on with where the sandbox has a plugin of this name, too."""

    alone: bool = False
    """Whether it can only be called in an answer of its own."""

    def with_plugins(self, names: Collection[str]) -> Tool:
        """The tool as it is in a sandbox with these plugins."""
        return replace(self, description="".join([self.description, *(self.more[n] for n in self.more if n in names)]))

    def schema(self) -> dict[str, Any]:
        """The tool as a model is told of it, in the form of OpenAI's chat completions."""
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
        """The action that a call with these arguments asks for. Raises InvalidCall."""
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
    """Parameters named like fields of an action's class, in JSON Schema, typed as the class has them."""
    fields = action.model_json_schema()["properties"]
    return {name: {**_typed(fields[name]), "description": text} for name, text in described.items()}


def _typed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A field's schema without what models need not know; one that may be None is left out instead."""
    choices = [choice for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]
    known = {**schema, **choices[0]} if choices else schema
    return {key: known[key] for key in ("type", "enum", "items") if key in known}


def risk_of(arguments: Arguments) -> ActionSecurityRisk:
    """How the model graded the action; unknown where it did not, or not in these words."""
    value = arguments.get("security_risk")
    if isinstance(value, str) and value in RISK_PARAMETER["enum"]:
        return ActionSecurityRisk[value]
    return ActionSecurityRisk.UNKNOWN
