"""`structured`: as `llm`, but the model fills in a form, by a tool call."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from core.events import CondensationAction
from core.memory.condensers.amortized import to_half
from core.memory.condensers.base import Condenser, NoSummaryError, Work
from core.memory.condensers.summary import asked, checked, request_of

TOOL = "create_state_summary"
TASK = f"Call the tool {TOOL} once, and fill in what applies."
FIELDS: dict[str, str] = {
    "user_context": "What the user wants, with every wish and limit that was added.",
    "completed_tasks": "What is done, and what came of it.",
    "pending_tasks": "What is left to do, in order; the next step first.",
    "current_state": "Where the work stands: variables, data, numbers that are still needed.",
    "files_modified": "Which files were made or changed, and how.",
    "function_changes": "Which functions were made or changed, by file.",
    "data_structures": "Which structures of data matter, and what they look like.",
    "tests": "Which tests there are, how they are run, which of them fail and why.",
    "version_control": "The branch, the commits that were made, and what is not committed.",
    "dependencies": "What was installed or is needed.",
    "other_relevant_context": "What else must not be lost.",
}


class Structured(Condenser):
    """Parameters as of `Summarising`. Needs a model that can call tools."""

    def __init__(self, keep_first: int, max_size: int, max_event_chars: int) -> None:
        self._keep_first = keep_first
        self._max_size = max_size
        self._max_event_chars = max_event_chars

    async def condense(self, work: Work) -> CondensationAction | None:
        """See the class."""
        cut = to_half(work, self._keep_first, self._max_size)
        if cut is None:
            return None
        request = replace(request_of(work, cut, self._max_event_chars, TASK), tools=[_schema()])
        response = await asked(work, request)
        call = next((call for call in response.tool_calls if call.name == TOOL), None)
        if call is None:
            raise NoSummaryError("The model did not fill in the summary's form.")
        return cut.action(checked(_filled_in(call.arguments), cut))


def _filled_in(arguments: str) -> str:
    """The form as text, one part for each field that says something. Raises NoSummaryError."""
    try:
        said: Any = json.loads(arguments)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise NoSummaryError("The model filled in the summary's form so that it cannot be read.")
    found = [(name, said[name].strip()) for name in FIELDS if isinstance(said.get(name), str)]
    return "\n\n".join(f"# {name.replace('_', ' ')}\n{text}" for name, text in found if text)


def _schema() -> dict[str, Any]:
    properties = {name: {"type": "string", "description": text} for name, text in FIELDS.items()}
    parameters = {
        "type": "object",
        "properties": properties,
        "required": ["user_context", "completed_tasks", "pending_tasks"],
        "additionalProperties": False,
    }
    description = "Keep the state of the work, in place of the record."
    return {"type": "function", "function": {"name": TOOL, "description": description, "parameters": parameters}}
