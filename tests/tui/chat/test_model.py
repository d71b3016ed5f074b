"""The blocks of a conversation."""

from __future__ import annotations

import pytest

from core.events import (
    Action,
    ActionConfirmationStatus,
    AgentFinishAction,
    AgentState,
    AgentStateChangedObservation,
    AgentThinkAction,
    AgentThinkObservation,
    ChangeAgentStateAction,
    CmdOutputObservation,
    CmdRunAction,
    ErrorObservation,
    Event,
    FileEditAction,
    FileEditObservation,
    FileReadAction,
    FileReadObservation,
    IPythonRunCellAction,
    IPythonRunCellObservation,
    MessageAction,
    ModeAction,
    NullObservation,
    Observation,
    RecallAction,
    RecallObservation,
    RecallType,
    Refusal,
    SystemMessageAction,
    TaskTrackingAction,
    TaskTrackingObservation,
    TokenDelta,
    ToolCallMetadata,
    UnknownAction,
    UserRejectObservation,
)
from core.status_messages import HOST_REFUSED
from tests.tui.chat.events import conversation, envelope, folded, ran, summaries
from tui.chat.blocks import FOLDED_LINE_CHARS, Block, Kind, Mark
from tui.chat.model import ChatModel
from tui.chat.text_pieces import PieceKind


def lines_shown(block: Block) -> list[str]:
    return [line for piece in block.pieces() for line in piece.text.split("\n") if piece.kind is not PieceKind.BLANK]


def test_command_and_output_share_block() -> None:
    model = folded(conversation(MessageAction(content="go"), CmdRunAction(command="ls"), (ran("ls", "a\nb\n"), 1)))
    assert summaries(model) == [(Kind.USER, "", "go", Mark.NONE, ""), (Kind.TOOL, "$ ls", "a\nb", Mark.OK, "")]


DIFF = "@@ -1 +1 @@\n-old\n+new\n+newer"
STOPPED = "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_STOPPED"
RUN, READ, EDIT = CmdRunAction(command="x"), FileReadAction(path="a"), FileEditAction(path="a.py")


@pytest.mark.parametrize(
    ("action", "observation", "shown"),
    [
        (RUN, ran("x"), {"mark": Mark.OK, "meta": ""}),
        (RUN, ran("x", "", 2), {"mark": Mark.FAILED, "meta": "exit 2"}),
        (RUN, ran("x", "", 130), {"mark": Mark.INTERRUPTED, "meta": "interrupted"}),
        (RUN, ran("x", "", -1), {"mark": Mark.RUNNING, "meta": "still running"}),
        (RUN, ran("x", "\x1b[31mred\x1b[0m\x1b[2J"), {"text": "red␛[2J"}),
        (RUN, ErrorObservation(content="Stop", error_id=STOPPED), {"mark": Mark.INTERRUPTED, "meta": "not executed"}),
        (RUN, UserRejectObservation(content="no"), {"mark": Mark.REJECTED, "meta": "rejected"}),
        (READ, ErrorObservation(content="No such file"), {"mark": Mark.FAILED, "text": "No such file"}),
        (READ, FileReadObservation(path="a", content="1\n2\n3"), {"title": "view a", "meta": "3 lines", "shown": 0}),
        (EDIT, FileEditObservation(path="a.py", diff=f"--- a.py\n+++ a.py\n{DIFF}"),
         {"title": "edit a.py", "meta": "+2 −1", "body": PieceKind.DIFF, "text": DIFF}),
        (EDIT, FileEditObservation(path="a.py", old_content="one\ntwo\n", new_content="one\nthree\n"),
         {"text": "@@ -1,2 +1,2 @@\n one\n-two\n+three"}),
    ],
)  # fmt: skip
def test_result_is_shown_in_block_of_its_action(
    action: Action, observation: Observation, shown: dict[str, object]
) -> None:
    (block,) = folded(conversation(action, (observation, 0))).blocks
    assert {name: getattr(block, name) for name in shown} == shown


