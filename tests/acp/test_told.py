"""Events and frames as updates: what is said once, what is left out, and what a yes has to show. No process."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

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
from tui.acp.tool_calls import DIFF_CHARS, TEXT_CHARS, Paths, asked, fenced
from tui.acp.turn import usage_update
from tui.acp.updates import Teller

PATHS = Paths("/home/me/work", "/workspace")
Told = list[dict[str, Any]]


def plain(updates: Any) -> Told:
    return [update.model_dump(mode="json", by_alias=True, exclude_none=True) for update in updates]


def words(told: Told) -> list[str]:
    return [update["content"]["text"] for update in told]


def put(event: Event, id: int, source: EventSource = EventSource.AGENT, cause: int | None = None) -> Envelope:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Envelope(conversation_id="c", id=id, timestamp=now, source=source, cause=cause, event=event)


class TestWhatIsSaid:
    def test_streamed_text_is_not_said_again_by_its_event(self) -> None:
        teller = Teller(PATHS)
        streamed = [*teller.frame(TokenDelta(4, "I look")), *teller.frame(TokenDelta(4, " around."))]
        assert words(plain(streamed)) == ["I look", " around."]
        assert teller.event(put(MessageAction(content="I look around."), 5, cause=4)) == []

    def test_what_was_not_streamed_is_said_by_its_event(self) -> None:
        teller = Teller(PATHS)
        teller.frame(TokenDelta(4, "I look around."))
        (other,) = plain(teller.event(put(MessageAction(content="I look around."), 8, cause=7)))
        assert other["content"]["text"] == "I look around.\n\n"
        (final,) = plain(teller.event(put(AgentFinishAction(final_thought="Done."), 5, cause=4)))
        assert final["content"]["text"] == "Done.\n\n"

    def test_reasoning_is_a_thought(self) -> None:
        (told,) = plain(Teller(PATHS).frame(TokenDelta(4, "Hm.", "reasoning")))
        assert (told["sessionUpdate"], told["content"]["text"]) == ("agent_thought_chunk", "Hm.")

    def test_what_was_thought_before_a_message_is_told_again_apart_from_it(self) -> None:
        said = put(MessageAction(content="Two.", reasoning="One and one."), 5, cause=4)
        thought, answer = plain(Teller(PATHS).event(said, again=True))
        assert (thought["sessionUpdate"], thought["content"]["text"]) == ("agent_thought_chunk", "One and one.\n\n")
        assert (answer["sessionUpdate"], answer["content"]["text"]) == ("agent_message_chunk", "Two.\n\n")
        assert len(Teller(PATHS).event(said)) == 1, "it streamed"

    def test_the_users_words_are_told_only_again(self) -> None:
        said = put(MessageAction(content="hello"), 1, EventSource.USER)
        assert Teller(PATHS).event(said) == []
        (told,) = plain(Teller(PATHS).event(said, again=True))
        assert (told["sessionUpdate"], told["content"]["text"]) == ("user_message_chunk", "hello")

    def test_a_failure_is_told_once_with_its_reason(self) -> None:
        teller, text = Teller(PATHS), "The key is wrong. Set another."
        error = ErrorObservation(content=text, error_id="LLM$AUTHENTICATION")
        state = AgentStateChangedObservation(agent_state=AgentState.ERROR, reason=text)
        told = [
            *teller.event(put(error, 5, EventSource.ENVIRONMENT, 4)),
            *teller.event(put(state, 6, EventSource.ENVIRONMENT)),
        ]
        assert words(plain(told)) == [f"{text}\n\n"]

    def test_a_notice_is_told_once_and_an_error_whenever_it_changes(self) -> None:
        teller = Teller(PATHS)
        told = [
            *teller.frame(Status("info", "RETRY", "In 5 s")),
            *teller.frame(Status("info", "RETRY", "In 4 s")),
            *teller.frame(Status("error", "STORE", "The disk is full.")),
            *teller.frame(Status("error", "STORE", "The disk is full.")),
            *teller.frame(Status("error", "STORE", "The disk is broken.")),
        ]
        assert words(plain(told)) == ["In 5 s\n\n", "The disk is full.\n\n", "The disk is broken.\n\n"]

    def test_usage_is_told_where_the_context_is_known_and_the_cost_where_it_is(self) -> None:
        usage = TokenUsage(prompt_tokens=900, completion_tokens=90, context_window=1000, per_turn_token=310)
        (told,) = plain([usage_update(LLMMetrics(accumulated_cost=0.5, accumulated_token_usage=usage))])
        assert told == {"sessionUpdate": "usage_update", "used": 310, "size": 1000,
                        "cost": {"amount": 0.5, "currency": "USD"}}  # fmt: skip
        (unpriced,) = plain([usage_update(LLMMetrics(accumulated_cost=None, accumulated_token_usage=usage))])
        assert "cost" not in unpriced, "unknown is not nothing"
        assert usage_update(LLMMetrics()) is None

    def test_a_plan_is_a_plan(self) -> None:
        tasks: list[dict[str, Any]] = [
            {"title": "Look", "status": "done"},
            {"title": "Write", "status": "in_progress"},
            {"title": "", "status": 7},
        ]
        (plan,) = plain(Teller(PATHS).event(put(TaskTrackingAction(command="plan", task_list=tasks), 3)))
        assert [(entry["content"], entry["status"]) for entry in plan["entries"]] == [
            ("Look", "completed"),
            ("Write", "in_progress"),
            ("(no title)", "pending"),
        ]
        assert Teller(PATHS).event(put(TaskTrackingAction(), 4)) == []


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
    def test_have_a_kind_and_one_clean_line(self, action: Action, kind: str, title: str) -> None:
        (told,) = plain(Teller(PATHS).event(put(action, 3)))
        assert (told["kind"], told["title"], told["status"]) == (kind, title, "in_progress")

    def test_that_wait_for_a_yes_are_pending_and_show_all_of_it(self) -> None:
        waits = {"confirmation_state": ActionConfirmationStatus.AWAITING_CONFIRMATION}
        command = "echo " + "x" * 1000 + "; rm -rf hidden"
        action = CmdRunAction(command=command).model_copy(update=waits)
        (told,) = plain(Teller(PATHS).event(put(action, 3)))
        assert told["status"] == "pending"
        question = asked(put(action, 3), PATHS).model_dump(mode="json", by_alias=True, exclude_none=True)
        assert command in question["content"][0]["content"]["text"]

    def test_a_large_edit_is_asked_about_whole(self) -> None:
        text = "x" * DIFF_CHARS + " hidden"
        action = FileEditAction(path="/workspace/a", command="create", file_text=text)
        question = asked(put(action, 3), PATHS).model_dump(mode="json", by_alias=True, exclude_none=True)
        assert "hidden" in question["content"][0]["content"]["text"]

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
    def test_name_files_where_the_editor_finds_them(self, path: str, outside: str) -> None:
        (told,) = plain(Teller(PATHS).event(put(FileReadAction(path=path), 3)))
        assert told["locations"] == [{"path": outside}]

    def test_an_edit_ends_with_its_diff(self) -> None:
        teller = Teller(PATHS)
        teller.event(put(FileEditAction(path="/workspace/a", command="str_replace", old_str="x", new_str="y"), 3))
        edited = FileEditObservation(path="/workspace/a", prev_exist=True, old_content="x\n", new_content="y\n")
        (told,) = plain(teller.event(put(edited, 4, cause=3)))
        assert told["status"] == "completed"
        diff = {"type": "diff", "path": "/home/me/work/a", "oldText": "x\n", "newText": "y\n"}
        assert told["content"] == [diff]

    def test_a_command_that_failed_says_how(self) -> None:
        teller = Teller(PATHS)
        teller.event(put(CmdRunAction(command="false"), 3))
        output = CmdOutputObservation(
            command="false", content="no", metadata=CmdOutputMetadata(exit_code=1, suffix="\n[exit code 1]")
        )
        (told,) = plain(teller.event(put(output, 4, cause=3)))
        assert (told["status"], told["rawOutput"]) == ("failed", {"exit_code": 1})
        assert told["content"][0]["content"]["text"] == "```\nno\n[exit code 1]\n```"

    def test_output_while_it_runs_is_its_end_and_nothing_after_it(self) -> None:
        teller = Teller(PATHS)
        teller.frame(TerminalOutput(3, b"before\r\n"))
        assert teller.prints() == []
        teller.event(put(CmdRunAction(command="seq"), 3))
        teller.frame(TerminalOutput(3, b"x" * 10**6))
        teller.frame(TerminalOutput(3, b"\x1b[31mlast\r\n"))
        (told,) = plain(teller.prints())
        text = told["content"][0]["content"]["text"]
        assert text.endswith("last\n```")
        assert len(text) < 20_000
        assert teller.prints() == []
        teller.event(put(CmdOutputObservation(command="seq", content=""), 4, cause=3))
        teller.frame(TerminalOutput(3, b"late"))
        assert teller.prints() == []

    def test_no_output_leaves_its_block_of_code_or_grows_without_end(self) -> None:
        text = fenced("a\n````\nb" + "x" * 10 * TEXT_CHARS)
        assert text.startswith("`````\n")
        assert text.endswith("\n`````")
        assert len(text) < TEXT_CHARS + 200
