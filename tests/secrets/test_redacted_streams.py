"""A secret is redacted in every encoding, and at every cut of a stream."""

from __future__ import annotations

import base64
import json
import random
from urllib.parse import quote, quote_plus

import pytest

from core.secrets import PLACEHOLDER, Redactor
from core.secrets.redactor import SHOWN, StreamRedactor

SECRET = "tk/Qv7+Zr9?x Lm2&Pw"
PEM = "-----BEGIN KEY-----\nMIIBVwIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END KEY-----\n"

ENCODED = {
    "raw": SECRET,
    "json": json.dumps(SECRET),
    "hex": SECRET.encode().hex(),
    "HEX": SECRET.encode().hex().upper(),
    "hex with blanks": SECRET.encode().hex(" "),
    "HEX with blanks": SECRET.encode().hex(" ").upper(),
    "hex with colons": SECRET.encode().hex(":"),
    "HEX with colons": SECRET.encode().hex(":").upper(),
    "escaped bytes": "".join(f"\\x{byte:02x}" for byte in SECRET.encode()),
    "ESCAPED bytes": "".join(f"\\x{byte:02X}" for byte in SECRET.encode()),
    "entities": "".join(f"&#{ord(letter)};" for letter in SECRET),
    "hex entities": "".join(f"&#x{ord(letter):x};" for letter in SECRET),
    "HEX entities": "".join(f"&#x{ord(letter):X};" for letter in SECRET),
    "url": quote(SECRET, safe=""),
    "url of a path": quote(SECRET),
    "form": quote_plus(SECRET),
    **{f"base64 after {n}": base64.b64encode(b"x" * n + SECRET.encode() + b"yz").decode() for n in range(4)},
    **{f"urlsafe after {n}": base64.urlsafe_b64encode(b"x" * n + SECRET.encode()).decode() for n in range(3)},
}


@pytest.mark.parametrize("written", ENCODED.values(), ids=ENCODED)
def test_secret_is_redacted_in_every_common_encoding(written: str) -> None:
    redacted = Redactor([SECRET]).redact_text(f"before {written} after")
    assert PLACEHOLDER in redacted
    assert len(redacted.replace(PLACEHOLDER, "").removeprefix("before ").removesuffix(" after")) <= 8
    assert redacted.startswith("before ")
    assert redacted.endswith(" after")


@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("secret", ["ghp_7fQz81LmPw", SECRET], ids=["shortest", "with blanks"])
def test_value_with_one_line_end_is_redacted_at_every_cut(secret: str, line_end: str) -> None:
    redactor = Redactor([secret])
    for broken_at in range(1, len(secret)):
        text = f" in: {secret[:broken_at]}{line_end}{secret[broken_at:]} and more\n"
        assert redactor.redact_text(text) == f" in: {PLACEHOLDER} and more\n"
        whole, size = text.encode(), len(secret) + len(line_end)
        for cut in range(len(whole) + 1):
            stream = StreamRedactor(redactor)
            shown = stream.feed(whole[:cut]) + stream.feed(whole[cut:]) + stream.flush()
            assert shown[5 : 5 + size].count(b"*") >= size - SHOWN - len(line_end), (broken_at, cut, shown)


def test_value_with_two_line_ends_is_not_redacted() -> None:
    for text in (f"{SECRET[:9]}\n\n{SECRET[9:]}", f"{SECRET[:9]}\n {SECRET[9:]}", f"{SECRET[:9]}\n{SECRET[10:]}"):
        assert Redactor([SECRET]).redact_text(text) == text


def test_each_line_of_a_key_is_redacted() -> None:
    printed = PEM.replace("\n", "\r\n  ")
    redacted = Redactor([PEM]).redact_text(printed)
    assert "MIIB" not in redacted
    assert "hkiG" not in redacted
    assert "-----BEGIN KEY-----" in redacted


def test_overlapping_secrets_are_one_span() -> None:
    assert Redactor(["abcdefgh-ijk", "gh-ijklmnop"]).redact_text("<abcdefgh-ijklmnop>") == f"<{PLACEHOLDER}>"


def test_redactor_can_learn_more_secrets() -> None:
    redactor = Redactor()
    assert redactor.redact_text(SECRET) == SECRET
    redactor.add([SECRET])
    assert redactor.redact_text(SECRET) == PLACEHOLDER


def test_secret_in_a_stream_is_redacted_at_every_cut() -> None:
    redactor = Redactor([SECRET, "another-secret"])
    whole = f"one {SECRET} two {SECRET}{SECRET} tk/Qv another-secreT another-secret".encode()
    expected = redactor.redact_bytes(whole)
    for cut in range(len(whole) + 1):
        stream = StreamRedactor(redactor)
        shown = stream.feed(whole[:cut]) + stream.feed(whole[cut:]) + stream.flush()
        assert len(shown) == len(whole)
        different = [place for place in range(len(whole)) if shown[place] != expected[place]]
        assert len(different) <= SHOWN  # the first bytes of the split one
        assert SECRET.encode()[: SHOWN + 1] not in shown.replace(b"tk/Qv another", b"")


def test_random_pieces_of_a_secret_show_only_first_letters(seed: int) -> None:
    chosen = random.Random(seed)  # no secret results from it
    secrets = [chosen.randbytes(chosen.randint(5, 40)).hex() for _ in range(20)]
    redactor = Redactor(secrets)
    for _ in range(200):
        text = b"".join(
            chosen.choice([chosen.choice(secrets).encode(), chosen.randbytes(chosen.randint(0, 30)).hex().encode()])
            for _ in range(12)
        )
        stream, shown, place = StreamRedactor(redactor), b"", 0
        while place < len(text):
            size = chosen.randint(1, 25)
            shown += stream.feed(text[place : place + size])
            place += size
        shown += stream.flush()
        assert len(shown) == len(text)
        assert not any(secret.encode()[SHOWN:] in shown for secret in secrets)


def test_three_bytes_are_shown_at_once_and_four_held_back() -> None:
    stream = StreamRedactor(Redactor([SECRET]))
    assert stream.feed(b"Continue? t") == b"Continue? t"
    assert stream.feed(b"k/Qv7+") == b""
    assert stream.feed(b"!") == b"k/Qv7+!"


def test_longer_of_two_secrets_is_redacted_to_its_end() -> None:
    stream = StreamRedactor(Redactor(["password", "password-extended"]))
    assert stream.feed(b"password") + stream.feed(b"-extended") + stream.flush() == b"*" * 17
