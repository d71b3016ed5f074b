"""Going on with a session of another agent: a conversation of our own that begins with its events."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from core.errors import UsageError
from core.events import (
    Action,
    AgentState,
    AgentThinkAction,
    ChangeAgentStateAction,
    CondensationAction,
    ConsentAction,
    Envelope,
    ErrorObservation,
    Event,
    EventSource,
    MessageAction,
    NullObservation,
    Observation,
)
from core.import_export.agents.names import AGENTS
from core.store.blobs import BlobRef, picture_urls
from core.store.conversations import FORK, NewConversation
from core.store.event_rows import StoredEvents
from core.store.event_store import EventStore
from core.store.reader import EventReader
from core.workspaces.forks import fork_title

NO_RESULT = "The session was continued here, so this has no result."
STOPPED = "Continued from the session of another agent."
_PAGE = 500


async def continue_session(
    store: EventStore, copies: EventReader, session_id: str, upto: int, *, id: str, workspace: str, model: str
) -> None:
    """Store a conversation with the events 0 to `upto` of a copy, under a new `id`.

    It goes on only after the user has agreed, because others wrote its text. Raises UsageError for an unknown session
    or event, StoreError.
    """
    info = await copies.conversation(session_id)
    if not 0 <= upto < info.event_count:
        raise UsageError(f"The session has no event {upto} to go on from.")
    begun = _Continuation(id, await copies.causes(session_id, upto + 1))
    after = -1
    while page := await copies.read(session_id, after=after, before=upto + 1, limit=_PAGE):
        await asyncio.to_thread(begun.add, page)
        after = page[-1].id
    begun.settle(AGENTS[info.origin].title if info.origin in AGENTS else info.origin)
    new = NewConversation(
        id=id,
        title=fork_title(info.title or info.first_line),
        workspace=workspace,
        model=model,
        origin=FORK,
        origin_of=session_id,
        origin_event=upto,
    )
    pictures = [await copies.blob(session_id, ref) for ref in begun.pictures.values()]
    await store.adopt(new, begun.events, blobs=[blob for blob in pictures if blob is not None])


class _Continuation:
    """The events of a conversation that goes on with a session, packed: a long session has hundreds of thousands.

    Ids and references to them are renumbered, because answers are added that ours always have: one of memory to each
    prompt, and one of the sandbox to each thought. Without them, the controller would add them all at the end.
    """

    def __init__(self, id: str, answered: AbstractSet[int]) -> None:
        """`answered` are the events of the session that have an answer."""
        self.events = StoredEvents(id)
        self.pictures: dict[str, BlobRef] = {}
        self._id, self._answered = id, answered
        self._places: dict[int, int] = {}
        self._open: dict[int, None] = {}
        """Actions without a result, by their new ids."""
        self._last: Envelope | None = None

    def add(self, events: Sequence[Envelope]) -> None:
        """Append the next events of the session. Blocks."""
        for event in events:
            self._places[event.id] = len(self.events)
            cause = None if event.cause is None else self._places.get(event.cause)
            moved = _moved(event.event, self._places)
            placed = replace(event, conversation_id=self._id, id=len(self.events), cause=cause, event=moved)
            self._append(placed)
            is_prompt = isinstance(moved, MessageAction) and event.source is EventSource.USER
            if (is_prompt or isinstance(moved, AgentThinkAction)) and event.id not in self._answered:
                answer = replace(placed, id=len(self.events), cause=placed.id, event=NullObservation(), carried={})
                self._append(replace(answer, source=EventSource.ENVIRONMENT))

    def settle(self, agent: str) -> None:
        """Append what follows: results for open actions, the pause, and the question for the user's consent."""
        for number in tuple(self._open):
            self._then(ErrorObservation(content=NO_RESULT), number)
        self._then(ChangeAgentStateAction(agent_state=AgentState.STOPPED, thought=STOPPED))
        self._then(ConsentAction(origin=agent, given=False))

    def _then(self, event: Event, cause: int | None = None) -> None:
        assert self._last is not None
        at, number = self._last.timestamp, len(self.events)
        source = EventSource.ENVIRONMENT
        self._append(
            Envelope(conversation_id=self._id, id=number, timestamp=at, source=source, cause=cause, event=event)
        )

    def _append(self, envelope: Envelope) -> None:
        self.events.add(envelope)
        self._last = envelope
        self.pictures |= {ref.digest: ref for url in picture_urls(envelope.event) if (ref := BlobRef.parse(url))}
        if isinstance(envelope.event, Action) and envelope.event.runnable:
            self._open[envelope.id] = None
        elif isinstance(envelope.event, Observation) and envelope.cause is not None:
            self._open.pop(envelope.cause, None)


def _moved(event: Event, places: Mapping[int, int]) -> Event:
    """A condensation with the new ids of what it forgot; any other event as it is."""
    match event:
        case CondensationAction(forgotten_events_start_id=int(start), forgotten_events_end_id=int(end)):
            ids = {"forgotten_events_start_id": places.get(start, 0), "forgotten_events_end_id": places.get(end, 0)}
            return event.model_copy(update=ids)
        case CondensationAction(forgotten_event_ids=[*old]):
            return event.model_copy(update={"forgotten_event_ids": [places[each] for each in old if each in places]})
    return event
