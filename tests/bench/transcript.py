"""Time to show and draw changes of the chat in a headless app, with 100 blocks and with 100,000.

The limit is drawing the same view again without a change. A streamed answer arrives in portions of 25 characters, one
in each frame; the measurement begins when it has 90 kB.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from time import perf_counter

from textual.pilot import Pilot

from core.events import (
    CmdOutputMetadata,
    CmdOutputObservation,
    CmdRunAction,
    EventSource,
    MessageAction,
    TokenDelta,
)
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import milliseconds_since
from tests.bench.size import sized
from tests.tui.chat.events import envelope
from tests.tui.chat.screen import ChatApp
from tui.chat.model import ChatModel
from tui.chat.view import ChatView

ANSWER = """## A heading

Some *words* about `code` and what it does, long enough to be wrapped at the width of the reading column.

- one
- two
- three

```python
def f(x):
    return x + 1
```

And a last sentence.

"""
STREAMS = {
    "prose": ANSWER,
    "list": "- an item with a few words\n",
    "paragraph": "word " * 20,
    "table": "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 50,
    "code": "def f(x):\n    return x + 1  # one more\n",
}
"""The repeated text of a streamed answer of 100 kB."""
FEW, MANY = 100, sized(100_000, 1_000)


def measure() -> list[Figure]:
    return [*asyncio.run(_measure(FEW)), *asyncio.run(_measure(MANY))]


async def _measure(count: int) -> list[Figure]:
    model = _model_of(count)
    app = ChatApp(ChatModel())
    async with app.run_test(size=(160, 50)) as pilot:
        watch = Watch(app.view, f"{count:,} blocks")
        figures = watch.opening(model)
        await pilot.pause()
        figures += [*watch.scrolling(), watch.appending(model), watch.folding(model), await watch.resizing(app, pilot)]
        if count == MANY:
            figures += [watch.streaming(model, name, unit) for name, unit in STREAMS.items()]
    return figures


def _model_of(count: int) -> ChatModel:
    model = ChatModel()
    for number in range(count):
        source = EventSource.USER if number % 2 else EventSource.AGENT
        text = f"{number}: {ANSWER}" if number % 4 == 0 else f"{number}: short words, and a few more of them"
        model.apply(envelope(number, MessageAction(content=text), source))
    return model


class Watch:
    """Times what happens to a view, each time until it is drawn, and beside it a draw without a change."""

    def __init__(self, view: ChatView, size: str) -> None:
        self.view = view
        self.size = size

    def _time(self, *works: Callable[[], object]) -> tuple[list[float], Limit]:
        ours, still = [], []
        for work in works:
            started_at = perf_counter()
            work()
            self._draw()
            ours.append(milliseconds_since(started_at))
            started_at = perf_counter()
            self._draw()
            still.append(milliseconds_since(started_at))
        return ours, Limit("drawn again, nothing changed", still)

    def _draw(self) -> None:
        self.view.render_lines(self.view.size.region)

    def opening(self, model: ChatModel) -> list[Figure]:
        """A conversation that lies in memory comes to the screen."""
        ours, limit = self._time(partial(self.view.attach, model))
        return [Figure(f"open, {self.size}", "ms", ours, limit, [Target(600)])]

    def scrolling(self) -> list[Figure]:
        """Jumps to places never seen, and steps of three rows."""
        view, total = self.view, self.view.virtual_size.height
        jumps, still = self._time(*(partial(view.go_to_row, row) for row in range(0, total, max(1, total // 60))))
        start = total - view.size.height  # the same messages after any number of earlier ones
        steps, limit = self._time(*(partial(view.go_to_row, start - 3 * step) for step in range(1, 100)))
        view.action_go("end")
        return [
            Figure(f"jump, {self.size}", "ms", jumps, still, [Target(20)]),
            Figure(f"scroll by 3 rows, {self.size}", "ms", steps, limit, [Target(8)]),
        ]

    def appending(self, model: ChatModel) -> Figure:
        """One more message, with the end in sight."""
        first = len(model.blocks)

        def append(event_id: int) -> None:
            model.apply(envelope(event_id, MessageAction(content="a few words"), EventSource.AGENT))
            self.view.flush()

        ours, limit = self._time(*(partial(append, first + number) for number in range(100)))
        return Figure(f"one more message, {self.size}", "ms", ours, limit, [Target(8)])

    def folding(self, model: ChatModel) -> Figure:
        """A command's output of 500 lines is folded and unfolded under the block cursor."""
        self.view.action_go("end")
        first = model.blocks[-1].serial + 1
        output = CmdOutputObservation(
            command="make",
            content="\n".join(f"line {number}" for number in range(500)),
            metadata=CmdOutputMetadata(exit_code=0),
        )
        model.apply(envelope(first, CmdRunAction(command="make")))
        model.apply(envelope(first + 1, output, EventSource.AGENT, first))
        self.view.flush()
        self.view.action_move_cursor(-1)

        def fold() -> None:
            self.view.action_fold()
            self.view.flush()

        ours, limit = self._time(*(fold for _ in range(100)))
        self.view.action_go("end")
        return Figure(f"fold or unfold, {self.size}", "ms", ours, limit, [Target(8)])

    async def resizing(self, app: ChatApp, pilot: Pilot[None]) -> Figure:
        """The whole terminal takes another width, with the harness's waits."""
        ours = []
        for width in (80, 120, 60, 160):
            started_at = perf_counter()
            await pilot.resize_terminal(width, 50)
            ours.append(milliseconds_since(started_at))
        return Figure(f"resize, {self.size}", "ms", ours, None, [Target(120)])

    def streaming(self, model: ChatModel, name: str, unit: str) -> Figure:
        """A long answer comes in."""
        cause = list(STREAMS).index(name)
        if name == "code":
            model.apply_frame(TokenDelta(cause, "```python\n"))
        text = (unit * (100_000 // len(unit) + 1))[:100_000]
        for at in range(0, 90_000, 1000):
            model.apply_frame(TokenDelta(cause, text[at : at + 1000]))
            self.view.flush()

        def frame(at: int) -> None:
            model.apply_frame(TokenDelta(cause, text[at : at + 25]))
            self.view.flush()

        ours, limit = self._time(*(partial(frame, at) for at in range(90_000, 100_000, 25)))
        return Figure(f"25 characters more at 100 kB, {name}", "ms", ours, limit, [Target(5)])
