"""The pure parts of an extraction: the tree as text, cut to size, and the picture with marks."""

from __future__ import annotations

import io
from typing import Any

import pytest
from PIL import Image

from runtime.plugins.browser import axtree, page_layout, page_observation

Node = dict[str, Any]


def node(name: str, *children: str, role: str = "generic", bid: str | None = None, text: str = "", **more: Any) -> Node:
    made = {"nodeId": name, "role": {"value": role}, "name": {"value": text}, "childIds": list(children), **more}
    return made if bid is None else {**made, "browsergym_id": bid}


def known(visibility: float = 1.0, **more: Any) -> dict[str, Any]:
    return {"visibility": visibility, "bbox": [10, 20, 30, 40], "clickable": False, "set_of_marks": False, **more}


def test_tree_text_has_bids_values_and_properties() -> None:
    properties = [
        {"name": "required", "value": {"value": True}},
        {"name": "focused", "value": {"value": False}},
        {"name": "checked", "value": {"value": "true"}},
        {"name": "focusable", "value": {"value": True}},
        {"name": "busy", "value": {}},
    ]
    field = node("2", role="textbox", bid="4", text=" Na'me ", value={"value": "v"}, properties=properties)
    tree = {"nodes": [node("1", "2", role="RootWebArea", text="T"), field]}
    text = axtree.flatten(tree, {"4": known(clickable=True)})
    assert text == "RootWebArea 'T'\n\t[4] textbox \"Na'me\" value='v', clickable, required, checked='true'"


def test_nameless_nodes_are_skipped_but_not_their_children() -> None:
    silent = node("2", "3", role="none")
    del silent["name"]
    tree = {"nodes": [node("1", "2", "4", text="r"), silent, node("3", text="in"), node("4", role="LineBreak")]}
    assert axtree.flatten(tree, {}) == "generic 'r'\n\tgeneric 'in'"


def test_redundant_text_is_left_out() -> None:
    tree = {"nodes": [node("1", "2", role="button", text="Go on"), node("2", role="StaticText", text="Go")]}
    assert axtree.flatten(tree, {}) == "button 'Go on'"


def test_circular_tree_ends() -> None:
    assert (
        axtree.flatten({"nodes": [node("1", "2", text="a"), node("2", "1", text="b")]}, {})
        == "generic 'a'\n\tgeneric 'b'"
    )


def test_empty_tree_gives_empty_text() -> None:
    assert axtree.flatten({"nodes": []}, {}) == ""


def test_tree_is_truncated_in_reading_order() -> None:
    nodes = [node("1", "2", "4"), node("4"), node("2", "3"), node("3")]
    kept = axtree.cut(nodes, 3)
    assert [one["nodeId"] for one in kept] == ["1", "2", "3"]
    assert kept[0]["childIds"] == ["2"]


@pytest.mark.parametrize(
    ("frame", "bids"), [("", ("12", "a", "aB")), ("a", ("a12", "aa", "aaC")), ("aB", ("aB0", "aBz"))]
)
def test_bid_belongs_to_its_frame(frame: str, bids: tuple[str, ...]) -> None:
    assert [bid for bid in bids if not page_layout.belongs(bid, frame)] == []


@pytest.mark.parametrize(("frame", "bids"), [("", ("a12", "", "1x", "A", "١")), ("a", ("12", "b1", "aB", "a", "a1a"))])
def test_bid_does_not_belong_to_another_frame(frame: str, bids: tuple[str, ...]) -> None:
    assert [bid for bid in bids if page_layout.belongs(bid, frame)] == []


def picture() -> bytes:
    output = io.BytesIO()
    Image.new("RGB", (100, 100), "green").save(output, format="PNG")
    return output.getvalue()


def colours(png: bytes) -> set[Any]:
    return {colour for _, colour in Image.open(io.BytesIO(png)).convert("RGB").getcolors(10_000) or ()}


def test_marks_are_drawn_on_large_enough_marked_elements() -> None:
    green = (0, 128, 0)
    assert {green, (0, 0, 0), (255, 255, 255)} <= colours(
        page_observation.draw_marks(picture(), {"7": known(set_of_marks=True)})
    )
    without = {
        "1": known(),
        "2": known(set_of_marks=True, bbox=None),
        "3": known(set_of_marks=True, bbox=[1, 1, 4, 4.9]),
        "4": known(set_of_marks=True, bbox=[500, 500, 40, 40]),
    }
    assert colours(page_observation.draw_marks(picture(), without)) == {green}


def test_invalid_image_raises() -> None:
    with pytest.raises(OSError, match="cannot identify"):
        page_observation.draw_marks(b"no picture", {})