def test_command_without_output_is_running() -> None:
    (block,) = folded(conversation(CmdRunAction(command="make"))).blocks
    assert (block.title, block.mark) == ("$ make", Mark.RUNNING)


def test_left_running_command_moves_to_background() -> None:
    wait, more = CmdRunAction(command="make"), CmdRunAction(command="", is_input=True)
    log = conversation(wait, (ran("make", "…", -1), 0), more, (ran("", "done", 0), 2))
    assert [(block.mark, block.meta) for block in folded(log).blocks] == [
        (Mark.NONE, "continued in the background"),
        (Mark.OK, ""),
    ]


def test_long_output_is_folded_to_last_lines() -> None:
    output = "\n".join(f"line {i}" for i in range(60))
    ok, failed = folded(
        conversation(
            CmdRunAction(command="a"),
            (ran("a", output), 0),
            CmdRunAction(command="b"),
            (ran("b", output, 1), 2),
        )
    ).blocks
    assert lines_shown(ok) == ["$ a", "… 56 more lines", "line 56", "line 57", "line 58", "line 59"]
    assert lines_shown(failed)[:3] == ["$ b", "… 48 more lines", "line 48"]


@pytest.mark.parametrize(("lines", "hidden"), [(4, 0), (5, 0), (6, 0), (7, 3), (8, 4)])
def test_fold_hides_three_lines_or_none(lines: int, hidden: int) -> None:
    output = [f"line {i}" for i in range(lines)]
    (block,) = folded(conversation(CmdRunAction(command="a"), (ran("a", "\n".join(output)), 0))).blocks
    assert lines_shown(block) == ["$ a", *([f"… {hidden} more lines"] if hidden else []), *output[hidden:]]
    assert (block.can_fold, block.lines) == (hidden > 0, lines - hidden + 2)


def test_fold_of_file_hides_three_lines_or_none() -> None:
    for lines, shown in ((2, ["view a", "1", "2"]), (3, ["view a", "… 3 more lines"])):
        content = "\n".join(str(n + 1) for n in range(lines))
        (block,) = folded(conversation(READ, (FileReadObservation(path="a", content=content), 0))).blocks
        assert lines_shown(block) == shown


def test_title_that_a_narrow_window_cuts_can_be_unfolded() -> None:
    command = "grep -rn needle src/handloom"
    (block,) = folded(conversation(CmdRunAction(command=command), (ran(command, "a"), 0))).blocks
    assert block.can_fold


def test_long_lines_are_cut_until_they_are_unfolded() -> None:
    line = "abc " * 2500
    (block,) = folded(conversation(CmdRunAction(command="a"), (ran("a", f"{line}\nend"), 0))).blocks
    assert lines_shown(block) == ["$ a", f"{line[:FOLDED_LINE_CHARS]}… 9,680 more characters", "end"]
    assert block.can_fold
    block.folded = False
    assert len(lines_shown(block)[1]) > 4000


def test_toggle_unfolds_and_folds() -> None:
    output = "\n".join(f"line {i}" for i in range(30))
    model = folded(conversation(CmdRunAction(command="a"), (ran("a", output), 0)))
    (block,) = model.blocks
    short = lines_shown(block)
    model.toggle(block)
    assert lines_shown(block) == ["$ a", *output.split("\n")]
    model.toggle(block)
    assert lines_shown(block) == short


def test_thought_of_call_precedes_it() -> None:
    model = folded(conversation(CmdRunAction(command="ls", thought="I look.")))
    assert [block.kind for block in model.blocks] == [Kind.AGENT, Kind.TOOL]


def answer(said: str) -> ToolCallMetadata:
    """What the event of a first call has of the model's answer."""
    response = {"id": "r", "choices": [{"message": {"role": "assistant", "content": said}}]}
    return ToolCallMetadata(function_name="think", tool_call_id="a", model_response=response, total_calls_in_response=1)


