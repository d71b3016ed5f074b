"""PromptedTools: tools for models without tool calls. They are described in the prompt, and calls are parsed from text.

A request is sent with tools until the model, its provider or the model catalogue rejects them; from then on calls are
written as text, and the user is told once. A conversation may change between models of both kinds, because the same
events are stored. The functions are pure.

`without_tools` turns a request into one without tools: they are described in the system message, calls of the history
become text of the assistant, and results become messages of the user. `with_parsed_call` finds the call in an answer:

    <function=NAME>
    <parameter=KEY>VALUE</parameter>
    </function>

Invariants: a call that `without_tools` has written is parsed back unless a value contains these tags; one message of
the assistant stays one; there are no two consecutive user messages; a truncated answer gives no call with valid
arguments. Arguments are converted by the tool's schema, but not validated. The form is that of OpenHands V0
(`openhands/llm/fn_call_converter.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from core.errors import ModelError, ModelErrorKind
from core.events import Frame, Status, TokenDelta
from core.protocols import Complete, FrameSink, LLMRequest, LLMResponse, ToolCall
from core.status_messages import NO_TOOLS, RETRY_STATUS

Message = dict[str, Any]
Tools = Sequence[Mapping[str, Any]]

OPENING = "<function="
STOP = "</function"
"""Where a provider may end the answer, because one call is made at a time."""
RESULT = "EXECUTION RESULT of [{name}]:\n{text}"
UNREADABLE = "\n[cut off, or not in the form of a call]"

_INSTRUCTIONS = """You have these functions:

{functions}

To call one, end your answer with exactly this, and nothing behind it:

<function=NAME>
<parameter=KEY>VALUE</parameter>
<parameter=OTHER_KEY>A value may
have several lines.</parameter>
</function>

- One call in an answer. Its result comes as the next message.
- Give every required parameter. Write values as they are, without quotes; lists and objects are written as JSON.
- Words for the user come before the call. An answer without a call is for the user, and you wait for theirs."""
_EXAMPLES = (
    ("execute_bash", {"command": "ls", "security_risk": "LOW"}, "README.md\nsrc"),
    ("glob", {"pattern": "*.md"}, "README.md"),
    ("think", {"thought": "Where would a README be?"}, "Your thought has been logged."),
)
_EXAMPLE = """This is how a call looks. USER: What is here?
YOU: I look.
{call}
USER: {result}
YOU: A README and a folder for the source.
The example ends here; what follows is the real conversation.

