"""Tool calls in text: written calls are parsed back, and mistakes of models are corrected or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.agent.tools import CODEACT_TOOLS
from core.llm.prompted_tools import STOP, with_parsed_call, without_tools
from core.protocols import LLMRequest, LLMResponse

TOOLS = [tool.schema() for tool in CODEACT_TOOLS]
SYSTEM = {"role": "system", "content": "Be good."}


def called(text: str, finish_reason: str = "stop") -> tuple[str, str, Any]:
    """The words before the call, its name, and its arguments: parsed, or as text where they are no JSON."""
    response = with_parsed_call(LLMResponse("r", text, finish_reason=finish_reason), TOOLS)
    (call,) = response.tool_calls
    try:
        return response.text, call.name, json.loads(call.arguments)
    except ValueError:
        return response.text, call.name, call.arguments


def answer(*calls: tuple[str, str, dict[str, Any]], text: str = "") -> dict[str, Any]:
    made = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for id, name, arguments in calls
    ]
    return {"role": "assistant", "content": text, "tool_calls": made}


def result(id: str, name: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "name": name, "content": text}


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("<parameter=command>ls</parameter>\n</function>", {"command": "ls"}),
        ("<parameter=command>ls</parameter>\n", {"command": "ls"}),  # ended by the stop word
        ("<parameter=command>ls", {"command": "ls"}),
        ("<parameter=command>ls\n</function>", {"command": "ls"}),
        ("<parameter=command>ls\n<parameter=timeout>2</parameter>", {"command": "ls", "timeout": 2}),
        ("<parameter=command>\na\n\nb\n</parameter>\n</function>", {"command": "a\n\nb"}),
        ("<parameter=command> ls </parameter></function>", {"command": " ls "}),
        ("<parameter=command>echo '</parameter>'</parameter>\n</function>", {"command": "echo '</parameter>'"}),
        ("<parameter=is_input> true\n</parameter></function>", {"is_input": "true"}),
        ("<parameter=timeout>2.5</parameter></function>", {"timeout": 2.5}),
        ("<parameter=timeout>soon</parameter></function>", {"timeout": "soon"}),
        ("<parameter=nothing>x</parameter></function>", {"nothing": "x"}),
        ('{"command": "ls"}</function>', {"command": "ls"}),
        ("</function> and much more <function=think>", {}),
        ("", {}),
    ],
)
def test_call_is_parsed_with_arguments_typed_by_the_schema(text: str, arguments: dict[str, Any]) -> None:
    assert called(f"I look.\n<function=execute_bash>{text}") == ("I look.", "execute_bash", arguments)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<parameter=command>rm -rf ./bui", "length"),
        ("<parameter=command>ls</parameter>", "length"),
        ('{"command": "ls"}', "length"),
        ("<parameter=command>ls</parameter><parameter=command>pwd</parameter></function>", "stop"),
        ("command: ls</function>", "stop"),
        ("<parameter=command>ls</parameter> and then\n</function>", "stop"),
    ],
)
def test_truncated_or_unreadable_call_has_no_arguments(text: str, reason: str) -> None:
    assert isinstance(called(f"<function=execute_bash>{text}", reason)[2], str)


def test_text_without_a_call_stays_text() -> None:
    response = LLMResponse("r", "a < b, and that is that.")
    assert with_parsed_call(response, TOOLS) is response


def test_list_argument_is_parsed_as_json() -> None:
    text = "<function=str_replace_editor><parameter=view_range>[1, -1]</parameter></function>"
    assert called(text)[2] == {"view_range": [1, -1]}


def test_request_without_native_tools_describes_them_and_alternates_roles() -> None:
    picture = [{"type": "image_url", "image_url": {"url": "data:x"}}]
    messages = [
        SYSTEM,
        {"role": "user", "content": "Look."},
        answer(("a", "execute_bash", {"command": "ls"}), ("b", "think", {"thought": "x\ny"}), text="I look."),
        result("a", "execute_bash", "README"),
        result("b", "think", "Logged."),
        {"role": "user", "content": picture},
        {"role": "assistant", "content": "Seen."},
    ]
    request = without_tools(LLMRequest(messages, TOOLS, "last", 3))
    assert (request.tools, request.stop, request.last_observation, request.answers_forgotten) == (
        (),
        (STOP,),
        "last",
        3,
    )
    system, user, said, results, seen = request.messages
    assert system["content"].startswith("Be good.\n\nYou have these functions:")
    assert all(f"## {tool.name}\n" in system["content"] for tool in CODEACT_TOOLS)
    assert "- is_input (string, optional): " in system["content"]
    assert user["content"].endswith("\n\nLook.")
    assert said["content"] == (
        "I look.\n\n<function=execute_bash>\n<parameter=command>ls</parameter>\n</function>\n\n"
        "<function=think>\n<parameter=thought>\nx\ny\n</parameter>\n</function>"
    )
    text, shown = results["content"]
    assert text["text"] == "EXECUTION RESULT of [execute_bash]:\nREADME\n\nEXECUTION RESULT of [think]:\nLogged."
    assert shown == picture[0]
    assert seen == messages[-1]
    assert "tool_calls" not in json.dumps(request.messages)
    assert messages[1]["content"] == "Look.", "the messages are shared with the events"


def test_messages_before_the_last_answer_are_unchanged_and_cacheable() -> None:
    messages = [SYSTEM, {"role": "user", "content": "Go."}, answer(("a", "think", {"thought": "x"}))]
    before = without_tools(LLMRequest(messages, TOOLS)).messages
    messages += [result("a", "think", "Logged."), {"role": "assistant", "content": "Done."}]
    assert list(without_tools(LLMRequest(messages, TOOLS)).messages[:3]) == list(before)


values = st.text(st.characters(codec="utf-8"), max_size=60).filter(
    lambda text: not any(tag in text for tag in ("<parameter=", "</parameter", "<function=", "</function"))
)


@given(st.dictionaries(st.sampled_from(["command", "cwd", "x-1"]), values, max_size=3), st.booleans())
def test_written_call_is_parsed_back(arguments: dict[str, str], stopped: bool) -> None:
    messages = [SYSTEM, answer(("a", "execute_bash", arguments), text="Now.")]
    text = without_tools(LLMRequest(messages, TOOLS)).messages[1]["content"]
    text = text.partition(STOP)[0] if stopped else text
    assert called(text) == ("Now.", "execute_bash", arguments)


pieces = ["<function=", "execute_bash", ">", "<parameter=", "command", "</parameter>", "</function", "{", '"a"', "\n"]


@given(st.lists(st.sampled_from([*pieces, "x", "\x1b", "\ud800"]), max_size=25).map("".join))
def test_any_text_gives_at_most_one_call(text: str) -> None:
    response = with_parsed_call(LLMResponse("r", text), TOOLS)
    assert len(response.tool_calls) <= 1
    assert all(call.id == "" for call in response.tool_calls)
