"""Conversations to write out: kept in a real database, with pictures, recordings and hostile text."""

from __future__ import annotations

import base64
import io
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from PIL import Image

from core.events import (
    AgentState,
    AgentStateChangedObservation,
    BrowserOutputObservation,
    BrowseURLAction,
    CmdOutputMetadata,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    Event,
    EventSource,
    FileEditAction,
    FileEditObservation,
    LLMMetrics,
    MessageAction,
    SystemMessageAction,
    UnknownObservation,
)
from core.events.base import TerminalOutput
from core.store.blobs import Blob, extract_pictures
from core.store.conversations import NewConversation
from core.store.event_store import EventStore
from core.store.recordings import RecordedFrame

USER, AGENT, ENVIRONMENT = EventSource.USER, EventSource.AGENT, EventSource.ENVIRONMENT
BEGAN_AT = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


class Clock:
    """A second and a half passes between two looks at it."""

    def __init__(self) -> None:
        self.now = BEGAN_AT

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1.5)
        return self.now


@asynccontextmanager
async def home_with(
    folder: Path,
    events: Sequence[tuple[Event, EventSource, int | None]],
    *,
    title: str = "A task",
    recording: Sequence[RecordedFrame] = (),
) -> AsyncIterator[EventStore]:
    """A home with one conversation, `c`, of these events with source and cause, and what its terminal printed."""
    new = NewConversation("c", title, "/work/project", "scripted:demo", "", "", created_at=BEGAN_AT)
    envelopes: list[Envelope] = []
    pictures: list[Blob] = []
    clock = Clock()
    for number, (event, source, cause) in enumerate(events):
        stored, blobs = extract_pictures(event)
        pictures += blobs
        envelopes.append(
            Envelope(conversation_id="c", id=number, timestamp=clock(), source=source, cause=cause, event=stored)
        )
    async with EventStore(folder / "home") as home:
        await home.adopt(new, envelopes, blobs=pictures, recorded=recording)
        yield home


def picture(colour: str, width: int = 640, height: int = 400) -> str:
    """A picture of one colour as a `data:` URL."""
    out = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(out, "PNG")
    return f"data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}"


def ran(command: str, output: str, exit_code: int = 0) -> CmdOutputObservation:
    return CmdOutputObservation(content=output, command=command, metadata=CmdOutputMetadata(exit_code=exit_code))


def metered(event: Event, cost: float) -> Event:
    return event.model_copy(update={"llm_metrics": LLMMetrics(accumulated_cost=cost)})


DIFF = (
    "--- a/app.py\n+++ b/app.py\n@@ -1,2 +1,2 @@\n"
    " def total(items):\n-    return sum(items) + 1\n+    return sum(items)"
)
ORDINARY: tuple[tuple[Event, EventSource, int | None], ...] = (
    (SystemMessageAction(content="You are an agent."), AGENT, None),
    (MessageAction(content="The test of `total` fails. **Please** look at it."), USER, None),
    (AgentStateChangedObservation(agent_state=AgentState.RUNNING), ENVIRONMENT, None),
    (metered(CmdRunAction(command="pytest -q", thought="I will run the tests first."), 0.0123), AGENT, 1),
    (ran("pytest -q", "F.\nE   assert 7 == 6\n1 failed, 1 passed in 0.12s", 1), ENVIRONMENT, 3),
    (metered(FileEditAction(path="app.py", command="str_replace", old_str="sum(items) + 1", new_str="sum(items)",
                            thought="The sum is one too high:\n\n```python\nreturn sum(items) + 1\n```"), 0.031),
     AGENT, 4),
    (FileEditObservation(content="edited", path="app.py", prev_exist=True, diff=DIFF), ENVIRONMENT, 5),
    (BrowseURLAction(url="http://localhost:8000/", thought="And the page."), AGENT, 6),
    (BrowserOutputObservation(content="The page", url="http://localhost:8000/", trigger_by_action="browse",
                              screenshot=picture("#3a7d6b")), ENVIRONMENT, 7),
    (metered(MessageAction(content="Done: `total` is right now.\n\n- the sum had a **1** too much\n- both tests pass"),
             0.05),
     AGENT, 8),
    (MessageAction(content="Thank you. Run it once more."), USER, None),
    (CmdRunAction(command="pytest -q"), AGENT, 10),
    (ran("pytest -q", "..\n2 passed in 0.10s"), ENVIRONMENT, 11),
    (AgentStateChangedObservation(agent_state=AgentState.FINISHED), ENVIRONMENT, None),
)  # fmt: skip
"""A short ordinary task."""


