"""The accessibility tree: assign bids, merge frames, truncate, and format as text.

Pure functions of the answers of `Accessibility.getFullAXTree`. The text and its options are those of BrowserGym's
`flatten_axtree_to_str`, because agents are tuned to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Node = dict[str, Any]
Properties = Mapping[str, Mapping[str, Any]]
"""`extra_element_properties`: visibility, bbox, clickable and set_of_marks by bid."""

MOST_NODES = 5_000
"""More than any model reads, and few enough to send and to store."""
VISIBLE = 0.5
"""The visibility from which an element counts as visible."""

_OMITTED = frozenset({"editable", "readonly", "level", "settable", "multiline", "invalid", "focusable"})
"""Properties that the text omits."""
_FLAGS = frozenset({"required", "focused", "atomic"})
"""Properties that the text names without a value, if they are true."""


def name_bids(nodes: list[Node], bids: Mapping[int, str], mark: str) -> None:
    """Set `browsergym_id` of each node by the backend id of its element, and remove the mark from the description.

    The parts of a date field have the description of the field and get its bid.
    """
    by_id = {node["nodeId"]: node for node in nodes}
    for node in nodes:
        bid = bids.get(node.get("backendDOMNodeId", -1))
        if node.get("description", {}).get("value") == mark:
            del node["description"]
            above = node
            while bid is None and (parent := by_id.get(above.get("parentId", ""))):
                above = parent
                bid = bids.get(above.get("backendDOMNodeId", -1))
        if bid is not None:
            node["browsergym_id"] = bid


def merge(trees: Mapping[str, list[Node]], holders: Mapping[int, str]) -> list[Node]:
    """Merge the trees of all frames: a frame's root becomes a child of the element that holds the frame.

    `trees` are the nodes by frame id, the main frame first; `holders` maps the backend id of an element to the id of
    the frame that it holds.
    """
    merged: list[Node] = []
    for nodes in trees.values():
        merged += nodes
        for node in nodes:
            frame = holders.get(node.get("backendDOMNodeId", -1), "")
            if node["role"]["value"] == "Iframe" and trees.get(frame):
                node["childIds"].append(trees[frame][0]["nodeId"])
    return merged


def cut(nodes: list[Node], most: int = MOST_NODES) -> list[Node]:
    """Return the first `most` nodes in reading order, without references to the others in `childIds`."""
    if len(nodes) <= most:
        return nodes
    by_id = {node["nodeId"]: node for node in nodes}
    kept: dict[str, Node] = {}
    waiting = [nodes[0]["nodeId"]]
    while waiting and len(kept) < most:
        node = by_id.get(waiting.pop())
        if node is None or node["nodeId"] in kept:
            continue
        kept[node["nodeId"]] = node
        waiting += reversed(node["childIds"])
    for node in kept.values():
        node["childIds"] = [child for child in node["childIds"] if child in kept]
    return list(kept.values())


def outlined(title: str, rows: Sequence[Mapping[str, Any]]) -> list[Node]:
    """Build a tree in Chromium's format from the outline that marking.js returns for a page that is too large."""
    root = _outline_node("", "RootWebArea", title)
    nodes = {"": root}
    for row in rows:
        nodes[row["bid"]] = node = _outline_node(row["bid"], row["role"], row["name"])
        node["browsergym_id"] = row["bid"]
        nodes.get(row["parent"], root)["childIds"].append(row["bid"])
    return list(nodes.values())


