"""BM25: which classes and functions some words are about. Pure."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from .code_graph import Entity

K1, B = 1.5, 0.75
"""The usual ones: how soon a word that is repeated counts no more, and how much a long text is marked down."""


def ranked(query: str, entities: Sequence[Entity]) -> list[Entity]:
    """Those in which words of the query are, the best first."""
    wanted = set(_words(query))
    if not wanted or not entities:
        return []
    counts = [Counter(_words(f"{entity.id} {entity.code}")) for entity in entities]
    lengths = [count.total() for count in counts]
    mean = sum(lengths) / len(lengths)
    known = {word: sum(word in count for count in counts) for word in wanted}
    rarity = {word: math.log(1 + (len(counts) - n + 0.5) / (n + 0.5)) for word, n in known.items()}

    def score(count: Counter[str], length: int) -> float:
        damped = K1 * (1 - B + B * length / mean)
        return sum(rarity[word] * count[word] * (K1 + 1) / (count[word] + damped) for word in wanted)

    scores = [score(count, length) for count, length in zip(counts, lengths, strict=True)]
    order = sorted(range(len(entities)), key=lambda number: -scores[number])
    return [entities[number] for number in order if scores[number] > 0]


def _words(text: str) -> Iterator[str]:
    """Words in small letters, those inside of names too: `readFile` is `read`, `file` and `readfile`."""
    for name in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", text):
        yield name.lower()
        parts = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)
        if len(parts) > 1:
            yield from (part.lower() for part in parts)
