"""A terminal that draws pictures: it answers as kitty, iTerm2 or a terminal with sixel does, and knows what is seen.

Kitty's pictures are kept by their numbers, and its placeholders are looked up in the cells, mark by mark. Sixels and
inline images lie in a plane of pixels, from which a cell that is written erases its own. The tables are this file's
own, so that the program's are not proved by themselves.
"""

from __future__ import annotations

import base64
import io
import re
import subprocess
import unicodedata
import uuid
import zlib
from dataclasses import dataclass, field

import pyte
from PIL import Image
from pyte.graphics import FG_BG_256

from tests.journeys.terminal_of_ours import OurTerminal
from tests.program import HANDLOOM, Handloom

CELL = (10, 20)
LARGEST_SIXEL = 1000
"""The length of a square of pixels that xterm uses by default."""
PLACEHOLDER = "\U0010eeee"
KITTY, SIXEL, ITERM2 = "kitty", "sixel", "iterm2"
_NAMES = {KITTY: "kitty(0.42.0)", ITERM2: "iTerm2 3.5.2"}
_STRING = re.compile(
    rb"\x1b_G(?P<kitty>[^\x1b]*)\x1b\\|\x1bP(?P<sixel>[\d;]*q[^\x1b]*)\x1b\\|\x1b\]1337;File=(?P<inline>[^\x07]*)\x07",
    re.DOTALL,
)
_BEGUN = re.compile(rb"\x1b(?:[_P][^\x1b]*\x1b?|\](?:1(?:3(?:3(?:7[^\x07]*)?)?)?)?)?\Z|\x1b\[[\d;>?]*\Z", re.DOTALL)
_ASKED = re.compile(rb"\x1b\[>q|\x1b\[16t|\x1b\[c")
# UnicodeData 6.0: class 230, joining with nothing. A few of them suffice to read rows and columns of a small pane.
MARKS = [
    chr(code)
    for first, last in (
        (0x305, 0x305), (0x30D, 0x30E), (0x310, 0x310), (0x312, 0x312), (0x33D, 0x33F), (0x346, 0x346),
        (0x34A, 0x34C), (0x350, 0x352), (0x357, 0x357), (0x35B, 0x35B), (0x363, 0x36F), (0x483, 0x487),
        (0x592, 0x595), (0x597, 0x599), (0x59C, 0x5A1), (0x5A8, 0x5A9), (0x5AB, 0x5AC), (0x5AF, 0x5AF),
        (0x5C4, 0x5C4), (0x610, 0x617), (0x657, 0x65B), (0x65D, 0x65E), (0x6D6, 0x6DC), (0x6DF, 0x6E2),
        (0x6E4, 0x6E4), (0x6E7, 0x6E8), (0x6EB, 0x6EC), (0x730, 0x730), (0x732, 0x733), (0x735, 0x736),
        (0x73A, 0x73A), (0x73D, 0x73D), (0x73F, 0x741), (0x743, 0x743), (0x745, 0x745), (0x747, 0x747),
        (0x749, 0x74A), (0x7EB, 0x7F1), (0x7F3, 0x7F3), (0x816, 0x819), (0x81B, 0x823), (0x825, 0x827),
        (0x829, 0x82D), (0x951, 0x951), (0x953, 0x954), (0xF82, 0xF83), (0xF86, 0xF87), (0x135D, 0x135F),
        (0x17DD, 0x17DD), (0x193A, 0x193A), (0x1A17, 0x1A17), (0x1A75, 0x1A7C), (0x1B6B, 0x1B6B), (0x1B6D, 0x1B73),
        (0x1CD0, 0x1CD2), (0x1CDA, 0x1CDB), (0x1CE0, 0x1CE0), (0x1DC0, 0x1DC1), (0x1DC3, 0x1DC9), (0x1DCB, 0x1DCC),
        (0x1DD1, 0x1DE6), (0x1DFE, 0x1DFE), (0x20D0, 0x20D1), (0x20D4, 0x20D7), (0x20DB, 0x20DC), (0x20E1, 0x20E1),
        (0x20E7, 0x20E7), (0x20E9, 0x20E9), (0x20F0, 0x20F0), (0x2CEF, 0x2CF1), (0x2DE0, 0x2DFF),
    )
    for code in range(first, last + 1)
]  # fmt: skip


