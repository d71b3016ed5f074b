"""The user takes the agent's browser over, fills a form by its letters, and gives it back; the agent reads the answer.

The screen, the server, Chromium and the page are real. The model's script contains what it expects to read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web

from core.events import AgentState, BrowseInteractiveAction, EventSource
from tests.doubles import FINISH, write_script
from tests.pictures import Session, Stage, on_stage
from tests.runtime.plugins.browser_server import Site

PASSWORD = "correct horse battery"
FORM = (
    "<title>Sign up</title><form action=/done method=post><label>Name <input name=name></label>"
    "<label>Password <input type=password name=password></label><button>Create</button></form>"
)


async def until(stage: Stage, is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await stage.pilot.pause(0.02)


async def letters(stage: Stage, kind: str) -> list[str]:
    """The letters over the first element of a kind."""
    await until(stage, lambda: any(one.kind == kind for one in stage.app.workspace.browser._layout_of_page.elements))
    await stage.pilot.press("f")
    return next(list(keys) for keys, one in stage.app.workspace.browser.letters.items() if one.kind == kind)


async def write(stage: Stage, kind: str, text: str) -> None:
    """Fill the first field of a kind, as a user does."""
    await stage.pilot.press(*await letters(stage, kind))
    await stage.pilot.pause()
    await stage.pilot.press(*("space" if letter == " " else letter for letter in text), "enter")
    await stage.pilot.pause()
    await stage.session.user_control.browser.settled()


@pytest.mark.browser
@pytest.mark.timeout(180)
async def test_user_fills_a_form_and_the_agent_reads_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANDLOOM_HOME", str(tmp_path / "home"))
    sent: list[dict[str, str]] = []

    async def done(request: web.Request) -> web.Response:
        sent.append({name: str(value) for name, value in (await request.post()).items()})
        return web.Response(text=f"<title>Done</title><h1>Thank you, {sent[-1]['name']}</h1>", content_type="text/html")

    async with Site().served() as site:
        site.pages |= {"/": FORM, "/done": done}
        opened = {"name": "browser", "arguments": {"code": f"goto('{site.url()}')", "security_risk": "LOW"}}
        turns = [{"tool_calls": [opened]}, FINISH, {**FINISH, "expect": "heading 'Thank you, Ada'"}]
        model = write_script(tmp_path, turns)
        async with on_stage(Session("form", "Open the form.", model), (80, 24), None) as stage:
            stage.session.approval.set_mode("never")
            stage.app.workspace.prompt.put("Open the form.")
            await stage.pilot.press("enter")
            await until(stage, lambda: stage.rests)
            await stage.pilot.press("f5")
            await stage.pilot.press("f")
            assert not stage.app.workspace.browser.letters, "the agent has the browser"
            await stage.pilot.press("f12")
            await until(stage, lambda: stage.session.user_control.browser.is_on)
            await stage.session.user_control.browser.settled()
            await write(stage, "text", "Ada")
            await write(stage, "secret", PASSWORD)
            await stage.pilot.press(*await letters(stage, "button"))
            await until(stage, lambda: bool(sent))
            assert sent == [{"name": "Ada", "password": PASSWORD}]
            await stage.session.user_control.browser.settled()
            await stage.pilot.press("f12")
            await until(stage, lambda: not stage.session.user_control.browser.is_on)
            stage.app.workspace.prompt.put("Go on.")
            stage.app.workspace.prompt.focus()
            await stage.pilot.press("enter")
            await until(stage, lambda: stage.session.state.iteration >= 3 or stage.session.state.halt is not None)
            await until(stage, lambda: stage.rests)
            assert stage.session.state.agent_state is AgentState.FINISHED, stage.session.state.reason
            events = [e for e in await stage.session.stream.read() if isinstance(e.event, BrowseInteractiveAction)]
            theirs = [e.event for e in events if e.source is EventSource.USER]
            assert len(theirs) == 5
            assert "<hidden>" in theirs[2].browser_actions  # type: ignore[attr-defined]
    for file in (tmp_path / "home").rglob("*"):
        assert file.is_dir() or PASSWORD.encode() not in file.read_bytes(), file
