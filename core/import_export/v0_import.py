"""Conversations of OpenHands: one file of V0, folders of event files of V0 and of the SDK, and those folders zipped.

    trajectory          [{...}, ...], or objects one behind another, as `handloom run --json` prints them
    folder of V0        events/0.json, events/1.json, ... and metadata.json beside them
    folder of the SDK   events/event-00000-<id>.json, ... and base_state.json beside them; v0.jsonl where we wrote it

The numbers in the names of the files give the order. Caches, locks and pickles of OpenHands hold nothing that the
events do not; they are left alone, and never unpickled.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from core.import_export import bounded_json, sdk_import, sdk_sidecar
from core.import_export.bounded_json import Fault
from core.import_export.event_order import Numbering
from core.import_export.imported_conversation import Imported, JsonObject
from core.import_export.sdk_sidecar import Beside
from core.import_export.untrusted_files import MAX_EVENTS_BYTES, Tree

MAX_TITLE_CHARS = 200
_V0_NAME = re.compile(r"(\d{1,9})\.json")
_SDK_NAME = re.compile(r"event[-_](\d{5,9})[-_]([0-9A-Za-z-]{1,64})\.json")
_BESIDE = {"openhands": ("metadata.json", "metadata"), "openhands-sdk": ("base_state.json", "base_state")}
_LEFT_ALONE = re.compile(
    r"(event_cache/.*|(events/)?\.eventlog.*|.*\.(pkl|lock|marker)|base_state\.json|metadata\.json|meta\.json"
    r"|llm_registry\.json|conversation_stats\.json|v0\.jsonl|observations/.*)"
)
_SHOWN_NAMES = 3


class EventFiles(NamedTuple):
    """The event files of a folder, in the order of their numbers."""

    format: str
    names: list[str]
    others: list[str]
    gap: bool
    twice: bool


def from_trajectory(data: bytes, numbering: Numbering) -> Imported:
    """The conversation in a trajectory file. Raises Fault."""
    events = []
    for value in bounded_json.values(bounded_json.as_utf8(data)):
        numbering.check()
        events.append(value)
    del data  # the values take several times as much already
    return from_events(events, numbering)


def from_events(
    events: Sequence[Any], numbering: Numbering, beside: JsonObject | None = None, ours: Beside | None = None
) -> Imported:
    """The conversation of events of either vocabulary. Raises Fault.

    `beside` is what the folder holds beside them, and `ours` what we wrote there where they were exported from here.
    """
    is_sdk = bool(events) and all(map(sdk_import.is_sdk_event, events))
    format = "openhands-sdk" if is_sdk else "openhands"
    about: JsonObject = {} if beside is None else {_BESIDE[format][1]: beside}
    if id := _shared_id(events):
        about["conversation_id"] = id
        events = [{key: value for key, value in event.items() if key != "conversation_id"} for event in events]
    if is_sdk:
        forms = ours.forms if ours else {}
        known = [forms.get(place, form) for place, form in enumerate(sdk_import.as_v0(events))]
        originals = [None if place in forms else event for place, event in enumerate(events)]
        envelopes = numbering.envelopes(known, originals, about)
        if sdk_import.has_branches(events):
            numbering.warnings.append("The conversation has branches; all of their events are here, one after another.")
    else:
        envelopes = numbering.envelopes(events, about=about)
    told = _told(beside or {}, ours)
    return Imported(
        format=format,
        title=numbering.masker.mask_text(_title(told)),
        workspace=numbering.masker.mask_text(_workspace(told)),
        model=_model(told, events),
        created_at=_created_at(told, numbering) or envelopes[0].timestamp,
        envelopes=envelopes,
        blobs=list(numbering.blobs.values()),
        warnings=numbering.warnings,
    )


def _shared_id(events: Sequence[Any]) -> str:
    """The id of the conversation, where every event names the same one; empty where they do not."""
    ids = [event.get("conversation_id") if isinstance(event, dict) else None for event in events]
    return ids[0] if ids and isinstance(ids[0], str) and all(id == ids[0] for id in ids) else ""


def event_files(tree: Tree) -> EventFiles | None:
    """The event files of a folder; None where it has none. Raises Fault where it has those of two formats."""
    names = tree.names()
    for folder in ("events/", ""):
        for format, pattern in (("openhands", _V0_NAME), ("openhands-sdk", _SDK_NAME)):
            found = [
                (int(match[1]), name)
                for name in names
                if name.startswith(folder) and (match := pattern.fullmatch(name.removeprefix(folder)))
            ]
            if found:
                found.sort()
                numbers = [number for number, _ in found]
                taken = {name for _, name in found}
                others = [name for name in names if name not in taken and not _LEFT_ALONE.fullmatch(name)]
                twice = len(set(numbers)) < len(numbers)
                return EventFiles(
                    format, [name for _, name in found], sorted(others), numbers[-1] >= len(numbers), twice
                )
    return None


def from_folder(tree: Tree, files: EventFiles, numbering: Numbering) -> Imported:
    """The conversation in a folder of event files. Raises Fault, with the name of the file that is wrong."""
    events, digests, size = [], [], 0
    is_ours = sdk_sidecar.NAME in tree.names() and files.format == "openhands-sdk"
    for name in files.names:
        numbering.check()
        event, data = _one(tree, name)
        events.append(event)
        digests.append(hashlib.sha256(data).hexdigest() if is_ours else "")
        size += len(data)
        if size > MAX_EVENTS_BYTES:
            raise Fault(f"its events are more than {MAX_EVENTS_BYTES / 1e6:.0f} MB, and more is not read")
    if len({sdk_import.is_sdk_event(event) for event in events}) > 1:
        raise Fault("its event files are of two formats", files.names[0], "import each of the conversations by itself")
    beside_name = _BESIDE[files.format][0]
    beside = _one(tree, beside_name)[0] if beside_name in tree.names() else None
    if beside is not None and not isinstance(beside, dict):
        raise Fault("it is no JSON object", beside_name)
    if files.gap:
        numbering.warnings.append("Files of events are missing between others.")
    if files.twice:
        numbering.warnings.append("Two files have the same number; both events are kept.")
    if files.others:
        shown = ", ".join(files.others[:_SHOWN_NAMES])
        more = f" and {len(files.others) - _SHOWN_NAMES} more" if len(files.others) > _SHOWN_NAMES else ""
        numbering.warnings.append(f"Files that are no events were left out: {shown}{more}.")
    if files.format == "openhands":
        _by_file(events, files, numbering)
    ours = sdk_sidecar.read(tree, events, digests, numbering.check) if is_ours else None
    if ours is not None and ours.stale:
        numbering.warnings.append(f"Events that were changed since their export, read as they are: {ours.stale}.")
    return from_events(events, numbering, beside, ours)


def _by_file(events: Sequence[Any], files: EventFiles, numbering: Numbering) -> None:
    for name, event in zip(files.names, events, strict=True):
        number = int(name.rpartition("/")[2].removesuffix(".json"))
        if isinstance(event, dict) and event.get("id") != number:
            numbering.warnings.append(f"{name} holds an event of another number.")
            return


def _one(tree: Tree, name: str) -> tuple[Any, bytes]:
    """The JSON value in a file, and its bytes."""
    try:
        data = bounded_json.as_utf8(tree.read(name, bounded_json.MAX_VALUE_BYTES))
        return bounded_json.parse(data), data
    except Fault as fault:
        if name not in fault.where:
            fault.where = f"{name}, {fault.where}" if fault.where else name
        raise


def _told(beside: JsonObject, ours: Beside | None) -> JsonObject:
    """What a folder says of the conversation; what we wrote goes before what the SDK did."""
    if ours is None:
        return beside
    told = {"title": "title", "model": "llm_model", "created_at": "created_at"}
    said = {name: ours.told[key] for key, name in told.items() if key in ours.told}
    folder = {"workspace": {"working_dir": ours.told["workspace"]}} if "workspace" in ours.told else {}
    return {**beside, **said, **folder}


def _title(beside: JsonObject) -> str:
    found = beside.get("title")
    return clean(found)[:MAX_TITLE_CHARS] if isinstance(found, str) else ""


def _workspace(beside: JsonObject) -> str:
    found = beside.get("workspace")
    folder = found.get("working_dir") if isinstance(found, dict) else None
    return clean(folder) if isinstance(folder, str) else ""


def _model(beside: JsonObject, events: Sequence[Any]) -> str:
    """The model by the folder's words, or by the first answer of a model that names it."""
    agent = beside.get("agent")
    llm = agent.get("llm") if isinstance(agent, dict) else None
    named = beside.get("llm_model") or (llm.get("model") if isinstance(llm, dict) else None)
    if isinstance(named, str):
        return clean(named)
    for event in events:
        match event:
            case {"tool_call_metadata": {"model_response": {"model": str(model)}}}:
                return clean(model)
    return ""


def _created_at(beside: JsonObject, numbering: Numbering) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(beside.get("created_at")))
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return min(found, numbering.now)


def clean(text: str) -> str:
    """A text that a column can hold: without halves of pairs of code units."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "")
