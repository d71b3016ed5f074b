"""Saved conversations for tests of replays: made by hand, with the times and the terminal's bytes that a test wants."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from core.events import (
    AgentState,
    AgentStateChangedObservation,
    CmdOutputMetadata,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    ErrorObservation,
    Event,
    EventSource,
    LLMMetrics,
    MessageAction,
    TerminalOutput,
    TokenUsage,
)
from core.store.conversations import NewConversation
from core.store.event_store import EventStore
from core.store.reader import EventReader
from core.store.recordings import RecordedFrame

BEGAN_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
USER, AGENT, SANDBOX = EventSource.USER, EventSource.AGENT, EventSource.ENVIRONMENT


class Tape:
    """A conversation that is being written down; `at` is the time of what comes next, in seconds."""

    def __init__(self, id: str = "tape", title: str = "A tape", pace_s: float = 0.0) -> None:
        self.id, self.title = id, title
        self.pace_s = pace_s
        """The time between two events, besides what a test adds."""
        self.at = 0.0
        self.events: list[Envelope] = []
        self.frames: list[RecordedFrame] = []

    def add(self, event: Event, source: EventSource = AGENT, cause: int | None = None) -> int:
        """One event more; its id."""
        self.at += self.pace_s
        number, when = len(self.events), BEGAN_AT + timedelta(seconds=self.at)
        self.events.append(
            Envelope(conversation_id=self.id, id=number, timestamp=when, source=source, cause=cause, event=event)
        )
        return number

    def say(self, text: str) -> int:
        """A message of the user."""
        return self.add(MessageAction(content=text), USER)

    def become(self, state: AgentState) -> int:
        """The agent's state is another."""
        return self.add(AgentStateChangedObservation(content="", agent_state=state), SANDBOX)

    def run(self, command: str, output: str, *, took_s: float = 1.0, cost: float = 0.0, records: bool = True) -> int:
        """A command with output in two pieces. Returns the id of its action."""
        usage = TokenUsage(per_turn_token=100, context_window=1000)
        metrics = LLMMetrics(accumulated_cost=cost, accumulated_token_usage=usage)
        action = self.add(CmdRunAction(command=command, llm_metrics=metrics))
        data = output.replace("\n", "\r\n").encode()
        for part in (data[: len(data) // 2], data[len(data) // 2 :]) if records else ():
            self.at += took_s / 2
            when = BEGAN_AT + timedelta(seconds=self.at)
            self.frames.append(RecordedFrame(action, when, TerminalOutput(action, part)))
        metadata = CmdOutputMetadata(exit_code=0)
        self.add(CmdOutputObservation(content=output, command=command, metadata=metadata), SANDBOX, action)
        return action

    def fail(self, text: str) -> int:
        """An error."""
        return self.add(ErrorObservation(content=text), SANDBOX)

    @property
    def lived(self) -> list[Envelope | TerminalOutput]:
        """Events and bytes in the order in which a tab received them."""
        items: list[Envelope | TerminalOutput] = []
        frames = list(self.frames)
        for envelope in self.events:
            while frames and frames[0].after < envelope.id:
                items.append(frames.pop(0).frame)
            items.append(envelope)
        return items

    async def keep(self, home: Path, tapes: Sequence[Tape] = ()) -> None:
        """Put it, and others, into a home."""
        async with EventStore(home) as store:
            for tape in (self, *tapes):
                new = NewConversation(tape.id, tape.title, "/work", "scripted", "import", "test")
                await store.adopt(new, tape.events, recorded=tape.frames)
            await store.index()


def long_tape(commands: int, id: str = "long") -> Tape:
    """A message of the user every 20 commands, and an agent that runs them; two events a command."""
    tape = Tape(id, "A long one")
    for number in range(commands):
        if number % 20 == 0:
            tape.say(f"Please do part {number // 20}.")
            tape.become(AgentState.RUNNING)
        tape.at += 1.0
        tape.run(f"echo {number}", f"said {number}\n" * 3, cost=number / 100)
    tape.become(AgentState.FINISHED)
    return tape


async def recording_of(reader: EventReader, conversation_id: str, *, after: int = -1) -> list[RecordedFrame]:
    """All that the terminal of a conversation printed after an event."""
    page = await reader.recorded(conversation_id, after=after)
    frames = page.frames
    while page.end is not None:
        page = await reader.recorded(conversation_id, beyond=page.end)
        frames += page.frames
    return frames
