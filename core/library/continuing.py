"""Going on with a session of another agent: a conversation of our own that begins with its events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from core.store.blobs import Blob, BlobRef, picture_urls
from core.store.conversations import FORK, NewConversation
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
    events: list[Envelope] = []
    while len(events) <= upto and (
        page := await copies.read(session_id, after=len(events) - 1, before=upto + 1, limit=_PAGE)
    ):
        events += page
    agent = AGENTS[info.origin].title if info.origin in AGENTS else info.origin
    events = _with_answers(events)
    events += _settled(events, id, agent)
    new = NewConversation(
        id=id,
        title=fork_title(info.title or info.first_line),
        workspace=workspace,
        model=model,
        origin=FORK,
        origin_of=session_id,
        origin_event=upto,
    )
    await store.adopt(new, events, blobs=await _pictures(copies, session_id, events))


def _with_answers(events: Sequence[Envelope]) -> list[Envelope]:
    """The events with what ours always have: an answer of memory to each prompt, and of the sandbox to each thought.

    Without them, the controller would add them all at the end. Ids and references to them are renumbered.
    """
    answered = {event.cause for event in events}
    places: dict[int, int] = {}
    found: list[Envelope] = []
    for event in events:
        places[event.id] = len(found)
        cause = None if event.cause is None else places.get(event.cause)
        found.append(replace(event, id=len(found), cause=cause, event=_moved(event.event, places)))
        is_prompt = isinstance(event.event, MessageAction) and event.source is EventSource.USER
        if (is_prompt or isinstance(event.event, AgentThinkAction)) and event.id not in answered:
            answer = replace(found[-1], id=len(found), cause=found[-1].id, source=EventSource.ENVIRONMENT, carried={})
            found.append(replace(answer, event=NullObservation()))
    return found


def _moved(event: Event, places: Mapping[int, int]) -> Event:
    """A condensation with the new ids of what it forgot; any other event as it is."""
    match event:
        case CondensationAction(forgotten_events_start_id=int(start), forgotten_events_end_id=int(end)):
            ids = {"forgotten_events_start_id": places.get(start, 0), "forgotten_events_end_id": places.get(end, 0)}
            return event.model_copy(update=ids)
        case CondensationAction(forgotten_event_ids=[*old]):
            return event.model_copy(update={"forgotten_event_ids": [places[each] for each in old if each in places]})
    return event


def _settled(events: Sequence[Envelope], id: str, agent: str) -> list[Envelope]:
    """What follows the events of another agent: results for its open actions, the pause, and the user's consent."""
    answered = {event.cause for event in events if isinstance(event.event, Observation)}
    opened = [each for each in events if isinstance(each.event, Action) and each.event.runnable]
    drafts: list[tuple[Event, EventSource, int | None]] = [
        (ErrorObservation(content=NO_RESULT), EventSource.ENVIRONMENT, each.id)
        for each in opened
        if each.id not in answered
    ]
    stop = ChangeAgentStateAction(agent_state=AgentState.STOPPED, thought=STOPPED)
    drafts.append((stop, EventSource.ENVIRONMENT, None))
    drafts.append((ConsentAction(origin=agent, given=False), EventSource.ENVIRONMENT, None))
    at = events[-1].timestamp
    return [
        Envelope(conversation_id=id, id=number, timestamp=at, source=source, cause=cause, event=event)
        for number, (event, source, cause) in enumerate(drafts, len(events))
    ]


async def _pictures(copies: EventReader, session_id: str, events: list[Envelope]) -> list[Blob]:
    refs = {ref.digest: ref for event in events for url in picture_urls(event.event) if (ref := BlobRef.parse(url))}
    found = [await copies.blob(session_id, ref) for ref in refs.values()]
    return [blob for blob in found if blob is not None]
