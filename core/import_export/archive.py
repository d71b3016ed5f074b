"""Handloom's own archive: a zip with everything that a home stores of a conversation, written and read without loss.

    handloom.json       {"format": "handloom-archive", "version": 1, ...}: the conversation, counts, SHA-256 of the rest
    events.jsonl        one event a line, in the full V0 form
    recordings.jsonl    {"after": n, "at": iso, "cause": n, "data": base64} a line; "is_echo" for typed input
    blobs/<sha256>.png  the pictures to which events refer

The same conversation makes the same bytes. The import checks everything that the description claims: each member has
its SHA-256, each picture is the one that its name says, and all counts are right. A changed, cut off or handmade
archive is refused, and so is one of a newer version, because its content could be lost.

ZipWriter makes reproducible zips for this and other formats: members have one fixed time, and a member that grows while
others are written waits in an unnamed temporary file.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import datetime
from typing import Any, BinaryIO

from core.events import TerminalOutput, envelope_to_dict, to_json
from core.image_types import HEAD_BYTES, measured
from core.import_export import bounded_json
from core.import_export.bounded_json import MAX_VALUE_BYTES, Fault
from core.import_export.exporter import ExportContext, Page
from core.import_export.imported_conversation import (
    MAX_TITLE_CHARS,
    EnvelopeBuilder,
    Imported,
    JsonObject,
    storable_text,
    utc,
)
from core.import_export.untrusted_files import MAX_EVENTS_BYTES, Tree
from core.secrets import Redactor
from core.store.blobs import TYPES, Blob, BlobRef
from core.store.conversations import ConversationInfo
from core.store.recordings import RecordedFrame

FORMAT, VERSION = "handloom-archive", 1
DESCRIPTION, EVENTS, RECORDINGS = "handloom.json", "events.jsonl", "recordings.jsonl"
SUFFIXES = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp", "image/bmp": "bmp"}
_BLOB = re.compile(r"blobs/([0-9a-f]{64})\.(png|jpg|gif|webp|bmp|bin)")
_FRAME_KEYS = {"after", "at", "cause", "data", "is_echo"}
_DAMAGED = "export the conversation again"
_MAX_DESCRIPTION_BYTES = 8 * 1024 * 1024


class ArchiveWriter:
    """Writes the archive. Pictures are written as they come; events and recordings wait until the end."""

    def __init__(self, out: BinaryIO, context: ExportContext) -> None:
        self._context = context
        self._zip = ZipWriter(out, context.scratch)
        self._events, self._recordings = ZipPart(context.scratch), ZipPart(context.scratch)
        self._digests: dict[str, str] = {}
        self._blobs: set[str] = set()

    def take(self, page: Page) -> None:
        """Write the pictures of the next events, and collect the rest."""
        for blob in page.blobs.values():
            self._add_blob(blob)
        for envelope in page.events:
            self._events.add(to_json(envelope_to_dict(envelope)))
        for recorded in page.frames:
            self._recordings.add(to_json(_frame_to_dict(recorded)))

    def _add_blob(self, blob: Blob) -> None:
        if blob.ref.digest in self._blobs:
            return
        self._blobs.add(blob.ref.digest)
        name = f"blobs/{blob.ref.digest}.{SUFFIXES.get(blob.ref.media_type, 'bin')}"
        self._digests[name] = hashlib.sha256(blob.data).hexdigest()
        self._zip.add(name, blob.data, zipfile.ZIP_STORED)

    def end(self) -> None:
        for name, part in ((EVENTS, self._events), (RECORDINGS, self._recordings)):
            self._digests[name] = part.digest.hexdigest()
            self._zip.add_part(name, part)
        counts = {"events": self._events.count, "blobs": len(self._blobs), "recordings": self._recordings.count}
        about = {
            "format": FORMAT,
            "version": VERSION,
            "conversation": info_to_dict(self._context.info),
            "counts": counts,
            "sha256": dict(sorted(self._digests.items())),
        }
        self._zip.add(DESCRIPTION, json.dumps(about, indent=2) + "\n")
        self._zip.end()


def info_to_dict(info: ConversationInfo) -> dict[str, str]:
    """The conversation's fields in the description; everything else follows from its events."""
    return {
        "id": info.id,
        "title": info.title,
        "workspace": info.workspace,
        "model": info.model,
        "repository": info.repository,
        "created_at": info.created_at.isoformat(),
    }