def _outline_node(node_id: str, role: str, name: str) -> Node:
    return {
        "nodeId": node_id,
        "ignored": False,
        "role": {"type": "role", "value": role},
        "name": {"type": "computedString", "value": name},
        "properties": [],
        "childIds": [],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """Options for the text of a tree, named as the parameters of BrowserGym's function."""

    with_visible: bool = False
    with_clickable: bool = False
    with_center_coords: bool = False
    with_bounding_box_coords: bool = False
    with_som: bool = False
    skip_generic: bool = True
    filter_visible_only: bool = False
    filter_with_bid_only: bool = False
    filter_som_only: bool = False
    coord_decimals: int = 0
    remove_redundant_static_text: bool = True
    hide_bid_if_invisible: bool = False
    hide_all_children: bool = False
    hide_all_bids: bool = False


V0_STYLE = Style(with_clickable=True, skip_generic=False)
"""The style that OpenHands V0 uses, which adds `filter_visible_only` if the whole tree is too long."""


def flatten(tree: Mapping[str, Any], properties: Properties, style: Style = V0_STYLE) -> str:
    """Format the tree as text, one node a line, indented with one tab for each level."""
    nodes: list[Node] = tree["nodes"]
    if not nodes:
        return ""
    return "\n".join(_Flattening({node["nodeId"]: node for node in nodes}, properties, style).lines(nodes[0]))


class _Flattening:
    def __init__(self, nodes: Mapping[str, Node], properties: Properties, style: Style) -> None:
        self._nodes = nodes
        self._properties = properties
        self._style = style

    def lines(self, root: Node) -> Iterator[str]:
        """Yield the lines. Not recursive, because pages can be nested deeper than Python's recursion limit."""
        waiting = [(root, 0, False, "")]
        seen: set[str] = set()
        while waiting:
            node, depth, filtered_above, name_above = waiting.pop()
            if node["nodeId"] in seen:
                continue
            seen.add(node["nodeId"])
            line, filtered, name = self._line(node, filtered_above, name_above)
            if line is not None:
                yield "\t" * depth + line
            below = depth if line is None else depth + 1
            for child in reversed(node["childIds"]):
                if child in self._nodes:
                    waiting.append((self._nodes[child], below, filtered, name))

    def _line(self, node: Node, filtered_above: bool, name_above: str) -> tuple[str | None, bool, str]:
        """Return the line or None, whether a filter excluded the node, and its name."""
        role = node["role"]["value"]
        if role == "LineBreak" or "name" not in node:
            return None, False, ""
        name, bid = str(node["name"]["value"]), node.get("browsergym_id")
        attributes = list(_attributes(node))
        skipped = self._style.skip_generic and role == "generic" and not attributes
        skipped = skipped or (self._style.hide_all_children and filtered_above)
        filtered = False
        if role == "StaticText":
            redundant = self._style.remove_redundant_static_text and name in name_above
            skipped = skipped or filtered_above or redundant
        else:
            filtered = self._is_filtered(bid)
            attributes = [*self._extras(bid), *attributes]
        if skipped or filtered:
            return None, filtered, name
        line = role if role == "generic" and not name else f"{role} {name.strip()!r}"
        if bid is not None and not self._hides(bid):
            line = f"[{bid}] {line}"
        value = node.get("value", {}).get("value")
        if value is not None:
            line += f" value={value!r}"
        return ", ".join([line, *attributes]), filtered, name

    def _is_filtered(self, bid: str | None) -> bool:
        style = self._style
        if bid is None:
            return style.filter_with_bid_only or style.filter_som_only
        known = self._properties.get(bid)
        if known is None:
            return False
        hidden = style.filter_visible_only and not _is_visible(known)
        return hidden or (style.filter_som_only and not known["set_of_marks"])

    def _extras(self, bid: str | None) -> Iterator[str]:
        known = None if bid is None else self._properties.get(bid)
        if known is None:
            return
        style = self._style
        if known["bbox"] is not None:
            x, y, width, height = known["bbox"]
            if style.with_bounding_box_coords:
                yield f'box="{self._coordinates(x, y, x + width, y + height)}"'
            if style.with_center_coords:
                yield f'center="{self._coordinates(x + width / 2, y + height / 2)}"'
        if style.with_clickable and known["clickable"]:
            yield "clickable"
        if style.with_visible and _is_visible(known):
            yield "visible"
        if style.with_som and known["set_of_marks"]:
            yield "som"

    def _hides(self, bid: str) -> bool:
        if self._style.hide_all_bids:
            return True
        known = self._properties.get(bid)
        return self._style.hide_bid_if_invisible and (known is None or not _is_visible(known))

    def _coordinates(self, *values: float) -> str:
        return "(" + ",".join(f"{value:.{self._style.coord_decimals}f}" for value in values) + ")"


def _is_visible(known: Mapping[str, Any]) -> bool:
    return bool(known["visibility"] >= VISIBLE)


def _attributes(node: Node) -> Iterator[str]:
    for held in node.get("properties", ()):
        name, value = held["name"], held.get("value", {}).get("value")
        if "value" not in held.get("value", {}) or name in _OMITTED:
            continue
        if name not in _FLAGS:
            yield f"{name}={value!r}"
        elif value:
            yield name
