"""What counts as a loop: the scenarios and thresholds of V0, and those that V0 misses or misjudges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from core.controller.stuck import MAX_PERIOD, MAX_STEPS, SYNTAX_ERRORS, Step, describe_loop, find_loop
from core.events import (
    Action,
    AgentThinkAction,
    AgentThinkObservation,
    CmdOutputMetadata,
    CmdOutputObservation,
    CmdRunAction,
    CondensationAction,
    ErrorObservation,
    IPythonRunCellAction,
    IPythonRunCellObservation,
    MCPAction,
    MCPObservation,
    MessageAction,
    NullAction,
    Observation,
    ToolCallMetadata,
)


def ran(command: str, output: str = "", exit_code: int = 0, **fields: str) -> tuple[Action, Observation]:
    metadata = CmdOutputMetadata(exit_code=exit_code)
    call = ToolCallMetadata(function_name="f", tool_call_id=fields.get("thought", ""), total_calls_in_response=1)
    action = CmdRunAction(command=command, tool_call_metadata=call, **fields)
    return action, CmdOutputObservation(command=command, content=output, metadata=metadata)


def cell(code: str, output: str) -> tuple[Action, Observation]:
    return IPythonRunCellAction(code=code), IPythonRunCellObservation(code=code, content=output)


def steps(pairs: Iterable[tuple[Action, Observation | None]]) -> tuple[Step, ...]:
    return tuple(Step(10 * n, action, result) for n, (action, result) in enumerate(pairs))[-MAX_STEPS:]


def kind(pairs: Sequence[tuple[Action, Observation | None]]) -> str | None:
    loop = find_loop(steps(pairs))
    return loop.kind if loop is not None else None


def test_the_same_action_with_the_same_result_four_times() -> None:
    assert kind([ran("ls", "a")] * 3) is None
    loop = find_loop(steps([ran("pwd"), *[ran("ls", "a")] * 4]))
    assert loop is not None
    assert (loop.kind, loop.repeats, loop.since) == ("repeating_action_observation", 4, 10)


def test_the_same_action_that_fails_three_times_whatever_the_error_says() -> None:
    failures = [(CmdRunAction(command="ls"), ErrorObservation(content=text)) for text in "abc"]
    assert kind(failures[:2]) is None
    assert kind(failures) == "repeating_action_error"
    assert kind([*failures[:2], (CmdRunAction(command="cd"), ErrorObservation(content="c"))]) is None


@pytest.mark.parametrize("marker", SYNTAX_ERRORS)
def test_the_same_cell_with_the_same_syntax_error_three_times(marker: str) -> None:
    cells = [cell("print('", f"Cell In[{n}], line 1\n{marker} 1)\n[Jupyter cwd]\n[interpreter]") for n in range(3)]
    assert kind(cells) == "repeating_action_error"
    assert kind([*cells[:2], cell("print('", "fine")]) is None


def test_answers_that_cannot_be_used() -> None:
    def useless(why: str) -> tuple[Action, Observation]:
        return NullAction(), ErrorObservation(content=why)

    assert kind([useless("empty")] * 2) is None
    assert kind([useless("empty")] * 3) == "useless_answers"
    assert kind([useless(why) for why in "abc"]) is None
    assert kind([useless(why) for why in "abcd"]) == "useless_answers"
    assert kind([useless("empty"), useless("empty"), ran("ls"), useless("empty")]) is None
    assert kind([useless("empty"), ran("ls")] * 3 + [useless("empty")]) == "repeating_action_observation_pattern"


def test_the_same_message_three_times_without_doing_anything() -> None:
    message = (MessageAction(content="I am on it."), None)
    assert kind([message] * 2) is None
    assert kind([message] * 3) == "monologue"
    assert kind([message, ran("ls"), message, message]) is None


def test_two_actions_in_turn_three_times() -> None:
    pair = [ran("make"), ran("cat log", "no")]
    assert kind(pair * 2) is None
    assert kind(pair * 3) == "repeating_action_observation_pattern"


@pytest.mark.parametrize("period", range(2, MAX_PERIOD + 1))
def test_loops_of_up_to_eight_steps_are_found(period: int) -> None:
    circle = [ran(f"step {n}", f"result {n}") for n in range(period)]
    assert kind(circle * 2) is None
    loop = find_loop(steps([ran("before"), *circle * 3]))
    assert loop is not None
    assert (loop.period, loop.repeats) == (period, 3)


def test_pattern_with_a_different_result_is_no_loop() -> None:
    circle = [ran(f"step {n}", f"result {n}") for n in range(3)]
    assert kind([*circle, *circle, circle[0], ran("step 1", "now it works"), circle[2]]) is None


def test_thoughts_do_not_distinguish_actions() -> None:
    assert kind([ran("ls", "a", thought=f"idea {n}") for n in range(4)]) == "repeating_action_observation"


def test_polling_with_changing_output_is_no_loop() -> None:
    assert kind([ran("tail -1 log", f"step {n} of 100") for n in range(MAX_STEPS)]) is None


def test_failures_are_equal_except_for_times_and_addresses() -> None:
    failures = [ran("pytest", f"<object at 0x7f{n}a> 1 failed in 0.{n}2s", exit_code=1) for n in range(4)]
    assert kind(failures) == "repeating_action_observation"
    passes = [ran("pytest", f"1 passed in 0.{n}2s") for n in range(4)]
    assert kind(passes) is None


def test_exit_code_distinguishes_results() -> None:
    assert kind([ran("make", "x", exit_code=n % 4) for n in range(8)]) is None


def test_cell_edits_are_compared_by_their_first_three_lines() -> None:
    cells = [cell(f"edit_file_by_replace(\n'f',\n'a',\n{n})", "no match") for n in range(4)]
    results = [(action, IPythonRunCellObservation(code="", content="no match")) for action, _ in cells]
    assert kind(results) == "repeating_action_observation"


def test_mcp_calls_are_compared_without_thoughts() -> None:
    calls = [(MCPAction(name="t", arguments={"a": 1}, thought=str(n)), MCPObservation(content="r")) for n in range(4)]
    assert kind(calls) == "repeating_action_observation"


def test_repeated_equal_thoughts_are_a_loop() -> None:
    same = (AgentThinkAction(thought="hm"), AgentThinkObservation(content="Your thought has been logged."))
    assert kind([same] * 4) == "repeating_action_observation"
    assert kind([(AgentThinkAction(thought=str(n)), same[1]) for n in range(9)]) is None


def test_condensing_twice_without_an_answer_in_between() -> None:
    condensation = (CondensationAction(forgotten_event_ids=[1]), None)
    assert kind([condensation] * 2) == "context_window_error"
    assert kind([condensation, ran("ls"), condensation]) is None


def test_every_kind_of_loop_has_a_description() -> None:
    circle = [ran(f"step {n}") for n in range(3)]
    told = {describe_loop(loop) for pairs in ([ran("ls")] * 4, circle * 3) if (loop := find_loop(steps(pairs)))}
    assert told == {
        "did the same 4 times, with the same result",
        "went through the same 3 steps 3 times, with the same results",
    }
