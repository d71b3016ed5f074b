"""ControlFilter: terminal bytes as text that pyte 0.8 understands.

pyte prints the bodies of DCS, APC, PM and SOS strings, reads `4:3m` as text, raises TypeError for private SGR, and
ignores REP. Linear in its input; the text that it keeps between two calls is limited.
"""

from __future__ import annotations

import codecs
import re

MAX_PENDING = 4096
"""Characters of an unfinished sequence that are kept; no real sequence is longer."""
MAX_REPEAT = 1000
"""How often REP may draw its character: wider than any screen."""

_STRING = r"\x1b[PX\]^_]"
_SEQUENCE = re.compile(
    rf"(?P<string>{_STRING}[^\x07\x1b\x18\x1a]*(?:\x07|\x1b\\|\x18|\x1a|(?=\x1b)))"
    r"|\x1b\[(?P<private>[<=>?]?)(?P<args>[0-9;:]*)(?P<middle>[ -/]*)(?P<final>[@-~])"
    r"|(?P<c1>[\x80-\x9f])|(?P<broken>\x1b\[|\x1b(?=\x1b))"
)
_UNFINISHED = re.compile(rf"(?:{_STRING}[^\x07\x1b\x18\x1a]*|\x1b\[[<=>?]?[0-9;:]*[ -/]*|\x1b)\Z")
_STRING_START = re.compile(_STRING)
_STRING_END = re.compile(r"\x07|\x1b\\?|\x18|\x1a")
_REPEATED = re.compile(r"([^\x00-\x1f\x7f])\x1b\[([0-9]{0,4})b")
_PRIVATE_KNOWN = frozenset("hlJK")
_MAX_ARGUMENTS = dict.fromkeys("@ABCDEFGJKLMPSTXacdegn'`", 1) | dict.fromkeys("Hfr", 2)
"""How many numbers pyte's methods take; one more is a TypeError there."""


class ControlFilter:
    """Turns bytes, cut anywhere, into text that pyte understands. Linear in its input."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        self._in_string = False

    @property
    def is_idle(self) -> bool:
        """Whether no character and no sequence is unfinished."""
        return not (self._pending or self._in_string or self._decoder.getstate()[0])

    def feed(self, data: bytes) -> str:
        """Return printable characters, C0 controls, and the sequences that pyte handles."""
        text = self._pending + self._decoder.decode(data)
        self._pending = ""
        if self._in_string:
            text = self._leave_string(text)
        unfinished = _UNFINISHED.search(text, max(0, len(text) - MAX_PENDING))
        if unfinished:
            text = text[: unfinished.start()]
            if _STRING_START.match(unfinished[0]):
                self._in_string = True
            else:
                self._pending = unfinished[0]
        elif (start := _open_string(text)) is not None:
            self._in_string, text = True, text[:start]
        text = _REPEATED.sub(lambda m: m[1] * (1 + min(int(m[2] or 1), MAX_REPEAT)), text)
        return _SEQUENCE.sub(_translate, text)

    def _leave_string(self, text: str) -> str:
        """Drop what still belongs to a control string that began in an earlier call."""
        end = _STRING_END.search(text)
        if end is None:
            return ""
        if end[0] == "\x1b" and end.end() == len(text):
            self._pending = "\x1b"
            return ""
        self._in_string = False
        return text[end.start() :] if end[0] == "\x1b" else text[end.end() :]


def _open_string(text: str) -> int | None:
    """Find a control string that does not end in this text and is longer than what `_UNFINISHED` looks at."""
    start = max(text.rfind(f"\x1b{kind}") for kind in "PX]^_")
    return None if start < 0 or _STRING_END.search(text, start + 2) else start


def _translate(match: re.Match[str]) -> str:
    if match["string"] or match["broken"]:
        return ""
    if match["c1"]:
        return "\N{REPLACEMENT CHARACTER}"
    private, args, final = match["private"], match["args"], match["final"]
    if final in "su" and not (private or args or match["middle"]):
        return "\x1b7" if final == "s" else "\x1b8"
    if match["middle"] or final == "b" or (private and (private != "?" or final not in _PRIVATE_KNOWN)):
        return ""
    if ":" in args:
        args = _without_colons(args)
    # An absurd number costs pyte a loop of that length, or a crash in int().
    numbers = args.split(";")[: _MAX_ARGUMENTS.get(final)]
    return f"\x1b[{private}{';'.join(number[-4:] for number in numbers)}{final}"


def _without_colons(args: str) -> str:
    """Rewrite sub-parameters for pyte: `4:3` is underlined, `38:2::1:2:3` is `38;2;1;2;3`."""
    out = []
    for part in args.split(";"):
        numbers = part.split(":")
        if numbers[0] in ("38", "48") and len(numbers) > 2:
            count = 3 if numbers[1] == "2" else 1
            out.append(";".join([*numbers[:2], *[n or "0" for n in numbers[2:]][-count:]]))
        elif numbers[0] == "4" and numbers[1:2] == ["0"]:
            out.append("24")
        elif numbers[0] != "58":
            out.append(numbers[0])
    return ";".join(out)
