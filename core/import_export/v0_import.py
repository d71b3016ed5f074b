"""Import from OpenHands: a trajectory file of V0, and folders of event files of V0 and of the SDK, zipped or not.

    trajectory          [{...}, ...], or one object after another, as `handloom run --json` prints them
    folder of V0        events/0.json, events/1.json, ... and metadata.json beside the folder
    folder of the SDK   events/event-00000-<id>.json, ... and base_state.json beside the folder

The numbers in the file names give the order. Caches, locks and pickles of OpenHands repeat what the events say. They
are ignored, and never unpickled.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from core.import_export import bounded_json, sdk_import
from core.import_export.bounded_json import Fault
from core.import_export.event_order import EventOrder
from core.import_export.imported_conversation import Imported, JsonObject
from core.import_export.untrusted_files import MAX_EVENTS_BYTES, Tree

MAX_TITLE_CHARS = 200
_V0_NAME = re.compile(r"(\d{1,9})\.json")
_SDK_NAME = re.compile(r"event[-_](\d{5,9})[-_]([0-9A-Za-z-]{1,64})\.json")
_METADATA = {"openhands": ("metadata.json", "metadata"), "openhands-sdk": ("base_state.json", "base_state")}
_IGNORED = re.compile(
    r"(event_cache/.*|(events/)?\.eventlog.*|.*\.(pkl|lock|marker)|base_state\.json|metadata\.json|meta\.json"
    r"|llm_registry\.json|conversation_stats\.json|v0\.jsonl|observations/.*)"
)
_SHOWN_NAMES = 3


class EventFiles(NamedTuple):
    """The event files of a folder, in the order of their numbers."""

    format: str
    names: list[str]
    others: list[str]
    has_gap: bool
    has_duplicates: bool


def from_trajectory(data: bytes, order: EventOrder) -> Imported:
    """The conversation in a trajectory file. Raises Fault."""
    events = []
    for value in bounded_json.values(data):
        order.check()
        events.append(value)
    del data  # the values already take several times as much memory
    return from_events(events, order)


def from_events(events: Sequence[Any], order: EventOrder, metadata: JsonObject | None = None) -> Imported:
    """The conversation of events of either vocabulary, with the metadata of their folder. Raises Fault."""
    is_sdk = bool(events) and all(map(sdk_import.is_sdk_event, events))
    format = "openhands-sdk" if is_sdk else "openhands"
    about: JsonObject = {} if metadata is None else {_METADATA[format][1]: metadata}
    if id := _shared_id(events):
        about["conversation_id"] = id
        events = [{key: value for key, value in event.items() if key != "conversation_id"} for event in events]
    if is_sdk:
        envelopes = order.envelopes(sdk_import.as_v0(events), events, about)
        if sdk_import.has_branches(events):
            order.warnings.append("The conversation has branches; the events of all of them were imported.")
    else:
        envelopes = order.envelopes(events, about=about)
    metadata = metadata or {}
    return Imported(
        format=format,
        title=order.redactor.redact_text(_title(metadata)),
        workspace=order.redactor.redact_text(_workspace(metadata)),
        model=_model(metadata, events),
        created_at=_created_at(metadata, order) or envelopes[0].timestamp,
        envelopes=envelopes,
        blobs=list(order.blobs.values()),
        warnings=order.warnings,
    )


def _shared_id(events: Sequence[Any]) -> str:
    """The conversation id if all events name the same one, else an empty text."""
    ids = [event.get("conversation_id") if isinstance(event, dict) else None for event in events]
    return ids[0] if ids and isinstance(ids[0], str) and all(id == ids[0] for id in ids) else ""


def event_files(tree: Tree) -> EventFiles | None:
    """The event files of a folder; None for a folder without any."""
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
                others = [name for name in names if name not in taken and not _IGNORED.fullmatch(name)]
                return EventFiles(
                    format,
                    [name for _, name in found],
                    sorted(others),
                    has_gap=numbers[-1] >= len(numbers),
                    has_duplicates=len(set(numbers)) < len(numbers),
                )
    return None


def from_folder(tree: Tree, files: EventFiles, order: EventOrder) -> Imported:
    """The conversation in a folder of event files. Raises Fault with the name of the bad file."""
    events, size = [], 0
    for name in files.names:
        order.check()
        event, event_bytes = _read(tree, name)
        events.append(event)
        size += event_bytes
        if size > MAX_EVENTS_BYTES:
            raise Fault(f"its events have more than {MAX_EVENTS_BYTES / 1e6:.0f} MB, which is the limit")
    if len({sdk_import.is_sdk_event(event) for event in events}) > 1:
        raise Fault("its event files have two formats", files.names[0], "import each of the conversations separately")
    metadata_name = _METADATA[files.format][0]
    metadata = _read(tree, metadata_name)[0] if metadata_name in tree.names() else None
    if metadata is not None and not isinstance(metadata, dict):
        raise Fault("it is not a JSON object", metadata_name)
    if files.has_gap:
        order.warnings.append("Some event files are missing.")
    if files.has_duplicates:
        order.warnings.append("Two files have the same number; both events are kept.")
    if files.others:
        shown = ", ".join(files.others[:_SHOWN_NAMES])
        more = f" and {len(files.others) - _SHOWN_NAMES} more" if len(files.others) > _SHOWN_NAMES else ""
        order.warnings.append(f"Files that are not events were left out: {shown}{more}.")
    if files.format == "openhands":
        _check_numbers(events, files, order)
    return from_events(events, order, metadata)


def _check_numbers(events: Sequence[Any], files: EventFiles, order: EventOrder) -> None:
    for name, event in zip(files.names, events, strict=True):
        number = int(name.rpartition("/")[2].removesuffix(".json"))
        if isinstance(event, dict) and event.get("id") != number:
            order.warnings.append(f"{name} contains an event with another number.")
            return


def _read(tree: Tree, name: str) -> tuple[Any, int]:
    """The JSON value in a file, and its size in bytes."""
    try:
        data = tree.read(name, bounded_json.MAX_VALUE_BYTES)
        return bounded_json.parse(data), len(data)
    except Fault as fault:
        if name not in fault.where:
            fault.where = f"{name}, {fault.where}" if fault.where else name
        raise


def _title(metadata: JsonObject) -> str:
    found = metadata.get("title")
    return clean(found)[:MAX_TITLE_CHARS] if isinstance(found, str) else ""


def _workspace(metadata: JsonObject) -> str:
    found = metadata.get("workspace")
    folder = found.get("working_dir") if isinstance(found, dict) else None
    return clean(folder) if isinstance(folder, str) else ""


def _model(metadata: JsonObject, events: Sequence[Any]) -> str:
    """The model that the metadata names, or else the first model answer that names one."""
    agent = metadata.get("agent")
    llm = agent.get("llm") if isinstance(agent, dict) else None
    named = metadata.get("llm_model") or (llm.get("model") if isinstance(llm, dict) else None)
    if isinstance(named, str):
        return clean(named)
    for event in events:
        match event:
            case {"tool_call_metadata": {"model_response": {"model": str(model)}}}:
                return clean(model)
    return ""


def _created_at(metadata: JsonObject, order: EventOrder) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(metadata.get("created_at")))
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return min(found, order.now)


def clean(text: str) -> str:
    """The text as a database column can hold it: without lone surrogates and NULs."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "")
