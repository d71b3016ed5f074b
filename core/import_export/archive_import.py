"""Our own archive, read back: `core.import_export.archive` writes it and says what is in it.

Invariant of this room: what an archive says of itself has to be so. Every member is named in its description with its
SHA-256, every picture is the one that its name says, every count is right; one that was changed, cut short or put
together by hand is refused. One of a newer version is refused with words, because what it holds may be lost.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from core.events import TerminalOutput
from core.image_types import HEAD_BYTES, measured
from core.import_export import bounded_json
from core.import_export.bounded_json import MAX_VALUE_BYTES, Fault
from core.import_export.event_order import Numbering
from core.import_export.imported_conversation import Imported, JsonObject
from core.import_export.untrusted_files import MAX_EVENTS_BYTES, Tree
from core.import_export.v0_import import MAX_TITLE_CHARS, clean
from core.secrets import Masker
from core.store.blobs import TYPES, Blob, BlobRef
from core.store.recordings import RecordedFrame

FORMAT, VERSION = "handloom-archive", 1
DESCRIPTION, EVENTS, RECORDINGS = "handloom.json", "events.jsonl", "recordings.jsonl"
_BLOB = re.compile(r"blobs/([0-9a-f]{64})\.(png|jpg|gif|webp|bmp|bin)")
_FRAME_KEYS = {"after", "at", "cause", "data", "is_echo"}
_DAMAGED = "export the conversation again"
_MAX_DESCRIPTION_BYTES = 8 * 1024 * 1024


def is_archive(tree: Tree) -> bool:
    """Whether a tree holds our archive, packed or not."""
    return DESCRIPTION in tree.names()


def from_archive(tree: Tree, numbering: Numbering) -> Imported:
    """The conversation in an archive. Raises Fault."""
    about = _description(tree)
    told = _object(about, "conversation")
    digests = _object(about, "sha256")
    _check_members(tree.names(), digests)
    events = list(_events(tree, digests, told, numbering))
    envelopes = numbering.envelopes(events)
    blobs = dict(_blobs(tree, digests))
    recorded = list(_recorded(tree, digests, len(envelopes), numbering))
    _check_counts(_object(about, "counts"), len(envelopes), len(blobs), len(recorded))
    missing = numbering.references - blobs.keys() - numbering.blobs.keys()
    if missing:
        numbering.warnings.append(f"Pictures that are not in the archive: {len(missing)}.")
    mask = numbering.masker.mask_text
    return Imported(
        format="archive",
        title=mask(clean(_text(told, "title")))[:MAX_TITLE_CHARS],
        workspace=mask(clean(_text(told, "workspace"))),
        model=clean(_text(told, "model")),
        created_at=min(_time(told.get("created_at"), DESCRIPTION), numbering.now),
        envelopes=envelopes,
        blobs=[*{**blobs, **numbering.blobs}.values()],
        recorded=recorded,
        warnings=numbering.warnings,
    )


def _description(tree: Tree) -> JsonObject:
    try:
        about = bounded_json.parse(bounded_json.as_utf8(tree.read(DESCRIPTION, _MAX_DESCRIPTION_BYTES)))
    except Fault as fault:
        fault.where = fault.where or DESCRIPTION
        raise
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise Fault("it does not describe an archive of Handloom", DESCRIPTION, _DAMAGED)
    version = about.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise Fault("it has no version", DESCRIPTION, _DAMAGED)
    if version > VERSION:
        raise Fault(
            f"the archive is of version {version} and this Handloom reads up to {VERSION}",
            hint="install a newer Handloom",
        )
    return about


def _check_members(names: list[str], digests: JsonObject) -> None:
    members = {name for name in names if name != DESCRIPTION}
    if strange := sorted(members - digests.keys()):
        raise Fault("the archive's description does not name it", ascii(strange[0][:80]), _DAMAGED)
    if missing := sorted(digests.keys() - members):
        raise Fault("the archive's description names it, and it is not there", ascii(missing[0][:80]), _DAMAGED)
    for name in sorted(members - {EVENTS, RECORDINGS}):
        if not _BLOB.fullmatch(name):
            raise Fault("version 1 of the archive has no such part", ascii(name[:80]), _DAMAGED)


def _events(tree: Tree, digests: JsonObject, told: JsonObject, numbering: Numbering) -> Iterator[Any]:
    for number, event in _lines(tree, EVENTS, digests, numbering):
        if not isinstance(event, dict):
            raise Fault("it is no JSON object", f"{EVENTS}, line {number}", _DAMAGED)
        if isinstance(told.get("id"), str) and event.get("conversation_id") == told["id"]:
            event.pop("conversation_id", None)
        yield event


def _lines(tree: Tree, name: str, digests: JsonObject, numbering: Numbering) -> Iterator[tuple[int, Any]]:
    """The values of a member's lines, each with its number; at the end the whole has to be what was written."""
    if name not in digests:
        return
    digest = hashlib.sha256()
    size, most = 0, 2 * MAX_EVENTS_BYTES  # the whole form is longer than the one that came in, and has to come back
    for number, line in enumerate(tree.lines(name, MAX_VALUE_BYTES), 1):
        numbering.check()
        digest.update(line)
        size += len(line)
        try:
            if name == EVENTS and size > most:
                why = f"its events are more than {most / 1e6:.0f} MB, and more is not read"
                raise Fault(why, hint="import a shorter conversation")
            if number > bounded_json.MAX_VALUES:
                raise Fault(f"there are more than {bounded_json.MAX_VALUES:,} lines")
            yield number, bounded_json.parse(line)
        except Fault as fault:
            fault.where = f"{name}, line {number}" + (f", {fault.where}" if fault.where else "")
            fault.hint = fault.hint or _DAMAGED
            raise
    _check_digest(name, digest.hexdigest(), digests)


