"""Damaged databases in short form, and the control: an unreported lost event is noticed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from core.store.page_recovery import LostRange, RecoveryResult
from tests.campaign import mending
from tests.campaign.trial import Facts, Violation

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the campaign uses what only Linux has")


def test_damaged_database_is_recovered_and_can_continue(seed: int) -> None:
    result = mending.run(mending.SHORT, seed)
    assert result.failures == (), "\n".join(result.failures)
    assert result.counts["events saved"] > 0


def test_unreported_lost_event_is_noticed(tmp_path: Path) -> None:
    mending.make(tmp_path)
    log = mending.log_of(tmp_path)
    (id, events), *_ = log.items()
    mending.check_log(log, log, RecoveryResult(), 0, Facts())
    with pytest.raises(Violation, match="1 events are gone"):
        mending.check_log({**log, id: events[:-1]}, log, RecoveryResult(), 0, Facts())
    with pytest.raises(Violation, match="said to be lost"):
        mending.check_log(log, log, RecoveryResult(lost=[LostRange(id, 3, 3)]), 9, Facts())
