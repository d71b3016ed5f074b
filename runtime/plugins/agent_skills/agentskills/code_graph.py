"""CodeGraph: the folders, files, classes and functions of a Python repository, and four kinds of edges between them.

Source of rules and names: `openhands_aci/indexing/locagent/repo/dependency_graph/`. The graph is made from the syntax
alone, in memory, and nothing is written into the repository. A called or inherited name leads to the definitions of
that name in the same file or among its imports, otherwise to all of them.
"""

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

EDGES = ("contains", "inherits", "invokes", "imports")
KINDS = ("directory", "file", "class", "function")
_SKIPPED = (".github", ".git")
MAX_FILE_BYTES = 2 * 1024 * 1024
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Entity:
    """A folder, file, class or function. Its `id` is its path, followed by a colon and its qualified name."""

    id: str
    kind: str
    code: str = ""
    start: int = 1
    end: int = 1
    tree: ast.AST | None = None

    @property
    def file(self) -> str:
        return self.id.partition(":")[0]

    @property
    def name(self) -> str:
        """The last part of its id."""
        return self.id.rpartition(":")[2].rpartition("/" if ":" not in self.id else ".")[2]


@dataclass
class CodeGraph:
    """Entities by id, and edges in both directions: their kinds by the other entity, in the order of discovery."""

    entities: dict[str, Entity] = field(default_factory=dict)
    out: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    into: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    named: dict[str, list[str]] = field(default_factory=dict)
    """Ids of classes and functions by name."""

    def connect(self, source: str, edge: str, target: str) -> None:
        if edge not in (kinds := self.out.setdefault(source, {}).setdefault(target, [])):
            kinds.append(edge)
            self.into.setdefault(target, {}).setdefault(source, []).append(edge)


def is_test(entity_id: str) -> bool:
    """Return whether an entity belongs to tests, which are left out of all answers."""
    return any(word.startswith("test") for word in re.split(r" |_|/", entity_id.partition(":")[0].lower()))


def build(repository: str) -> CodeGraph:
    """Make the graph of a folder. A file that cannot be read or parsed has no definitions."""
    graph = CodeGraph({"/": Entity("/", "directory")})
    for path in _python_files(repository):
        _add_file(graph, repository, path)
    for entity in list(graph.entities.values()):
        if entity.kind == "file" and entity.tree is not None:
            _add_imports(graph, entity)
    for entity in list(graph.entities.values()):
        if entity.kind in ("class", "function"):
            _add_uses(graph, entity)
    return graph


def _python_files(repository: str) -> Iterator[str]:
    for folder, below, names in os.walk(repository):
        below[:] = sorted(name for name in below if not any(part in name for part in _SKIPPED))
        for name in sorted(names):
            path = os.path.join(folder, name)
            if name.endswith(".py") and os.path.isfile(path) and not os.path.islink(path):
                yield os.path.relpath(path, repository)


def _add_file(graph: CodeGraph, repository: str, path: str) -> None:
    parent = "/"
    parts = path.split(os.sep)
    for depth in range(1, len(parts)):
        folder = "/".join(parts[:depth])
        graph.entities.setdefault(folder, Entity(folder, "directory"))
        graph.connect(parent, "contains", folder)
        parent = folder
    try:
        with open(os.path.join(repository, path), encoding="utf-8") as file:
            code = file.read(MAX_FILE_BYTES)
        graph.entities[path] = Entity(path, "file", code, 1, len(code.split("\n")))
        tree = ast.parse(code)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return
    graph.entities[path].tree = tree
    graph.connect(parent, "contains", path)
    _add_definitions(graph, tree, path, path, code.split("\n"))


def _add_definitions(graph: CodeGraph, tree: ast.AST, parent: str, path: str, lines: list[str]) -> None:
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, Definition):
            _add_definitions(graph, node, parent, path, lines)
            continue
        if node.name == "__init__" and isinstance(tree, ast.ClassDef):
            continue  # shown with its class
        name = f"{parent}.{node.name}" if ":" in parent else f"{path}:{node.name}"
        end = node.end_lineno or node.lineno
        kind = "class" if isinstance(node, ast.ClassDef) else "function"
        graph.entities[name] = Entity(name, kind, "\n".join(lines[node.lineno - 1 : end]), node.lineno, end, node)
        graph.named.setdefault(node.name, []).append(name)
        graph.connect(parent, "contains", name)
        _add_definitions(graph, node, name, path, lines)


def _add_imports(graph: CodeGraph, file: Entity) -> None:
    assert file.tree is not None
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Import):
            wanted = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = file.id.split("/")[: -node.level] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            wanted = [(module, alias.name) for alias in node.names]
        else:
            continue
        for module, name in wanted:
            if target := _imported(graph, module, name):
                graph.connect(file.id, "imports", target)


def _imported(graph: CodeGraph, module: str, name: str) -> str:
    """Return the id of the imported file or definition; empty if it is not in the repository."""
    submodule = _file_of(graph, f"{module}.{name}") if name else ""
    if submodule:
        return submodule
    file = _file_of(graph, module)
    return f"{file}:{name}" if f"{file}:{name}" in graph.entities else file


def _file_of(graph: CodeGraph, module: str) -> str:
    path = module.strip(".").replace(".", "/")
    return next((file for file in (f"{path}.py", f"{path}/__init__.py") if file in graph.entities), "")


def _add_uses(graph: CodeGraph, entity: Entity) -> None:
    node = entity.tree
    assert isinstance(node, Definition)
    body: list[ast.AST] = [node]
    if isinstance(node, ast.ClassDef):
        body = [part for part in node.body if isinstance(part, Definition) and part.name == "__init__"]
        for base in node.bases:
            _connect_by_name(graph, entity, "inherits", _last_name(base))
    calls = [call for part in body for call in ast.walk(part) if isinstance(call, ast.Call)]
    for name in dict.fromkeys(_last_name(call.func) for call in calls):
        _connect_by_name(graph, entity, "invokes", name)


def _connect_by_name(graph: CodeGraph, entity: Entity, edge: str, name: str) -> None:
    found, imported = graph.named.get(name, []), graph.out.get(entity.file, {})
    nearby = [other for other in found if other.partition(":")[0] == entity.file or other in imported]
    for other in nearby or found:
        graph.connect(entity.id, edge, other)


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