"""
_HEAD = re.compile(r"<function=([^>\n]*)>?")
_PARAMETER = re.compile(r"\s*<parameter=([^>\n]*)>")
_VALUE_END = re.compile(r"</parameter>(?=\s*(?:<parameter=|</function|\Z))")
_ANOTHER = re.compile(r"\n<parameter=([^>\n]*)>")
_UNCLOSED_END = re.compile(r"\n?(?=<parameter=|</function)|\Z")


def without_tools(request: LLMRequest) -> LLMRequest:
    """Return the request for a model without tools. Messages that need no change are not copied."""
    messages: list[Message] = []
    for message in request.messages:
        match message:
            case {"role": "tool"}:
                result = RESULT.format(name=message.get("name", ""), text=message.get("content") or "")
                _append(messages, "user", result)
            case {"role": "assistant", "tool_calls": [_, *_] as calls}:
                texts = [str(message.get("content") or ""), *(_call_text(call["function"]) for call in calls)]
                messages.append({"role": "assistant", "content": "\n\n".join(filter(None, texts))})
            case {"role": "user"}:
                _append(messages, "user", message["content"])
            case _:
                messages.append(message)
    if not request.tools:
        return LLMRequest(messages, (), request.last_observation, request.answers_forgotten)
    instructions = _INSTRUCTIONS.format(functions="\n\n".join(map(_description, request.tools)))
    if messages and messages[0]["role"] == "system":
        messages[0] = {**messages[0], "content": _joined(messages[0]["content"], instructions)}
    else:
        messages.insert(0, {"role": "system", "content": instructions})
    _add_example(messages, request.tools)
    return LLMRequest(messages, (), request.last_observation, request.answers_forgotten, (STOP,))


def with_parsed_call(response: LLMResponse, tools: Tools) -> LLMResponse:
    """Return the answer with the call from its text; unchanged if there is none, or if it has real calls."""
    head = _HEAD.search(response.text)
    if head is None or response.tool_calls:
        return response
    arguments = _arguments(response.text[head.end() :], head[1].strip(), tools, response.finish_reason == "length")
    call = ToolCall("", head[1].strip(), arguments)  # the agent gives it an id
    text = response.text[: head.start()].rstrip()
    return replace(response, text=text, tool_calls=(call,), finish_reason="tool_calls", thinking=())


def _arguments(body: str, name: str, tools: Tools, is_cut: bool) -> str:
    """Return the arguments after a call's head as JSON, or text that is not JSON if they are invalid or truncated.

    A JSON object instead of parameters is accepted, too: some models are trained to write that.
    """
    content, is_ended, _ = body.partition(STOP)
    if (is_ended or not is_cut) and _is_object(content):
        return content.strip()
    schemas = next((_properties(tool) for tool in tools if _function(tool).get("name") == name), {})
    found: dict[str, Any] = {}
    at = 0
    while (parameter := _PARAMETER.match(body, at)) is not None:
        key, (value, at) = parameter[1].strip(), _value(body, parameter.end(), schemas)
        if key in found or at < 0:
            return body + UNREADABLE  # ambiguous
        found[key] = _converted(value.removeprefix("\n").removesuffix("\n"), schemas.get(key, {}))
    rest = body[at:].lstrip()
    if rest.startswith(STOP) or not (rest or is_cut):
        return json.dumps(found, ensure_ascii=False)
    return body + UNREADABLE


def _value(body: str, start: int, known: Mapping[str, Any]) -> tuple[str, int]:
    """Return the value that begins at `start`, and the index after it, or -1 if its end is ambiguous.

    A value without an end tag ends at the next known parameter, or at the end of the call.
    """
    closed = _VALUE_END.search(body, start)
    end = closed or _UNCLOSED_END.search(body, start)
    assert end is not None  # the end of the text matches
    for another in _ANOTHER.finditer(body, start, end.start()):
        if another[1] in known:
            return body[start : another.start()], another.start()
    value = body[start : end.start()]
    return value, -1 if closed is None and "</parameter>" in value else end.end()


def _is_object(text: str) -> bool:
    try:
        return text.lstrip().startswith("{") and isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _converted(text: str, schema: Mapping[str, Any]) -> Any:
    """Convert a value by its schema; keep the text if it is invalid, so that validation refuses it."""
    if schema.get("type", "string") == "string":
        return text.strip() if "enum" in schema else text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _call_text(function: Mapping[str, Any]) -> str:
    """Return a call of the history as the model would have written it."""
    try:
        arguments = json.loads(function.get("arguments") or "{}")
    except (ValueError, RecursionError):
        arguments = {}
    pairs = arguments.items() if isinstance(arguments, dict) else ()
    lines = [f"<parameter={key}>{_value_text(value)}</parameter>" for key, value in pairs]
    return "\n".join([f"{OPENING}{function['name']}>", *lines, "</function>"])


def _value_text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"\n{text}\n" if "\n" in text else text


def _description(tool: Mapping[str, Any]) -> str:
    function = _function(tool)
    properties, required = _properties(tool), function.get("parameters", {}).get("required", ())
    lines = [f"## {function.get('name', '')}", str(function.get("description", "")), "Parameters:"]
    for name, schema in properties.items():
        need = "required" if name in required else "optional"
        choices = f" One of: {', '.join(map(str, schema['enum']))}." if "enum" in schema else ""
        items = f" Each: {json.dumps(schema['items'])}." if isinstance(schema.get("items"), dict) else ""
        lines.append(f"- {name} ({schema.get('type', 'any')}, {need}): {schema.get('description', '')}{choices}{items}")
    return "\n".join(lines if properties else [*lines[:-1], "No parameters."])


def _add_example(messages: list[Message], tools: Tools) -> None:
    """Add an example of a call to the user's first message, if one of its tools is there."""
    names = {_function(tool).get("name") for tool in tools}
    first = next((n for n, message in enumerate(messages) if message["role"] == "user"), None)
    example = next((example for example in _EXAMPLES if example[0] in names), None)
    if first is None or example is None:
        return
    name, arguments, result = example
    call = _call_text({"name": name, "arguments": json.dumps(arguments)})
    text = _EXAMPLE.format(call=call, result=RESULT.format(name=name, text=result))
    content = messages[first]["content"]
    joined = text + content if isinstance(content, str) else [_text(text), *content]
    messages[first] = {**messages[first], "content": joined}


