"""Each kind of condenser, on ordinary and on difficult histories."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from core.errors import ModelError, ModelErrorKind
from core.events import (
    AgentCondensationObservation,
    BrowserOutputObservation,
    CmdOutputObservation,
    CmdRunAction,
    CondensationAction,
    CondensationRequestAction,
    Envelope,
    LLMMetrics,
    MessageAction,
    TokenUsage,
    UndoAction,
    UndoObservation,
)
from core.memory.condensers.condenser import (
    KINDS,
    MASKED,
    Condenser,
    CondenserPipeline,
    NoSummaryError,
    context_limit,
    record,
)
from core.memory.condensers.history_cut import CondensationTask
from core.memory.context_events import ContextLimit, Scale, clipped, is_seen, size_of, tokens_of
from core.memory.conversation_memory import build_messages
from core.memory.history_condenser import HistoryCondenser
from core.memory.view import GrowingView, View
from core.protocols import FrameSink, LLMRequest, LLMResponse, ToolCall
from core.settings.sections import ROLLING, CondenserSettings
from tests.memory.long_run import torn_pairs
from tests.memory.test_view import AGENT, ENVIRONMENT, USER, Log, talk

FORM = "create_state_summary"
FULL, WANTED = CondensationRequestAction(why="full"), CondensationRequestAction()
Answer = Callable[[LLMRequest], LLMResponse]


def says(text: str, *calls: tuple[str, Any]) -> Answer:
    tool_calls = tuple(ToolCall(f"c{n}", name, json.dumps(said)) for n, (name, said) in enumerate(calls))
    usage = TokenUsage(prompt_tokens=50, completion_tokens=5)
    return lambda request: LLMResponse("r", text, tool_calls, usage, cost=0.25)


def fails(request: LLMRequest) -> LLMResponse:
    raise ModelError(ModelErrorKind.SERVER, "The provider is down.")


GOOD = {
    "llm": says("They ran things."),
    "structured": says(
        "",
        ("create_state_summary", {"user_context": "The task.", "completed_tasks": "Half.", "pending_tasks": "Half."}),
    ),
    "llm_attention": says("", ("keep_events", {"ids": [6, 7, 999, True]})),
    "amortized": fails,
}


def made(kind: str, **settings: Any) -> Condenser:
    return CondenserPipeline(CondenserSettings.model_validate({"kind": kind, "max_size": 20, **settings}))


def task(
    log: Log, request: CondensationRequestAction, answer: Answer = fails, token_limit: int | None = None
) -> CondensationTask:
    async def ask(asked: LLMRequest) -> LLMResponse:
        return answer(asked)

    return CondensationTask(View.of(log).events, request, ask, token_limit)


def after(log: Log, action: CondensationAction) -> list[dict[str, Any]]:
    """The request to the model after a condensation."""
    log.add(action)
    return build_messages(View.of(log).events)


def test_every_condenser_has_a_row() -> None:
    assert set(KINDS) >= ROLLING
    for kind in KINDS:
        made(kind)
    assert context_limit(CondenserSettings()).max_events == 240
    assert context_limit(CondenserSettings(kind="noop")) == ContextLimit()


@pytest.mark.parametrize(
    "wrong", [{"max_size": 0}, {"max_size": 8, "keep_first": 4}, {"keep_first": -1}, {"pipeline": ["nonsense"]}]
)
def test_invalid_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        CondenserSettings.model_validate(wrong)


@pytest.mark.parametrize("kind", sorted(ROLLING))
@pytest.mark.parametrize("calls", [1, 3])
@pytest.mark.parametrize("request_", [FULL, WANTED], ids=["full", "wanted"])
async def test_rolling_condenser_keeps_at_most_half_and_splits_no_pair(
    kind: str, calls: int, request_: CondensationRequestAction
) -> None:
    log = talk(12, calls)
    action = await made(kind).condense(task(log, request_, GOOD[kind]))
    assert action is not None
    messages = after(log, action)
    assert torn_pairs(messages) == []
    assert messages[1]["content"].startswith("the task")
    view = View.of(log)
    assert len([e for e in view.events if not isinstance(e.event, CondensationRequestAction)]) <= 12 + 2 * calls
    assert f"out 11-{calls - 1}" in str(messages)  # the newest answer is still there


async def test_summary_follows_the_task_and_includes_the_previous_one() -> None:
    log = talk(12)
    for number in range(2):
        asked: list[LLMRequest] = []

        def answer(request: LLMRequest, number: int = number, asked: list[LLMRequest] = asked) -> LLMResponse:
            asked.append(request)
            return says(f"Summary {number}.")(request)

        action = await made("llm").condense(task(log, WANTED, answer))
        assert action is not None
        log.add(action)
        for said in range(4):
            log.add(MessageAction(content=f"I said {said}."), AGENT)
        events = View.of(log).events
        assert [e.event.content for e in events if isinstance(e.event, AgentCondensationObservation)] == [
            f"Summary {number}."
        ]
        if number:
            assert "Summary 0." in str(asked[0].messages)
    assert [type(e.event).__name__ for e in events[:7]] == [
        "SystemMessageAction", "MessageAction", "RecallAction", "NullObservation", "CmdRunAction",
        "CmdOutputObservation", "AgentCondensationObservation",
    ]  # fmt: skip


async def test_instructions_of_the_user_reach_the_summarizing_model() -> None:
    asked: list[LLMRequest] = []

    def answer(request: LLMRequest) -> LLMResponse:
        asked.append(request)
        return says("Kept.")(request)

    await made("llm").condense(task(talk(5), CondensationRequestAction(keep="the port number 8123"), answer))
    assert "the port number 8123" in asked[0].messages[1]["content"]
    assert not asked[0].tools


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (says("  \n"), "empty"),
        (says("x" * 100_000), "longer than what it was to replace"),
        (says("", ("execute_bash", {})), "called tools"),
        (fails, "The provider is down"),
    ],
    ids=["empty", "too long", "tools", "error"],
)
async def test_unusable_summary_falls_back_to_the_window(answer: Answer, why: str) -> None:
    log = talk(12)
    with pytest.raises(NoSummaryError, match=why):
        await made("llm").condense(task(log, FULL, answer))
    log.add(FULL, ENVIRONMENT)
    condenser = HistoryCondenser(made("llm"), ContextLimit(20), llm=Model(answer))
    action = await condenser.condense(View.of(log), LLMMetrics(), lambda frame: None, 0)
    assert (action.summary, why in action.note) == (None, True)
    assert action.forgotten
    messages = after(log, action)
    assert torn_pairs(messages) == []
    assert not View.of(log).wants_condensation


@pytest.mark.parametrize("arguments", ["", "[]", "{", '{"user_context": 1}', "[" * 9999])
async def test_unreadable_summary_form_is_refused(arguments: str) -> None:
    answer: Answer = lambda request: LLMResponse("r", "", (ToolCall("c", "create_state_summary", arguments),))  # noqa: E731
    with pytest.raises(NoSummaryError):
        await made("structured").condense(task(talk(12), FULL, answer))


class Model:
    """A model that answers as a function says."""

    name = "double"

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        return self.answer(request)

    async def aclose(self) -> None:
        """Nothing is held."""


async def test_cost_of_a_summary_is_counted() -> None:
    log = talk(12)
    log.add(FULL, ENVIRONMENT)
    before = LLMMetrics(accumulated_cost=1.0, accumulated_token_usage=TokenUsage(prompt_tokens=10, per_turn_token=9))
    condenser = HistoryCondenser(made("llm"), ContextLimit(20), llm=Model(says("Short.")))
    action = await condenser.condense(View.of(log), before, lambda frame: None, 0)
    assert action.llm_metrics is not None
    assert (action.llm_metrics.accumulated_cost, action.llm_metrics.accumulated_token_usage.prompt_tokens) == (1.25, 60)
    assert action.llm_metrics.accumulated_token_usage.per_turn_token == 9  # the context is that of the conversation


async def test_short_history_is_not_condensed() -> None:
    log = talk(1)
    log.add(FULL, ENVIRONMENT)
    condenser = HistoryCondenser(made("pipeline"), ContextLimit(20), llm=Model(fails))
    action = await condenser.condense(View.of(log), LLMMetrics(), lambda frame: None, 0)
    assert list(action.forgotten) == []


@pytest.mark.parametrize("kind", ["llm", "amortized", "conversation_window"])
async def test_oversized_result_ends_in_a_prompt_that_fits(kind: str) -> None:
    log, limit = talk(3), 2_000
    log[-1] = Envelope(
        conversation_id="c", id=log[-1].id, timestamp=log[-1].timestamp, source=AGENT, cause=log[-1].cause,
        event=CmdOutputObservation(command="x", content="huge " * 200_000),
    )  # fmt: skip
    log[1] = Envelope(
        conversation_id="c", id=1, timestamp=log[1].timestamp, source=USER, cause=None,
        event=MessageAction(content="please " * 200_000),
    )  # fmt: skip
    log.add(CondensationRequestAction(why="overflow"), ENVIRONMENT)
    metrics = LLMMetrics(accumulated_token_usage=TokenUsage(context_window=limit))
    condenser = HistoryCondenser(made(kind), ContextLimit(None, None, 1.0), llm=Model(says("Short.")))
    log.add(await condenser.condense(View.of(log), metrics, lambda frame: None, 0))
    messages = build_messages(View.of(log).events, limit)
    assert torn_pairs(messages) == []
    assert tokens_of(str(messages)) <= limit


def test_input_of_a_summary_is_limited() -> None:
    log = talk(200)
    for number in range(50):
        log.add(CmdOutputObservation(command="x", content=f"{number} " * 100_000))
    text = record(log, 10_000, 3_000)
    assert tokens_of(text) <= 3_100
    assert "[0]" not in text or len(text) < 10_000


def test_masked_observations_keep_their_place_and_pairs() -> None:
    log = talk(20)
    events = made("observation_masking", attention_window=10).visible_events(log)
    texts = [e.event.content for e in events if isinstance(e.event, CmdOutputObservation)]
    assert texts[0] == texts[5] == MASKED
    assert texts[-5:] == [f"out {n}-0" for n in range(15, 20)]
    assert torn_pairs(build_messages(events)) == []
    assert log[-1].event.content == "out 19-0"  # type: ignore[attr-defined]  # nothing was changed


def test_mask_changes_only_every_half_window() -> None:
    log, window, step = talk(20), 10, 5
    masking = made("observation_masking", attention_window=window)
    seen, changes, before = 0, 0, 0
    for end in range(1, len(log) + 1):
        shown = masking.visible_events(log[:end])
        seen += is_seen(log[end - 1].event)
        clear = [at for at, (one, other) in enumerate(zip(shown, log, strict=False)) if one is other]
        masked = [at for at in range(end) if at not in clear]
        assert all(is_seen(log[at].event) for at in masked)
        passed = sum(is_seen(log[at].event) for at in range(masked[-1] + 1)) if masked else 0
        assert max(0, seen - window) - step <= passed <= max(0, seen - window)
        changes, before = changes + (len(masked) != before), len(masked)
    assert changes <= (seen - window) // step


async def test_model_may_keep_a_quarter_with_its_pairs() -> None:
    log = talk(40)
    all_goes = await made("amortized").condense(task(log, FULL))
    wanted = list(range(len(log)))
    kept = await made("llm_attention").condense(task(log, FULL, says("", ("keep_events", {"ids": wanted}))))
    assert all_goes is not None
    assert kept is not None
    stays = set(all_goes.forgotten) - set(kept.forgotten)
    assert len([id for id in stays if is_seen(log[id].event)]) == 4, "of at most 5, as calls and results are pairs"
    assert torn_pairs(after(log, kept)) == []


def test_old_pages_keep_only_their_address() -> None:
    log = Log()
    for number in range(4):
        log.add(
            BrowserOutputObservation(
                content="text", url=f"http://{number}/", trigger_by_action="browse", screenshot="blob:x"
            )
        )
    events = made("browser_output_masking", browser_window=2).visible_events(log)
    pages = [e.event for e in events if isinstance(e.event, BrowserOutputObservation)]
    assert [page.content for page in pages] == [
        "Visited URL http://0/\nContent omitted", "Visited URL http://1/\nContent omitted", "text", "text",
    ]  # fmt: skip
    assert [bool(page.screenshot) for page in pages] == [False, False, True, True]


def test_recent_condenser_shows_start_and_end() -> None:
    log = talk(20)
    events = made("recent").visible_events(log)
    assert len([e for e in events if isinstance(e.event, CmdRunAction)]) < 10
    assert torn_pairs(build_messages(events)) == []
    assert made("recent").visible_events(log[:6]) == log[:6]


# -- the view ----------------------------------------------------------------------------------------------------------


def test_condensation_of_missing_ids_is_harmless_and_fast() -> None:
    log = talk(3)
    log.add(CondensationAction(forgotten_event_ids=[-5, 10**9, 4]))
    log.add(CondensationAction(forgotten_events_start_id=100, forgotten_events_end_id=10**15))
    log.add(CondensationAction(forgotten_event_ids=[], summary="foreign", summary_offset=10**6))
    later = log.add(MessageAction(content="later"), USER)  # within the range, but after it
    seen = [e.id for e in View.of(log).events]
    assert later in seen
    assert 4 not in seen
    assert log[-3].event.message == "Condenser is dropping the events: 100 to 1000000000000000."


@pytest.mark.parametrize("chat", [True, False])
def test_undone_condensation_forgets_nothing(chat: bool) -> None:
    log = talk(3)
    said = log.add(MessageAction(content="again"), USER)
    log.add(CondensationAction(forgotten_events_start_id=4, forgotten_events_end_id=7, summary="s", summary_offset=4))
    assert 4 not in [e.id for e in View.of(log).events]
    undo = log.add(UndoAction(first=said, chat=chat), USER)
    log.add(UndoObservation(done=True), ENVIRONMENT, undo)
    assert (4 in [e.id for e in View.of(log).events]) is chat


@pytest.mark.parametrize("seed", range(20))
def test_incremental_view_equals_the_full_view(seed: int) -> None:
    import random

    rng = random.Random(seed)
    log, growing = talk(2), GrowingView()
    for number in range(60):
        match rng.randrange(9):
            case 0:
                first = rng.randrange(len(log))
                log.add(CondensationAction(forgotten_event_ids=list(range(first, first + 4))))
            case 1:
                cut = rng.randrange(len(log))
                log.add(
                    CondensationAction(
                        forgotten_events_start_id=4,
                        forgotten_events_end_id=4 + cut,
                        summary=str(number),
                        summary_offset=rng.randrange(6),
                    )
                )
            case 2:
                log.add(CondensationRequestAction(), rng.choice([USER, AGENT, ENVIRONMENT]))
            case 3:
                undo = log.add(UndoAction(first=rng.randrange(len(log)), chat=True), USER)
                log.add(UndoObservation(done=rng.random() < 0.8), ENVIRONMENT, undo)
            case _:
                log.add(MessageAction(content=str(number)), rng.choice([USER, AGENT]))
        if rng.random() < 0.5:
            view = growing.update(tuple(log))
            assert view == View.of(tuple(log))
            whole = sum(m["role"] == "assistant" for m in build_messages(tuple(log)))
            shown = sum(m["role"] == "assistant" for m in build_messages(view.events))
            assert growing.forgotten_answers(view) == whole - shown


# -- sizes -------------------------------------------------------------------------------------------------------------


def test_estimates_are_not_below_tokenizer_counts() -> None:
    from tests.memory.long_run import tokens_in

    for text in ("def f(x):\n    return x + 1\n" * 50, "The quick brown fox. " * 80, "修复登录错误，谢谢。" * 50):
        assert tokens_of(text) >= tokens_in(text) * 0.7


def test_provider_counts_correct_the_estimate_within_limits() -> None:
    assert Scale.of(2000, 1000)(100) == 200
    assert Scale.of(0, 1000)(100) == Scale.of(1000, 0)(100) == 100
    assert Scale.of(10**9, 1)(100) == 300


def test_long_text_is_truncated_in_the_middle_deterministically() -> None:
    text = "begin " + "x" * 100_000 + " end"
    assert clipped(text, None) == text
    cut = clipped(text, 500)
    assert cut == clipped(text, 500)
    assert tokens_of(cut) < 700
    assert cut.startswith("begin")
    assert cut.endswith("end")


def test_results_of_one_answer_share_the_limit() -> None:
    log = talk(1, calls=30)
    for at, envelope in enumerate(log):
        if isinstance(envelope.event, CmdOutputObservation):
            metadata = log[envelope.cause or 0].event.tool_call_metadata
            event = envelope.event.model_copy(update={"content": "y" * 30_000, "tool_call_metadata": metadata})
            log[at] = Envelope(
                conversation_id="c", id=envelope.id, timestamp=envelope.timestamp, source=AGENT, cause=envelope.cause,
                event=event,
            )  # fmt: skip
    assert tokens_of(str(build_messages(log, 12_000))) < 12_000
    assert sum(size_of(e.event, 12_000) for e in log if isinstance(e.event, CmdOutputObservation)) < 6_000
