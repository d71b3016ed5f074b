"""Our own archive: a zip with everything that a home holds of a conversation, to be read back without loss.

    handloom.json       {"format": "handloom-archive", "version": 1, ...}: the conversation, counts, SHA-256 of the rest
    events.jsonl        one event a line, in the whole V0 form
    recordings.jsonl    {"after": n, "at": iso, "cause": n, "data": base64} a line; "is_echo" where it was typed
    blobs/<sha256>.png  the pictures to which events refer

The same conversation makes the same bytes: members have an order that follows from the events. Blobs come as they are
first named; events and recordings wait until the end.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zipfile
from typing import BinaryIO

from core.events import envelope_to_dict, to_json
from core.import_export.export_pages import Page, Told
from core.import_export.zip_writer import Part, Zipped
from core.store.blobs import Blob
from core.store.conversations import ConversationInfo
from core.store.recordings import RecordedFrame

FORMAT, VERSION = "handloom-archive", 1
SUFFIXES = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp", "image/bmp": "bmp"}


class Writer:
    """Writes the archive."""

    def __init__(self, out: BinaryIO, told: Told) -> None:
        self._told = told
        self._zip = Zipped(out, told.scratch)
        self._events, self._recordings = Part(told.scratch), Part(told.scratch)
        self._digests: dict[str, str] = {}
        self._blobs: set[str] = set()

    def take(self, page: Page) -> None:
        """Write the next events' pictures, and keep the rest."""
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
        """Write events and recordings, then the description of all."""
        for name, part in (("events.jsonl", self._events), ("recordings.jsonl", self._recordings)):
            self._digests[name] = part.digest.hexdigest()
            self._zip.add_part(name, part)
        counts = {"events": self._events.count, "blobs": len(self._blobs), "recordings": self._recordings.count}
        about = {
            "format": FORMAT,
            "version": VERSION,
            "conversation": info_to_dict(self._told.info),
            "counts": counts,
            "sha256": dict(sorted(self._digests.items())),
        }
        self._zip.add("handloom.json", json.dumps(about, indent=2) + "\n")
        self._zip.end()


def info_to_dict(info: ConversationInfo) -> dict[str, str]:
    """What an archive says of the conversation itself; the rest follows from its events."""
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
