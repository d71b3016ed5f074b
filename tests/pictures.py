"""Takes the pictures in docs/: sessions, played to their end by the real program with real tools.

    python -m tests.pictures [--out docs] [--theme loom-dark]
    python -m tests.pictures --panes --out DIR

One SVG per size, and a PNG beside it where there is a Chromium. The home is a scratch folder, so nothing of the
user's is seen or changed. `--panes` takes each pane in four sizes and two themes instead, to be looked at.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from textual.pilot import Pilot
from textual.screen import Screen

from core.events import AgentState
from core.session.agent_session import AgentSession
from tests.library.agents import write_all
from tui.__main__ import connect
from tui.app import HandloomApp
from tui.cli.options import StartOptions
from tui.library.consent_screen import ConsentScreen
from tui.models.key_screen import KeyScreen
from tui.models.start_screen import StartScreen
from tui.sessions.commands import UPDATING
from tui.sessions.screen import SessionsScreen


@dataclass(frozen=True)
class Session:
    """The session, and the keys pressed before the picture is taken."""

    name: str
    task: str
    model: str = "demo"
    keys: tuple[str, ...] = ()


DEMO = Session("demo", "")
PAGE = Session(
    "page", "Show me a wave.", f"scripted:{Path(__file__).with_name('sessions') / 'figure_and_page.yaml'}", ("f2",)
)
FORM = Session(
    "browser",
    "Show me the form.",
    f"scripted:{Path(__file__).with_name('sessions') / 'form.yaml'}",
    ("f5", "f5", "f12", "f"),
)
TABLE = Session("table", "Show me the yarns.", f"scripted:{Path(__file__).with_name('sessions') / 'table.yaml'}")
PANES = {"chat": "f2", "events": "f3", "terminal": "f4", "browser": "f5"}
SIZES = ((160, 48), (100, 30), (80, 24), (40, 12))
THEMES = ("loom-dark", "loom-light")
FIRST_START = (100, 30)
AGENTS = (120, 30)
PICTURES = ((DEMO, (160, 48)), (DEMO, (100, 30)), (DEMO, (80, 24)), (PAGE, (160, 60)), (FORM, (120, 36)))
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
CELL = (12.2, 24.4)
"""Pixels of one cell in Textual's SVG."""


@dataclass
class Stage:
    """The real program, on which a session is played."""

    app: HandloomApp
    pilot: Pilot[None]

    @property
    def session(self) -> AgentSession:
        assert self.app.tabs.conversation is not None
        return self.app.tabs.conversation.session

    @property
    def rests(self) -> bool:
        """Whether the agent has finished."""
        return self.session.state.agent_state in (AgentState.FINISHED, AgentState.ERROR)

    async def drawn(self) -> None:
        """Wait until everything that has happened is on the screen."""
        while self.app.workspace.sync() or any(worker.group != "page" for worker in self.app.workers):
            await self.pilot.pause(0.02)
        await self.pilot.pause(0.3)

    def svg(self, title: str) -> str:
        """The screen, as a picture that needs nothing from elsewhere."""
        return re.sub(r"@font-face \{.*?\}", "", self.app.export_screenshot(title=title), flags=re.DOTALL)


@asynccontextmanager
async def on_stage(played: Session, size: tuple[int, int], theme: str | None) -> AsyncIterator[Stage]:
    """The program, ready for the first word."""
    with tempfile.TemporaryDirectory(prefix="handloom-workspace-") as workspace:
        options = StartOptions(workspace=workspace, model=played.model, demo=played.model == "demo", theme=theme)
        app = HandloomApp(lambda: connect(options), options)
        async with app.run_test(size=size) as pilot:
            while app.tabs.current is None or not (app.workspace.prompt.text or played.task):
                await pilot.pause(0.02)
            yield Stage(app, pilot)


@asynccontextmanager
async def at_the_end(played: Session, size: tuple[int, int], theme: str | None) -> AsyncIterator[Stage]:
    """The program with a session that was played to its end."""
    async with on_stage(played, size, theme) as stage:
        stage.session.approval.set_mode("never")
        if played.task:
            stage.app.workspace.prompt.put(played.task)
        await stage.pilot.press("enter")
        while not stage.rests:
            await stage.pilot.pause(0.02)
        await stage.drawn()
        yield stage


async def take(size: tuple[int, int], theme: str | None, played: Session = DEMO) -> str:
    """Play a session at this size; the answer is an SVG that needs nothing from elsewhere."""
    async with at_the_end(played, size, theme) as stage:
        for key in played.keys:
            await stage.pilot.press(key)
            await stage.drawn()
        return stage.svg(f"handloom {played.name}, {size[0]}x{size[1]}")


async def take_first_start(size: tuple[int, int], theme: str | None) -> str:
    """The key of a provider, asked for at the first start."""
    with tempfile.TemporaryDirectory(prefix="handloom-workspace-") as workspace:
        options = StartOptions(workspace=workspace, theme=theme)
        app = HandloomApp(lambda: connect(options), options)
        async with app.run_test(size=size) as pilot:
            while not isinstance(app.screen, StartScreen):
                await pilot.pause(0.02)
            await pilot.pause(1)  # the guard of the list
            await pilot.press("1", "enter")
            while not isinstance(app.screen, KeyScreen):
                await pilot.pause(0.02)
            await pilot.press(*"sk-ant-api03-example")
            await pilot.pause(0.3)
            return Stage(app, pilot).svg(f"handloom, first start, {size[0]}x{size[1]}")


