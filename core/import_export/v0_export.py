"""An event in the form in which it goes back to OpenHands: whole pictures, and whatever its file said. Pure.

An imported event carries the parts that ours does not hold (`core.import_export.imported_conversation`). They are put
back. Ids and causes are those of the log, because a conversation that went on after an import has events of both.
"""

from __future__ import annotations

from dataclasses import replace

from core.events import Envelope, envelope_to_dict
from core.import_export.export_pages import Page
from core.import_export.imported_conversation import KEY, JsonObject, as_it_came, origin_of, origins_of
from core.import_export.sdk_import import is_sdk_event
from core.store.blobs import put_in

PLACE = ("id", "cause", "conversation_id")
"""What is the log's own, and not put back."""


def whole(envelope: Envelope, page: Page) -> Envelope:
    """The event with its pictures in it."""
    return replace(envelope, event=put_in(envelope.event, dict(page.blobs))) if envelope.event.pictures else envelope


def as_v0(envelope: Envelope, page: Page, *, carries: bool = False) -> JsonObject:
    """The V0 form, as OpenHands V0 reads it. With `carries`, the original of an event of the SDK goes along."""
    form = envelope_to_dict(whole(envelope, page))
    if not origin_of(form):
        return form
    came = as_it_came(form)
    if is_sdk_event(came):
        return form if carries else {key: value for key, value in form.items() if key != KEY}
    place = {key: value for key, value in (origin_of(form).get("place") or {}).items() if key not in PLACE}
    return {**came, **place, **{key: form[key] for key in PLACE if key in form}}


def as_sdk(envelope: Envelope) -> JsonObject | None:
    """The event of the SDK that it was made from, however often it was imported since; None for any other."""
    for origin in origins_of(envelope_to_dict(envelope)):
        if is_sdk_event(origin.get("original")):
            return dict(origin["original"])
    return None
