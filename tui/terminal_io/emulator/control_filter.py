"""Takes out of a terminal's byte stream what pyte gets wrong.

pyte 0.8 prints the bodies of DCS, APC, PM and SOS strings, reads `4:3m` as text, raises TypeError for private SGR, and
ignores REP. A `Controls` turns bytes in any pieces into text of which pyte understands all; what is incomplete at the
end of a piece waits for the next one, at most `MAX_PENDING` characters of it. Linear in its input.
"""

from __future__ import annotations

import codecs
import re

MAX_PENDING = 4096
"""Characters of an unfinished sequence that are kept; a longer one is no sequence that anybody means."""

_STRING = r"\x1b[PX\]^_]"
_SEQUENCE = re.compile(
    rf"(?P<string>{_STRING}[^\x07\x1b\x18\x1a]*(?:\x07|\x1b\\|\x18|\x1a|(?=\x1b)))"
    r"|\x1b\[(?P<private>[<=>?]?)(?P<args>[0-9;:]*)(?P<middle>[ -/]*)(?P<final>[@-~])"
    r"|(?P<c1>[\x80-\x9f])|(?P<broken>\x1b\[|\x1b(?=\x1b))"
)
_UNFINISHED = re.compile(rf"(?:{_STRING}[^\x07\x1b\x18\x1a]*|\x1b\[[<=>?]?[0-9;:]*[ -/]*|\x1b)\Z")
_REPEATED = re.compile(r"([^\x00-\x1f\x7f])\x1b\[([0-9]{0,4})b")
_PRIVATE_KNOWN = frozenset("hlJK")
_MOST_ARGUMENTS = dict.fromkeys("@ABCDEFGJKLMPXacdegn'`", 1) | dict.fromkeys("Hfr", 2)
"""How many numbers pyte's methods take; one more is a TypeError there."""
MAX_REPEAT = 1000
"""How often REP may draw its character: wider than any screen."""


class Controls:
    """One stream's filter. Holds the bytes and sequences that are not complete yet."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._pending = ""
        self._in_string = False

    def feed(self, data: bytes) -> str:
        """Text for pyte: printable characters, C0 controls, and the sequences that it handles."""
        text = self._pending + self._decode(data)
        self._pending = ""
        if self._in_string:
            text = self._leave_string(text)
        unfinished = _UNFINISHED.search(text, max(0, len(text) - MAX_PENDING))
        if unfinished:
            tail = unfinished.group()
            text = text[: unfinished.start()]
            if tail[1:2] in set("PX]^_"):
                self._in_string = True
            else:
                self._pending = tail
        elif (start := _open_string(text)) is not None:
            self._in_string, text = True, text[:start]
        text = _REPEATED.sub(lambda m: m[1] * (1 + min(int(m[2] or 1), MAX_REPEAT)), text)
        return _SEQUENCE.sub(_translate, text)

    def _leave_string(self, text: str) -> str:
        """Drop what still belongs to a control string whose start has gone by."""
        end = re.search(r"\x07|\x1b\\?|\x18|\x1a", text)
        if end is None:
            return ""
        if end.group() == "\x1b" and end.end() == len(text):
            self._pending = "\x1b"
            return ""
        self._in_string = False
        return text[end.start() :] if end.group() == "\x1b" else text[end.end() :]


def _open_string(text: str) -> int | None:
    """Where a control string begins that does not end in this text and is longer than what `_UNFINISHED` sees."""
    starts = [text.rfind(f"\x1b{kind}") for kind in "PX]^_"]
    start = max(starts)
    if start < 0 or re.compile(r"[\x07\x1b\x18\x1a]").search(text, start + 2):
        return None
    return start


def _translate(match: re.Match[str]) -> str:
    if match["string"] or match["broken"]:
        return ""
    if match["c1"]:
        return "\N{REPLACEMENT CHARACTER}"
    private, args, final = match["private"], match["args"], match["final"]
    if match["middle"] or final == "b" or (private and (private != "?" or final not in _PRIVATE_KNOWN)):
        return ""
    if ":" in args:
        args = _without_colons(args)
    # An absurd number costs pyte a loop of that length, or a crash in int().
    numbers = args.split(";")[: _MOST_ARGUMENTS.get(final)]
    args = ";".join(number[-4:] for number in numbers)
    return f"\x1b[{private}{args}{final}"


def _without_colons(args: str) -> str:
    """Sub-parameters as pyte knows them: `4:3` is underlined, `38:2::1:2:3` is `38;2;1;2;3`."""
    out = []
    for part in args.split(";"):
        numbers = part.split(":")
        if numbers[0] in ("38", "48") and len(numbers) > 2:
            wanted = 3 if numbers[1] == "2" else 1
            out.append(";".join([*numbers[:2], *[n or "0" for n in numbers[2:]][-wanted:]]))
        elif numbers[0] == "4" and numbers[1:2] == ["0"]:
            out.append("24")
        elif numbers[0] != "58":
            out.append(numbers[0])
    return ";".join(out)
