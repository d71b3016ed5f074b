"""`handloom show`: the figures of a conversation that was really had, and of all of them together."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from core.events import EventSource, LLMMetrics, MessageAction, TokenUsage
from core.store.event_store import EventStore
from core.store.writer import Draft, Lease, Spent
from tests.doubles import FINISH, bash, write_script
from tests.program import Ended, Handloom

COSTS = (0.25, 0.5, 0.125)
WORK: list[dict[str, Any]] = [
    {"text": "I look.", "first_token_s": 0.2, "tool_calls": [bash("sleep 0.3"), bash("echo second")]},
    {"expect": "second", "text": "Once more.", "tool_calls": [bash("false")]},
    {"expect": "exit code 1", **FINISH},
]
USED = [
    {**turn, "usage": {"prompt_tokens": 1000 * n, "completion_tokens": n, "cost": cost}}
    for n, (turn, cost) in enumerate(zip(WORK, COSTS, strict=True), 1)
]


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Handloom, Ended, str]:
    """A task that was done, and the model that did it."""
    folder = tmp_path_factory.mktemp("worked")
    handloom, model = Handloom(folder), write_script(folder, USED)
    return handloom, handloom("run", "look around", "--model", model, "--json", "--title", "Tour"), model


def line(text: str, name: str) -> list[str]:
    """The cells of the line of a report that begins with this name."""
    (found,) = [row for row in text.splitlines() if re.match(rf"  {re.escape(name)}  ", row)]
    return re.split(r"\s{2,}", found.strip())[1:]


class TestOne:
    def test_figures_match_the_events(self, worked: tuple[Handloom, Ended, str]) -> None:
        handloom, done, model = worked
        shown = handloom("show", done.conversation, "--json")
        assert (shown.status, shown.err) == (0, "")
        (told,) = shown.events
        events, statistics = handloom.export(done.conversation), told["statistics"]
        runs = [event for event in events if event.get("action") == "run"]
        outputs = [event for event in events if event.get("observation") == "run"]
        last = [event["llm_metrics"] for event in events if "llm_metrics" in event][-1]
        calls = statistics["calls"]
        assert told["conversation_id"] == done.conversation
        assert (told["title"], told["model"], told["parent"], told["delegates"]) == ("Tour", model, None, [])
        assert statistics["events"] == told["event_count"] == len(events)
        assert (statistics["user_messages"], statistics["answers"]) == (1, len(WORK))
        assert (calls["count"], calls["unpriced"]) == (len(WORK), 0)
        assert calls["cost"] == pytest.approx(last["accumulated_cost"]) == sum(COSTS)
        assert calls["prompt_tokens"] == last["accumulated_token_usage"]["prompt_tokens"] == 6000
        assert calls["completion_tokens"] == last["accumulated_token_usage"]["completion_tokens"] == 6
        assert statistics["calls_by_model"] == {model: calls}
        assert statistics["actions"]["run"]["count"] == len(runs) == 3
        assert statistics["actions"]["run"]["failed"] == len([o for o in outputs if not o["success"]]) == 1
        assert (statistics["first_at"], statistics["last_at"]) == (events[0]["timestamp"], events[-1]["timestamp"])

    def test_times_match_those_spent(self, worked: tuple[Handloom, Ended, str]) -> None:
        handloom, done, _ = worked
        (told,) = handloom("show", done.conversation, "--json").events
        latency, runs = told["statistics"]["latency"], told["statistics"]["actions"]["run"]["durations"]
        assert latency["count"] == len(WORK)
        assert latency["max_s"] >= 0.2 > latency["median_s"] >= 0
        assert runs["max_s"] >= 0.3
        assert told["statistics"]["worked_s"] == pytest.approx(latency["total_s"] + runs["total_s"])

    def test_text_output_has_columns(self, worked: tuple[Handloom, Ended, str]) -> None:
        handloom, done, model = worked
        shown = handloom("show", done.conversation)
        assert shown.status == 0
        assert shown.lines[0] == f"Conversation {done.conversation}"
        assert f"  title      Tour\n  folder     {handloom.workspace}\n  model      {model}\n" in shown.out
        assert line(shown.out, "all") == ["3", "6,000", "6", "0", "0", "$0.8750"]
        assert line(shown.out, "model calls") == ["3"]
        actions = shown.out.partition("\nActions\n")[2]
        assert line(actions, "run") == ["3", "1", "0"]
        table = shown.out.partition("\nTime\n")[2].partition("\n\n")[0].splitlines()
        assert len({len(row) for row in table}) == 1, "the columns are not aligned"

    def test_unknown_conversation_is_refused(self, handloom: Handloom) -> None:
        for options in ((), ("--json",)):
            done = handloom("show", "nope", *options)
            assert (done.status, done.out) == (2, "")
            assert done.err == ("handloom: There is no conversation nope. `handloom list` shows all conversations.\n")


async def fill(home: Path) -> None:
    """A family of conversations with hostile names, one of which has spent something."""

    async def begin(store: EventStore, name: str, parent: str = "", title: str = "t") -> Lease:
        return await store.create_conversation(name, title=title, workspace="/w", model="m", parent=parent)

    async with EventStore(home) as store:
        root = await begin(store, "root", title="two\nlines \x1b[31m\u202e")
        for name, parent in (("a", "root"), ("b", "root"), ("a1", "a"), ("a2", "a"), ("stranger", "")):
            await begin(store, name, parent, title=f"{name} \x1b]0;x\x07\r\nConversation fake")
        said = Draft(MessageAction(content="hm"), EventSource.AGENT, spent=Spent(2, 0.5, 1, 700, 3.25))
        await store.append(root, [said, replace(said, spent=None)])


async def answer(home: Path, *models: str) -> None:
    """A conversation `c` in which each of these models has answered once."""
    async with EventStore(home) as store:
        lease = await store.create_conversation("c", title="t", workspace="/w", model="m")
        for n, model in enumerate(models, 1):
            sums = LLMMetrics(accumulated_token_usage=TokenUsage(model=model, prompt_tokens=1000 * n))
            await store.append(lease, [Draft(MessageAction(content="hm", llm_metrics=sums), EventSource.AGENT)])


class TestFamily:
    @pytest.fixture
    def family(self, handloom: Handloom) -> Handloom:
        asyncio.run(fill(handloom.home))
        return handloom

    def test_delegates_are_shown_as_a_tree(self, family: Handloom) -> None:
        (told,) = family("show", "root", "--json").events
        below = [(info["depth"], info["conversation_id"], info["parent"]) for info in told["delegates"]]
        assert below == [(1, "a", "root"), (2, "a1", "a"), (2, "a2", "a"), (1, "b", "root")]
        tree = family("show", "root").out.partition("Delegated to\n")[2]
        assert re.findall(r"^( *)(\w+)  \d{4}-", tree, re.MULTILINE) == [
            ("  ", "a"),
            ("    ", "a1"),
            ("    ", "a2"),
            ("  ", "b"),
        ]
        assert "  parent     a, action None" not in family("show", "a1").out
        assert "  parent     a\n" in family("show", "a1").out

    def test_hostile_titles_are_shown_harmlessly(self, family: Handloom) -> None:
        for arguments in (("root",), ("a",), ()):
            shown = family("show", *arguments)
            assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown.out)
            assert not re.search(r"^Conversation fake", shown.out, re.MULTILINE)
        assert "  title      two␊lines ␛[31m⟦U+202E⟧\n" in family("show", "root").out

    def test_hostile_model_names_keep_the_columns(self, handloom: Handloom) -> None:
        asyncio.run(answer(handloom.home, "\x1b[2J\n  all  1", "织" * 60, "m"))
        shown = handloom("show", "c").out
        table = shown.partition("\nModel calls\n")[2].partition("\n\n")[0].splitlines()
        assert [row.split()[0] for row in table] == ["calls", "␛[2J␊", "m", f"{'织' * 23}…", "all"]
        assert len({cell_len(row) for row in table}) == 1

    def test_unknown_cost_is_shown_as_unknown(self, family: Handloom) -> None:
        shown = family("show", "root").out
        assert line(shown, "all")[-1] == "2 unknown"
        assert json.loads(family("show", "root", "--json").out)["statistics"]["calls"]["cost"] is None


class TestAll:
    def test_totals_are_shown_by_day_and_kind(self, handloom: Handloom) -> None:
        asyncio.run(fill(handloom.home))
        (told,) = handloom("show", "--json").events
        (day,) = told["spent_by_day"]
        spent = {"calls": 2, "cost": 0.5, "unpriced": 1, "tokens": 700, "seconds": 3.25}
        assert told == {
            "conversations": 6,
            "events": 2,
            "events_by_kind": {"action:message": 2},
            "spent": spent,
            "spent_by_day": {day: spent},
        }
        shown = handloom("show").out
        assert line(shown, "ever") == line(shown, day) == ["2", "700", "3.25 s", "$0.5000 + 1 unknown"]
        assert line(shown, "action:message") == ["2"]

    def test_empty_home_has_no_costs(self, handloom: Handloom) -> None:
        shown = handloom("show")
        assert shown.status == 0
        assert line(shown.out, "conversations") == ["0"]