@dataclass
class Kept:
    """A picture that the terminal has, and for how many cells."""

    image: Image.Image
    columns: int
    rows: int


@dataclass
class Arriving:
    """A picture whose parts are still coming."""

    told: dict[str, str] = field(default_factory=dict)
    data: bytes = b""


class _Cells(pyte.Screen):
    """Cells that tell when one of them is written."""

    def __init__(self, columns: int, rows: int, plane: Image.Image) -> None:
        self.plane = plane
        self.erased = 0
        """How many cells took their pixels away."""
        super().__init__(columns, rows)

    def draw(self, data: str) -> None:
        for letter in data:
            if not unicodedata.combining(letter):
                x, y = min(self.cursor.x, self.columns - 1) * CELL[0], self.cursor.y * CELL[1]
                self.erased += bool(self.plane.getpixel((x, y))[3])  # type: ignore[index]
                self.plane.paste((0, 0, 0, 0), (x, y, x + CELL[0], y + CELL[1]))
            super().draw(letter)

    def erase_in_display(self, how: int = 0, *args: int, **kwargs: bool) -> None:
        if how == 2:
            self.plane.paste((0, 0, 0, 0), (0, 0, *self.plane.size))
        super().erase_in_display(how, *args, **kwargs)


class GraphicTerminal(OurTerminal):
    """A terminal that supports KITTY, SIXEL, or neither. `answers` replaces replies, for false or split ones."""

    has_256_colours = False
    """Whether the cells of a picture have one of 256 colours."""
    is_late = False
    """Whether cells may arrive later than what was written after them."""

    def __init__(self, program: Handloom, *arguments: str, kind: str = KITTY, **environ: str) -> None:
        self.kind = kind
        if kind == SIXEL:
            self.told_cell = CELL
        self.pictures: dict[int, Kept] = {}
        self.sent: list[int] = []
        """The numbers of all pictures that came, in their order."""
        self.sent_bytes = 0
        self.drawn = 0
        """How many sixels came."""
        self.asked = 0
        self.answers: dict[bytes, str] = {}
        """Replies that replace the true ones; empty for no reply."""
        self._arriving: Arriving | None = None
        self._pending = b""
        super().__init__(program, *arguments, **environ)
        self._begin_screen(120, 36)

    def _begin_screen(self, columns: int, rows: int) -> None:
        self.plane = Image.new("RGBA", (columns * CELL[0], rows * CELL[1]))
        self._screen = _Cells(columns, rows, self.plane)
        self._stream = pyte.ByteStream(self._screen)

    def resize(self, columns: int, rows: int) -> None:
        super().resize(columns, rows)
        if hasattr(self, "plane"):
            plane = Image.new("RGBA", (columns * CELL[0], rows * CELL[1]))
            plane.paste(self.plane, (0, 0))
            self.plane = self._screen.plane = plane  # type: ignore[attr-defined]

    # -- input ---------------------------------------------------------------------------------------------------------

    def take(self, data: bytes) -> None:
        """Process the program's output: text for the cells, and graphics sequences."""
        data, self._pending = self._pending + data, b""
        if begun := _BEGUN.search(data):
            data, self._pending = data[: begun.start()], begun[0]
        at = 0
        for string in _STRING.finditer(data):
            self._text(data[at : string.start()])
            at = string.end()
            if (kitty := string["kitty"]) is not None:
                self._kitty(kitty)
            elif (inline := string["inline"]) is not None:
                self._inline(inline)
            else:
                self._sixel(string["sixel"])
        self._text(data[at:])

    def _text(self, data: bytes) -> None:
        for asked in _ASKED.findall(data):
            self._answer(asked)
        for part in re.split(rb"(?=\x1b\[\?1049[hl])", _ASKED.sub(b"", data)):
            if part.startswith(b"\x1b[?1049"):  # the other screen, which is empty
                self._screen.erase_in_display(2)
            super().take(part)

    def _answer(self, asked: bytes) -> None:
        self.asked += 1
        told = {
            b"\x1b_G": "\x1b_Gi=31;OK\x1b\\",
            b"\x1b[>q": f"\x1bP>|{_NAMES.get(self.kind, 'XTerm(390)')}\x1b\\",
            b"\x1b[16t": "" if self.kind == SIXEL else f"\x1b[6;{CELL[1]};{CELL[0]}t",  # as xterm keeps it to itself
            b"\x1b[c": "\x1b[?62;4;22c" if self.kind == SIXEL else "\x1b[?62;22c",
        }
        if answer := self.answers.get(asked, told[asked]):
            self.write(answer)

    # -- kitty ---------------------------------------------------------------------------------------------------------

    def _kitty(self, string: bytes) -> None:
        head, _, payload = string.decode("ascii").partition(";")
        told = dict(pair.split("=", 1) for pair in head.split(","))
        if self.kind != KITTY:
            return
        if told.get("a") == "q":
            assert told["i"] == "31"
            self._answer(b"\x1b_G")
        elif told.get("a") == "d":
            assert told["d"] == "I"
            self.pictures.pop(int(told["i"]), None)
        else:
            assert len(payload) <= 4096
            assert told["q"] == "2", "nothing is to be answered"
            self.sent_bytes += len(payload)
            arriving = self._arriving = self._arriving or Arriving(told)
            arriving.data += payload.encode()
            if told["m"] == "0":
                self._arriving = None
                self._keep(arriving)

    def _keep(self, arriving: Arriving) -> None:
        told, number = arriving.told, int(arriving.told["i"])
        assert (told["a"], told["U"], told["f"], told["o"]) == ("T", "1", "24", "z")
        size = int(told["s"]), int(told["v"])
        image = Image.frombytes("RGB", size, zlib.decompress(base64.b64decode(arriving.data)))
        self.pictures[number] = Kept(image, int(told["c"]), int(told["r"]))
        self.sent.append(number)
        assert len(self.pictures) <= 2, "old pictures are taken away"

    # -- sixel ---------------------------------------------------------------------------------------------------------

    def _sixel(self, string: bytes) -> None:
        if self.kind != SIXEL:
            return
        image = decoded_sixels(string.decode("ascii"))
        self.drawn += 1
        self.sent_bytes += len(string)
        x, y = self._screen.cursor.x * CELL[0], self._screen.cursor.y * CELL[1]
        assert max(image.size) <= LARGEST_SIXEL, "xterm draws none that is larger"
        assert y + image.height < self.plane.height, "a sixel in the last row scrolls the screen"
        self.plane.paste(image, (x, y))

    # -- inline images -------------------------------------------------------------------------------------------------

    def _inline(self, string: bytes) -> None:
        head, _, payload = string.decode("ascii").partition(":")
        told = dict(pair.split("=", 1) for pair in head.split(";"))
        assert (told["inline"], told["preserveAspectRatio"], told["doNotMoveCursor"]) == ("1", "0", "1")
        if self.kind != ITERM2:
            return
        size = int(told["width"]) * CELL[0], int(told["height"]) * CELL[1]
        image = Image.open(io.BytesIO(base64.b64decode(payload))).convert("RGB").resize(size)
        self.drawn += 1
        self.sent_bytes += len(payload)
        self.plane.paste(image, (self._screen.cursor.x * CELL[0], self._screen.cursor.y * CELL[1]))

    # -- visible pictures ----------------------------------------------------------------------------------------------

    def seen(self) -> tuple[Image.Image, set[tuple[int, int]]]:
        """The pixels of all pictures on the screen, in the size of their cells, and the cells that have one."""
        if self.kind != KITTY:
            cells = {
                (x, y)
                for y in range(self._screen.lines)
                for x in range(self._screen.columns)
                if self.plane.getpixel((x * CELL[0], y * CELL[1]))[3]  # type: ignore[index]
            }
            return self.plane.convert("RGB"), cells
        plane = Image.new("RGB", (self._screen.columns * CELL[0], self._screen.lines * CELL[1]))
        found = set()
        scaled: dict[int, Image.Image] = {}
        for y in range(self._screen.lines):
            for x in range(self._screen.columns):
                cell = self._screen.buffer[y][x]
                if not cell.data.startswith(PLACEHOLDER) or len(cell.data) != 4:  # whose marks have yet to be read
                    continue
                row, column, high = (MARKS.index(mark) for mark in cell.data[1:])
                number = high << 24 | (FG_BG_256.index(cell.fg, 16) if self.has_256_colours else int(cell.fg, 16))
                if self.is_late and number not in self.pictures:
                    continue
                assert number in self.pictures, "a cell shows a picture that is gone"
                kept = self.pictures[number]
                if number not in scaled:
                    scaled[number] = kept.image.resize((kept.columns * CELL[0], kept.rows * CELL[1]))
                box = (column * CELL[0], row * CELL[1], (column + 1) * CELL[0], (row + 1) * CELL[1])
                plane.paste(scaled[number].crop(box), (x * CELL[0], y * CELL[1]))
                found.add((x, y))
        return plane, found

    def picture(self) -> Image.Image | None:
        """The visible picture, cropped to its bounding box; None if there is none."""
        plane, cells = self.seen()
        if not cells:
            return None
        left, top = min(x for x, _ in cells), min(y for _, y in cells)
        right, bottom = max(x for x, _ in cells) + 1, max(y for _, y in cells) + 1
        return plane.crop((left * CELL[0], top * CELL[1], right * CELL[0], bottom * CELL[1]))

    @property
    def erased(self) -> int:
        """How many cells took their pixels of a sixel away, since the terminal began."""
        return self._screen.erased  # type: ignore[attr-defined, no-any-return]

    @property
    def holes(self) -> int:
        """Cells within the box around the picture that do not show it."""
        _, cells = self.seen()
        if not cells:
            return 0
        wide = max(x for x, _ in cells) - min(x for x, _ in cells) + 1
        high = max(y for _, y in cells) - min(y for _, y in cells) + 1
        return wide * high - len(cells)


