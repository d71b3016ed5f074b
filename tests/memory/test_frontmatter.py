"""Front matter is parsed if it is simple, and refused with its line otherwise."""

from __future__ import annotations

import time

import pytest

from core.memory.frontmatter import MAX_CHARS, FrontMatterError, parse


def test_names_values_and_lines_are_parsed() -> None:
    front = parse("---\nname: notes\nversion: 1.10\non: yes\ntriggers: [a, b, a]\ninputs:\n- name: x\n---\n\nBody.\n")
    about = {"name": "notes", "version": "1.10", "on": True, "triggers": ["a", "b", "a"], "inputs": [{"name": "x"}]}
    assert front.values == about
    assert front.texts("triggers") == ("a", "b")
    assert front.line("inputs") == 6
    assert front.body == "Body."


def test_file_without_frontmatter_is_all_body() -> None:
    front = parse("Just text.\n---\nand more")
    assert (front.values, front.body, front.is_there) == ({}, "Just text.\n---\nand more", False)


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("---\nname: x\n", 3, "no end"),
        ("---\na: 1\na: 2\n---\nx", 3, "twice"),
        ("---\na:\n  b: 1\n  b: 2\n---\nx", 4, "twice"),
        ("---\na: &x 1\nb: *x\n---\nx", 2, "anchors"),
        ("---\na: [&x [1], *x, *x]\n---\nx", 2, "anchors"),
        ("---\na: !!python/object/apply:os.system [id]\n---\nx", 2, "tags"),
        ("---\na: 1\nb: [\n---\nx", 3, "not YAML"),
        ("---\n- a\n---\nx", 2, "consists of lines"),
        ("---\na: " + "[" * 5000 + "\n---\nx", 2, "simpler"),
        ("---\na: [" + "1," * 3000 + "]\n---\nx", 2, "simpler"),
        ("---\na: " + "x" * MAX_CHARS + "\n---\nx", 1, "longer"),
        ("---\n? [a]\n: 1\n---\nx", 2, "a name"),
        ("---\na: \x01\n---\nx", 1, "not YAML"),
    ],
)
def test_error_has_its_line(text: str, line: int, why: str) -> None:
    began = time.thread_time()
    with pytest.raises(FrontMatterError, match=why) as told:
        parse(text)
    assert told.value.line == line
    assert time.thread_time() - began < 5


def test_alias_bomb_is_refused_before_it_expands() -> None:
    bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
    )
    with pytest.raises(FrontMatterError, match="anchors"):
        parse(f"---\n{bomb}---\nx")
