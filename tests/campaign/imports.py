"""Mutated files to import: trajectories, folders of OpenHands and of its SDK, zipped ones, and archives.

Each is either refused with one sentence that names the file, and then nothing was written to the database, or imported,
and then every event in the database equals the one in the file. The file is read by Python's own JSON parser here, so
that both sides cannot have the same bug.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import random
import re
import shutil
import tempfile
import time
import zipfile
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from core.errors import ImportRefusedError
from core.events import Envelope, envelope_to_dict
from core.import_export.imported_conversation import (
    Imported,
    imported_field,
    is_filler,
    original_form,
)
from core.import_export.importer import import_file
from core.import_export.json_parts import missing_parts
from core.store.blobs import embed_pictures
from core.store.database import sqlite3
from core.store.event_store import EventStore
from tests.campaign.trajectories import mutate_bytes, mutate_value, nasty, original
from tests.campaign.trial import Facts, Result, Violation, check, run_trials
from tests.import_export import files
from tests.runtime.zips import packed

PROMISE = "a mutated file is refused with one sentence and nothing is written, or it is imported and nothing is lost"
FULL, SHORT = 100_000, 4_000
CHUNK = 100
"""Files that one task of a worker imports into one home."""
MAX_S = 2.0
MAX_SENTENCE_CHARS = 700
CASES = ("trajectory", "lines", "encoded", "v0 folder", "sdk folder", "zipped", "archive")
_EVENT_FILE = re.compile(r"(?:.*/)?events/(?:event-)?(\d+)(?:-[0-9a-z-]+)?\.json")
WEIGHTS = (8, 3, 2, 2, 2, 3, 4)

Chance = random.Random
Import = Callable[[EventStore, Path], Awaitable[tuple[str, Imported]]]
JsonObject = dict[str, Any]


def run(count: int, seed: int) -> Result:
    """So many files, with seeds in a row."""
    weight = min(CHUNK, count)
    firsts = [(first, weight) for first in range(seed, seed + count, weight)]
    return run_trials("imports", PROMISE, trial, firsts, seed=seed, weight=weight)


def trial(case: tuple[int, int]) -> Facts:
    """A chunk of files."""
    return chunk(*case, import_file)


def chunk(first: int, count: int, imports: Import) -> Facts:
    """Import a number of files into one home. `imports` is the function under test."""
    facts = Facts()
    with tempfile.TemporaryDirectory() as scratch:
        asyncio.run(_chunk(Path(scratch), first, count, imports, facts))
    return facts


async def _chunk(scratch: Path, first: int, count: int, imports: Import, facts: Facts) -> None:
    stored = 0
    async with EventStore(scratch / "home") as store:
        with closing(sqlite3.connect(store.path)) as watching:
            for seed in range(first, first + count):
                path = scratch / f"file-{seed}"
                kind = mutant(path, Chance(seed))
                try:
                    stored += await _one(store, path, imports, watching, facts)
                except Violation as violation:
                    raise Violation(f"seed {seed}, {kind}: {violation}") from violation
                except Exception as error:
                    raise Violation(f"seed {seed}, {kind}: {type(error).__name__}: {error}") from error
                facts.counts[kind] += 1
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        check(await store.count_conversations() == stored, "a conversation more than was imported")
        await store.index()
        check(len(await store.conversations()) == stored, "a list that does not show all of them")


async def _one(store: EventStore, path: Path, imports: Import, watching: Any, facts: Facts) -> bool:
    """Import one file and hold it to the promise; whether it was stored."""
    before = _version(watching)
    begun = time.process_time()
    try:
        id, imported = await imports(store, path)
    except ImportRefusedError as error:
        sentence = str(error)
        check(path.name in sentence and "try again" in sentence, f"no sentence that helps: {sentence}")
        check(sentence.isprintable() and len(sentence) <= MAX_SENTENCE_CHARS, f"no sentence: {sentence!r}")
        check(_version(watching) == before, "a refusal wrote to the database")
        facts.counts["refused"] += 1
        return False
    finally:
        facts.peak("seconds for one file", took := time.process_time() - begun)
        check(took < MAX_S, f"{took:.1f} s")
    check(_version(watching) != before, "nothing was written")
    envelopes = await store.read(id)
    check(envelopes == imported.envelopes, "another event came out of the database than went in")
    check_nothing_lost(envelopes, expected(path), imported)
    facts.counts["imported"] += 1
    facts.counts["warnings"] += len(imported.warnings)
    return True


def _version(watching: Any) -> int:
    """Changes whenever another connection has committed something."""
    ((version,),) = watching.execute("PRAGMA data_version").fetchall()
    return int(version)


def check_nothing_lost(envelopes: list[Envelope], came: list[JsonObject], imported: Imported) -> None:
    """Every part of every event of the file is in what an export would write."""
    check(len(envelopes) - imported.fillers == len(came), f"{len(envelopes)} events of {len(came)}")
    blobs = {blob.ref.digest: blob for blob in imported.blobs}
    about = imported_field(envelope_to_dict(envelopes[0])).get("about") or {}
    kept = [envelope for envelope in envelopes if not is_filler(envelope, envelope_to_dict(envelope))]
    for envelope, event in zip(kept, came, strict=True):
        whole = Envelope(
            conversation_id=envelope.conversation_id,
            id=envelope.id,
            timestamp=envelope.timestamp,
            source=envelope.source,
            cause=envelope.cause,
            event=embed_pictures(envelope.event, blobs),
            carried=envelope.carried,
        )
        form = original_form(envelope_to_dict(whole), place=True)
        if "conversation_id" in about:
            form["conversation_id"] = about["conversation_id"]
        gone = missing_parts(event, form)
        check(not gone, f"event {envelope.id}: {json.dumps(gone)[:300]} is lost")


# -- content of a file -------------------------------------------------------------------------------------------------


def expected(path: Path) -> list[JsonObject]:
    """The events of a file that was accepted, in the order of their ids, as Python reads them."""
    if path.is_dir():
        return _in_order([json.loads(each.read_bytes()) for each in _numbered(path.rglob("*.json"))])
    data = path.read_bytes()
    if not data.startswith(b"PK"):
        return _in_order(_list(data))
    with zipfile.ZipFile(path) as archive:
        if "events.jsonl" in archive.namelist():
            return _in_order([json.loads(line) for line in archive.read("events.jsonl").splitlines()])
        names = [Path(name) for name in archive.namelist()]
        return _in_order([json.loads(archive.read(str(name))) for name in _numbered(names)])


def _numbered(paths: Any) -> list[Path]:
    """Event files ordered by number; files with other names are reported and ignored."""
    found = [(int(match[1]), path) for path in paths if (match := _EVENT_FILE.fullmatch(str(path)))]
    return [path for _, path in sorted(found)]


def _list(data: bytes) -> list[JsonObject]:
    text = data.decode(json.detect_encoding(data)).removeprefix("\ufeff").strip(" \t\r\n")
    decoder, found, place = json.JSONDecoder(), [], 0
    while place < len(text):
        value, place = decoder.raw_decode(text, place)
        found.append(value)
        place += len(text[place:]) - len(text[place:].lstrip(" \t\r\n"))
    if len(found) == 1 and isinstance(found[0], list):
        return found[0]
    return found


def _in_order(events: list[JsonObject]) -> list[JsonObject]:
    """Ordered by id if each V0 event has a numeric one; otherwise unchanged."""
    ids = [event.get("id") for event in events]
    if all(type(id) is int and id >= 0 for id in ids):
        return sorted(events, key=lambda event: int(event["id"]))
    return events


# -- mutants ---------------------------------------------------------------------------------------------------------


def mutant(path: Path, chance: Chance) -> str:
    """Write one file or folder with zero to four mutations. Returns a description."""
    (kind,) = chance.choices(CASES, WEIGHTS)
    spoil = chance.choice([_values, _values, _values, _bytes, _nothing])
    if kind in ("v0 folder", "sdk folder", "zipped"):
        tree = _tree(chance, kind == "sdk folder" or chance.random() < 0.3, spoil)
        if kind != "zipped":
            _write(path, tree)
            return kind
        data = packed(tree)
    elif kind == "archive":
        data = packed(_archive(chance, spoil))
    else:
        data = _text(kind, _events(chance), chance, spoil)
    if kind in ("zipped", "archive") and chance.random() < 0.3:
        data = spoilt(data, chance)
    path.write_bytes(data)
    return kind


def _events(chance: Chance) -> list[JsonObject]:
    if chance.random() < 0.2:
        return copy.deepcopy(files.SDK_EVENTS)
    found = (
        copy.deepcopy(files.EVENTS)
        if chance.random() < 0.3
        else [original(chance) for _ in range(chance.randint(1, 6))]
    )
    if chance.random() < 0.7:
        for number, event in enumerate(found):
            event["id"] = number
    if chance.random() < 0.2:
        url = files.data_url(files.png(chance.randint(1, 90_000), 2))
        found.append({**files.EVENTS[0], "id": len(found), "args": {"content": "", "image_urls": [url]}})
    return found


def _nothing(value: Any, chance: Chance) -> bytes:
    return json.dumps(value).encode()


def _values(value: Any, chance: Chance) -> bytes:
    """Types swapped, parts removed, added and renamed."""
    value = copy.deepcopy(value)
    for _ in range(chance.randint(1, 4)):
        mutate_value(value, chance)
    if isinstance(value, dict) and chance.random() < 0.2:
        value[chance.choice(["id", "cause", "timestamp", "source", "imported", "kind"])] = nasty(chance)
    return json.dumps(value, ensure_ascii=chance.random() < 0.5 or _has_half_pairs(value)).encode()


def _bytes(value: Any, chance: Chance) -> bytes:
    return spoilt(json.dumps(value).encode(), chance)


def spoilt(data: bytes, chance: Chance) -> bytes:
    """Bits flipped, the end cut off, pieces taken out, repeated, put in or moved, rubbish behind."""
    match chance.randrange(4):
        case 0:
            at, other = sorted(chance.randrange(len(data) + 1) for _ in range(2))
            return data[other:] + data[at:other] + data[:at]
        case 1:
            return data + chance.choice([b"x", b"\0", b"]", b"\n[]", data[:50], b"\x1a"])
        case _:
            return mutate_bytes(data, chance)


def _has_half_pairs(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _text(kind: str, events: list[JsonObject], chance: Chance, spoil: Callable[[Any, Chance], bytes]) -> bytes:
    if kind == "lines":
        return b"".join(spoil(event, chance) + chance.choice([b"\n", b"\r\n", b" \n\n"]) for event in events)
    data = spoil(events, chance)
    if kind == "encoded":
        encoding = chance.choice(["utf-8-sig", "utf-16", "utf-16-be", "utf-32", "latin-1"])
        return data.decode("utf-8", "replace").encode(encoding, "replace")
    return data


def _tree(chance: Chance, is_sdk: bool, spoil: Callable[[Any, Chance], bytes]) -> dict[str, bytes]:
    """The files of a folder, one or two of them spoilt, renamed or missing."""
    events = files.SDK_EVENTS if is_sdk else files.EVENTS
    named = {
        f"events/event-{number:05d}-{event['id']}.json" if is_sdk else f"events/{number}.json": event
        for number, event in enumerate(events)
    }
    tree = {name: json.dumps(event).encode() for name, event in named.items()}
    for name in chance.sample(sorted(named), 2):
        tree[name] = spoil(named[name], chance)
    if chance.random() < 0.2:
        del tree[chance.choice(sorted(tree))]
    beside = "base_state.json" if is_sdk else "metadata.json"
    tree[beside] = spoil(files.BASE_STATE if is_sdk else {"title": "T", "created_at": "2025-01-01"}, chance)
    return tree


def _archive(chance: Chance, spoil: Callable[[Any, Chance], bytes]) -> dict[str, bytes]:
    """The members of an archive; half of the modified ones have a correct digest."""
    members = files.archive_files(pictures=(files.png(),))
    if chance.random() < 0.8:
        events = [spoil(event, chance) for event in _events(chance)]
        about = json.loads(members["handloom.json"])
        members["events.jsonl"] = b"".join(line + b"\n" for line in events)
        if chance.random() < 0.8:
            about["sha256"]["events.jsonl"] = hashlib.sha256(members["events.jsonl"]).hexdigest()
            about["counts"]["events"] = len(events)
        members["recordings.jsonl"] = b""
        about["counts"]["recordings"] = 0
        about["sha256"]["recordings.jsonl"] = hashlib.sha256(b"").hexdigest()
        members["handloom.json"] = json.dumps(about).encode()
    else:
        name = chance.choice(sorted(members))
        members[name] = spoilt(members[name], chance)
    return members


def _write(folder: Path, tree: dict[str, bytes]) -> None:
    for name, data in tree.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
