"""Records the tour in docs/: one session from its first word to its last, driven by keys, as an animated picture.

    python -m tests.tour [--out docs] [--theme loom-dark]

The program, its sandbox, kernel and browser are real; only the model is a script. Each change of the
screen becomes a frame, which is shown as long as it takes to read, however fast this machine is.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image
from playwright.async_api import async_playwright
from textual.pilot import Pilot

from runtime.plugins.browser import chromium
from tests.pictures import PAGE, Stage, on_stage
from tui.dialogs.choice_dialog import GUARD_S, HELD_GUARDS

SIZE = (140, 42)
WIDTH = 1000
"""Pixels of the picture; half of what is drawn, so that letters are smooth."""
READ_S, GLANCE_S, TYPED_S = 2.2, 0.9, 0.12
COLOURS = 128


@dataclass
class Film:
    """A picture, and how long it is shown."""

    stage: Stage
    frames: list[tuple[str, float]] = field(default_factory=list)

    @property
    def pilot(self) -> Pilot[None]:
        return self.stage.pilot

    async def shows(self, seconds: float) -> None:
        """Show the current screen for so long."""
        await self.stage.drawn()
        svg = self.stage.svg("handloom")
        if self.frames and self.frames[-1][0] == svg:
            self.frames[-1] = (svg, self.frames[-1][1] + seconds)
        else:
            self.frames.append((svg, seconds))

    async def types(self, text: str) -> None:
        """A word at a time."""
        for word in text.split(" "):
            prompt = self.stage.app.workspace.prompt
            prompt.insert(f" {word}" if prompt.text else word)
            await self.shows(TYPED_S)

    async def presses(self, *keys: str, then_s: float = GLANCE_S) -> None:
        for key in keys:
            await self.pilot.press(key)
            await self.shows(then_s)

    async def works(self) -> None:
        """The agent works: each action becomes a frame, and questions are answered with allow once."""
        session = self.stage.session
        events = -1
        while not self.stage.rests:
            if session.state.awaiting is not None:
                await self.shows(GLANCE_S)
                await asyncio.sleep(GUARD_S * HELD_GUARDS)  # a question takes no key that was meant for the prompt
                await self.pilot.press("1", "enter")
            if session.stream.latest_id > events + 1:
                events = session.stream.latest_id
                await self.shows(GLANCE_S)
            await self.pilot.pause(0.05)
        await self.shows(READ_S)


async def record(theme: str | None) -> Film:
    """Play the session."""
    async with on_stage(PAGE, SIZE, theme) as stage:
        film = Film(stage)
        await film.shows(GLANCE_S)
        await film.types(PAGE.task)
        await film.presses("enter")
        await film.works()
        await film.presses("f5", then_s=READ_S)
        await film.presses("left", "right", then_s=GLANCE_S)
        await film.presses("f3", "slash", then_s=GLANCE_S)
        await film.presses(*"type:browse", then_s=TYPED_S)
        await film.presses("enter", then_s=READ_S)
        await film.presses("enter", then_s=READ_S)  # the event under the cursor, as a tree
        await film.presses("escape", "escape", then_s=GLANCE_S)
        await film.presses("f2", "ctrl+f", then_s=GLANCE_S)
        await film.presses(*"button", then_s=TYPED_S)
        await film.presses("enter", "enter", "escape", then_s=GLANCE_S)
        await film.presses("ctrl+x", "t", "down", "down", then_s=GLANCE_S)
        await film.shows(READ_S)
        await film.presses("escape", then_s=GLANCE_S)
        await film.presses("ctrl+p", then_s=READ_S)
        await film.presses("escape", then_s=READ_S)
    return film


async def drawn(film: Film) -> list[tuple[Image.Image, float]]:
    """The frames as pictures, by a Chromium."""
    pictures = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium.find(playwright), args=["--no-sandbox"])
        page = await browser.new_page()
        for svg, seconds in film.frames:
            await page.set_content(f"<style>body {{ margin: 0 }}</style>{svg}")
            shot = Image.open(io.BytesIO(await page.locator("svg").first.screenshot()))
            size = (WIDTH, round(shot.height * WIDTH / shot.width))
            pictures.append((shot.convert("RGB").resize(size, Image.Resampling.LANCZOS), seconds))
        await browser.close()
    return pictures


def save(pictures: list[tuple[Image.Image, float]], path: Path) -> None:
    """One animated picture that loops."""
    first = pictures[len(pictures) // 2][0].quantize(COLOURS)
    frames = [picture.quantize(palette=first, dither=Image.Dither.NONE) for picture, _ in pictures]
    durations = [round(seconds * 1000) for _, seconds in pictures]
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=durations, loop=0, optimize=True)


def main() -> None:
    """Record, draw and save it."""
    parser = argparse.ArgumentParser(description="Record the tour in docs/.")
    parser.add_argument("--out", type=Path, default=Path("docs"), metavar="DIR")
    parser.add_argument("--theme", default=None)
    wanted = parser.parse_args()
    wanted.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="handloom-tour-") as home:
        os.environ["HANDLOOM_HOME"] = home
        film = asyncio.run(record(wanted.theme))
    path = wanted.out / "tour.gif"
    save(asyncio.run(drawn(film)), path)
    print(path, f"{len(film.frames)} frames, {path.stat().st_size // 1024} kB")


if __name__ == "__main__":
    main()
