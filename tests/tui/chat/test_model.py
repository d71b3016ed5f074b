"""What a conversation looks like, told in blocks."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from core.events import (
    Action,
    ActionConfirmationStatus,
    AgentFinishAction,
    AgentState,
    AgentStateChangedObservation,
    AgentThinkAction,
    AgentThinkObservation,
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
    FileReadObservation,
    MessageAction,
    NullObservation,
    Observation,
    RecallAction,
    RecallObservation,
    RecallType,
    Status,
    SystemMessageAction,
    TaskTrackingAction,
    TaskTrackingObservation,
    TokenDelta,
    UnknownAction,
    UserRejectObservation,
    envelope_from_dict,
)
from tests.tui.chat.events import envelope
from tui.panes.chat.blocks import Block, Kind, Mark
from tui.panes.chat.model import ChatModel
from tui.panes.chat.pieces import PieceKind

USER, AGENT, ENVIRONMENT = EventSource.USER, EventSource.AGENT, EventSource.ENVIRONMENT


def conversation(*events: Event | tuple[Event, int]) -> list[Envelope]:
    """Events as a log has them; an observation may name its cause, a MessageAction is the user's."""
    log = []
    for event_id, item in enumerate(events):
        event, cause = item if isinstance(item, tuple) else (item, None)
        source = USER if isinstance(event, MessageAction) else ENVIRONMENT if cause is None else AGENT
        log.append(
            envelope(event_id, event, AGENT if isinstance(event, Action) and source is not USER else source, cause)
        )
    return log


def folded(log: Sequence[Envelope]) -> ChatModel:
    model = ChatModel()
    for item in log:
        model.apply(item)
    return model


def told(model: ChatModel) -> list[tuple[Any, ...]]:
    return [(block.kind, block.title, block.text, block.mark, block.meta) for block in model.blocks]


def ran(command: str, content: str = "", exit_code: int = 0) -> CmdOutputObservation:
    return CmdOutputObservation(command=command, content=content, metadata=CmdOutputMetadata(exit_code=exit_code))


def lines_shown(block: Block) -> list[str]:
    return [line for piece in block.pieces() for line in piece.text.split("\n") if piece.kind is not PieceKind.BLANK]


def test_a_command_and_its_output_are_one_block() -> None:
    model = folded(conversation(MessageAction(content="go"), CmdRunAction(command="ls"), (ran("ls", "a\nb\n"), 1)))
    assert told(model) == [(Kind.USER, "", "go", Mark.NONE, ""), (Kind.TOOL, "$ ls", "a\nb", Mark.OK, "")]


def test_a_command_runs_until_its_output_is_there() -> None:
    (block,) = folded(conversation(CmdRunAction(command="make"))).blocks
    assert (block.title, block.mark) == ("$ make", Mark.RUNNING)


@pytest.mark.parametrize(
    ("exit_code", "mark", "meta"),
    [
        (0, Mark.OK, ""),
        (2, Mark.FAILED, "exit 2"),
        (130, Mark.INTERRUPTED, "interrupted"),
        (-1, Mark.RUNNING, "still running"),
    ],
)
def test_the_exit_code_says_how_it_went(exit_code: int, mark: Mark, meta: str) -> None:
    (block,) = folded(conversation(CmdRunAction(command="x"), (ran("x", "", exit_code), 0))).blocks
    assert (block.mark, block.meta) == (mark, meta)


def test_a_command_that_was_left_running_is_past_once_the_shell_is_free() -> None:
    wait, more = CmdRunAction(command="make"), CmdRunAction(command="", is_input=True)
    log = conversation(wait, (ran("make", "…", -1), 0), more, (ran("", "done", 0), 2))
    assert [(block.mark, block.meta) for block in folded(log).blocks] == [
        (Mark.NONE, "ran on"),
        (Mark.OK, ""),
    ]


def test_output_is_folded_to_its_end_and_a_failure_shows_more() -> None:
    output = "\n".join(f"line {i}" for i in range(30))
    ok, failed = folded(
        conversation(
            CmdRunAction(command="a"),
            (ran("a", output), 0),
            CmdRunAction(command="b"),
            (ran("b", output, 1), 2),
        )
    ).blocks
    assert lines_shown(ok) == ["$ a", "… 26 more lines", "line 26", "line 27", "line 28", "line 29"]
    assert lines_shown(failed)[:3] == ["$ b", "… 18 more lines", "line 18"]


def test_unfolding_shows_everything_and_folding_hides_it_again() -> None:
    output = "\n".join(f"line {i}" for i in range(30))
    model = folded(conversation(CmdRunAction(command="a"), (ran("a", output), 0)))
    (block,) = model.blocks
    short = lines_shown(block)
    model.toggle(block)
    assert lines_shown(block) == ["$ a", *output.split("\n")]
    model.toggle(block)
    assert lines_shown(block) == short


