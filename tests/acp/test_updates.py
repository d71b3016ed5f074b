"""Events and frames become updates: what is sent once, what is left out, what a question shows, and the queue."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from acp.schema import AgentMessageChunk, TextContentBlock

from core.events import (
    Action,
    ActionConfirmationStatus,
    AgentDelegateAction,
    AgentFinishAction,
    AgentState,
    AgentStateChangedObservation,
    BrowseURLAction,
    CmdOutputMetadata,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    ErrorObservation,
    Event,
    EventSource,
    FileEditAction,
    FileEditObservation,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
    LLMMetrics,
    MCPAction,
    MessageAction,
    Status,
    TaskTrackingAction,
    TerminalOutput,
    TokenDelta,
    TokenUsage,
)
from core.status_messages import RETRY_STATUS
from tui.acp.prompts import usage_update
from tui.acp.tool_calls import DIFF_CHARS, TEXT_CHARS, Paths, fenced, output_update, permission_request
from tui.acp.updates import MAX_MERGED_CHARS, EventTranslator, Outbox, Update, message, thought
from tui.approval.question import ask_about

PATHS = Paths("/home/me/work", "/workspace")
Told = list[dict[str, Any]]


def plain(updates: Any) -> Told:
    return [update.model_dump(mode="json", by_alias=True, exclude_none=True) for update in updates]


def words(told: Told) -> list[str]:
    return [update["content"]["text"] for update in told]


def put(event: Event, id: int, source: EventSource = EventSource.AGENT, cause: int | None = None) -> Envelope:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Envelope(conversation_id="c", id=id, timestamp=now, source=source, cause=cause, event=event)


def question_about(action: Action) -> str:
    envelope = put(action, 3)
    (call,) = plain([permission_request("session", envelope, ask_about(envelope), PATHS).tool_call])
    text: str = call["content"][0]["content"]["text"]
    return text


class TestMessages:
    def test_streamed_text_is_not_repeated_by_its_event(self) -> None:
        translator = EventTranslator(PATHS)
        streamed = [*translator.frame(TokenDelta(4, "I look")), *translator.frame(TokenDelta(4, " around."))]
        assert words(plain(streamed)) == ["I look", " around."]
        assert translator.event(put(MessageAction(content="I look around."), 5, cause=4)) == []

    def test_text_that_was_streamed_before_a_retry_is_not_taken_for_the_answer(self) -> None:
        translator = EventTranslator(PATHS)
        translator.frame(TokenDelta(4, "I look around. Then"))
        (notice,) = plain(translator.frame(Status("info", RETRY_STATUS, "Retrying")))
        assert notice["sessionUpdate"] == "agent_thought_chunk"
        (answer,) = plain(translator.event(put(MessageAction(content="I look around."), 5, cause=4)))
        assert answer["content"]["text"] == "I look around.\n\n"

    def test_text_that_was_not_streamed_is_sent_by_its_event(self) -> None:
        translator = EventTranslator(PATHS)
        translator.frame(TokenDelta(4, "I look around."))
        (other,) = plain(translator.event(put(MessageAction(content="I look around."), 8, cause=7)))
        assert other["content"]["text"] == "I look around.\n\n"
        (final,) = plain(translator.event(put(AgentFinishAction(final_thought="Done."), 5, cause=4)))
        assert final["content"]["text"] == "Done.\n\n"

    def test_text_beside_a_wrong_call_is_sent_once(self) -> None:
        wrong = put(ErrorObservation(content="Tool x is not registered.", thought="I look."), 5, cause=4)
        assert words(plain(EventTranslator(PATHS).event(wrong))) == ["I look.\n\n", "Tool x is not registered.\n\n"]
        translator = EventTranslator(PATHS)
        translator.frame(TokenDelta(4, "I look."))
        assert words(plain(translator.event(wrong))) == ["Tool x is not registered.\n\n"]

    def test_reasoning_is_sent_as_thought(self) -> None:
        (told,) = plain(EventTranslator(PATHS).frame(TokenDelta(4, "Hm.", "reasoning")))
        assert (told["sessionUpdate"], told["content"]["text"]) == ("agent_thought_chunk", "Hm.")

    def test_replayed_reasoning_is_separate_from_the_message(self) -> None:
        said = put(MessageAction(content="Two.", reasoning="One and one."), 5, cause=4)
        thought, answer = plain(EventTranslator(PATHS).event(said, is_replay=True))
        assert (thought["sessionUpdate"], thought["content"]["text"]) == ("agent_thought_chunk", "One and one.\n\n")
        assert (answer["sessionUpdate"], answer["content"]["text"]) == ("agent_message_chunk", "Two.\n\n")
        assert len(EventTranslator(PATHS).event(said)) == 1, "it streamed"

    def test_user_messages_are_sent_only_in_replays(self) -> None:
        said = put(MessageAction(content="hello"), 1, EventSource.USER)
        assert EventTranslator(PATHS).event(said) == []
        (told,) = plain(EventTranslator(PATHS).event(said, is_replay=True))
        assert (told["sessionUpdate"], told["content"]["text"]) == ("user_message_chunk", "hello")

    def test_failure_is_sent_once_with_its_reason(self) -> None:
        translator, text = EventTranslator(PATHS), "The key is wrong. Set another."
        error = ErrorObservation(content=text, error_id="LLM$AUTHENTICATION")
        state = AgentStateChangedObservation(agent_state=AgentState.ERROR, reason=text)
        told = [
            *translator.event(put(error, 5, EventSource.ENVIRONMENT, 4)),
            *translator.event(put(state, 6, EventSource.ENVIRONMENT)),
        ]
        assert words(plain(told)) == [f"{text}\n\n"]

    def test_notice_is_sent_once_and_error_on_each_change(self) -> None:
        translator = EventTranslator(PATHS)
        told = [
            *translator.frame(Status("info", "RETRY", "In 5 s")),
            *translator.frame(Status("info", "RETRY", "In 4 s")),
            *translator.frame(Status("error", "STORE", "The disk is full.")),
            *translator.frame(Status("error", "STORE", "The disk is full.")),
            *translator.frame(Status("error", "STORE", "The disk is broken.")),
        ]
        assert words(plain(told)) == ["In 5 s\n\n", "The disk is full.\n\n", "The disk is broken.\n\n"]

    def test_usage_needs_a_known_context_and_cost_is_optional(self) -> None:
        usage = TokenUsage(prompt_tokens=900, completion_tokens=90, context_window=1000, per_turn_token=310)
        (told,) = plain([usage_update(LLMMetrics(accumulated_cost=0.5, accumulated_token_usage=usage))])
        assert told == {"sessionUpdate": "usage_update", "used": 310, "size": 1000,
                        "cost": {"amount": 0.5, "currency": "USD"}}  # fmt: skip
        (unpriced,) = plain([usage_update(LLMMetrics(accumulated_cost=None, accumulated_token_usage=usage))])
        assert "cost" not in unpriced, "unknown is not nothing"
        assert usage_update(LLMMetrics()) is None

    def test_plan_is_sent_as_plan(self) -> None:
        tasks: list[dict[str, Any]] = [
            {"title": "Look", "status": "done"},
            {"title": "Write", "status": "in_progress"},
            {"title": "", "status": 7},
        ]
        (plan,) = plain(EventTranslator(PATHS).event(put(TaskTrackingAction(command="plan", task_list=tasks), 3)))
        assert [(entry["content"], entry["status"]) for entry in plan["entries"]] == [
            ("Look", "completed"),
            ("Write", "in_progress"),
            ("(no title)", "pending"),
        ]
        assert EventTranslator(PATHS).event(put(TaskTrackingAction(), 4)) == []


class TestToolCalls:
    @pytest.mark.parametrize(
        ("action", "kind", "title"),
        [
            (CmdRunAction(command="ls\nrm x"), "execute", "ls␊rm x"),
            (IPythonRunCellAction(code="1 + 1"), "execute", "Python: 1 + 1"),
            (FileReadAction(path="a"), "read", "Read a"),
            (FileEditAction(path="a", command="view"), "read", "Read a"),
            (FileEditAction(path="a", command="insert", insert_line=3, new_str="x"), "edit", "Edit a"),
            (FileWriteAction(path="a", content="x"), "edit", "Write a"),
            (BrowseURLAction(url="http://a"), "fetch", "Open http://a"),
            (MCPAction(name="find"), "other", "Tool find"),
            (AgentDelegateAction(agent="CodeActAgent", inputs={"task": "x"}), "other", "Delegate to CodeActAgent"),
            (CmdRunAction(command="echo \x1b[31m\u202e"), "execute", "echo ␛[31m⟦U+202E⟧"),
        ],
    )
    def test_tool_call_has_kind_and_clean_title(self, action: Action, kind: str, title: str) -> None:
        (told,) = plain(EventTranslator(PATHS).event(put(action, 3)))
        assert (told["kind"], told["title"], told["status"]) == (kind, title, "in_progress")

    def test_waiting_tool_call_is_pending_and_complete(self) -> None:
        waits = {"confirmation_state": ActionConfirmationStatus.AWAITING_CONFIRMATION}
        command = "echo " + "x" * 1000 + "; rm -rf hidden"
        action = CmdRunAction(command=command).model_copy(update=waits)
        (told,) = plain(EventTranslator(PATHS).event(put(action, 3)))
        assert told["status"] == "pending"
        assert command in question_about(action)

    def test_permission_request_shows_a_large_edit_completely(self) -> None:
        text = "x" * DIFF_CHARS + " hidden"
        action = FileEditAction(path="/workspace/a", command="create", file_text=text)
        assert "hidden" in question_about(action)

    @pytest.mark.parametrize(
        ("path", "outside"),
        [
            ("/workspace/a/b", "/home/me/work/a/b"),
            ("a", "/home/me/work/a"),
            ("/workspace", "/home/me/work"),
            ("/workspace2/a", "/workspace2/a"),
            ("/workspace/../etc/passwd", "/etc/passwd"),
        ],
    )
    def test_sandbox_paths_are_translated_for_the_editor(self, path: str, outside: str) -> None:
        (told,) = plain(EventTranslator(PATHS).event(put(FileReadAction(path=path), 3)))
        assert told["locations"] == [{"path": outside}]

    def test_edit_result_is_a_diff(self) -> None:
        translator = EventTranslator(PATHS)
        translator.event(put(FileEditAction(path="/workspace/a", command="str_replace", old_str="x", new_str="y"), 3))
        edited = FileEditObservation(path="/workspace/a", prev_exist=True, old_content="x\n", new_content="y\n")
        (told,) = plain(translator.event(put(edited, 4, cause=3)))
        assert told["status"] == "completed"
        diff = {"type": "diff", "path": "/home/me/work/a", "oldText": "x\n", "newText": "y\n"}
        assert told["content"] == [diff]

    def test_failed_command_shows_exit_code_and_output(self) -> None:
        translator = EventTranslator(PATHS)
        translator.event(put(CmdRunAction(command="false"), 3))
        output = CmdOutputObservation(
            command="false", content="no", metadata=CmdOutputMetadata(exit_code=1, suffix="\n[exit code 1]")
        )
        (told,) = plain(translator.event(put(output, 4, cause=3)))
        assert (told["status"], told["rawOutput"]) == ("failed", {"exit_code": 1})
        assert told["content"][0]["content"]["text"] == "```\nno\n[exit code 1]\n```"

    def test_running_output_is_limited_and_stops_at_the_end(self) -> None:
        translator = EventTranslator(PATHS)
        translator.frame(TerminalOutput(3, b"before\r\n"))
        assert translator.output() == []
        translator.event(put(CmdRunAction(command="seq"), 3))
        translator.frame(TerminalOutput(3, b"x" * 10**6))
        translator.frame(TerminalOutput(3, b"\x1b[31mlast\r\n"))
        (told,) = plain(translator.output())
        text = told["content"][0]["content"]["text"]
        assert text.endswith("last\n```")
        assert len(text) < 20_000
        assert translator.output() == []
        translator.event(put(CmdOutputObservation(command="seq", content=""), 4, cause=3))
        translator.frame(TerminalOutput(3, b"late"))
        assert translator.output() == []

    def test_output_stays_in_its_code_block_and_is_limited(self) -> None:
        text = fenced("a\n````\nb" + "x" * 10 * TEXT_CHARS)
        assert text.startswith("`````\n")
        assert text.endswith("\n`````")
        assert len(text) < TEXT_CHARS + 200


class SlowEditor:
    """Reads one update whenever `reads` is released."""

    def __init__(self) -> None:
        self.reads = asyncio.Semaphore(0)
        self.got: list[Update] = []

    async def send(self, update: Update) -> None:
        self.got.append(update)
        await self.reads.acquire()


def text(update: Update) -> str:
    assert isinstance(update, AgentMessageChunk)
    assert isinstance(update.content, TextContentBlock)
    return update.content.text


async def test_queued_updates_are_merged_in_order() -> None:
    editor = SlowEditor()
    outbox = Outbox(editor.send)
    outbox.put([message("first", 1)])
    while not editor.got:
        await asyncio.sleep(0)
    for number in range(10_000):
        outbox.put([message(f"{number} ", 2)])
    outbox.put([thought("Hm.", 2), output_update(3, "one"), output_update(3, "two"), output_update(4, "three")])
    for _ in range(100):
        editor.reads.release()
    await outbox.flush()
    merged = [update for update in editor.got if isinstance(update, AgentMessageChunk)]
    assert "".join(map(text, merged)) == "first" + "".join(f"{number} " for number in range(10_000))
    assert max(len(text(update)) for update in merged) <= MAX_MERGED_CHARS
    assert len(merged) == 3
    assert [update.session_update for update in editor.got[3:]] == [
        "agent_thought_chunk",
        "tool_call_update",
        "tool_call_update",
    ]
    await outbox.aclose()


async def test_disconnected_editor_does_not_block_flush() -> None:
    async def send(update: Update) -> None:
        raise ConnectionResetError("gone")

    outbox = Outbox(send)
    outbox.put([message("one", 1), thought("two")])
    async with asyncio.timeout(30):
        await outbox.flush()
    outbox.put([message("three", 1)])
    async with asyncio.timeout(30):
        await outbox.flush()
    await outbox.aclose()