async def take_agents(size: tuple[int, int], theme: str | None) -> dict[str, str]:
    """The sessions of other agents in the list of conversations, and one of them replayed, by name."""
    found = {}
    async with on_stage(DEMO, size, theme) as stage:
        repository = Path(os.environ["HOME"], "garden")
        repository.mkdir(exist_ok=True)
        write_all(repository.parent, repository)
        await stage.pilot.press("ctrl+s")
        await _until(stage, lambda screen: isinstance(screen, ConsentScreen))
        await stage.pilot.pause(1)  # the guard of the question
        found["agents-question"] = stage.svg(f"handloom, the question about other agents, {size[0]}x{size[1]}")
        await stage.pilot.press("2", "enter")
        await _until(stage, lambda screen: isinstance(screen, SessionsScreen))
        await asyncio.wait_for(_listed(stage), 60)
        await stage.pilot.press("down", "down", "down")
        await stage.pilot.pause(1)
        found["agents"] = stage.svg(f"handloom, sessions of other agents, {size[0]}x{size[1]}")
        await stage.pilot.press("enter")
        await _until(stage, lambda screen: not isinstance(screen, SessionsScreen))
        await stage.pilot.pause(2)
        await stage.pilot.press("end")
        await stage.pilot.pause(2)
        found["agents-replay"] = stage.svg(f"handloom, a session of Claude Code replayed, {size[0]}x{size[1]}")
    return found


async def _until(stage: Stage, holds: Callable[[Screen[object]], bool]) -> None:
    while not holds(stage.app.screen):
        await stage.pilot.pause(0.05)


async def _listed(stage: Stage) -> None:
    """Wait until the sessions were read."""
    while any(worker.group == UPDATING for worker in stage.app.workers):
        await stage.pilot.pause(0.2)
    await stage.pilot.pause(1)


async def take_panes(size: tuple[int, int], theme: str) -> dict[str, str]:
    """The screen with the focus in each pane, by the pane's name."""
    found = {}
    async with at_the_end(TABLE, size, theme) as stage:
        for pane, key in PANES.items():
            await stage.pilot.press(key)
            await stage.drawn()
            found[pane] = stage.svg(f"handloom {pane}, {size[0]}x{size[1]}, {theme}")
    return found


def render(svg: Path, size: tuple[int, int]) -> Path | None:
    """Make a PNG of an SVG; None without a Chromium."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        return None
    png = svg.with_suffix(".png")
    width, height = (round(cells * pixels) + margin for cells, pixels, margin in zip(size, CELL, (20, 60), strict=True))
    arguments = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={width},{height}"]
    subprocess.run(
        [browser, *arguments, f"--screenshot={png}", svg.absolute().as_uri()], check=True, capture_output=True
    )
    return png


def main() -> None:
    """Take them all."""
    parser = argparse.ArgumentParser(description="Take the pictures in docs/.")
    parser.add_argument("--out", type=Path, default=Path("docs"), metavar="DIR")
    parser.add_argument("--theme", default=None)
    parser.add_argument("--panes", action="store_true", help="each pane in four sizes and two themes")
    wanted = parser.parse_args()
    wanted.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="handloom-pictures-") as home:
        os.environ["HANDLOOM_HOME"] = home
        for theme, size in product(THEMES, SIZES) if wanted.panes else ():
            for pane, drawn in asyncio.run(take_panes(size, theme)).items():
                svg = wanted.out / f"{pane}-{size[0]}x{size[1]}-{theme}.svg"
                svg.write_text(drawn, encoding="utf-8")
                print(svg, render(svg, size) or "(no PNG: no Chromium was found)")
        if not wanted.panes:
            svg = wanted.out / f"first-start-{FIRST_START[0]}x{FIRST_START[1]}.svg"
            svg.write_text(asyncio.run(take_first_start(FIRST_START, wanted.theme)), encoding="utf-8")
            print(svg, render(svg, FIRST_START) or "(no PNG: no Chromium was found)")
            os.environ["HOME"] = str(Path(home, "user"))
            for name, drawn in asyncio.run(take_agents(AGENTS, wanted.theme)).items():
                svg = wanted.out / f"{name}-{AGENTS[0]}x{AGENTS[1]}.svg"
                svg.write_text(drawn, encoding="utf-8")
                print(svg, render(svg, AGENTS) or "(no PNG: no Chromium was found)")
        for played, size in () if wanted.panes else PICTURES:
            svg = wanted.out / f"{played.name}-{size[0]}x{size[1]}.svg"
            svg.write_text(asyncio.run(take(size, wanted.theme, played)), encoding="utf-8")
            print(svg, render(svg, size) or "(no PNG: no Chromium was found)")


if __name__ == "__main__":
    main()
