"""A saved conversation plays at its own pace, in its own order, from anywhere, and carries out nothing."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from core.controller.decide import fold
from core.events import (
    AgentDelegateAction,
    AgentDelegateObservation,
    AgentState,
    AgentStateChangedObservation,
    Envelope,
    TerminalOutput,
)
from core.import_export.exporter import export
from core.replay.player import AT_ONCE, SPEEDS, TICK_S, Player
from core.replay.timeline import LONGEST_GAP_S, TERMINAL_BYTES, Item, Timeline, offsets
from core.store.reader import EventReader
from core.store.recordings import RecordedFrame
from tests.doubles import FINISH, bash
from tests.rerun.runs import managing, recorded
from tests.tapes import AGENT, BEGAN_AT, Tape, long_tape


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@asynccontextmanager
async def playing(tape: Tape, home: Path) -> AsyncIterator[tuple[Player, Time]]:
    await tape.keep(home)
    async with EventReader(home) as reader:
        at = Time()
        player = Player(reader, tape.id, clock=at, sleep=at.sleep)
        await player.open()
        yield player, at


def small() -> Tape:
    tape = Tape()
    tape.say("Count.")
    tape.become(AgentState.RUNNING)
    tape.at = 2.0
    tape.run("count", "one\ntwo\n", took_s=4.0)
    tape.at = 100.0
    tape.fail("That was all.")
    return tape


def told(items: Sequence[Item]) -> list[int | bytes]:
    """Ids of events, bytes of frames."""
    return [item.id if isinstance(item, Envelope) else item.frame.data for item in items]


def ids(items: Sequence[Item]) -> list[int]:
    return [item.id for item in items if isinstance(item, Envelope)]


# -- playing -----------------------------------------------------------------------------------------------------------


async def test_events_and_bytes_are_played_in_order_and_on_time(tmp_path: Path) -> None:
    async with playing(small(), tmp_path) as (player, at):
        came: list[tuple[float, int | bytes]] = []
        await player.play(lambda items: came.extend((round(at.now), one) for one in told(items)))
        assert came == [(0, 0), (0, 1), (2, 2), (4, b"one\r\n"), (6, b"two\r\n"), (6, 3), (100, 4)]
        assert player.position.is_end
        assert len(at.slept) <= 6, "one wait to the next item, and no looking in between"


@pytest.mark.parametrize("speed", SPEEDS)
async def test_speed_divides_every_wait(tmp_path: Path, speed: float) -> None:
    async with playing(small(), tmp_path) as (player, at):
        player.speed = speed
        await player.play(lambda items: None)
        assert at.now == pytest.approx(100 / speed, abs=4 * TICK_S)


async def test_skipping_shortens_long_waits(tmp_path: Path) -> None:
    async with playing(small(), tmp_path) as (player, at):
        player.skips_waiting = True
        await player.play(lambda items: None)
        assert at.now == pytest.approx(2 + 2 + 2 + 0.3, abs=4 * TICK_S)


async def test_items_within_one_frame_are_shown_together(tmp_path: Path) -> None:
    async with playing(long_tape(400), tmp_path) as (player, at):
        player.speed = 64.0
        parts: list[Sequence[Item]] = []
        await player.play(parts.append)
        assert ids([item for part in parts for item in part]) == list(range(player.count))
        assert len(parts) <= at.now / TICK_S + 2
        assert max(map(len, parts)) <= AT_ONCE


async def test_pause_repeats_and_loses_nothing(tmp_path: Path) -> None:
    await small().keep(tmp_path)
    async with EventReader(tmp_path) as reader:
        now, waits = [0.0], asyncio.Event()

        async def sleep(seconds: float) -> None:
            if seconds > 10:
                now[0] += 5.0
                waits.set()
                await asyncio.Event().wait()
            now[0] += seconds

        player = Player(reader, "tape", clock=lambda: now[0], sleep=sleep)
        await player.open()
        came: list[Item] = []
        work = asyncio.create_task(player.play(came.extend))
        await waits.wait()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        assert told(came) == [0, 1, 2, b"one\r\n", b"two\r\n", 3]
        player.speed = 16.0
        begun = now[0]
        await player.play(came.extend)
        assert told(came)[-1] == 4
        assert now[0] - begun == pytest.approx((94 - 5) / 16, abs=TICK_S), "what was waited for before counts"


async def test_step_includes_the_frames_before_the_event(tmp_path: Path) -> None:
    async with playing(small(), tmp_path) as (player, _at):
        steps = [told(await player.next_event()) for _ in range(6)]
        assert steps == [[0], [1], [2], [b"one\r\n", b"two\r\n", 3], [4], []]


async def test_conversation_without_events_ends_at_once(tmp_path: Path) -> None:
    async with playing(Tape(), tmp_path) as (player, _at):
        await player.play(lambda items: pytest.fail("there is nothing to tell"))
        assert (player.position.events, player.position.event) == (0, -1)
        assert (await player.seek(5)).page == []


# -- clocks that are wrong ---------------------------------------------------------------------------------------------


def test_negative_and_huge_gaps_are_corrected() -> None:
    assert list(offsets([10.0, 5.0, 6.0])) == [0.0, 0.0, 1.0]
    assert list(offsets([0.0, 1e12, 1.0, 2.0])) == [0.0, LONGEST_GAP_S, LONGEST_GAP_S, LONGEST_GAP_S + 1]
    assert list(offsets([7.0, 7.0])) == [0.0, 0.0]
    assert list(offsets([])) == []


async def test_bytes_with_a_wrong_clock_stay_between_their_events(tmp_path: Path) -> None:
    tape = small()
    tape.frames[0] = tape.frames[0].__class__(2, BEGAN_AT + timedelta(days=9), tape.frames[0].frame)
    tape.frames[1] = tape.frames[1].__class__(2, BEGAN_AT - timedelta(days=9), tape.frames[1].frame)
    async with playing(tape, tmp_path) as (player, at):
        came: list[Item] = []
        await player.play(came.extend)
        assert ids(came) == [0, 1, 2, 3, 4]
        assert at.now == pytest.approx(100, abs=8 * TICK_S)


# -- seeking -----------------------------------------------------------------------------------------------------------


async def test_state_is_the_last_page_before_its_position(tmp_path: Path) -> None:
    async with playing(long_tape(200), tmp_path) as (player, _at):
        scene = await player.seek(300)
        assert ids(scene.page) == list(range(201, 301))
        assert player.position.event == 300
        assert player.latest_id == 300
        assert [each.id for each in await player.page(limit=2)] == [299, 300]
        following = await player.next_event()
        assert ids(following) == [301]


@pytest.mark.parametrize("target", [-1, 0, 1, 57, 230, 420])
async def test_playing_from_any_position_shows_only_later_items(tmp_path: Path, target: int) -> None:
    tape = long_tape(200)
    async with playing(tape, tmp_path) as (player, _at):
        scene = await player.seek(target)
        player.speed = 64.0
        came: list[Item] = []
        await player.play(came.extend)
        assert ids(came) == list(range(target + 1, len(tape.events)))
        before = [frame.frame.data for frame in tape.frames if frame.after < target]
        shown = [item.frame.data for item in (*scene.earlier, *scene.page) if not isinstance(item, Envelope)]
        after = [item.frame.data for item in came if not isinstance(item, Envelope)]
        assert shown + after == [frame.frame.data for frame in tape.frames][len(before) - len(shown) :]


async def test_state_and_cost_are_those_of_the_position(tmp_path: Path) -> None:
    async with playing(long_tape(200), tmp_path) as (player, _at):
        scene = await player.seek(300)
        assert isinstance(scene.state.event if scene.state else None, AgentStateChangedObservation)
        last = next(item for item in reversed(scene.page) if isinstance(item, Envelope) and item.event.llm_metrics)
        assert isinstance(last, Envelope)
        assert scene.spent == last.event.llm_metrics
        assert scene.spent is not None
        assert scene.spent.accumulated_cost == pytest.approx(1.42)
        end = await player.seek(player.count - 1)
        assert end.state is not None
        assert end.state.event.agent_state is AgentState.FINISHED  # type: ignore[attr-defined]
        assert (await player.seek(0)).spent is None


async def test_terminal_gets_one_screenful_and_not_a_whole_flood(tmp_path: Path) -> None:
    tape = Tape()
    tape.say("Flood.")
    for number in range(60):
        tape.run(f"cat {number}", f"{number:05} " * 1000)
    for _number in range(150):
        tape.say("Still here?")
    async with playing(tape, tmp_path) as (player, _at):
        scene = await player.seek(tape.events[-1].id)
        frames = [item.frame for item in (*scene.earlier, *scene.page) if not isinstance(item, Envelope)]
        assert TERMINAL_BYTES <= sum(len(frame.data) for frame in frames) <= 2 * TERMINAL_BYTES
        assert frames[-1].data.endswith(b"00059 ")
        live = {frame.cause for frame in frames}
        results = [item for item in scene.earlier if isinstance(item, Envelope) and item.event.kind == "run"]
        assert {item.cause for item in results} <= live, "an output whose bytes were cut away must not be printed anew"


async def test_output_from_before_the_page_is_not_shown_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.replay.timeline.PAGE", 3)
    monkeypatch.setattr("core.replay.timeline.TERMINAL_BYTES", 4)
    tape = Tape()
    action = tape.run("count", "one\ntwo\n")
    result = tape.events.pop()
    tape.say("Wait.")
    tape.say("And then?")
    tape.events.append(replace(result, id=3))
    tape.run("more", "three\nfour\n")
    async with playing(tape, tmp_path) as (player, _at):
        scene = await player.seek(5)
        assert ids(scene.page) == [3, 4, 5]
        frames = [item.frame for item in (*scene.earlier, *scene.page) if not isinstance(item, Envelope)]
        assert action in {frame.cause for frame in frames}
        assert sum(len(frame.data) for frame in frames) <= 4


async def test_seeking_in_a_long_log_takes_under_half_a_second(tmp_path: Path) -> None:
    async with playing(long_tape(8_000), tmp_path) as (player, _at):
        took = []
        for target in (0, 8_000, 16_000, 4_000, player.count - 1):
            begun = time.process_time()
            await player.seek(target)
            took.append(time.process_time() - begun)
        assert sorted(took)[2] < 0.5, took


# -- much that was printed ---------------------------------------------------------------------------------------------


def loud(commands: int, megabytes: int) -> Tape:
    """Commands that each print so much, in pieces of 64 KB, with quiet ones between them."""
    tape = Tape()
    tape.say("Print.")
    block = b"0123456789abcde\n" * 4096
    for number in range(commands):
        tape.run(f"quiet {number}", "one\ntwo\n")
        action = tape.run("loud", "", records=False) if number % 2 else tape.run("loud", "begin\n")
        end = tape.events.pop()
        for _ in range(16 * megabytes):
            tape.at += 0.01
            when = BEGAN_AT + timedelta(seconds=tape.at)
            tape.frames.append(RecordedFrame(action, when, TerminalOutput(action, block)))
        tape.at += 0.01
        tape.events.append(replace(end, timestamp=BEGAN_AT + timedelta(seconds=tape.at)))
    tape.frames.append(RecordedFrame(len(tape.events) - 1, BEGAN_AT, TerminalOutput(-1, b"$ ")))
    return tape


def lived(tape: Tape) -> list[int | bytes]:
    return [item.id if isinstance(item, Envelope) else item.data for item in tape.lived]


async def test_long_output_is_replayed_in_pieces(tmp_path: Path) -> None:
    tape = loud(4, 2)
    async with playing(tape, tmp_path) as (player, _at):
        came: list[int | bytes] = []
        while items := await player.next_event():
            came += told(items)
            assert sum(len(item.frame.data) for _, item in player._ahead if not isinstance(item, Envelope)) < 1 << 20
        assert came == [*lived(tape), b"$ "]
        middle = tape.events[len(tape.events) // 2].id
        await player.seek(middle)
        came = []
        await player.play(lambda items: came.extend(told(items)))
        assert came == [*lived(tape)[lived(tape).index(middle) + 1 :], b"$ "]


async def test_long_output_takes_little_memory(tmp_path: Path) -> None:
    tape = loud(30, 8)
    count, whole = len(tape.events), sum(len(each.frame.data) for each in tape.frames)
    assert whole > 200 << 20
    async with playing(tape, tmp_path) as (player, _at):
        del tape
        tracemalloc.start()
        try:
            for target in (count - 1, count // 2, 3):
                scene = await player.seek(target)
                shown = [item for item in (*scene.earlier, *scene.page) if not isinstance(item, Envelope)]
                assert 0 < sum(len(item.frame.data) for item in shown) <= TERMINAL_BYTES
                await player.next_event()
            await player.play(lambda items: None)
            with (tmp_path / "all.cast").open("wb") as out:
                await export(player.timeline.reader, "tape", "asciicast", out)
                assert out.tell() > whole
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 24 << 20, f"{peak / 1e6:.0f} MB"


# -- finding positions -------------------------------------------------------------------------------------------------


async def test_errors_and_questions_are_highlighted(tmp_path: Path) -> None:
    tape = small()
    asked = tape.become(AgentState.AWAITING_USER_CONFIRMATION)
    async with playing(tape, tmp_path) as (player, _at):
        highlights = await player.timeline.highlights()
        assert (highlights.errors, highlights.questions) == ((4,), (asked,))


async def test_answers_are_counted_like_in_the_controller(tmp_path: Path) -> None:
    turns: list[dict[str, Any]] = [
        {"text": "Two at once.", "tool_calls": [bash("echo one"), bash("exit 3")]},
        {"tool_calls": [bash("x")], "fault": "malformed_arguments"},
        {"text": "What now?"},
        FINISH,
    ]
    async with managing(tmp_path, keep=False) as manager:
        session = await recorded(manager, tmp_path, turns, "Begin.", "Go on.")
        log = await session.stream.read()
    async with EventReader(tmp_path / "home") as reader:
        timeline = Timeline(reader, session.id)
        await timeline.open()
        highlights = await timeline.highlights()
    counts = [highlights.answered(number) for number in range(-1, len(log))]
    assert counts == [fold(log[:number]).iteration for number in range(len(log) + 1)]
    assert counts[-1] == 4


async def test_answers_of_delegates_count_and_invalid_ones_do_not(tmp_path: Path) -> None:
    tape = small()
    action = tape.add(AgentDelegateAction(agent="CodeActAgent", inputs={}), cause=0)
    for iterations in (7, -3, 10**12, "many"):
        told = AgentDelegateObservation(content="", outputs={"iterations": iterations})
        tape.add(told, AGENT, action)
    async with playing(tape, tmp_path) as (player, _at):
        highlights = await player.timeline.highlights()
        assert highlights.answered(player.count) - highlights.answered(action) == 7


async def test_only_this_conversation_is_searched(tmp_path: Path) -> None:
    other = small()
    other.id = "other"
    tape = long_tape(30)
    await other.keep(tmp_path)
    async with playing(tape, tmp_path) as (player, _at):
        found = await player.timeline.search("part", 100)
        assert found == list(player.timeline.turns)
        assert await player.timeline.search("nowhere", 100) == []


async def test_positions_are_reached_by_fraction_and_time(tmp_path: Path) -> None:
    async with playing(small(), tmp_path) as (player, _at):
        assert [player.at_fraction(part) for part in (0.0, 0.5, 1.0)] == [0, 2, 4]
        wanted: Callable[[float], int] = player.at_offset
        assert [wanted(at) for at in (-1.0, 0.0, 3.0, 50.0, 1000.0)] == [-1, 1, 2, 3, 4]
