"""A known value is redacted as real programs print it: dumped, wrapped, coloured and quoted.

A dump is compared with that of another value of the same length: what differs shows the value, and must be covered.
"""

from __future__ import annotations

import base64
import html
import json
import os
import random
import shlex
import shutil
import subprocess
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest

from core.events import to_json
from core.secrets import PLACEHOLDER, Redactor
from core.secrets.redactor import SHOWN, StreamRedactor

VALUE = "tk-5fQz81LmPw0xVbN3cRj7Ha2Ye"
OTHER = "AB_CDEFGHIJKLMNOPQRSTUVWXYZq"
ODD = "pa$$'w0 rd\"x\\y`z!{a,b}~#&<é>%+/=?"
PEM = "-----BEGIN KEY-----\nMIIBVwIBADANBgkqw7Tq\nhkiG9w0BAQEFAASCpQzx\n-----END KEY-----\n"
DUMPS = [
    *(["xxd"], ["xxd", "-u"], ["xxd", "-g1"], ["xxd", "-g4"], ["xxd", "-e"], ["xxd", "-b"], ["xxd", "-c8"]),
    *(["od"], ["od", "-c"], ["od", "-x"], ["od", "-b"], ["od", "-An", "-c"], ["od", "-An", "-tx1"], ["od", "-tu1"]),
    *(["od", "-A", "x", "-t", "x1z"], ["od", "-A", "d", "-t", "d1"], ["od", "-t", "x4"], ["od", "-t", "x1c"]),
    *(["hexdump"], ["hexdump", "-C"], ["hexdump", "-c"], ["hexdump", "-b"], ["hexdump", "-x"]),
]
WRAPPED = [
    *(["base64"], ["base64", "-w64"], ["base64", "-w0"], ["base32"], ["base32", "-w64"], ["xxd", "-p"]),
    *(["xxd", "-p", "-c20"], ["openssl", "base64"], ["basenc", "--base64url"]),
]
BEFORE, AFTER = "line before: ", "\nsome text after it that has nothing in it\n"