def test_text_beside_thought_is_a_message() -> None:
    think = AgentThinkAction(thought="Hello!\nFirst I look.", tool_call_metadata=answer("Hello!"))
    assert summaries(folded(conversation(think))) == [
        (Kind.AGENT, "", "Hello!", Mark.NONE, ""),
        (Kind.THOUGHT, "", "First I look.", Mark.NONE, ""),
    ]


def test_text_beside_wrong_call_is_a_message() -> None:
    model = ChatModel()
    model.apply_frame(TokenDelta(0, "I look"))
    model.apply(envelope(1, ErrorObservation(content="Tool x is not registered.", thought="I look.")))
    assert summaries(model) == [
        (Kind.AGENT, "", "I look.", Mark.NONE, ""),
        (Kind.ERROR, "Tool x is not registered.", "", Mark.FAILED, ""),
    ]
    assert not model.tail


def test_failed_cell_shows_exception_and_unfolds_to_its_code() -> None:
    code = "import json\njson.loads('{')"
    trace = "\n".join(f"line {n}" for n in range(60))
    said = "JSONDecodeError: Expecting \x1b[31mproperty"
    cell = IPythonRunCellObservation(code=code, content=f"{trace}\n{said}", exception=said)
    (block,) = folded(conversation(IPythonRunCellAction(code=code), (cell, 0))).blocks
    assert (block.mark, block.meta) == (Mark.FAILED, "JSONDecodeError: Expecting property")
    assert lines_shown(block)[-1] == "JSONDecodeError: Expecting property"
    assert block.folded
    block.folded = False
    assert lines_shown(block)[:2] == ["python import json", "json.loads('{')"]


def test_plan_shows_tasks() -> None:
    tasks = [
        {"title": "one", "status": "done"},
        {"title": "two", "status": "in_progress"},
        {"title": "three"},
    ]
    (block,) = folded(
        conversation(TaskTrackingAction(command="plan", task_list=tasks), (TaskTrackingObservation(task_list=tasks), 0))
    ).blocks
    assert (block.title, block.meta, block.mark) == ("Plan", "1 of 3 done", Mark.OK)
    assert lines_shown(block) == ["Plan", "✓ one", "→ two", "○ three"]


def planned(count: int) -> list[Event | tuple[Event, int]]:
    """A plan of three tasks, taken up again so many times."""
    log: list[Event | tuple[Event, int]] = []
    for turn in range(count):
        tasks = [{"title": f"task {n}", "status": "done" if n < turn else "todo"} for n in range(3)]
        cause = len(log)
        log += [TaskTrackingAction(command="plan", task_list=tasks), (TaskTrackingObservation(task_list=tasks), cause)]
    return log


def test_plan_is_shown_before_its_result() -> None:
    log = conversation(*planned(1))
    (block,) = folded(log[:1]).blocks
    assert (block.mark, block.meta, block.text) == (Mark.RUNNING, "0 of 3 done", "○ task 0\n○ task 1\n○ task 2")


@pytest.mark.parametrize("cut", range(7))
def test_only_latest_plan_is_unfolded(cut: int) -> None:
    log = conversation(*planned(3))
    model = folded(log[cut:])
    model.prepend(log[:cut])
    assert [lines_shown(block)[1:] for block in model.blocks] == [[], [], ["✓ task 0", "✓ task 1", "○ task 2"]]
    assert [block.meta for block in model.blocks] == ["0 of 3 done", "1 of 3 done", "2 of 3 done"]


def test_failed_result_is_unfolded() -> None:
    (block,) = folded(conversation(CmdRunAction(command="x"), (ran("x", "\n".join("abcdefghijklmnop"), 1), 0))).blocks
    assert not block.folded
    assert lines_shown(block)[1:] == list("abcdefghijklmnop")


def test_error_shows_remedy() -> None:
    model = folded(conversation(ErrorObservation(content="No key.\nSet ANTHROPIC_API_KEY.")))
    assert summaries(model) == [(Kind.ERROR, "No key.", "Set ANTHROPIC_API_KEY.", Mark.FAILED, "")]


