"""What a tool is, and how the arguments of a call are checked against what the tool declares.

Arguments are checked here and nowhere else. Slips that models often make and that leave no doubt are put
right: numbers and lists written as strings, true and false as booleans. The texts of errors are read by the
model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from core.events import Action, ActionSecurityRisk

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
                    f"Unexpected argument {name[:64]} in tool call {self.name}. "
                    f"Allowed arguments are: {', '.join(sorted(allowed))}"
                )
            if value is None and name not in self.required:
                continue
            checked[name] = value if name == "security_risk" else self._checked_value(name, value, schema)
        return checked

    def _checked_value(self, name: str, value: Any, schema: Mapping[str, Any]) -> Any:
        kind, choices = schema["type"], schema.get("enum")
        if kind == "string" and isinstance(value, bool) and choices == ["true", "false"]:
            value = "true" if value else "false"
        elif kind != "string" and isinstance(value, str):
            value = _read(value)
        if not _IS_OF[kind](value):
            raise InvalidCall(f'Argument "{name}" in tool call {self.name} must be {_NAMES[kind]}')
        if choices is not None and value not in choices:
            raise InvalidCall(f'Argument "{name}" in tool call {self.name} must be one of: {", ".join(choices)}')
        if kind == "array" and not all(_IS_OF[schema["items"]["type"]](item) for item in value):
            raise InvalidCall(f'Argument "{name}" in tool call {self.name} must be {_NAMES[kind]} of integers')
        return value


def risk_of(arguments: Arguments) -> ActionSecurityRisk:
    """How the model graded the action; unknown where it did not, or not in these words."""
    value = arguments.get("security_risk")
    if isinstance(value, str) and value in RISK_PARAMETER["enum"]:
        return ActionSecurityRisk[value]
    return ActionSecurityRisk.UNKNOWN


def _read(text: str) -> Any:
    """A number or list that was written as a string; the string where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


_IS_OF: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
}
_NAMES = {"string": "a string", "number": "a number", "integer": "an integer", "array": "a list"}
