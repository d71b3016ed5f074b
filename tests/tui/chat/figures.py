"""What the transcript costs, measured in a headless app: `python -m tests.tui.chat.figures [BLOCKS]`.

Milliseconds of wall time on the event loop, the draw included, unless the name says otherwise.
"""

from __future__ import annotations

import asyncio
import resource
import statistics
import sys
from collections.abc import Awaitable, Callable
from time import perf_counter

from textual.app import App, ComposeResult

from core.events import EventSource, MessageAction, TokenDelta
from tests.tui.chat.events import envelope
from tui.panes.chat.model import ChatModel
from tui.panes.chat.view import ChatView

ANSWER = (
    "## A heading\n\nSome *words* about `code` and what it does, long enough to be wrapped at the width of the "
    "reading column, which is a hundred cells.\n\n- one\n- two\n- three\n\n```python\ndef f(x):\n    return x + 1\n"
    "```\n\nAnd a last sentence.\n\n"
)


class ChatApp(App[None]):
    """The transcript and nothing else."""

    def compose(self) -> ComposeResult:
        yield ChatView()


def model_of(count: int) -> ChatModel:
    """A conversation of so many blocks."""
    model = ChatModel()
    for i in range(count):
        source = EventSource.USER if i % 2 else EventSource.AGENT
        text = f"{i}: {ANSWER}" if i % 4 == 0 else f"{i}: short words, and a few more of them"
        model.apply(envelope(i, MessageAction(content=text), source))
    return model


def _milliseconds(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return (perf_counter() - start) * 1000


async def _milliseconds_until_drawn(work: Callable[[], object], drawn: Callable[[], Awaitable[None]]) -> float:
    start = perf_counter()
    work()
    await drawn()
    return (perf_counter() - start) * 1000


async def measure(count: int = 100_000) -> dict[str, float]:
    """Every figure by its name."""
    figures: dict[str, float] = {}
    model = model_of(count)
    app = ChatApp()
    async with app.run_test(size=(160, 50)) as pilot:
        view = app.query_one(ChatView)

        def draw() -> None:
            view.render_lines(view.size.region)

        figures["open"] = _milliseconds(lambda: (view.attach(model), draw()))
        figures["attach_again"] = _milliseconds(lambda: (view.attach(None), view.attach(model), draw()))
        await pilot.pause()
        total = view.virtual_size.height
        jumps = [
            _milliseconds(lambda row=row: (view._scroll_to_row(row), draw())) for row in range(0, total, total // 60)
        ]
        figures["jump_median"], figures["jump_max"] = statistics.median(jumps), max(jumps)
        view._scroll_to_row(total // 2)
        steps = [_milliseconds(lambda: (view._scroll_to_row(view.scroll_offset.y + 3), draw())) for _ in range(200)]
        figures["scroll_median"], figures["scroll_max"] = statistics.median(steps), max(steps)
        view.go("end")

        def append(i: int) -> None:
            model.apply(envelope(count + i, MessageAction(content="a few words"), EventSource.AGENT))
            view._flush()
            draw()

        appends = [_milliseconds(lambda i=i: append(i)) for i in range(100)]
        figures["append_median"], figures["append_max"] = statistics.median(appends), max(appends)
        await pilot.pause()
        resizes = []
        for width in (80, 120, 60, 160):
            start = perf_counter()
            await pilot.resize_terminal(width, 50)
            resizes.append((perf_counter() - start) * 1000)
        figures["resize_with_harness_median"] = statistics.median(resizes)
        from tui.panes.chat.render import Renderer

        column = view._places[model].column
        figures["reestimate"] = _milliseconds(lambda: column.restyle(Renderer(99, view._styles_used)))
        column.restyle(view._renderer)
        for name, unit in (
            ("prose", ANSWER),
            ("list", "- an item with a few words\n"),
            ("paragraph", "word " * 20),
            ("table", "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 50),
            ("code", "def f(x):\n    return x + 1  # one more\n"),
        ):
            figures |= stream(view, model, name, unit)
    figures["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return figures


def stream(view: ChatView, model: ChatModel, name: str, unit: str) -> dict[str, float]:
    """A 100 kB answer in portions of 25 characters (one frame each), from 90 kB on measured."""
    cause = hash(name)
    if name == "code":
        model.apply_frame(TokenDelta(cause, "```python\n"))
    text = (unit * (100_000 // len(unit) + 1))[:100_000]
    for at in range(0, 90_000, 1000):
        model.apply_frame(TokenDelta(cause, text[at : at + 1000]))
        view._flush()
    times = []
    for at in range(90_000, 100_000, 25):

        def frame(at: int = at) -> None:
            model.apply_frame(TokenDelta(cause, text[at : at + 25]))
            view._flush()
            view.render_lines(view.size.region)

        times.append(_milliseconds(frame))
    times.sort()
    return {
        f"stream_{name}_median": statistics.median(times),
        f"stream_{name}_p95": times[int(len(times) * 0.95)],
        f"stream_{name}_max": times[-1],
    }


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    for name, value in asyncio.run(measure(count)).items():
        print(f"{name:30} {value:9.2f}")


if __name__ == "__main__":
    main()
