"""What becomes of a session of another agent: its copy and those of its branches, ready to be stored."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from core.import_export.agents.source import AgentSession, Source
from core.import_export.agents.stored import stored_session
from core.import_export.agents.transcript import Transcript, as_time
from core.import_export.bounded_json import Fault
from core.import_export.imported_conversation import storable_text
from core.library.costs import add_costs
from core.library.records import Record
from core.secrets import Redactor
from core.store.copies import Copy, CopyFacts

log = logging.getLogger(__name__)
TITLE_CHARS = 200
WHY_CHARS = 300
"""Of the reason why a session cannot be read: it may have text of a file, such as a name in a database."""
MAX_BRANCH_BYTES = 64_000_000
"""Of all branches of a session: each repeats what is before it. The first one above the limit is the last."""
MAX_BRANCHES = 100
"""Branches of a session that are stored; the readers make fewer."""
_MAX_INTEGER = 2**63 - 1
"""In a column."""
_NAMESPACE = uuid.UUID("5b1d3a7e-6f0c-4d62-9a55-0c1a6f6b8e21")


@dataclass(frozen=True, slots=True)
class PreparedSession:
    """A session that was read."""

    record: Record
    copies: list[Copy]
    """Its copy and those of its branches; empty if it could not be read."""
    before: tuple[int, int]
    """The version that had been read when this reading began."""


def copy_id(agent: str, session_id: str, branch: int = 0) -> str:
    """The id of the conversation that is the copy of a session, or of one of its branches, which count from 1.

    `session_id` may have any characters, also lone surrogates.
    """
    return uuid.uuid5(_NAMESPACE, json.dumps([agent, session_id, branch])).hex


def prepare(source: Source, record: Record, redactor: Redactor) -> PreparedSession:
    """A session and its branches, as they will be stored. Blocks."""
    try:
        transcript = source.read(record.session)
        if not transcript.forms:
            raise Fault("it has no events")
        return _prepared_copies(record, transcript, redactor)
    except (OSError, Fault) as error:
        why = error.why if isinstance(error, Fault) else (error.strerror or "it cannot be opened")
        log.info("session %r of %s was not read: %s", record.session.id, record.session.agent, why)
    except BaseException as error:  # one session that harms its reader must not keep the others from being read
        if isinstance(error, KeyboardInterrupt | SystemExit):  # the others are a panic of the JSON parser
            raise
        why = f"its reader failed ({type(error).__name__})"
        log.exception("session %r of %s was not read", record.session.id, record.session.agent)
    return PreparedSession(record.after_reading(wrong=storable_text(why)[:WHY_CHARS]), [], record.read_version)


def _prepared_copies(record: Record, transcript: Transcript, redactor: Redactor) -> PreparedSession:
    add_costs(transcript)
    record = _completed(record, transcript)
    record = replace(record, session=redacted(record.session, redactor))
    facts, now = facts_of(record), datetime.now(UTC)
    copies = [Copy(facts, *stored_session(record.id, transcript, now, redactor))]
    left = MAX_BRANCH_BYTES
    for number, branch in enumerate(transcript.branches if not record.session.first_bytes else (), 1):
        if branch.transcript.forms and left > 0 and number <= MAX_BRANCHES:
            add_costs(branch.transcript)
            id = copy_id(record.session.agent, record.session.id, number)
            title = redactor.redact_text(_line(branch.title))
            of_branch = replace(facts, id=id, parent=record.id, title=title, size=0, cost=None)
            stored = stored_session(id, branch.transcript, now, redactor)
            copies.append(Copy(of_branch, *stored))
            left -= sum(len(row[-1]) for row in stored.events.rows) + sum(map(len, stored.texts))
    return PreparedSession(record.after_reading(), copies, record.read_version)


def bounded(session: AgentSession) -> AgentSession:
    """The session with numbers that fit into columns: files can have any size and time."""
    size, changed = (max(-_MAX_INTEGER, min(each, _MAX_INTEGER)) for each in (session.size, session.changed_ns))
    is_same = (size, changed) == (session.size, session.changed_ns)
    return session if is_same else replace(session, size=size, changed_ns=changed)


def redacted(session: AgentSession, redactor: Redactor) -> AgentSession:
    """The session without secrets in the texts that are shown; what finds it again stays as it is."""
    if not redactor:
        return session
    title, folder, model = map(redactor.redact_text, (session.title, session.folder, session.model))
    return replace(session, title=title, folder=folder, model=model)


def branch_ids(record: Record) -> Iterator[str]:
    """The ids that copies of branches of this session have, if there are any."""
    return (copy_id(record.session.agent, record.session.id, number) for number in range(1, MAX_BRANCHES + 1))


def _completed(record: Record, transcript: Transcript) -> Record:
    """The record with what only reading its session told."""
    spent = transcript.usage
    tokens = min(spent.prompt + spent.completion, _MAX_INTEGER)
    session = filled(record.session, transcript)
    return replace(record, session=session, read_tokens=tokens, read_cost=spent.cost)


def filled(session: AgentSession, other: AgentSession | Transcript) -> AgentSession:
    """The session with what it does not say itself, and the other does."""
    return replace(
        session,
        title=session.title or other.title,
        folder=session.folder or other.folder,
        model=session.model or other.model,
        commit=session.commit or other.commit,
    )


def facts_of(record: Record) -> CopyFacts:
    session = record.session
    updated = session.updated_at or as_time(session.changed_ns / 1e9) or datetime.fromtimestamp(0, UTC)
    return CopyFacts(
        id=record.id,
        origin=session.agent,
        origin_of=storable_text(session.id),
        title=_line(session.title),
        workspace=storable_text(session.folder),
        model=_line(session.model),
        created_at=session.started_at or updated,
        updated_at=updated,
        parent=copy_id(session.agent, session.parent_id) if session.parent_id else "",
        cost=record.cost,
        size=0 if session.row else session.size,  # in a database it counts rows
    )


def _line(text: str) -> str:
    return " ".join(storable_text(text).split())[:TITLE_CHARS]
