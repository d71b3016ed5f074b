"""`v0.jsonl`, beside the event files of the SDK: what their words do not hold, so that they come back without loss.

    {"conversation": {"title": ..., "workspace": ..., "model": ..., "created_at": ...}}     the first line
    {"number": n, "sha256": of the event's file, "event": {...}}                            the V0 form of an event

Events that came from the SDK have no line. A line without `event` belongs to an update of the state that holds the form
itself. A line counts only while the file is what it was and lies at its place: an event that somebody has changed or
moved since is read as the SDK has it. The SDK leaves the file alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.events import to_json
from core.import_export import bounded_json
from core.import_export.bounded_json import MAX_VALUE_BYTES, Fault
from core.import_export.imported_conversation import JsonObject
from core.import_export.untrusted_files import MAX_EVENTS_BYTES, Tree
from core.store.conversations import ConversationInfo

NAME = "v0.jsonl"
_TOLD = ("title", "workspace", "model", "created_at")
_HINT = f"take {NAME} away to have the events as the SDK says them"


def head(info: ConversationInfo) -> str:
    """The first line."""
    told = {
        "title": info.title,
        "workspace": info.workspace,
        "model": info.model,
        "created_at": info.created_at.isoformat(),
    }
    return to_json({"conversation": told})


def line(number: int, data: str, form: JsonObject | None) -> str:
    """The line of an event whose file has this text; without a form where the file has it."""
    digest = hashlib.sha256(data.encode()).hexdigest()
    return to_json({"number": number, "sha256": digest, **({} if form is None else {"event": form})})


@dataclass(slots=True)
class Beside:
    """What was read of the file."""

    told: dict[str, str] = field(default_factory=dict)
    """Of the conversation: `title`, `workspace`, `model`, `created_at`, as far as they are there."""
    forms: dict[int, JsonObject] = field(default_factory=dict)
    """V0 forms by the place of the event."""
    stale: int = 0
    """Lines of files that are others by now."""


def read(tree: Tree, events: Sequence[Any], digests: Sequence[str], check: Callable[[], None]) -> Beside:
    """The file in a folder with these events, whose files have these digests. Raises Fault."""
    beside, size = Beside(), 0
    for number, data in enumerate(tree.lines(NAME, MAX_VALUE_BYTES), 1):
        check()
        size += len(data)
        try:
            if size > MAX_EVENTS_BYTES or number > len(events) + 1:
                raise Fault("there is more than the events need")
            _take(bounded_json.parse(data), events, digests, beside)
        except Fault as fault:
            fault.where = f"{NAME}, line {number}" + (f", {fault.where}" if fault.where else "")
            fault.hint = _HINT
            raise
    return beside


def _take(value: Any, events: Sequence[Any], digests: Sequence[str], beside: Beside) -> None:
    match value:
        case {"conversation": {**told}}:
            beside.told = {key: text for key in _TOLD if isinstance(text := told.get(key), str)}
        case {"number": int(place), "sha256": str(digest)}:
            form = value.get("event", events[place].get("value") if 0 <= place < len(events) else None)
            if not 0 <= place < len(events) or digests[place] != digest or not isinstance(form, dict):
                beside.stale += 1
            else:
                beside.forms[place] = {**form, "id": place}
        case _:
            raise Fault("it is neither about the conversation nor about an event")