def test_what_the_agent_says_beside_a_call_stands_before_it() -> None:
    model = folded(conversation(CmdRunAction(command="ls", thought="I look.")))
    assert [block.kind for block in model.blocks] == [Kind.AGENT, Kind.TOOL]


def test_an_edit_shows_its_difference() -> None:
    diff = "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-old\n+new\n+newer"
    (block,) = folded(
        conversation(FileEditAction(path="a.py"), (FileEditObservation(path="a.py", diff=diff), 0))
    ).blocks
    assert (block.title, block.meta, block.body) == ("edit a.py", "+2 −1", PieceKind.DIFF)
    assert block.text == "@@ -1 +1 @@\n-old\n+new\n+newer"


def test_an_edit_without_a_difference_gets_one() -> None:
    observation = FileEditObservation(path="a", old_content="one\ntwo\n", new_content="one\nthree\n")
    (block,) = folded(conversation(FileEditAction(path="a"), (observation, 0))).blocks
    assert block.text == "@@ -1,2 +1,2 @@\n one\n-two\n+three"


def test_a_file_that_was_read_is_one_line_until_it_is_unfolded() -> None:
    (block,) = folded(
        conversation(FileReadAction(path="a"), (FileReadObservation(path="a", content="1\n2\n3"), 0))
    ).blocks
    assert (block.title, block.meta) == ("view a", "3 lines")
    assert lines_shown(block) == ["view a", "… 3 more lines"]


def test_a_plan_shows_its_tasks() -> None:
    tasks = [
        {"title": "one", "status": "done"},
        {"title": "two", "status": "in_progress"},
        {"title": "three"},
    ]
    (block,) = folded(
        conversation(TaskTrackingAction(command="plan", task_list=tasks), (TaskTrackingObservation(task_list=tasks), 0))
    ).blocks
    assert block.text == "✓ one\n→ two\n○ three"


def test_errors_tell_what_to_do() -> None:
    model = folded(conversation(ErrorObservation(content="No key.\nSet ANTHROPIC_API_KEY.")))
    assert told(model) == [(Kind.ERROR, "No key.", "Set ANTHROPIC_API_KEY.", Mark.FAILED, "")]


def test_a_failed_call_is_told_in_its_own_block() -> None:
    (block,) = folded(conversation(FileReadAction(path="x"), (ErrorObservation(content="No such file"), 0))).blocks
    assert (block.mark, block.text) == (Mark.FAILED, "No such file")


def test_a_call_that_was_stopped_says_so() -> None:
    stopped = ErrorObservation(content="Stop", error_id="AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_STOPPED")
    (block,) = folded(conversation(CmdRunAction(command="x"), (stopped, 0))).blocks
    assert (block.mark, block.meta) == (Mark.INTERRUPTED, "not executed")


def test_a_call_waits_for_consent_and_runs_once_it_has_it() -> None:
    waiting = CmdRunAction(command="rm x", confirmation_state=ActionConfirmationStatus.AWAITING_CONFIRMATION)
    log = conversation(waiting, AgentStateChangedObservation(agent_state=AgentState.USER_CONFIRMED))
    assert folded(log[:1]).blocks[0].mark is Mark.AWAITING
    assert folded(log).blocks[0].mark is Mark.RUNNING


def test_a_held_action_that_comes_again_confirmed_stays_one_block() -> None:
    waiting = CmdRunAction(command="rm x", confirmation_state=ActionConfirmationStatus.AWAITING_CONFIRMATION)
    (block,) = folded(conversation(waiting, CmdRunAction(command="rm x"), (ran("rm x"), 1))).blocks
    assert block.mark is Mark.OK


def test_a_call_that_the_user_rejected_says_so() -> None:
    (block,) = folded(conversation(CmdRunAction(command="rm x"), (UserRejectObservation(content="no"), 0))).blocks
    assert (block.mark, block.meta) == (Mark.REJECTED, "rejected")


def test_the_end_is_told_once() -> None:
    model = folded(
        conversation(
            AgentFinishAction(final_thought="**Done**"),
            AgentStateChangedObservation(agent_state=AgentState.FINISHED),
        )
    )
    assert told(model) == [(Kind.FINISH, "Finished", "**Done**", Mark.OK, "")]


