"""JSON of other agents: files of which only the first bytes are read, and numbers that JSON does not have."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

import pytest

from core.import_export.agents.files import beginning, dollars, parse, path_id

VALUE = {"a": [1, {"b": 'x\\"y\u1234\n', "c": None}], "d": {"e": [[], {}], "f": -1.5e3, "g": True}, "h": "end"}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("is_ascii", [True, False])
def test_every_beginning_of_an_object_is_an_object(indent: int | None, is_ascii: bool) -> None:
    data = json.dumps(VALUE, indent=indent, ensure_ascii=is_ascii).encode()
    for size in range(1, len(data)):
        assert isinstance(beginning(io.BytesIO(data), size), dict), data[:size]
    assert beginning(io.BytesIO(data)) == VALUE


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'{"a": "long te', {"a": "long te"}),
        (b'{"a": "x\\', {"a": "x"}),
        (b'{"a": "x\\\\', {"a": "x\\"}),
        (b'{"a": "x\\u12', {"a": "x"}),
        (b'{"a": 1, "b', {"a": 1}),
        (b'{"a": 1, "b": tr', {"a": 1}),
        (b'{"a": 1, "b": 2', {"a": 1}),
        (b'{"a": [1, 2], "b": [{"c": 3}, {', {"a": [1, 2], "b": [{"c": 3}, {}]}),
        (b"[1, 2]}", [1, 2]),
        (b"", None),
        (b"}", None),
        (b"# Markdown", None),
        (b"[" * 65536, None),
    ],
)
def test_what_is_cut_off_is_closed(data: bytes, value: object) -> None:
    assert beginning(io.BytesIO(data)) == value


def test_no_bytes_raise_an_exception(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(2000):
        beginning(io.BytesIO(bytes(chance.choice(b'{}[],:"\\au1 \xff') for _ in range(chance.randrange(40)))))


def test_a_path_id_has_the_name_of_the_file_and_differs_by_folder() -> None:
    first, second = path_id(Path("/a/run.traj.json")), path_id(Path("/b/run.traj.json"))
    assert first.startswith("run-")
    assert second.startswith("run-")
    assert first != second
    assert path_id(Path("/a/project/.history.md")).startswith("project-")


def test_numbers_that_json_does_not_have_are_none() -> None:
    assert parse(b'{"a": NaN, "b": [Infinity, -Infinity, 1e999], "c": 1.5}') == {"a": None, "b": [None] * 3, "c": 1.5}


@pytest.mark.parametrize(
    ("value", "cost"),
    [(0.25, 0.25), (3, 3.0), (0, 0.0), (-1, None), (True, None), ("1", None), (float("nan"), None), (10**400, None)],
)
def test_a_cost_is_a_number_that_is_not_negative(value: object, cost: float | None) -> None:
    assert dollars({"cost": value}, "cost") == cost
    assert dollars([value], "cost") is None