def recorded(after: int, seconds: float, data: bytes, cause: int | None = None) -> RecordedFrame:
    at = BEGAN_AT + timedelta(seconds=seconds)
    return RecordedFrame(after, at, TerminalOutput(after if cause is None else cause, data))


RECORDING = (
    recorded(3, 6.2, b"$ pytest -q\r\n"),
    recorded(3, 6.6, b"\x1b[31mF\x1b[0m"),
    recorded(3, 6.9, b"\x1b[32m.\x1b[0m\r\n\x1b[1;31mE   assert 7 == 6\x1b[0m\r\n1 failed, \xe2\x9c"),
    recorded(3, 7.0, b"\x93 1 passed\r\nwork 10%\rwork 100%\x1b[K\r\n"),
    recorded(11, 18.2, b"$ pytest -q\r\n\x1b[32m..\x1b[0m\r\n2 passed\r\n"),
)

HOSTILE_TEXT = (
    "<script>window.hit = 1</script><img src=x onerror='window.hit = 2'><svg onload=window.hit=3>"
    "</script><script>window.hit=4</script><!-- --><![CDATA[ ]]></pre></details></main></article>"
    "<iframe src='javascript:parent.hit=5'></iframe><a href='javascript:window.hit=6'>x</a>"
    "<meta http-equiv=refresh content='0;url=http://evil.test/'><style>*{display:none}</style><base href=//evil.test>"
    "\u202egnp.exe\u202c \u2066x\u2069 \u200b\ufeff \x1b]0;title\x07 \x00 \ud800 \u2028 \x9b31m `` ``` ````` ~~~ ' \" "
    "&lt; &#60; "
    "![x](http://evil.test/x.png) [y](javascript:window.hit=7) <http://evil.test> <b>bold</b>"
)
HOSTILE_TITLE = HOSTILE_TEXT.replace("\ud800", "")
"""A database takes no lone surrogate as a name, nor as a kind."""
HOSTILE: tuple[tuple[Event, EventSource, int | None], ...] = (
    (MessageAction(content=HOSTILE_TEXT), USER, None),
    (MessageAction(content=f"```html\n{HOSTILE_TEXT}\n"), USER, None),
    (MessageAction(content=f"1. x\n\n   ```\n{HOSTILE_TEXT}\n   ```\n```\n{HOSTILE_TEXT}"), AGENT, None),
    (MessageAction(content="`a\n<script>window.hit=8</script>` b `\n| ` | <script>window.hit=9</script> | ` |"),
     AGENT, None),
    (CmdRunAction(command=HOSTILE_TEXT, thought=HOSTILE_TEXT), AGENT, 0),
    (ran(HOSTILE_TEXT, f"{HOSTILE_TEXT}\n</script>\n" * 3), ENVIRONMENT, 4),
    (FileEditObservation(content="x", path=HOSTILE_TEXT, diff=f"+{HOSTILE_TEXT}\n-{HOSTILE_TEXT}"), ENVIRONMENT, 4),
    (BrowserOutputObservation(content=HOSTILE_TEXT, url=f"http://x/'\"><script>window.hit=10</script>{HOSTILE_TEXT}",
                              trigger_by_action=HOSTILE_TEXT, screenshot=picture("#101010", 20, 20)), ENVIRONMENT, 4),
    (BrowserOutputObservation(content="", url="x", trigger_by_action="",
                              screenshot="javascript:window.hit=11"), ENVIRONMENT, 4),
    (MessageAction(content="long " * 100_000), AGENT, None),
    (UnknownObservation(raw={"observation": HOSTILE_TITLE, "content": HOSTILE_TEXT, "x": [HOSTILE_TEXT]}),
     ENVIRONMENT, None),
)  # fmt: skip
"""Text that tries to be more than text, such as markup."""