def test_states_worth_telling_are_told_with_their_reason() -> None:
    reason = "Agent reached maximum iteration. Current iteration: 500, max iteration: 500"
    states = [
        (AgentState.RUNNING, ""),
        (AgentState.PAUSED, ""),
        (AgentState.ERROR, reason),
        (AgentState.STOPPED, ""),
    ]
    model = folded(
        conversation(*(AgentStateChangedObservation(agent_state=state, reason=why) for state, why in states))
    )
    assert [(block.title, block.meta) for block in model.blocks] == [
        ("Paused", ""),
        ("Stopped by an error", reason),
        ("Interrupted", ""),
    ]


def test_what_is_not_for_people_is_hidden() -> None:
    model = folded(
        conversation(
            SystemMessageAction(content="You are"),
            RecallAction(recall_type=RecallType.KNOWLEDGE),
            (RecallObservation(recall_type=RecallType.KNOWLEDGE), 1),
            NullObservation(),
            AgentThinkObservation(content="logged"),
            CmdRunAction(command="x", hidden=True),
        )
    )
    assert model.blocks == []


def test_an_unknown_event_is_one_dim_line() -> None:
    (block,) = folded(conversation(UnknownAction(raw={"action": "dance", "message": "one\ntwo"}))).blocks
    assert (block.kind, block.title) == (Kind.DETAIL, "dance one␊two")


def test_a_long_thought_is_one_line() -> None:
    (block,) = folded(conversation(AgentThinkAction(thought="long " * 50))).blocks
    assert block.can_fold
    assert [piece.kind for piece in block.pieces()] == [PieceKind.TITLE, PieceKind.BLANK]


def test_colours_of_a_program_do_not_show() -> None:
    (block,) = folded(conversation(CmdRunAction(command="x"), (ran("x", "\x1b[31mred\x1b[0m\x1b[2J"), 0))).blocks
    assert block.text == "red␛[2J"


def test_output_of_10_mb_keeps_its_head_and_its_tail() -> None:
    content = "head" + "x" * 10_000_000 + "tail"
    (block,) = folded(conversation(CmdRunAction(command="x"), (ran("x", content), 0))).blocks
    assert len(block.text) < 600_000
    assert block.text.startswith("head")
    assert block.text.endswith("tail")
    assert "characters left out" in block.text


# What streams


def test_an_answer_streams_in_and_becomes_its_event_where_it_stands() -> None:
    model = folded(conversation(MessageAction(content="hello")))
    for piece in ("# He", "ad\n\nwor", "ds"):
        model.apply_frame(TokenDelta(0, piece))
    (streamed,) = model.tail
    pieces = streamed.pieces()
    model.apply(envelope(1, MessageAction(content="# Head\n\nwords"), AGENT))
    assert model.blocks[-1] is streamed
    assert model.tail == []
    assert streamed.pieces() == pieces


def test_an_answer_with_a_call_becomes_the_words_before_the_call() -> None:
    model = ChatModel()
    model.apply_frame(TokenDelta(0, "I look."))
    model.apply(envelope(1, CmdRunAction(command="ls", thought="I look.")))
    assert [(block.kind, block.text) for block in model.blocks] == [(Kind.AGENT, "I look."), (Kind.TOOL, "")]


def test_reasoning_shows_while_it_streams_and_goes_with_the_answer() -> None:
    model = ChatModel()
    model.apply_frame(TokenDelta(0, "hmm", "reasoning"))
    model.apply_frame(TokenDelta(0, "yes"))
    assert [block.kind for block in model.tail] == [Kind.THOUGHT, Kind.AGENT]
    model.apply(envelope(1, MessageAction(content="yes"), AGENT))
    assert model.tail == []


def test_a_retry_begins_the_answer_anew() -> None:
    model = ChatModel()
    model.apply_frame(TokenDelta(0, "half an ans"))
    model.apply_frame(Status("info", "STATUS$LLM_RETRY", "Retrying in 2 s"))
    model.apply_frame(TokenDelta(0, "whole"))
    assert model.tail[0].pieces()[0].text == "whole"


def test_what_was_said_before_an_interrupt_stays() -> None:
    model = ChatModel()
    model.apply_frame(TokenDelta(0, "half an ans"))
    model.apply(envelope(1, AgentStateChangedObservation(agent_state=AgentState.STOPPED), ENVIRONMENT))
    assert [(block.text, block.title) for block in model.blocks] == [("half an ans", ""), ("", "Interrupted")]


def test_the_newest_notice_of_one_id_stands_and_an_empty_one_takes_it_away() -> None:
    model = ChatModel()
    for message in ("Retrying in 2 s", "Retrying in 1 s"):
        model.apply_frame(Status("info", "STATUS$LLM_RETRY", message))
    assert [block.title for block in model.tail] == ["Retrying in 1 s"]
    model.apply_frame(Status("info", "STATUS$LLM_RETRY", ""))
    assert model.tail == []


