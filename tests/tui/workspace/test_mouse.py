"""The mouse: a click focuses, the wheel scrolls the pane under it, and tabs and pane names can be clicked."""

from __future__ import annotations

import pytest
from textual import events

from tests.tui.workspace.running_app import Running, running


async def wheel(it: Running, name: str, kind: type[events.MouseEvent], times: int = 1) -> None:
    """Turn the wheel over a pane, whatever has the focus."""
    x, y = it.app.workspace.pane(name).region.center
    for _ in range(times):
        at = {"x": int(x), "y": int(y), "screen_x": int(x), "screen_y": int(y)}
        it.app.post_message(
            kind(None, **at, delta_x=0, delta_y=0, button=0, shift=False, meta=False, ctrl=False)  # type: ignore[arg-type]
        )
        await it.settle()


@pytest.mark.parametrize("name", ["chat", "events", "terminal", "browser"])
async def test_click_focuses_a_pane(name: str) -> None:
    async with running(size=(160, 60)) as it:
        await it.press("f5")
        it.app.workspace.prompt.focus()
        await it.settle()
        await it.pilot.click(f"#{name}", offset=(4, 3))
        await it.settle()
        assert it.app.focused is it.app.workspace.pane(name)
        await it.pilot.click("#prompt")
        assert it.prompt_has_focus


@pytest.mark.parametrize("name", ["chat", "events", "terminal"])
async def test_wheel_scrolls_without_changing_the_focus(name: str) -> None:
    async with running(size=(160, 40)) as it:
        await it.session.run("seq 1 300", "".join(f"{n}\n" for n in range(300)))
        for number in range(60):
            await it.session.say(f"message {number}")
        await it.settle()
        pane = it.app.workspace.pane(name)
        end = pane.scroll_y
        assert end > 0
        await wheel(it, name, events.MouseScrollUp, 3)
        assert pane.scroll_y < end
        assert it.prompt_has_focus
        await wheel(it, name, events.MouseScrollDown, 12)
        assert pane.scroll_y == end


async def test_click_on_a_tab_or_pane_name_shows_it() -> None:
    async with running(size=(90, 30)) as it:
        first = it.app.tabs.current
        await it.press("ctrl+n")
        assert it.app.tabs.current is not first
        await it.pilot.click("#tabs", offset=(3, 0))
        await it.settle()
        assert it.app.tabs.current is first
        line = it.screen_text().split("\n")[0]
        await it.pilot.click("#tabs", offset=(line.index("terminal") + 1, 0))
        await it.settle()
        assert it.app.focused is it.app.workspace.terminal
