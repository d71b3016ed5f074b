"""Untrusted JSON is read without loss, or refused with where and why."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.import_export.bounded_json import MAX_DEPTH, MAX_FILE_PARTS, MAX_KEYS, Fault, parse, values
from tests.yardstick import costs_at_most

LOOPS = 600
"""Time limit of a refusal in seconds. One second is usual, and a quadratic algorithm takes hours."""


def read(text: str | bytes) -> list[Any]:
    return list(values(text.encode() if isinstance(text, str) else text))


OBJECTS = [{"a": [1, -2.5, "x\u00e9\U0001f986", None, True]}, {"b": {}}]


class TestAccepted:
    @pytest.mark.parametrize(
        "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"]
    )
    def test_every_json_encoding_is_read_with_and_without_bom(self, encoding: str) -> None:
        assert read(json.dumps(OBJECTS, ensure_ascii=False).encode(encoding)) == OBJECTS

    @pytest.mark.parametrize("newline", ["\n", "\r\n", "\r", "\t \n"])
    def test_any_white_space_is_accepted(self, newline: str) -> None:
        assert read(f"{newline}[{newline}{{}}{newline},{newline}[]{newline}]{newline}") == [{}, []]

    def test_concatenated_values_are_read(self) -> None:
        assert read("".join(json.dumps(each, indent=2) + "\n" for each in OBJECTS)) == OBJECTS

    def test_response_of_the_openhands_server_is_read(self) -> None:
        assert read(json.dumps({"trajectory": OBJECTS})) == OBJECTS

    @pytest.mark.parametrize("text", ['{"a": "[{]}\\\\"}', '{"a": "\\"]"}', '{"]": "\\u005d"}'])
    def test_brackets_in_strings_are_text(self, text: str) -> None:
        assert read(f"[{text}]") == [json.loads(text)]

    def test_numbers_and_lone_surrogates_are_kept(self) -> None:
        value = {"a": [2**64, -(10**299), 1e308, "\ud800"]}
        assert read(json.dumps(value)) == [value]

    def test_deepest_allowed_nesting_is_read(self) -> None:
        text = '{"a":' * MAX_DEPTH + "1" + "}" * MAX_DEPTH
        assert read(text) == [json.loads(text)]

    def test_empty_input_has_no_value(self) -> None:
        assert read("[]") == []


REFUSED: dict[str, tuple[str | bytes, str]] = {
    "nothing": ("", "empty"),
    "a text": ('"text"', "should begin here"),
    "not a number": ('[{"a": NaN}]', "NaN is not a JSON number"),
    "infinity": ('[{"a": -Infinity}]', "-Infinity is not a JSON number"),
    "a number beyond all": ('[{"a": 1e999}]', "is too large"),
    "5,000 digits": ('[{"a": %s}]' % ("9" * 5000), "5,000 digits"),
    "a key twice": ('[{"a": 1, "a": 2}]', "'a' appears twice"),
    "a key twice, by another name": ('[{"a": 1, "\\u0061": 2}]', "'a' appears twice"),
    "half of a pair in a key": ('[{"\\ud800": 1}]', "half of a surrogate pair"),
    "depth of 65": ('{"a":' * 65 + "1" + "}" * 65, "64 levels deep"),
    "depth of 100,000": ("[" * 100_000 + "]" * 100_000, "64 levels deep"),
    "cut off within a list": ('[{"a": 1},', "cut off"),
    "cut off within a value": ('[{"a": {"b"', "cut off"),
    "cut off within a string": ('[{"a": "b', "cut off"),
    "cut off within an escape": ('[{"a": "b\\', "cut off"),
    "rubbish behind": ('[{"a": 1}] x', "follows after the end"),
    "a second list": ("[{}] [{}]", "follows after the end"),
    "no comma": ("[{} {}]", "a comma is missing"),
    "two commas": ("[{},,{}]", "should begin here"),
    "a comma at the end": ("[{},]", "should begin here"),
    "brackets that do not match": ('[{"a": [1}}]', "not JSON"),
    "a comment": ("[{} // x\n]", "a comma is missing"),
    "single quotes": ("[{'a': 1}]", "not JSON"),
    "a NUL": ('[{"a": "\0"}]', "not JSON"),
    "no UTF-8": (b'[{"a": "\xff"}]', "not UTF-8"),
    "half of a UTF-16 file": ('[{"a": 1}]'.encode("utf-16")[:-1], "not UTF-16"),
    "many keys": (json.dumps([{str(n): n for n in range(MAX_KEYS + 1)}]), "10,001 keys"),
}


class TestRefused:
    @pytest.mark.parametrize("name", REFUSED)
    def test_refusal_gives_the_reason(self, name: str) -> None:
        text, why = REFUSED[name]
        with pytest.raises(Fault, match=why) as caught:
            read(text)
        assert len(str(caught.value)) < 200
        assert str(caught.value).isprintable()

    @pytest.mark.parametrize("what", ["keys", "lists", "items"])
    def test_million_values_are_refused_quickly(self, what: str) -> None:
        many = {
            "keys": "{" + ",".join(f'"{n}":0' for n in range(1_000_000)) + "}",
            "lists": "[" + "[]," * 1_500_000 + "[]]",
            "items": '{"a":[' + "0," * 1_500_000 + "0]}",
        }[what].encode()
        text = b"[" + many + b"]"
        with costs_at_most(LOOPS), pytest.raises(Fault, match=r"keys|parts"):
            list(values(text))

    def test_unterminated_string_is_scanned_once(self) -> None:
        text = b'["' + b'\\",' * 5_000_000
        with costs_at_most(LOOPS), pytest.raises(Fault, match="cut off"):
            parse(text)

    def test_commas_in_strings_are_not_counted_as_values(self) -> None:
        value = {"a": ",[{" * 1_000_000}
        assert parse(json.dumps(value).encode()) == value

    @pytest.mark.parametrize(
        ("opening", "closing"), [('{"a":', "}"), ("[", "]"), ('[{"a":', "}]")], ids=["objects", "lists", "both"]
    )
    def test_nesting_limit_applies_to_a_single_value(self, opening: str, closing: str) -> None:
        levels = MAX_DEPTH // (opening.count("[") + opening.count("{"))
        deep = opening * levels + "1" + closing * levels
        assert parse(deep.encode()) == json.loads(deep)
        with pytest.raises(Fault, match="64 levels deep"):
            parse(f"[{deep}]".encode())
        assert parse(b"[" + b"{}," * 2 * MAX_DEPTH + b"[]]") == [{}] * 2 * MAX_DEPTH + [[]]

    def test_errors_have_a_position(self) -> None:
        with pytest.raises(Fault) as caught:
            read('[{},{"a": tru}]')
        assert caught.value.where == "value 2, at character 10"

    def test_file_with_too_many_values_is_refused_before_parsing(self) -> None:
        text = b"[" + b"[]," * (MAX_FILE_PARTS // 2) + b"[]]"
        with costs_at_most(LOOPS), pytest.raises(Fault, match="10,000,000 parts"):
            next(values(text))
