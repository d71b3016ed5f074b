"""Echoes: what the terminal repeats of what was typed for the agent is no output."""

from __future__ import annotations

import pytest

from runtime.server.echoes import Echoes, echo_of


@pytest.mark.parametrize(
    ("typed", "shown"),
    [(b"a\n", b"a\r\n"), (b"\x03", b"^C"), (b"\x7f", b"^?"), (b"a\tb", b"a\tb"), ("é".encode(), "é".encode())],
)
def test_is_as_a_terminal_shows_it(typed: bytes, shown: bytes) -> None:
    assert echo_of(typed) == shown


def test_is_taken_out_once_in_whatever_pieces_it_comes() -> None:
    for cut in range(1, 9):
        echoes = Echoes()
        echoes.expect(b"yes\n")
        said = b"ok?yes\r\nyes\r\n"
        assert echoes.feed(said[:cut]) + echoes.feed(said[cut:]) == b"ok?yes\r\n"


def test_one_that_never_comes_holds_nothing_up() -> None:
    echoes = Echoes()
    echoes.expect(b"lost\n")
    echoes.expect(b"b\n")
    assert echoes.feed(b"a b\r\nc") == b"a c"
    assert echoes.feed(b"lost\r\n") == b"lost\r\n"


def test_what_is_held_back_is_not_lost() -> None:
    echoes = Echoes()
    echoes.expect(b"yes\n")
    assert echoes.feed(b"say ye") == b"say "
    assert echoes.give_up() == b"ye"