def test_a_notice_ends_when_the_agent_goes_on() -> None:
    model = ChatModel()
    model.apply_frame(Status("info", "STATUS$STARTING_RUNTIME", "Starting"))
    model.apply(envelope(0, CmdRunAction(command="ls")))
    assert model.tail == []


def test_every_change_is_told_to_the_view() -> None:
    model, told_times = ChatModel(), []
    model.changed = lambda: told_times.append(1)
    model.apply(envelope(1, MessageAction(content="x"), USER))
    model.apply_frame(TokenDelta(1, "y"))
    model.prepend([envelope(0, MessageAction(content="w"), USER)])
    assert len(told_times) == 3


# Older pages


def long_log() -> list[Envelope]:
    events: list[Event | tuple[Event, int]] = []
    for turn in range(20):
        base = len(events)
        events += [
            MessageAction(content=f"do {turn}"),
            CmdRunAction(command=f"c{turn}", thought=f"think {turn}"),
            FileReadAction(path=f"f{turn}"),
            (ran(f"c{turn}", "out", turn % 2), base + 1),
            (FileReadObservation(path=f"f{turn}", content="x"), base + 2),
        ]
    return conversation(*events)


@pytest.mark.parametrize("seed", range(20))
def test_pages_that_come_in_later_make_the_same_conversation(seed: int) -> None:
    log = long_log()
    cuts = sorted(random.Random(seed).sample(range(1, len(log)), 4))
    pages = [log[a:b] for a, b in zip([0, *cuts], [*cuts, len(log)], strict=True)]
    model = folded(pages[-1])
    for page in reversed(pages[:-1]):
        model.prepend(page)
    whole = folded(log)
    assert sorted(map(repr, told(model))) == sorted(map(repr, told(whole)))
    assert model.first_id == 0
    serials = [block.serial for block in model.blocks]
    assert serials == list(range(serials[0], serials[0] + len(serials)))


def test_a_result_whose_call_is_on_an_older_page_has_a_title_at_once() -> None:
    log = conversation(CmdRunAction(command="make all", thought="I build."), (ran("make all", "ok"), 0))
    model = folded(log[1:])
    assert model.blocks[0].title == "$ make all"
    model.prepend(log[:1])
    assert [(block.kind, block.title) for block in model.blocks] == [
        (Kind.AGENT, ""),
        (Kind.TOOL, "$ make all"),
    ]


def test_a_trajectory_of_openhands_folds_into_a_conversation() -> None:
    trajectory = [
        {
            "id": 0,
            "source": "user",
            "action": "message",
            "args": {"content": "Create a 2048 game.", "image_urls": None},
        },
        {
            "id": 3,
            "source": "agent",
            "action": "edit",
            "args": {"path": "/w/g.py", "command": "create", "file_text": "x", "thought": "I'll create it."},
        },
        {
            "id": 4,
            "source": "agent",
            "cause": 3,
            "observation": "edit",
            "content": "File created successfully at: /w/g.py",
            "extras": {"path": "/w/g.py", "prev_exist": False, "old_content": "", "new_content": "x"},
        },
        {"id": 5, "source": "agent", "action": "dance", "args": {}, "message": "new in V2"},
        {"id": 6, "source": "agent", "action": "finish", "args": {"thought": "It is done."}},
        {
            "id": 7,
            "source": "environment",
            "observation": "agent_state_changed",
            "content": "",
            "extras": {"agent_state": "finished"},
        },
    ]
    model = folded([envelope_from_dict({"timestamp": "2025-01-27T22:44:56", **event}, "c") for event in trajectory])
    assert told(model) == [
        (Kind.USER, "", "Create a 2048 game.", Mark.NONE, ""),
        (Kind.AGENT, "", "I'll create it.", Mark.NONE, ""),
        (Kind.TOOL, "create /w/g.py", "@@ -0,0 +1 @@\n+x", Mark.OK, "+1 −0"),
        (Kind.DETAIL, "dance new in V2", "", Mark.NONE, ""),
        (Kind.AGENT, "", "It is done.", Mark.NONE, ""),
        (Kind.FINISH, "Finished", "", Mark.OK, ""),
    ]


def test_every_observation_of_the_vocabulary_can_be_shown() -> None:
    for kind, cls in Observation.kinds.items():
        required = {name: "x" for name, field in cls.model_fields.items() if field.is_required()}
        required |= {"agent_state": "paused"} if kind == "agent_state_changed" else {}
        required |= {"recall_type": "knowledge"} if kind == "recall" else {}
        event = cls.model_validate({"content": "said", **required})
        for log in (
            conversation(event),
            conversation(CmdRunAction(command="x"), (event, 0)),
            [envelope(5, event, AGENT, 2)],
        ):
            for block in folded(log).blocks:
                assert block.pieces()