def _frame_to_dict(recorded: RecordedFrame) -> dict[str, object]:
    frame = recorded.frame
    data: dict[str, object] = {
        "after": recorded.after,
        "at": recorded.at.isoformat(),
        "cause": frame.cause,
        "data": base64.b64encode(frame.data).decode("ascii"),
    }
    if frame.is_echo:
        data["is_echo"] = True
    return data


def is_archive(tree: Tree) -> bool:
    """Whether these files are a Handloom archive, zipped or unpacked."""
    return DESCRIPTION in tree.names()


def from_archive(tree: Tree, builder: EnvelopeBuilder) -> Imported:
    """The conversation in an archive. Raises Fault."""
    about = _description(tree)
    facts = _object(about, "conversation")
    digests = _object(about, "sha256")
    _check_members(tree.names(), digests)
    events = list(_events(tree, digests, facts, builder))
    envelopes = builder.envelopes(events)
    blobs = dict(_blobs(tree, digests))
    recorded = list(_recorded(tree, digests, len(envelopes), builder))
    _check_counts(_object(about, "counts"), len(envelopes), len(blobs), len(recorded))
    missing = builder.references - blobs.keys() - builder.blobs.keys()
    if missing:
        builder.warnings.append(f"Pictures that are not in the archive: {len(missing)}.")
    redact = builder.redactor.redact_text
    return Imported(
        format="archive",
        title=redact(storable_text(_text(facts, "title")))[:MAX_TITLE_CHARS],
        workspace=redact(storable_text(_text(facts, "workspace"))),
        model=storable_text(_text(facts, "model")),
        created_at=min(_time(facts.get("created_at"), DESCRIPTION), builder.now),
        envelopes=envelopes,
        blobs=[*{**blobs, **builder.blobs}.values()],
        recorded=recorded,
        warnings=builder.warnings,
    )


def _description(tree: Tree) -> JsonObject:
    try:
        about = bounded_json.parse(tree.read(DESCRIPTION, _MAX_DESCRIPTION_BYTES))
    except Fault as fault:
        fault.where = fault.where or DESCRIPTION
        raise
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise Fault("it does not describe a Handloom archive", DESCRIPTION, _DAMAGED)
    version = about.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise Fault("it has no valid version", DESCRIPTION, _DAMAGED)
    if version > VERSION:
        raise Fault(
            f"the archive has version {version}, and this Handloom reads versions up to {VERSION}",
            hint="install a newer Handloom",
        )
    return about


def _check_members(names: list[str], digests: JsonObject) -> None:
    members = {name for name in names if name != DESCRIPTION}
    if strange := sorted(members - digests.keys()):
        raise Fault("the archive's description does not list it", ascii(strange[0][:80]), _DAMAGED)
    if missing := sorted(digests.keys() - members):
        raise Fault("the archive's description lists it, and it is missing", ascii(missing[0][:80]), _DAMAGED)
    for name in sorted(members - {EVENTS, RECORDINGS}):
        if not _BLOB.fullmatch(name):
            raise Fault("archives of version 1 have no such file", ascii(name[:80]), _DAMAGED)


def _events(tree: Tree, digests: JsonObject, facts: JsonObject, builder: EnvelopeBuilder) -> Iterator[Any]:
    for number, event in _lines(tree, EVENTS, digests, builder):
        if not isinstance(event, dict):
            raise Fault("it is not a JSON object", f"{EVENTS}, line {number}", _DAMAGED)
        if isinstance(facts.get("id"), str) and event.get("conversation_id") == facts["id"]:
            event.pop("conversation_id", None)
        yield event


