"""A `browsergym/*` environment in the place of the browser: goal, rewards, pages as in V0, or a clear word why not."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from core.events import BrowseInteractiveAction, BrowserOutputObservation, BrowseURLAction
from runtime.plugins.browser import plugin
from runtime.plugins.browser.plugin import BrowserPlugin
from tests.peers.installing import BROWSERGYM, installed
from tests.runtime.conftest import Watcher, place

CLICK_TEST = "browsergym/miniwob.click-test"
CLICKS = 3
"""An agent evaluates itself and tries again."""


class Agent:
    """A scripted policy on a plugin."""

    def __init__(self, plugin: BrowserPlugin) -> None:
        self._plugin = plugin

    async def do(self, calls: str, *, return_axtree: bool = False) -> BrowserOutputObservation:
        action = BrowseInteractiveAction(browser_actions=calls, return_axtree=return_axtree)
        answer = await self._plugin.table[BrowseInteractiveAction](action, 7, Watcher().emit)
        assert isinstance(answer, BrowserOutputObservation)
        return answer

    async def browse(self, url: str) -> BrowserOutputObservation:
        answer = await self._plugin.table[BrowseURLAction](BrowseURLAction(url=url), 7, Watcher().emit)
        assert isinstance(answer, BrowserOutputObservation)
        return answer

    async def rewards(self) -> list[float]:
        rewards: list[float] = json.loads((await self.do("GET_EVAL_REWARDS")).content)
        return rewards


@asynccontextmanager
async def evaluating(folder: Path, environ: Mapping[str, str]) -> AsyncIterator[Agent]:
    # The server's own folder is short, for sockets; that of a test is not.
    with tempfile.TemporaryDirectory(prefix="handloom-") as private:
        where = replace(place(folder, environ={**os.environ, **environ}), folder=Path(private))
        plugin = BrowserPlugin(where)
        try:
            yield Agent(plugin)
        finally:
            await plugin.aclose()


def chosen(seed: int) -> dict[str, str]:
    return {
        plugin.ENVIRONMENT: CLICK_TEST,
        plugin.PYTHON: str(installed(BROWSERGYM)),
        plugin.SEED: str(seed),
    }


@pytest.mark.peers
@pytest.mark.browser
@pytest.mark.parametrize("seed", [0, 1, 2])
async def test_miniwob_click_test_is_solved(tmp_path: Path, seed: int) -> None:
    async with evaluating(tmp_path, chosen(seed)) as agent:
        assert (await agent.do("GET_EVAL_GOAL")).content == "Click the button."
        page = await agent.do("noop(1)", return_axtree=True)
        assert await agent.rewards() == [0.0]
        button = re.search(r"\[(\w+)\] button 'Click Me!'", page.content)
        assert button is not None
        for _ in range(CLICKS):
            clicked = await agent.do(f"click('{button[1]}')")
            assert clicked.last_browser_action_error == ""
            if (await agent.rewards())[-1]:
                break
        assert (await agent.rewards())[-1] == 1.0


@pytest.mark.peers
@pytest.mark.browser
async def test_observation_is_like_that_of_our_own_browser(tmp_path: Path) -> None:
    async with evaluating(tmp_path, chosen(0)) as agent:
        page = await agent.do("noop(1)", return_axtree=True)
        assert page.content.startswith(f"[Current URL: {page.url}]\n[Focused element bid: ")
        assert "[Action executed successfully.]" in page.content
        assert page.screenshot.startswith("data:image/png;base64,")
        assert page.set_of_marks.startswith("data:image/png;base64,")
        assert Path(str(page.screenshot_path)).read_bytes().startswith(b"\x89PNG")
        assert page.axtree_object["nodes"]
        assert page.open_pages_urls == [page.url]
        assert page.active_page_index == 0
        missed = await agent.do("click('none')")
        assert missed.last_browser_action_error == 'ValueError: Could not find element with bid "none"'
        assert missed.error
        assert missed.axtree_object == {}
        again = await agent.browse(page.url)
        assert "============== BEGIN webpage content ==============" in again.content


async def test_missing_browsergym_is_reported_with_advice(tmp_path: Path) -> None:
    environ = {plugin.ENVIRONMENT: CLICK_TEST, plugin.PYTHON: sys.executable}
    async with evaluating(tmp_path, environ) as agent:
        answer = await agent.do("GET_EVAL_GOAL")
    assert answer.error
    assert f"{sys.executable} lacks what {CLICK_TEST} needs" in answer.content
    assert "Install browsergym-core browsergym-miniwob miniwob there" in answer.content


@pytest.mark.parametrize("python", ["", "/no/such/python"])
async def test_missing_python_is_reported_with_advice(tmp_path: Path, python: str) -> None:
    async with evaluating(tmp_path, {plugin.ENVIRONMENT: CLICK_TEST, plugin.PYTHON: python}) as agent:
        answer = await agent.do("GET_EVAL_GOAL")
    assert answer.error
    assert "FOLDER/bin/pip install browsergym-core" in answer.content
    assert f"set {plugin.PYTHON}=FOLDER/bin/python" in answer.content


def test_environment_may_be_named_without_its_prefix() -> None:
    assert plugin.evaluation_command({}) == []
    environ = {plugin.ENVIRONMENT: "miniwob.click-test", plugin.PYTHON: sys.executable, plugin.SEED: "4"}
    command = plugin.evaluation_command(environ)
    assert command[3:5] == ["--environment", CLICK_TEST]
    assert command[-2:] == ["--seed", "4"]


def test_invalid_seed_is_refused() -> None:
    with pytest.raises(plugin.EvaluationError, match="must be a whole number, not 'x'"):
        plugin.evaluation_command({plugin.ENVIRONMENT: CLICK_TEST, plugin.SEED: "x"})
