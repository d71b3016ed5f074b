"""What the transcript costs, measured in a headless app: `python -m tests.tui.chat.figures [BLOCKS]`.

Milliseconds of wall time on the event loop, the draw included, unless the name says otherwise.
"""

from __future__ import annotations

import asyncio
import resource
import statistics
import sys
from collections.abc import Callable
from functools import partial
from time import perf_counter

from textual.pilot import Pilot

from core.events import EventSource, MessageAction, TokenDelta
from tests.tui.chat.events import envelope
from tests.tui.chat.screen import ChatApp
from tui.panes.chat.model import ChatModel
from tui.panes.chat.render import Renderer
from tui.panes.chat.view import ChatView

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
"""What a streamed answer of 100 kB repeats."""


Figures = dict[str, float]


def model_of(count: int) -> ChatModel:
    """A conversation of so many blocks."""
    model = ChatModel()
    for i in range(count):
        source = EventSource.USER if i % 2 else EventSource.AGENT
        text = f"{i}: {ANSWER}" if i % 4 == 0 else f"{i}: short words, and a few more of them"
        model.apply(envelope(i, MessageAction(content=text), source))
    return model


class Watch:
    """Times what happens to a view, each time until it is drawn."""

    def __init__(self, view: ChatView) -> None:
        self.view = view

    def __call__(self, work: Callable[[], None]) -> float:
        start = perf_counter()
        work()
        self.view.render_lines(self.view.size.region)
        return (perf_counter() - start) * 1000


def summary(name: str, times: list[float]) -> Figures:
    """The middle, the 95th of a hundred and the worst."""
    times = sorted(times)
    return {
        f"{name}_median": statistics.median(times),
        f"{name}_p95": times[int(len(times) * 0.95)],
        f"{name}_max": times[-1],
    }


async def measure(count: int = 100_000) -> Figures:
    """Every figure by its name."""
    model = model_of(count)
    app = ChatApp(ChatModel())
    async with app.run_test(size=(160, 50)) as pilot:
        view, watch = app.view, Watch(app.view)
        figures = {"open": watch(partial(view.attach, model))}
        view.attach(None)
        figures["attach_again"] = watch(partial(view.attach, model))
        await pilot.pause()
        figures |= scrolling(watch) | appending(watch, model) | await resizing(app, pilot)
        for name, unit in STREAMS.items():
            figures |= streaming(watch, model, name, unit)
    figures["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return figures


def scrolling(watch: Watch) -> Figures:
    """Jumps to places never seen, and steps of three rows."""
    view = watch.view
    total = view.virtual_size.height
    jumps = [watch(partial(view.go_to_row, row)) for row in range(0, total, total // 60)]
    view.go_to_row(total // 2)
    start = view.scroll_offset.y
    steps = [watch(partial(view.go_to_row, start + 3 * step)) for step in range(1, 200)]
    view.go("end")
    return summary("jump", jumps) | summary("scroll", steps)


def appending(watch: Watch, model: ChatModel) -> Figures:
    """One more message, with the end in sight."""
    assert model.first_id is not None
    first = len(model.blocks)

    def append(event_id: int) -> None:
        model.apply(envelope(event_id, MessageAction(content="a few words"), EventSource.AGENT))
        watch.view.flush()

    return summary("append", [watch(partial(append, first + i)) for i in range(100)])


async def resizing(app: ChatApp, pilot: Pilot[None]) -> Figures:
    """Another width: the whole terminal with the harness's waits, and what the transcript has of it."""
    times = []
    for width in (80, 120, 60, 160):
        start = perf_counter()
        await pilot.resize_terminal(width, 50)
        times.append((perf_counter() - start) * 1000)
    view = app.view
    assert view.place is not None
    assert view.renderer is not None
    start = perf_counter()
    view.place.column.restyle(Renderer(99, view.styles_used))
    estimating = (perf_counter() - start) * 1000
    view.place.column.restyle(view.renderer)
    return {"resize_with_harness_median": statistics.median(times), "resize_estimates": estimating}


def streaming(watch: Watch, model: ChatModel, name: str, unit: str) -> Figures:
    """A 100 kB answer in portions of 25 characters (a frame each), measured from 90 kB on."""
    cause = list(STREAMS).index(name)
    if name == "code":
        model.apply_frame(TokenDelta(cause, "```python\n"))
    text = (unit * (100_000 // len(unit) + 1))[:100_000]
    for at in range(0, 90_000, 1000):
        model.apply_frame(TokenDelta(cause, text[at : at + 1000]))
        watch.view.flush()

    def frame(at: int) -> None:
        model.apply_frame(TokenDelta(cause, text[at : at + 25]))
        watch.view.flush()

    return summary(f"stream_{name}", [watch(partial(frame, at)) for at in range(90_000, 100_000, 25)])


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    for name, value in asyncio.run(measure(count)).items():
        print(f"{name:30} {value:9.2f}")


if __name__ == "__main__":
    main()