def _lines(tree: Tree, name: str, digests: JsonObject, builder: EnvelopeBuilder) -> Iterator[tuple[int, Any]]:
    """The JSON values of a member's lines with their numbers. Checks the digest after the last line."""
    if name not in digests:
        return
    digest = hashlib.sha256()
    size, most = 0, 2 * MAX_EVENTS_BYTES  # the form with derived fields is longer than the imported one, and has to fit
    for number, line in enumerate(tree.lines(name, MAX_VALUE_BYTES), 1):
        builder.check()
        digest.update(line)
        size += len(line)
        try:
            if name == EVENTS and size > most:
                why = f"its events have more than {most / 1e6:.0f} MB, which is the limit"
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
            raise Fault("the picture does not match its name", name, _DAMAGED)
        found = measured(data[:HEAD_BYTES])
        if found is None:
            raise Fault("it is not a picture of a known kind", name, _DAMAGED)
        kind, width, height = found
        yield digest, Blob(BlobRef(TYPES[kind], width, height, len(data), digest), data)


def _recorded(tree: Tree, digests: JsonObject, events: int, builder: EnvelopeBuilder) -> Iterator[RecordedFrame]:
    reached = -1
    for number, line in _lines(tree, RECORDINGS, digests, builder):
        try:
            frame = _frame(line, builder.redactor)
        except (ValueError, TypeError, KeyError, binascii.Error) as error:
            raise Fault("it is not a terminal recording", f"{RECORDINGS}, line {number}", _DAMAGED) from error
        if not reached <= frame.after < events:
            raise Fault("it is out of order", f"{RECORDINGS}, line {number}", _DAMAGED)
        reached = frame.after
        yield frame


def _frame(line: JsonObject, redactor: Redactor) -> RecordedFrame:
    after, cause, is_echo = line["after"], line["cause"], line.get("is_echo", False)
    if line.keys() - _FRAME_KEYS or type(after) is not int or type(cause) is not int or type(is_echo) is not bool:
        raise ValueError
    if not -1 <= cause < 2**62:
        raise ValueError
    data = base64.b64decode(line["data"], validate=True)
    if redactor:
        text = data.decode("utf-8", "surrogateescape")
        data = redactor.redact_text(text).encode("utf-8", "surrogateescape")
    return RecordedFrame(after, _time(line["at"], RECORDINGS), TerminalOutput(cause, data, is_echo))


def _check_digest(name: str, digest: str, digests: JsonObject) -> None:
    if digests.get(name) != digest:
        raise Fault("it was changed after the export: its SHA-256 differs", name, _DAMAGED)


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
        return utc(text)
    except (ValueError, TypeError, OverflowError) as error:
        raise Fault("it holds an invalid time", where, _DAMAGED) from error


TIME = (1980, 1, 1, 0, 0, 0)
"""The first time that a zip can store; event times are in the events."""


class ZipPart:
    """A member of text lines that grows while others are written."""

    def __init__(self, scratch: ExitStack) -> None:
        self.file = scratch.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 -- the stack closes it
        self.digest = hashlib.sha256()
        self.count = 0

    def add(self, line: str) -> None:
        """Append one line, which must not contain a line break."""
        data = f"{line}\n".encode()
        self.file.write(data)
        self.digest.update(data)
        self.count += 1


class ZipWriter:
    """An archive written member by member. `scratch` closes it if the export fails."""

    def __init__(self, out: BinaryIO, scratch: ExitStack) -> None:
        self._zip = zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED)
        scratch.callback(self._abandon)

    @property
    def count(self) -> int:
        return len(self._zip.filelist)

    def add(self, name: str, data: bytes | str, method: int = zipfile.ZIP_DEFLATED) -> None:
        self._zip.writestr(_member(name, method), data)

    def add_part(self, name: str, part: ZipPart) -> None:
        part.file.seek(0)
        with self._zip.open(_member(name, zipfile.ZIP_DEFLATED), "w", force_zip64=True) as copy:
            shutil.copyfileobj(part.file, copy, 1 << 20)

    def end(self) -> None:
        """Write the table of members. The output stays open."""
        self._zip.close()

    def _abandon(self) -> None:
        """Close early: otherwise the garbage collector would write the archive's end into the output later."""
        with suppress(OSError, ValueError):
            self._zip.close()


def _member(name: str, method: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, TIME)
    info.compress_type = method
    info.external_attr = 0o600 << 16
    info.create_system = 3  # the default depends on the operating system
    return info