def _append(messages: list[Message], role: str, content: Any) -> None:
    """Add a message, or join it to the last one if that has the same role."""
    if messages and messages[-1]["role"] == role:
        messages[-1] = {"role": role, "content": _joined(messages[-1]["content"], content)}
    else:
        messages.append({"role": role, "content": content})


def _joined(before: Any, after: Any) -> Any:
    if isinstance(before, str) and isinstance(after, str):
        return f"{before}\n\n{after}"
    return [*_parts(before), *_parts(after)]


def _parts(content: Any) -> Iterable[Message]:
    return [_text(content)] if isinstance(content, str) else content


def _text(text: str) -> Message:
    return {"type": "text", "text": text}


def _function(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    function = tool.get("function")
    return function if isinstance(function, dict) else {}


def _properties(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = _function(tool).get("parameters", {}).get("properties", {})
    return properties if isinstance(properties, dict) else {}


TOOLS_STATUS = "STATUS$TOOLS_IN_TEXT"


class PromptedTools:
    """A step of the model call: describes the tools in the prompt once the model has rejected tools."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._is_prompting = False

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int, next: Complete) -> LLMResponse:
        """As `LLM.complete`. The text of a call is not streamed."""
        if not self._is_prompting:
            try:
                return await next(request, on_frame, cause)
            except ModelError as error:
                if error.kind is not ModelErrorKind.NO_TOOLS:
                    raise
            self._is_prompting = True
            on_frame(Status("info", TOOLS_STATUS, NO_TOOLS.format(model=self._model)))
        response = await next(without_tools(request), _CallFilter(on_frame), cause)
        return with_parsed_call(response, request.tools)


class _CallFilter:
    """A frame sink that passes on the text of an answer up to the beginning of its call."""

    def __init__(self, on_frame: FrameSink) -> None:
        self._on_frame = on_frame
        self._held = ""
        """The end of the text, if it may be the beginning of a call."""
        self._has_call = False

    def __call__(self, frame: Frame) -> None:
        if not isinstance(frame, TokenDelta) or frame.channel != "answer":
            if isinstance(frame, Status) and frame.id == RETRY_STATUS and frame.message:
                self._held, self._has_call = "", False  # the answer begins again
            self._on_frame(frame)
            return
        if self._has_call:
            return
        text = self._held + frame.text
        opening = text.find(OPENING)
        self._has_call = opening >= 0
        end = opening if self._has_call else len(text) - _partial_opening(text)
        self._held = text[end:]
        if end:
            self._on_frame(replace(frame, text=text[:end]))


def _partial_opening(text: str) -> int:
    """Return how many characters at the end of the text may be the beginning of a call."""
    longest = min(len(text), len(OPENING) - 1)
    return next((n for n in range(longest, 0, -1) if OPENING.startswith(text[-n:])), 0)
