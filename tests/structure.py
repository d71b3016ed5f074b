"""Measures the structure of the code against its budgets: `make structure` prints each figure beside its budget.

CI prints the table, too. A figure above its budget does not fail the run, because a budget may only be met by work that
needs a decision; a circle of imports does, because it can always be avoided.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = ("core", "runtime", "tui")
KERNEL = ("core/stream.py", "core/controller", "core/actions", "core/session", "core/conversations")
"""The modules that explain how the agent works."""
SMALL_LINES = 40
WALK = re.compile(r"^## A message from Enter to bash and back$(.*?)^## ", re.M | re.S)
LINK = re.compile(r"\]\(\.\./([\w/]+\.py)")


@dataclass(frozen=True)
class Row:
    """One measure."""

    name: str
    figure: int
    budget: int
    detail: str = ""

    @property
    def is_met(self) -> bool:
        """Whether the figure is within its budget."""
        return self.figure <= self.budget


@dataclass(frozen=True)
class Module:
    """One Python file of the product."""

    name: str
    path: Path
    text: str

    @property
    def lines(self) -> int:
        """The number of its lines."""
        return self.text.count("\n")

    @property
    def is_package(self) -> bool:
        """Whether it is the `__init__.py` of a folder."""
        return self.path.name == "__init__.py"

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text)


def modules(*tops: str) -> dict[str, Module]:
    """All modules below these folders by their import name."""
    found = {}
    for top in tops:
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = Module(name, path, path.read_text())
    return found


def imports(module: Module, known: Mapping[str, Module], *, deferred: bool) -> set[str]:
    """The modules that a module imports; with `deferred` also those that it imports inside of functions."""
    names: set[str] = set()
    for node in _nodes(module.tree, deferred):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                names.add(full if full in known else node.module)
    return {name for name in names if name in known and name != module.name}


def _nodes(tree: ast.AST, deferred: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not deferred:
            continue
        if not deferred and isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _nodes(child, deferred)


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other when they are loaded (Tarjan's strongly connected components)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in graph[name]:
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        if low[name] == order[name]:
            group = []
            while True:
                group.append(stack.pop())
                if group[-1] == name:
                    break
            if len(group) > 1:
                found.append(sorted(group))

    for name in graph:
        if name not in order:
            visit(name)
    return found


def class_lines(module: Module) -> Iterator[tuple[int, str]]:
    """The length of each class in lines, with its name."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef):
            yield (node.end_lineno or node.lineno) - node.lineno + 1, f"{module.name}.{node.name}"


def app_bases(known: Mapping[str, Module]) -> list[str]:
    """The classes that the app inherits beside Textual's `App`."""
    for node in ast.walk(known["tui.app"].tree):
        if isinstance(node, ast.ClassDef) and node.name == "HandloomApp":
            return [base for base in map(ast.unparse, node.bases) if not base.startswith("App")]
    return []


def walk_files() -> set[str]:
    """The files that the architecture page names on the way of a message from Enter to bash."""
    page = ROOT / "docs" / "architecture.md"
    section = WALK.search(page.read_text()) if page.exists() else None
    return set(LINK.findall(section.group(1))) if section else set()


def _below(known: Mapping[str, Module], place: str) -> int:
    return sum(one.lines for one in known.values() if str(one.path.relative_to(ROOT)).startswith(place))


def measure() -> list[Row]:
    """Every current measure of the structure."""
    known = modules(*PRODUCT)
    files = {name: one for name, one in known.items() if not one.is_package}
    importers: dict[str, set[str]] = defaultdict(set)
    for one in known.values():
        for name in imports(one, known, deferred=True):
            importers[name].add(one.name)
    small = sorted(name for name, one in files.items() if one.lines < SMALL_LINES and len(importers[name]) == 1)
    longest_module = max((one.lines, name) for name, one in known.items())
    longest_class = max(found for one in known.values() for found in class_lines(one))
    groups = circles({name: imports(one, known, deferred=False) for name, one in known.items()})
    bases = app_bases(known)
    walk = walk_files()
    return [
        Row("product lines", sum(one.lines for one in known.values()), 80_000),
        Row("modules, without __init__", len(files), 450),
        Row("modules named -ing", sum(name.endswith("ing") for name in files), 5),
        Row("modules under 40 lines that one other imports", len(small), 0, ", ".join(small)),
        Row("longest module", longest_module[0], 500, longest_module[1]),
        Row("longest class", longest_class[0], 500, longest_class[1]),
        Row("classes that the app mixes in", len(bases), 0, ", ".join(bases)),
        Row("lines of the kernel", sum(_below(known, place) for place in KERNEL), 4_000),
        Row("circles of imports", len(groups), 0, "; ".join(" <-> ".join(group) for group in groups)),
        Row("files from Enter to bash", len(walk), 25, "" if walk else "the architecture page has no such section"),
        Row("test lines", sum(one.lines for one in modules("tests").values()), 65_000),
    ]


def main() -> int:
    """Print the table. The status is 1 where modules import each other in a circle."""
    rows = measure()
    width = max(len(row.name) for row in rows)
    for row in rows:
        mark = "   " if row.is_met else " ! "
        detail = row.detail if not row.is_met or row.name.startswith("longest") else ""
        sys.stdout.write(f"{mark}{row.name:<{width}}  {row.figure:>7,}  at most {row.budget:>6,}  {detail[:300]}\n")
    return int(any(not row.is_met for row in rows if row.name == "circles of imports"))


if __name__ == "__main__":
    raise SystemExit(main())
