"""The accessibility tree: assign bids, merge frames, truncate, and format as text.

Pure functions of the answers of `Accessibility.getFullAXTree`. The text is that of BrowserGym's `flatten_axtree_to_str`
with the options of OpenHands V0, because agents are tuned to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Node = dict[str, Any]
Properties = Mapping[str, Mapping[str, Any]]
"""`extra_element_properties`: visibility, bbox, clickable and set_of_marks by bid."""

MOST_NODES = 5_000
"""More than any model reads, and few enough to send and to store."""

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


def flatten(tree: Mapping[str, Any], properties: Properties) -> str:
    """Format the tree as text, one node a line, indented with one tab for each level.

    Not recursive, because pages can be nested deeper than Python's recursion limit.
    """
    nodes: dict[str, Node] = {node["nodeId"]: node for node in tree["nodes"]}
    lines: list[str] = []
    seen: set[str] = set()
    waiting = [(node, 0, "") for node in tree["nodes"][:1]]
    while waiting:
        node, depth, name_above = waiting.pop()
        if node["nodeId"] in seen:
            continue
        seen.add(node["nodeId"])
        is_shown = "name" in node and node["role"]["value"] != "LineBreak"
        name = str(node["name"]["value"]) if is_shown else ""
        if is_shown and not (node["role"]["value"] == "StaticText" and name in name_above):
            lines.append("\t" * depth + _line(node, name, properties))
            depth += 1
        waiting += [(nodes[child], depth, name) for child in reversed(node["childIds"]) if child in nodes]
    return "\n".join(lines)


def _line(node: Node, name: str, properties: Properties) -> str:
    role, bid, value = node["role"]["value"], node.get("browsergym_id"), node.get("value", {}).get("value")
    line = role if role == "generic" and not name else f"{role} {name.strip()!r}"
    if bid is not None:
        line = f"[{bid}] {line}"
    if value is not None:
        line += f" value={value!r}"
    is_clickable = role != "StaticText" and properties.get(bid or "", {}).get("clickable")
    return ", ".join([line, *(["clickable"] if is_clickable else []), *_attributes(node)])


def _attributes(node: Node) -> Iterator[str]:
    for held in node.get("properties", ()):
        name, value = held["name"], held.get("value", {}).get("value")
        if "value" not in held.get("value", {}) or name in _OMITTED:
            continue
        if name not in _FLAGS:
            yield f"{name}={value!r}"
        elif value:
            yield name
