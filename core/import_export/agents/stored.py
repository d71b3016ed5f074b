"""The events of a session of another agent as rows for a store, with the texts for its search index.

Most forms of a transcript were made here and fit their kind, so no event is made of them: that is ten times as fast.
The others, and those with pictures or secrets, go the way of every import.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any, NamedTuple

from core.events import to_json
from core.import_export.agents.transcript import Transcript
from core.import_export.imported_conversation import FUTURE, EnvelopeBuilder
from core.secrets import Redactor
from core.store.blobs import Blob
from core.store.event_rows import StoredEvents, unpack
from core.store.search_index import text_of, text_of_form

_BODY = -1


class StoredSession(NamedTuple):
    """What a store takes of a session."""

    events: StoredEvents
    blobs: list[Blob]
    texts: list[str]
    """The searchable text of each event."""


def stored_session(id: str, transcript: Transcript, now: datetime, redactor: Redactor) -> StoredSession:
    """The events of a transcript for the conversation `id`. Blocks. Secrets that `redactor` knows are replaced."""
    events, texts = StoredEvents(id), list[str]()
    builder = EnvelopeBuilder(id, now, redactor)
    builder.begin(len(transcript.forms))
    latest, before = (now + FUTURE).isoformat(), now.isoformat()
    for number, made in enumerate(transcript.forms):
        last, before = before, made["timestamp"] if "" < made["timestamp"] <= latest else before
        form = {**made, "timestamp": before}
        if number not in transcript.foreign and not _has_pictures(form):
            try:
                body = to_json(form)
            except ValueError:
                form = _with_finite_numbers(form)
                body = to_json(form)
            if not redactor or not redactor.may_redact(body):
                events.add_form(form, body)
                texts.append(text_of_form(form))
                continue
        envelope, stored = builder.envelope(_with_finite_numbers(made), datetime.fromisoformat(last))
        events.add(envelope, stored)
        texts.append(text_of(unpack(events.rows[-1][_BODY])))
    return StoredSession(events, list(builder.blobs.values()), texts)


def _with_finite_numbers(value: Any) -> Any:
    """The JSON value with None for numbers that no JSON has, such as 1e999."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _with_finite_numbers(each) for key, each in value.items()}
    return [_with_finite_numbers(each) for each in value] if isinstance(value, list) else value


def _has_pictures(form: dict[str, Any]) -> bool:
    inside = form.get("args") or form.get("extras") or {}
    return bool(inside.get("image_urls"))