def printed(command: list[str], text: str) -> bytes:
    """The output of a program for a text; the test is skipped if it is not installed."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout


def covered(redacted: bytes, shown: bytes, others: bytes, border: int) -> bool:
    """Whether every byte that depends on the value is a star, but for so many at each border."""
    assert len(redacted) == len(shown) == len(others)
    differ = [place for place in range(len(shown)) if shown[place] != others[place]]
    assert differ
    bare = [place for place in differ if redacted[place] != ord("*")]
    return len([place for place in bare if place not in (*differ[:border], *differ[len(differ) - border :])]) == 0


@pytest.mark.parametrize("offset", range(17))
@pytest.mark.parametrize("command", DUMPS, ids=" ".join)
def test_dump_is_redacted_at_every_offset(command: list[str], offset: int) -> None:
    around = "x" * 32 + "y" * offset
    shown, others = (printed(command, around + value + "z" * 20) for value in (VALUE, OTHER))
    for end in (b"\n", b"\r\n"):
        shown_so, others_so = (b"$ dump\n" + text.replace(b"\n", end) + b"$ " for text in (shown, others))
        redacted = Redactor([VALUE]).redact_bytes(shown_so)
        assert covered(redacted, shown_so, others_so, 0), redacted.decode()
        assert redacted.startswith(shown_so[:40])


@pytest.mark.parametrize("command", DUMPS, ids=" ".join)
def test_dump_of_the_value_alone_is_redacted(command: list[str]) -> None:
    shown, others = (printed(command, value) for value in (VALUE, OTHER))
    assert covered(Redactor([VALUE]).redact_bytes(shown), shown, others, 0)
    assert PLACEHOLDER in Redactor([VALUE]).redact_text(shown.decode())


@pytest.mark.parametrize("offset", range(60, 80))
@pytest.mark.parametrize("command", WRAPPED, ids=" ".join)
def test_wrapped_lines_are_redacted_at_every_offset(command: list[str], offset: int) -> None:
    shown, others = (printed(command, "x" * offset + value + "z" * 50) for value in (VALUE, OTHER))
    for end in (b"\n", b"\r\n"):
        shown_so, others_so = (b"$ code\n" + text.replace(b"\n", end) for text in (shown, others))
        redacted = Redactor([VALUE]).redact_bytes(shown_so)
        assert covered(redacted, shown_so, others_so, 2), redacted.decode()


@pytest.mark.parametrize("offset", range(60, 80))
def test_line_that_sed_continues_is_redacted_at_every_offset(offset: int) -> None:
    shown, others = (printed(["sed", "-n", "l"], "x" * offset + value + "z" * 50) for value in (VALUE, OTHER))
    assert covered(Redactor([VALUE]).redact_bytes(b"$ l\n" + shown), b"$ l\n" + shown, b"$ l\n" + others, 0)
    for cut in range(len(shown)):
        stream = StreamRedactor(Redactor([VALUE]))
        assert covered(stream.feed(shown[:cut]) + stream.feed(shown[cut:]) + stream.flush(), shown, others, SHOWN), cut


def test_coloured_letters_are_redacted_and_colours_stay() -> None:
    shown = "".join(f"\x1b[1;3{number % 8}m{letter}\x1b[0m" for number, letter in enumerate(VALUE))
    redacted = Redactor([VALUE]).redact_bytes(f"a {shown} b".encode()).decode()
    assert redacted == "a " + "".join(f"\x1b[1;3{number % 8}m*\x1b[0m" for number in range(len(VALUE))) + " b"
    assert Redactor([VALUE]).redact_text(f"a {shown} b") == f"a \x1b[1;30m{PLACEHOLDER}\x1b[0m b"


@pytest.mark.parametrize(
    "code", ["\x1b[K", "\x1b]0;title\x07", "\x1b]8;;x:y\x1b\\", "\x1b(B\x1b[m", "\x0f", "\x1b7", "\x1b[?25l"]
)
def test_value_with_escape_codes_is_redacted(code: str) -> None:
    redacted = Redactor([VALUE]).redact_bytes(f"a {VALUE[:9]}{code}{VALUE[9:]} b".encode()).decode()
    assert redacted == f"a {'*' * 9}{code}{'*' * (len(VALUE) - 9)} b"


def test_value_after_an_incomplete_code_is_redacted() -> None:
    for text in (f"\x1b[{VALUE}", f"\x1b]0;{VALUE}\x07", f"\x1b]{VALUE}"):
        assert VALUE[3:] not in Redactor([VALUE]).redact_text(text)


def test_coloured_dumps_and_wrapped_lines_are_redacted() -> None:
    for command in (["od", "-A", "x", "-t", "x1z"], ["base64", "-w20"]):
        plain, others = (printed(command, value) for value in (VALUE, OTHER))
        shown, other = (text.replace(b" ", b" \x1b[32m").replace(b"\n", b"\x1b[0m\n") for text in (plain, others))
        assert covered(Redactor([VALUE]).redact_bytes(shown), shown, other, 2)


def bash(script: str, value: str) -> str:
    environ = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["bash", "-c", script, "bash", value], capture_output=True, check=True, env=environ)
    return (done.stdout + done.stderr).decode()


QUOTED: dict[str, Callable[[str], str]] = {
    "set -x": lambda value: bash('set -x; : "$1"', value),
    "set -x of an assignment": lambda value: bash("set -x; X=$1", value),
    "printf %q": lambda value: bash('printf %q "$1"', value),
    "${x@Q}": lambda value: bash('printf %s "${1@Q}"', value),
    "declare -p": lambda value: bash("X=$1; declare -p X", value),
    "export -p": lambda value: bash("export X=$1; export -p | grep X=", value.replace("\n", " ")),
    "repr": repr,
    "repr of two": lambda value: repr((value, value + "'\"")),
    "repr of bytes": lambda value: repr(value.encode()),
    "shlex": shlex.quote,
    "html": html.escape,
    "html without quotes": lambda value: html.escape(value, quote=False),
    "html with numbers": lambda value: html.escape(value).replace("&#x27;", "&#39;"),
    "url": lambda value: quote(value, safe=""),
    "path of a url": quote,
    "form": quote_plus,
    "encodeURIComponent": lambda value: quote(value, safe="!'()*"),
    "json": json.dumps,
    "json as it is": lambda value: json.dumps(value, ensure_ascii=False),
    "json in json": lambda value: json.dumps(json.dumps({"a": value})),
    "json in json in json": lambda value: json.dumps(json.dumps(json.dumps([value]))),
    "json with slashes": lambda value: json.dumps(value).replace("/", "\\/"),
    "sed -n l": lambda value: bash('printf %s "$1" | LC_ALL=C sed -n "l 0"', value),
    "cat -v": lambda value: bash('printf %s "$1" | cat -v', value),
    "sql": lambda value: value.replace("'", "''"),
    "base32": lambda value: base64.b32encode(b"user:" + value.encode()).decode(),
}
VALUES = {
    "odd": ODD,
    "plain": VALUE,
    "spaces": " two words\tand 'more' ",
    "tilde": "~home:~x=~#y",
    "lines": "a'b$c d\n2nd 'line'",
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("write", QUOTED.values(), ids=QUOTED)
def test_quoted_value_is_redacted(write: Callable[[str], str], value: str) -> None:
    if write is QUOTED["export -p"]:
        value = value.replace("\n", " ")
    written = write(value)
    redacted = Redactor([value]).redact_text(written)
    left = redacted.replace(PLACEHOLDER, "")
    assert PLACEHOLDER in redacted
    assert len(left) <= len(write("")) + 12, redacted


@pytest.mark.parametrize("seed_of_values", range(5))
def test_random_values_quoted_by_bash_are_redacted(seed: int, seed_of_values: int) -> None:
    chosen = random.Random(seed + seed_of_values)  # no secret results from it
    values = ["".join(chosen.choices("ab1 '\"$\\`!#~&|;()<>{}[]*?^,=:%@\té", k=24)) for _ in range(40)]
    script = 'for x; do printf "%q\\n" "$x"; printf "%s\\n" "${x@Q}"; declare -p x; done'
    lines = (
        subprocess.run(
            ["bash", "-c", script, "bash", *values], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
        )
        .stdout.decode()
        .split("\n")
    )
    for number, value in enumerate(values):
        for line in lines[3 * number : 3 * number + 3]:
            assert len(Redactor([value]).redact_text(line).replace(PLACEHOLDER, "")) <= 20, (value, line)


def test_ordinary_tables_are_unchanged() -> None:
    redactor = Redactor([VALUE, ODD, PEM])
    for command in (["ls", "-lR", "/usr/lib/python3"], ["ls", "-1", "/usr/bin"], ["od", "-x", "/bin/sh", "-N4000"]):
        text = subprocess.run(command, capture_output=True, check=False).stdout
        assert redactor.redact_bytes(text) is text


def test_may_redact_json() -> None:
    redactor = Redactor([VALUE])
    coloured = f"{VALUE[:9]}\x1b[31m{VALUE[9:]}"
    dump = printed(["od", "-A", "x", "-t", "x1z"], VALUE).decode()
    assert redactor.may_redact(to_json({"a": [coloured]}))
    assert redactor.may_redact(to_json({"a": {"b": dump}}))
    assert not redactor.may_redact(to_json({"a": "\x1b[31mred\x1b[0m\nordinary"}))


STREAMED: dict[str, Callable[[str], bytes]] = {
    "colours": lambda value: "".join(f"\x1b[31m{letter}\x1b[0m" for letter in value).encode(),
    "od": lambda value: printed(["od", "-A", "x", "-t", "x1z"], "x" * 10 + value + "z" * 9),
    "od -c": lambda value: printed(["od", "-c"], "x" * 10 + value + "z" * 9),
    "base64": lambda value: printed(["base64", "-w30"], "x" * 60 + value + "z" * 30),
}


@pytest.mark.parametrize("write", STREAMED.values(), ids=STREAMED)
def test_layouts_in_a_stream_are_redacted_at_every_cut(write: Callable[[str], bytes]) -> None:
    redactor = Redactor([VALUE])
    whole, others = (b"$ run it\r\n" + write(value) + b"$ done\r\n" for value in (VALUE, OTHER))
    for cut in range(len(whole) + 1):
        stream = StreamRedactor(redactor)
        shown = stream.feed(whole[:cut]) + stream.feed(whole[cut:]) + stream.flush()
        assert covered(shown, whole, others, 4), (cut, shown)


@pytest.mark.parametrize("write", STREAMED.values(), ids=STREAMED)
def test_single_bytes_are_redacted_and_prompts_shown_at_once(
    write: Callable[[str], bytes],
) -> None:
    redactor = Redactor([VALUE])
    whole, others = (b"$ run it\r\n" + write(value) + b"Continue? [y/n] " for value in (VALUE, OTHER))
    stream = StreamRedactor(redactor)
    shown = b"".join(stream.feed(whole[place : place + 1]) for place in range(len(whole)))
    assert shown.endswith(b"Continue? [y/n] ")
    assert covered(shown, whole, others, 4)