class TerminalWithTmux(GraphicTerminal):
    """The same terminal, in which tmux runs the program."""

    has_256_colours = is_late = True

    def __init__(self, program: Handloom, *arguments: str, options: str, kind: str = KITTY, **environ: str) -> None:
        """`options` are lines of tmux's configuration."""
        configuration = program.workspace.parent / "tmux.conf"
        configuration.write_text(f"set -g status off\nset -g escape-time 0\n{options}\n")
        socket = f"handloom-{uuid.uuid4().hex[:8]}"
        self._tmux = ("tmux", "-L", socket, "-f", str(configuration))
        # tmux writes what the program wrote last only if it lives on itself.
        self.command = (
            *self._tmux,
            "new-session",
            "sh",
            "-c",
            '"$@"; status=$?; sleep 1; exit $status',
            "sh",
            *HANDLOOM,
        )
        super().__init__(program, *arguments, kind=kind, **{"LANG": "C.UTF-8", **environ})

    def close(self) -> None:
        """End tmux and the program in it."""
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False, timeout=20)
        super().close()


def decoded_sixels(string: str) -> Image.Image:
    """The picture of a sixel string without its start and end; undrawn pixels are transparent."""
    _, _, body = string.partition("q")
    size = re.match(r'"1;1;(\d+);(\d+)', body)
    assert size, "the size is told"
    image = Image.new("RGBA", (int(size[1]), int(size[2])))
    pixels = image.load()
    assert pixels is not None
    colours: dict[int, tuple[int, int, int, int]] = {}
    colour, x, y = (0, 0, 0, 255), 0, 0
    for token in re.finditer(r"#(\d+)(?:;2;(\d+);(\d+);(\d+))?|!(\d+)([?-~])|([?-~])|([$-])", body[size.end() :]):
        number, red, green, blue, count, many, one, move = token.groups()
        if number is not None:
            if red is not None:
                colours[int(number)] = (
                    round(int(red) * 2.55),
                    round(int(green) * 2.55),
                    round(int(blue) * 2.55),
                    255,
                )
            colour = colours[int(number)]
        elif move is not None:
            x, y = 0, y + 6 * (move == "-")
        else:
            bits = ord(many or one) - 63
            for at in range(x, x + int(count or 1)):
                for row in range(6):
                    if bits >> row & 1:
                        pixels[at, y + row] = colour
            x += int(count or 1)
    return image