def test_call_awaits_approval_then_runs() -> None:
    waiting = CmdRunAction(command="rm x", confirmation_state=ActionConfirmationStatus.AWAITING_CONFIRMATION)
    log = conversation(waiting, AgentStateChangedObservation(agent_state=AgentState.USER_CONFIRMED))
    assert folded(log[:1]).blocks[0].mark is Mark.AWAITING
    assert folded(log).blocks[0].mark is Mark.RUNNING


def test_approval_is_for_oldest_waiting_call() -> None:
    waiting = CmdRunAction(command="x", confirmation_state=ActionConfirmationStatus.AWAITING_CONFIRMATION)
    said_yes = ChangeAgentStateAction(agent_state=AgentState.USER_CONFIRMED)
    marks = [block.mark for block in folded(conversation(waiting, waiting, said_yes)).blocks]
    assert marks == [Mark.RUNNING, Mark.AWAITING]


def test_queued_message_is_not_shown() -> None:
    assert folded(conversation(MessageAction(content="then this", queued=True))).blocks == []


def test_confirmed_action_reuses_waiting_block() -> None:
    waiting = CmdRunAction(command="rm x", confirmation_state=ActionConfirmationStatus.AWAITING_CONFIRMATION)
    (block,) = folded(conversation(waiting, CmdRunAction(command="rm x"), (ran("rm x"), 1))).blocks
    assert block.mark is Mark.OK


def test_finish_is_shown_once() -> None:
    model = folded(
        conversation(
            AgentFinishAction(final_thought="**Done**"),
            AgentStateChangedObservation(agent_state=AgentState.FINISHED),
        )
    )
    assert summaries(model) == [(Kind.FINISH, "Finished", "**Done**", Mark.OK, "")]


def test_agent_states_are_shown_with_reason() -> None:
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
        ("Stopped after an error", reason),
        ("Interrupted", ""),
    ]


def test_refusals_of_the_sandbox_are_lines_of_their_own() -> None:
    refusals = [Refusal(text=HOST_REFUSED.format(host="a.example"), host="a.example"), Refusal(text="x\x1b[2J\ny")]
    command = CmdOutputObservation(command="x", content="failed", refusals=refusals)
    cell = IPythonRunCellObservation(code="x", content="failed\n[later]", refusals=(Refusal(text="later"),))
    model = folded(conversation(CmdRunAction(command="x"), (command, 0), IPythonRunCellAction(code="x"), (cell, 2)))
    shown = [(block.kind, block.title) for block in model.blocks]
    assert [title for kind, title in shown if kind is Kind.NOTE] == [refusals[0].text, "x␛[2J␊y", "later"]
    assert [kind for kind, _ in shown] == [Kind.TOOL, Kind.NOTE, Kind.NOTE, Kind.TOOL, Kind.NOTE]
    assert "later" not in model.blocks[3].text, "it is not said twice"


def test_internal_events_are_hidden() -> None:
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


def test_mode_has_the_words_of_the_footer() -> None:
    (block,) = folded(conversation(ModeAction(mode="always"))).blocks
    assert block.title == "Mode: ask before everything"


def test_unknown_event_is_one_line() -> None:
    (block,) = folded(conversation(UnknownAction(raw={"action": "dance", "message": "one\ntwo"}))).blocks
    assert (block.kind, block.title) == (Kind.DETAIL, "unknown event dance one␊two")


def test_long_thought_is_folded() -> None:
    (block,) = folded(conversation(AgentThinkAction(thought="long " * 50))).blocks
    assert block.can_fold
    assert [piece.kind for piece in block.pieces()] == [PieceKind.TITLE, PieceKind.BLANK]


def test_10_mb_output_keeps_head_and_tail() -> None:
    content = "head" + "x" * 10_000_000 + "tail"
    (block,) = folded(conversation(CmdRunAction(command="x"), (ran("x", content), 0))).blocks
    assert len(block.text) < 600_000
    assert block.text.startswith("head")
    assert block.text.endswith("tail")
    assert "characters omitted" in block.text
