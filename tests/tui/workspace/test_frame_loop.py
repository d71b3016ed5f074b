"""The pace of frames: fast when there is little to draw, slow when drawing takes the time, slowest under typing."""

from __future__ import annotations

import pytest

from tui.workspace.frame_loop import PERIOD_S, SLOWEST_S, TYPED_WITHIN_S, TYPING_BUSY, TYPING_S, Pace

LONG_AGO = float("-inf")


def after(frames: int, share: float) -> tuple[Pace, float, float]:
    """A pace after frames that were drawn as soon as they were due, each of which took this share of the time."""
    pace, now, used = Pace(), 0.0, 0.0
    for _ in range(frames):
        pace.drawn(now, used)
        wait = pace.wait_s(now, LONG_AGO)
        now, used = now + wait, used + wait * share
    pace.drawn(now, used)
    return pace, now, pace.wait_s(now, LONG_AGO)


def test_first_frame_is_due_at_once() -> None:
    assert Pace().wait_s(5.0, LONG_AGO) == 0


def test_cheap_frames_come_at_the_full_rate() -> None:
    assert after(20, 0.3)[2] == pytest.approx(PERIOD_S)


def test_expensive_frames_come_less_often() -> None:
    assert after(20, 0.95)[2] == pytest.approx(SLOWEST_S)


def test_rate_recovers_when_frames_get_cheaper() -> None:
    pace, now, wait = after(20, 0.95)
    used = 100.0
    for _ in range(10):
        now, used = now + wait, used + wait * 0.1
        pace.drawn(now, used)
        wait = pace.wait_s(now, LONG_AGO)
    assert wait == pytest.approx(PERIOD_S)


def test_expensive_frames_wait_while_the_user_types() -> None:
    pace, now, _ = after(5, 0.45)
    assert pace.wait_s(now, typed_at=now) == pytest.approx(PERIOD_S * 0.45 / TYPING_BUSY)
    assert pace.wait_s(now, typed_at=now - TYPED_WITHIN_S) == pytest.approx(PERIOD_S)
    pace.drawn(now + 1, 100.0)
    assert pace.wait_s(now + 1, typed_at=now + 1) == pytest.approx(TYPING_S)


def test_cheap_frames_do_not_wait_while_the_user_types() -> None:
    pace, now, _ = after(5, 0.1)
    assert pace.wait_s(now, typed_at=now) == pytest.approx(PERIOD_S)


def test_overdue_frame_does_not_wait() -> None:
    pace, now, _ = after(5, 0.1)
    assert pace.wait_s(now + 1, typed_at=now + 1) == 0


def test_standing_clock_is_harmless() -> None:
    pace = Pace()
    pace.drawn(1.0, 1.0)
    pace.drawn(1.0, 2.0)
    assert pace.wait_s(1.0, LONG_AGO) == pytest.approx(PERIOD_S)
