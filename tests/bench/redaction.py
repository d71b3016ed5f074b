"""Terminal output is redacted for thirty secrets in all encodings, in the pieces in which it comes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from time import perf_counter

from core.secrets import Redactor
from core.secrets.redactor import StreamRedactor
from tests.bench.figure import Figure, Target
from tests.bench.places import milliseconds_since
from tests.bench.size import sized

SECRETS, MEGABYTES, PIECE_BYTES, ROUNDS = 30, sized(10, 1), 64 * 1024, sized(5, 1)


def measure() -> list[Figure]:
    redactor = Redactor(f"ghp_{hashlib.sha256(b'%d' % number).hexdigest()[:36]}" for number in range(SECRETS))
    text = b"".join(path.read_bytes() for path in sorted(Path(hashlib.__file__).parent.glob("*.py")))
    text = (text * (MEGABYTES * 1_000_000 // len(text) + 1))[: MEGABYTES * 1_000_000].replace(b"\n", b"\r\n")
    taken = []
    for _ in range(ROUNDS):
        stream = StreamRedactor(redactor)
        started_at = perf_counter()
        for place in range(0, len(text), PIECE_BYTES):
            stream.feed(text[place : place + PIECE_BYTES])
        taken.append(milliseconds_since(started_at))
    return [
        Figure(f"{MEGABYTES} MB redacted for {SECRETS} secrets", "ms", taken, None, [Target(1000 * MEGABYTES / 50)])
    ]
