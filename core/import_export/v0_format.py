"""The files of OpenHands: V0's trajectory and folders of event files, read and written; the SDK's folders, read.

    trajectory          [{...}, ...], or one object after another, as `handloom run --json` prints them
    folder of V0        events/0.json, events/1.json, ... and metadata.json beside the folder
    folder of the SDK   events/event-00000-<id>.json, ... and base_state.json beside the folder

The numbers in the file names give the order. Caches, locks and pickles of OpenHands repeat what the events say. They
are ignored, and never unpickled. An export puts back the fields of an imported event that ours does not hold
(`core.import_export.imported_conversation`). Ids and causes are those of the log: a conversation that went on after an
import has events of both. The same conversation makes the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, BinaryIO, NamedTuple

from core.events import (
    Action,
    Envelope,
    NullAction,
    NullObservation,
    drop_for_trajectory,
    envelope_to_dict,
    to_json,
    without_ours,
)
from core.import_export import bounded_json, sdk_import
from core.import_export.archive import ZipWriter
from core.import_export.bounded_json import Fault
from core.import_export.exporter import ExportContext, Page
from core.import_export.imported_conversation import (
    KEY,
    MAX_TITLE_CHARS,
    RECORD,
    EnvelopeBuilder,
    Imported,
    JsonObject,
    imported_field,
    imported_fields,
    is_filler,
    original_form,
    storable_text,
    utc,
)
from core.import_export.sdk_import import is_sdk_event
from core.import_export.untrusted_files import MAX_ENTRIES, MAX_EVENTS_BYTES, Tree
from core.store.blobs import embed_pictures
from core.store.conversations import ConversationInfo

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


def from_trajectory(data: bytes, builder: EnvelopeBuilder) -> Imported:
    """The conversation in a trajectory file. Raises Fault."""
    events = []
    for value in bounded_json.values(data):
        builder.check()
        events.append(value)
    del data  # the values already take several times as much memory
    return from_events(events, builder)


def from_events(events: Sequence[Any], builder: EnvelopeBuilder, metadata: JsonObject | None = None) -> Imported:
    """The conversation of events of either vocabulary, with the metadata of their folder. Raises Fault."""
    is_sdk = bool(events) and all(map(sdk_import.is_sdk_event, events))
    format = "openhands-sdk" if is_sdk else "openhands"
    about: JsonObject = {} if metadata is None else {_METADATA[format][1]: metadata}
    if id := _shared_id(events):
        about["conversation_id"] = id
        events = [{key: value for key, value in event.items() if key != "conversation_id"} for event in events]
    if is_sdk:
        envelopes = builder.envelopes(sdk_import.as_v0(events), events, about)
        if sdk_import.has_branches(events):
            builder.warnings.append("The conversation has branches; the events of all of them were imported.")
    else:
        envelopes = builder.envelopes(events, about=about)
    metadata = metadata or {}
    return Imported(
        format=format,
        title=builder.redactor.redact_text(_title(metadata)),
        workspace=builder.redactor.redact_text(_workspace(metadata)),
        model=_model(metadata, events),
        created_at=_created_at(metadata, builder) or envelopes[0].timestamp,
        envelopes=envelopes,
        blobs=list(builder.blobs.values()),
        fillers=builder.fillers,
        warnings=builder.warnings,
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


def from_folder(tree: Tree, files: EventFiles, builder: EnvelopeBuilder) -> Imported:
    """The conversation in a folder of event files. Raises Fault with the name of the bad file."""
    events, size = [], 0
    for name in files.names:
        builder.check()
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
        builder.warnings.append("Some event files are missing.")
    if files.has_duplicates:
        builder.warnings.append("Two files have the same number; both events are kept.")
    if files.others:
        shown = ", ".join(files.others[:_SHOWN_NAMES])
        more = f" and {len(files.others) - _SHOWN_NAMES} more" if len(files.others) > _SHOWN_NAMES else ""
        builder.warnings.append(f"Files that are not events were left out: {shown}{more}.")
    if files.format == "openhands":
        _check_numbers(events, files, builder)
    return from_events(events, builder, metadata)


def _check_numbers(events: Sequence[Any], files: EventFiles, builder: EnvelopeBuilder) -> None:
    for name, event in zip(files.names, events, strict=True):
        number = int(name.rpartition("/")[2].removesuffix(".json"))
        if isinstance(event, dict) and event.get("id") != number:
            builder.warnings.append(f"{name} contains an event with another number.")
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
    return storable_text(found)[:MAX_TITLE_CHARS] if isinstance(found, str) else ""


def _workspace(metadata: JsonObject) -> str:
    found = metadata.get("workspace")
    folder = found.get("working_dir") if isinstance(found, dict) else None
    return storable_text(folder) if isinstance(folder, str) else ""


def _model(metadata: JsonObject, events: Sequence[Any]) -> str:
    """The model that the metadata names, or else the first model answer that names one."""
    agent = metadata.get("agent")
    llm = agent.get("llm") if isinstance(agent, dict) else None
    named = metadata.get("llm_model") or (llm.get("model") if isinstance(llm, dict) else None)
    if isinstance(named, str):
        return storable_text(named)
    for event in events:
        match event:
            case {"tool_call_metadata": {"model_response": {"model": str(model)}}}:
                return storable_text(model)
    return ""


def _created_at(metadata: JsonObject, builder: EnvelopeBuilder) -> datetime | None:
    try:
        return min(utc(str(metadata.get("created_at"))), builder.now)
    except (ValueError, OverflowError):
        return None


PLACE = ("id", "cause", "conversation_id")
"""Fields that the log decides; the imported values are not put back."""
MANY = f"It has more than {MAX_ENTRIES:,} files: unpack it before you import it again."


ACTIONS = frozenset({
    "browse", "browse_interactive", "call_tool_mcp", "change_agent_state", "condensation", "condensation_request",
    "delegate", "edit", "finish", "loop_recovery", "message", "null", "read", "recall", "reject", "run", "run_ipython",
    "system", "task_tracking", "think", "write",
})  # fmt: skip
OBSERVATIONS = frozenset({
    "agent_state_changed", "browse", "condense", "delegate", "download", "edit", "error", "loop_detection", "mcp",
    "null", "read", "recall", "run", "run_ipython", "success", "task_tracking", "think", "user_rejected", "write",
})  # fmt: skip
"""The kinds that V0 knows (`openhands/events/serialization`); it refuses a file with another one."""


class TrajectoryWriter:
    """Writes the list, one event at a time, without page trees and page screenshots.

    Events that V0 does not know are left out, as V0 leaves out null events; so ids have gaps.
    """

    def __init__(self, out: BinaryIO, context: ExportContext) -> None:
        self._out = out
        self._separator = "[\n"
        self._names_conversation = True

    def take(self, page: Page) -> None:
        for envelope in page.events:
            if envelope.id == 0:
                self._names_conversation = _names_conversation(envelope)
            form = as_v0(envelope, page)
            if form is None:
                continue
            if not self._names_conversation:
                form.pop("conversation_id", None)
            text = json.dumps(drop_for_trajectory(form), indent=4)
            indented = text.replace("\n", "\n    ")
            self._out.write(f"{self._separator}    {indented}".encode())
            self._separator = ",\n"

    def end(self) -> None:
        """Close the list; an empty one is `[]`."""
        self._out.write(b"[]\n" if self._separator == "[\n" else b"\n]\n")


class EventFilesWriter:
    """Writes the zip of event files. The table of names stays in memory, as in every zip.

    V0 reads the files by their numbers, so an event that it does not know becomes a null event.
    """

    def __init__(self, out: BinaryIO, context: ExportContext) -> None:
        self._context = context
        self._zip = ZipWriter(out, context.scratch)
        self._metadata: JsonObject | None = None
        self._names_conversation = True

    def take(self, page: Page) -> None:
        for envelope in page.events:
            if envelope.id == 0:
                self._names_conversation = _names_conversation(envelope)
                self._metadata = _imported_metadata(envelope) or _metadata(self._context.info)
            if not is_filler(envelope, envelope_to_dict(envelope)):
                form = as_v0(envelope, page, with_original=True) or _null_event(envelope)
                if not self._names_conversation:
                    form.pop("conversation_id", None)
                self._zip.add(f"events/{envelope.id}.json", to_json(form))

    def end(self) -> None:
        if self._metadata is not None:
            self._zip.add("metadata.json", to_json(self._metadata))
        if self._zip.count > MAX_ENTRIES:
            self._context.note(MANY)
        self._zip.end()


def _imported_metadata(first: Envelope) -> JsonObject | None:
    """The metadata that the conversation with this first event was imported with."""
    for origin in imported_fields(envelope_to_dict(first)):
        found: Any = (origin.get("about") or {}).get("metadata")
        if isinstance(found, dict):
            return found
    return None


def _metadata(info: ConversationInfo) -> JsonObject:
    return {"conversation_id": info.id, "title": info.title, "created_at": info.created_at.isoformat()}


def _priced(form: JsonObject) -> JsonObject:
    """The form with 0 for a cost that is not known, which V0 cannot read."""
    metrics = form.get("llm_metrics")
    if not isinstance(metrics, dict) or metrics.get("accumulated_cost") is not None:
        return form
    return {**form, "llm_metrics": {**metrics, "accumulated_cost": 0.0}}


def _null_event(envelope: Envelope) -> JsonObject:
    event = NullAction() if isinstance(envelope.event, Action) else NullObservation()
    return envelope_to_dict(replace(envelope, event=event, carried={}))


def _names_conversation(first: Envelope) -> bool:
    """Whether events with this first one name their conversation: those of a file do if they did there."""
    origins = list(imported_fields(envelope_to_dict(first)))
    return not origins or "conversation_id" in (origins[0].get("about") or {})


def as_v0(envelope: Envelope, page: Page, *, with_original: bool = False) -> JsonObject | None:
    """The event in V0 form, with whole pictures; None for one that V0 does not know.

    An imported event is as it was in its file; `with_original` adds the original of an SDK event.
    """
    if envelope.event.pictures:
        envelope = replace(envelope, event=embed_pictures(envelope.event, dict(page.blobs)))
    form = envelope_to_dict(envelope)
    origin = imported_field(form)
    if is_filler(envelope, form):
        return None
    if not origin or RECORD in origin:
        form = {key: value for key, value in form.items() if key != KEY}
        is_known = form["action"] in ACTIONS if "action" in form else form.get("observation") in OBSERVATIONS
        return _priced(without_ours(form, envelope.event)) if is_known else None
    original = original_form(form)
    if is_sdk_event(original):
        return form if with_original else {key: value for key, value in form.items() if key != KEY}
    place = {key: value for key, value in (origin.get("place") or {}).items() if key not in PLACE}
    return {**original, **place, **{key: form[key] for key in PLACE if key in form}}
