"""Echoes: what the terminal repeats of what was typed for the agent is no output."""

from __future__ import annotations

import pytest

from runtime.server.terminal import Echoes, echo_of


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        (b"a\n", b"a\r\n"),
        (b"\r", b"\r\n"),
        (b"\x03", b"^C"),
        (b"\0\x1f \x1b[A", b"^@^_ ^[[A"),
        (b"\x7f", b"^?"),
        (b"a\tb", b"a\tb"),
        ("é".encode(), "é".encode()),
    ],
)
def test_echo_is_what_a_terminal_shows(typed: bytes, shown: bytes) -> None:
    assert echo_of(typed) == shown


def test_echo_is_removed_once_however_it_is_split() -> None:
    for cut in range(1, 9):
        echoes = Echoes()
        echoes.expect(b"yes\n")
        said = b"ok?yes\r\nyes\r\n"
        assert echoes.feed(said[:cut]) + echoes.feed(said[cut:]) == b"ok?yes\r\n"


def test_missing_echo_does_not_hold_back_output() -> None:
    echoes = Echoes()
    echoes.expect(b"lost\n")
    echoes.expect(b"b\n")
    assert echoes.feed(b"a b\r\nc") == b"a c"
    assert echoes.feed(b"lost\r\n") == b"lost\r\n"


def test_held_back_output_is_not_lost() -> None:
    echoes = Echoes()
    echoes.expect(b"yes\n")
    assert echoes.feed(b"say ye") == b"say "
    assert echoes.clear() == b"ye"


def test_echoes_are_removed_in_order() -> None:
    echoes = Echoes()
    for typed in (b"1\n", b"2\n", b"1\n"):
        echoes.expect(typed)
    assert echoes.feed(b"1\r\none 2\r\ntwo 1\r\n1\r\n") == b"one two 1\r\n"
    assert echoes.feed(b"2\r\n1") == b"2\r\n1"


def test_output_that_only_starts_like_an_echo_is_passed_on() -> None:
    echoes = Echoes()
    echoes.expect(b"abc\n")
    said = [echoes.feed(piece) for piece in (b"x", b"xa", b"b", b"b", b"ab", b"abc\r", b"\n", b"a")]
    assert said == [b"x", b"x", b"", b"abb", b"", b"ab", b"", b"a"]


def test_longest_possible_start_of_an_echo_is_held_back() -> None:
    echoes = Echoes()
    echoes.expect(b"b\n")
    echoes.expect(b"aab\n")
    assert echoes.feed(b"aaab") == b"a"
    assert echoes.clear() == b"aab"
    assert echoes.clear() == b""
    assert echoes.feed(b"b\r\n") == b"b\r\n"


def test_at_most_eight_echoes_are_expected() -> None:
    echoes = Echoes()
    for number in range(1, 10):
        echoes.expect(b"%d\n" % number)
    assert echoes.feed(b"1\r\n") == b"1\r\n"
    assert echoes.feed(b"2\r\nrest") == b"rest"
