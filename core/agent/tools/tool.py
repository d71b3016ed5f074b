"""What a tool is, and how the arguments of a call are checked against what the tool declares.

A tool is made from an action: `parameters_of` takes the types of its parameters from the action's class. Arguments are
checked here and nowhere else, and never changed: what does not fit is refused, in words for the model. The texts are
those of OpenHands V0 (`openhands/agenthub/codeact_agent/function_calling.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from core.agent.tools.schema import SHOWN_NAME_CHARS, problem_of
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
