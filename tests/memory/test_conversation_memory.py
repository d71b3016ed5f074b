"""The history as the model sees it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from core.events import (
    AgentFinishAction,
    AgentState,
    AgentStateChangedObservation,
    BrowserOutputObservation,
    ChangeAgentStateAction,
    CmdOutputMetadata,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    ErrorObservation,
    Event,
    EventSource,
    IPythonRunCellObservation,
    MessageAction,
    NullObservation,
    RecallAction,
    RecallObservation,
    RecallType,
    SystemMessageAction,
    ToolCallMetadata,
    UserRejectObservation,
)
from core.memory.context_events import MAX_OBSERVATION_CHARS, last_observation_text, seen_pictures
from core.memory.conversation_memory import FINISHED, NOT_EXECUTED, PICTURES, build_messages

AGENT, USER, ENVIRONMENT = EventSource.AGENT, EventSource.USER, EventSource.ENVIRONMENT
SYSTEM = (AGENT, SystemMessageAction(content="You are an agent."), None)
Said = tuple[EventSource, Event, int | None]


def history(*said: Said) -> list[Envelope]:
    now = datetime(2025, 1, 1, tzinfo=UTC)
    return [
        Envelope(conversation_id="c", id=number, timestamp=now, source=source, cause=cause, event=event)
        for number, (source, event, cause) in enumerate(said)
    ]


def user(text: str, **fields: Any) -> Said:
    return (USER, MessageAction(content=text, **fields), None)


def metadata(answer: str, call: str, calls: dict[str, str] | None = None, text: str = "") -> ToolCallMetadata:
    """Of the first event of an answer where `calls` are given, as {call id: arguments}."""
    response: dict[str, Any] = {"id": answer}
    if calls is not None:
        tool_calls = [
            {"id": key, "type": "function", "function": {"name": "execute_bash", "arguments": arguments}}
            for key, arguments in calls.items()
        ]
        message = {"role": "assistant", "content": text, "tool_calls": tool_calls}
        response["choices"] = [{"finish_reason": "tool_calls", "index": 0, "message": message}]
    return ToolCallMetadata(function_name="execute_bash", tool_call_id=call, model_response=response)


def run(command: str, meta: ToolCallMetadata) -> Said:
    return (AGENT, CmdRunAction(command=command, tool_call_metadata=meta), None)


def output(text: str, meta: ToolCallMetadata | None, cause: int | None = None) -> Said:
    observation = CmdOutputObservation(
        content=text, command="c", metadata=CmdOutputMetadata(exit_code=0), tool_call_metadata=meta
    )
    return (ENVIRONMENT, observation, cause)


def assistant(text: str, **calls: str) -> dict[str, Any]:
    tool_calls = [
        {"id": key, "type": "function", "function": {"name": "execute_bash", "arguments": arguments}}
        for key, arguments in calls.items()
    ]
    return {"role": "assistant", "content": text, "tool_calls": tool_calls}


def tool(call: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "name": "execute_bash", "content": text}


DONE = "\n[Command finished with exit code 0]"


def test_conversation_becomes_system_user_assistant_and_tool_messages() -> None:
    messages = build_messages(
        history(
            SYSTEM,
            user("List the files."),
            run("ls", metadata("r1", "a", {"a": '{"command": "ls"}'}, "I will look.")),
            output("x.py", metadata("r1", "a"), 2),
            (AGENT, MessageAction(content="There is x.py.", wait_for_response=True), None),
            user("Thanks."),
        )
    )
    assert messages == [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": "List the files."},
        assistant("I will look.", a='{"command": "ls"}'),
        tool("a", "x.py" + DONE),
        {"role": "assistant", "content": "There is x.py."},
        {"role": "user", "content": "Thanks."},
    ]


def test_calls_of_one_answer_are_one_message_with_results_in_order() -> None:
    messages = build_messages(
        history(
            run("one", metadata("r1", "a", {"a": "{}", "b": "{}"})),
            run("two", metadata("r1", "b")),
            output("second", metadata("r1", "b"), 1),
            output("first", metadata("r1", "a"), 0),
        )
    )
    assert messages == [assistant("", a="{}", b="{}"), tool("a", "first" + DONE), tool("b", "second" + DONE)]


def test_result_is_matched_by_its_cause_without_a_call_id() -> None:
    messages = build_messages(history(run("one", metadata("r1", "a", {"a": "{}"})), output("x", None, 0)))
    assert messages == [assistant("", a="{}"), tool("a", "x" + DONE)]


def test_result_without_a_cause_belongs_to_no_call() -> None:
    messages = build_messages(history(run("one", metadata("r1", "a", {"a": "{}"})), output("x", None)))
    assert [message["role"] for message in messages] == ["assistant", "tool", "user"]
    assert messages[1] == tool("a", NOT_EXECUTED)


def test_call_ids_of_different_answers_are_separate() -> None:
    messages = build_messages(
        history(
            run("one", metadata("r1", "a", {"a": "{}"})),
            output("first", metadata("r1", "a"), 0),
            run("two", metadata("r2", "a", {"a": "{}"})),
            output("second", metadata("r2", "a"), 2),
        )
    )
    assert [message["content"] for message in messages if message["role"] == "tool"] == [
        "first" + DONE,
        "second" + DONE,
    ]


def test_call_without_a_result_is_marked_as_not_run() -> None:
    messages = build_messages(
        history(
            run("one", metadata("r1", "a", {"a": "{}", "b": "{}"})),
            output("x", metadata("r1", "a"), 0),
            user("Stop"),
        )
    )
    assert messages == [
        assistant("", a="{}", b="{}"),
        tool("a", "x" + DONE),
        tool("b", NOT_EXECUTED),
        {"role": "user", "content": "Stop"},
    ]


def test_user_message_during_a_tool_call_follows_its_result() -> None:
    messages = build_messages(
        history(run("one", metadata("r1", "a", {"a": "{}"})), user("Hurry"), output("x", metadata("r1", "a"), 0))
    )
    assert [message["role"] for message in messages] == ["assistant", "tool", "user"]


def test_finish_call_has_a_result() -> None:
    finish = AgentFinishAction(final_thought="Done.", tool_call_metadata=metadata("r1", "a", {"a": "{}"}))
    messages = build_messages(history((AGENT, finish, None), user("One more thing")))
    assert messages == [
        assistant("", a="{}"),
        tool("a", FINISHED),
        {"role": "user", "content": "One more thing"},
    ]


def test_invalid_call_becomes_an_empty_object_answered_by_its_error() -> None:
    wrong = ErrorObservation(content="Failed to parse", tool_call_metadata=metadata("r1", "a", {"a": '{"com'}, "Hm."))
    messages = build_messages(history((AGENT, wrong, None)))
    assert messages == [
        assistant("Hm.", a="{}"),
        tool("a", "Failed to parse\n[Error occurred in processing last action]"),
    ]


def test_rejected_action_is_noted() -> None:
    rejected = UserRejectObservation(content="Not this.", tool_call_metadata=metadata("r1", "a"))
    messages = build_messages(history(run("rm", metadata("r1", "a", {"a": "{}"})), (USER, rejected, 0)))
    assert messages[1] == tool("a", "Not this.\n[Last action has been rejected by the user]")


def test_consecutive_user_texts_are_one_message() -> None:
    recall = RecallObservation(
        content="Added workspace context",
        recall_type=RecallType.WORKSPACE_CONTEXT,
        working_dir="/w",
        date="2025-01-01",
    )
    messages = build_messages(
        history(
            user("one"),
            (USER, RecallAction(recall_type=RecallType.WORKSPACE_CONTEXT, query="one"), 0),
            (ENVIRONMENT, recall, 1),
            user("two"),
            (ENVIRONMENT, ErrorObservation(content="It broke."), None),
        )
    )
    assert messages == [
        {
            "role": "user",
            "content": "one\n\nThe working directory is /w\nToday's date is 2025-01-01 (UTC)\n\ntwo\n\n"
            "It broke.\n[Error occurred in processing last action]",
        }
    ]


def test_pictures_are_parts_of_the_user_message() -> None:
    messages = build_messages(history(user("look"), user("here", image_urls=["data:image/png;base64,AAAA"])))
    assert messages == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "text", "text": "here"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            ],
        }
    ]


def test_pictures_of_results_follow_the_results() -> None:
    plot = IPythonRunCellObservation(
        code="plot()", content="done", image_urls=["blob:a"], tool_call_metadata=metadata("1", "a")
    )
    messages = build_messages(
        history(user("plot"), run("plot()", metadata("1", "a", {"a": "{}"})), (AGENT, plot, 1), user("Thanks."))
    )
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "user"]
    assert messages[-1]["content"] == [
        {"type": "text", "text": PICTURES},
        {"type": "image_url", "image_url": {"url": "blob:a"}},
        {"type": "text", "text": "Thanks."},
    ]


def test_model_sees_the_actionable_part_of_a_page() -> None:
    page = BrowserOutputObservation(
        url="http://a", trigger_by_action="browse", screenshot="blob:a", set_of_marks="blob:b"
    )
    assert seen_pictures(page) == []
    acted = page.model_copy(update={"trigger_by_action": "browse_interactive"})
    assert seen_pictures(acted) == ["blob:b"]
    assert seen_pictures(acted.model_copy(update={"set_of_marks": ""})) == ["blob:a"]


def test_command_of_the_user_is_included() -> None:
    messages = build_messages(history((USER, CmdRunAction(command="make"), None), output("ok", None, 0)))
    assert messages == [
        {
            "role": "user",
            "content": f"User executed the command:\nmake\n\nObserved result of command executed by user:\nok{DONE}",
        }
    ]


def test_events_that_are_not_for_the_model_are_left_out() -> None:
    hidden = CmdOutputObservation(content="secret", command="c", hidden=True)
    messages = build_messages(
        history(
            (USER, CmdRunAction(command="c", hidden=True), None),
            (ENVIRONMENT, hidden, 0),
            (ENVIRONMENT, AgentStateChangedObservation(agent_state=AgentState.RUNNING), None),
            (USER, ChangeAgentStateAction(agent_state=AgentState.PAUSED), None),
            (ENVIRONMENT, NullObservation(), None),
        )
    )
    assert messages == []


def test_answer_without_its_start_is_left_out_with_its_results() -> None:
    messages = build_messages(
        history(run("two", metadata("r1", "b")), output("x", metadata("r1", "b"), 0), user("Go on"))
    )
    assert messages == [{"role": "user", "content": "Go on"}]


def test_observation_is_truncated() -> None:
    (message,) = build_messages(history((ENVIRONMENT, ErrorObservation(content="x" * 100_000), None)))
    assert len(message["content"]) < MAX_OBSERVATION_CHARS + 200
    assert "[... Observation truncated due to length ...]" in message["content"]


def test_last_observation_is_the_newest_result_for_the_model() -> None:
    events = history(
        output("old", None),
        output("new", None),
        (ENVIRONMENT, AgentStateChangedObservation(agent_state=AgentState.RUNNING), None),
        (ENVIRONMENT, NullObservation(), None),
        user("go on"),
    )
    assert last_observation_text(events) == "new" + DONE
    assert last_observation_text([]) == ""


@st.composite
def conversations(draw: st.DrawFn) -> list[Said]:
    """Responses of up to three calls, some invalid, some without results, with messages of the user in between."""
    said: list[Said] = [SYSTEM]
    for number in range(draw(st.integers(0, 6))):
        calls = {f"c{number}_{n}": "{}" for n in range(draw(st.integers(1, 3)))}
        results: list[Said] = []
        for position, call in enumerate(calls):
            meta = metadata(f"r{number}", call, calls if position == 0 else None)
            if draw(st.booleans()):
                said.append(run("x", meta))
                if draw(st.booleans()):
                    results.append(output("y", metadata(f"r{number}", call)))
            else:
                said.append((AGENT, ErrorObservation(content="no", tool_call_metadata=meta), None))
            if draw(st.booleans()):
                said.append(user("hm"))
        said.extend(draw(st.permutations(results)))
        if draw(st.booleans()):
            said.append(user("go on"))
    return said


@given(conversations())
def test_every_call_is_followed_by_its_result(said: list[Said]) -> None:
    messages = build_messages(history(*said))
    waiting: list[str] = []
    last_role = ""
    for message in messages:
        role = message["role"]
        if role == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
        else:
            assert not waiting
            assert (role, last_role) != ("user", "user")
            waiting = [call["id"] for call in message.get("tool_calls", ())]
        last_role = role
    assert not waiting


@given(conversations(), st.text(min_size=1))
def test_messages_before_the_last_answer_are_unchanged(said: list[Said], text: str) -> None:
    before = build_messages(history(*said))
    answer = (AGENT, MessageAction(content="An answer."), None)
    after = build_messages(history(*said, answer, user(text)))
    assert after[: len(before)] == before


def test_time_grows_linearly_with_the_history() -> None:
    """Ten thousand events take some 40 ms of this thread's own time; ten times that is the room for a slow machine."""
    said: list[Said] = [SYSTEM]
    for number in range(5000):
        meta = metadata(f"r{number}", "a", {"a": '{"command": "ls"}'}, "I will look.")
        said += [run("ls", meta), output("x" * 200, metadata(f"r{number}", "a"), 2 * number + 1)]
    events = history(*said)
    started = time.thread_time()
    messages = build_messages(events)
    assert time.thread_time() - started < 0.4
    assert len(messages) == 10_001