def _blobs(tree: Tree, digests: JsonObject) -> Iterator[tuple[str, Blob]]:
    for name in digests:
        match = _BLOB.fullmatch(name)
        if match is None:
            continue
        data = tree.read(name, MAX_VALUE_BYTES)
        digest = hashlib.sha256(data).hexdigest()
        _check_digest(name, digest, digests)
        if digest != match[1]:
            raise Fault("it is another picture than its name says", name, _DAMAGED)
        found = measured(data[:HEAD_BYTES])
        if found is None:
            raise Fault("it is no picture of a kind that is known", name, _DAMAGED)
        kind, width, height = found
        yield digest, Blob(BlobRef(TYPES[kind], width, height, len(data), digest), data)


def _recorded(tree: Tree, digests: JsonObject, events: int, numbering: Numbering) -> Iterator[RecordedFrame]:
    reached = -1
    for number, line in _lines(tree, RECORDINGS, digests, numbering):
        try:
            frame = _frame(line, numbering.masker)
        except (ValueError, TypeError, KeyError, binascii.Error) as error:
            raise Fault("it is no recording of a terminal", f"{RECORDINGS}, line {number}", _DAMAGED) from error
        if not reached <= frame.after < events:
            raise Fault("it does not follow on the line before", f"{RECORDINGS}, line {number}", _DAMAGED)
        reached = frame.after
        yield frame


def _frame(line: JsonObject, masker: Masker) -> RecordedFrame:
    after, cause, is_echo = line["after"], line["cause"], line.get("is_echo", False)
    if line.keys() - _FRAME_KEYS or type(after) is not int or type(cause) is not int or type(is_echo) is not bool:
        raise ValueError
    if not -1 <= cause < 2**62:
        raise ValueError
    data = base64.b64decode(line["data"], validate=True)
    if masker:
        text = data.decode("utf-8", "surrogateescape")
        data = masker.mask_text(text).encode("utf-8", "surrogateescape")
    return RecordedFrame(after, _time(line["at"], RECORDINGS), TerminalOutput(cause, data, is_echo))


def _check_digest(name: str, digest: str, digests: JsonObject) -> None:
    if digests.get(name) != digest:
        raise Fault("it is not what was exported: its SHA-256 is another one", name, _DAMAGED)


def _check_counts(counts: JsonObject, events: int, blobs: int, recorded: int) -> None:
    for name, found in (("events", events), ("blobs", blobs), ("recordings", recorded)):
        if counts.get(name) != found:
            raise Fault(f"it should count {found} {name}", DESCRIPTION, _DAMAGED)


def _object(about: JsonObject, key: str) -> JsonObject:
    found = about.get(key)
    if not isinstance(found, dict):
        raise Fault(f"it has no {key!r}", DESCRIPTION, _DAMAGED)
    return found


def _text(about: JsonObject, key: str) -> str:
    found = about.get(key)
    return found if isinstance(found, str) else ""


def _time(text: Any, where: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, TypeError, OverflowError) as error:
        raise Fault("it holds a time that cannot be read", where, _DAMAGED) from error
