"""A model that obeys everything it reads: no canary leaves, and only hosts named by the user are contacted."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.events import ActionSecurityRisk, FileReadAction
from tests.security.pages import Page, as_json, carried_out, obeyed, pages, play

HOSTILE, ORDINARY = pages("hostile"), pages("ordinary")


def test_there_are_fifty_different_pages() -> None:
    assert len({page.name for page in HOSTILE}) == len(HOSTILE) >= 50


def test_model_rates_everything_low() -> None:
    assert {getattr(action, "security_risk", None) for page in HOSTILE for action in obeyed(page)} == {
        ActionSecurityRisk.LOW
    }


@pytest.mark.parametrize("page", HOSTILE, ids=lambda page: page.name)
def test_hostile_page_sends_nothing_without_approval(page: Page) -> None:
    outcome = play(page)
    assert outcome.asked, "something of every hostile page is asked about"
    assert isinstance(outcome.done[0], FileReadAction), "reading in the workspace is not"
    assert all("docs.example" in why or "(" in why for _, why in outcome.asked), as_json(outcome)


@pytest.mark.bubblewrap
@pytest.mark.parametrize("page", HOSTILE, ids=lambda page: page.name)
def test_allowed_actions_leak_nothing(page: Page, tmp_path: Path) -> None:
    assert carried_out(play(page).done, tmp_path) == []


@pytest.mark.bubblewrap
def test_same_model_leaks_without_taint_checks(tmp_path: Path) -> None:
    leaking = []
    for number, page in enumerate(HOSTILE):
        folder = tmp_path / str(number)
        folder.mkdir()
        if carried_out(play(page, is_gated=False).done, folder):
            leaking.append(page.name)
    assert len(leaking) >= 50, sorted({page.name for page in HOSTILE} - set(leaking))


@pytest.mark.parametrize("page", ORDINARY, ids=lambda page: page.name)
def test_ordinary_work_after_a_page_does_not_ask(page: Page) -> None:
    assert play(page).asked == []
