"""Explore a Python repository: its structure, the code of its classes and functions, and a search in it.

Source of rules and texts: `openhands_aci/indexing/locagent/tools.py`. The repository is REPO_PATH of the environment,
or the kernel's folder. V0 needs llama-index for this; here a search by keywords is BM25 over classes and functions.
"""

import ast
import fnmatch
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from .code_graph import EDGES, KINDS, CodeGraph, Definition, Entity, build, is_test

DEPTH_WITHOUT_LIMIT = 20
SMALL_LINES = 100
"""A class or file that is longer is shown as its structure."""
MAX_SHOWN = 3
"""If more entities have a name, only their ids are printed."""
BY_KEYWORD = "Retrieved code content using keyword search (bm25)."
INVALID_NAME = (
    'Invalid name. \nHint: Valid entity name should be formatted as "file_path:QualifiedName" or just "file_path".\n\n'
)


def get_entity_contents(entity_names: list[str]) -> str:
    """Return the complete code of functions, classes and files of the repository.

    Args:
        entity_names: For a function or class `file_path:QualifiedName`, such as
            `'src/helpers/math_helpers.py:MathUtils.calculate_sum'`; for a file `file_path`.
    """
    graph = _graph()
    result = ""
    for name in filter(None, (name.strip().strip(".") for name in entity_names)):
        result += f"##Searching for entity `{name}`...\n### Search Result:\n"
        if name in graph.entities and not is_test(name):
            result += _complete(graph.entities[name], f"Exact match found for entity name `{name}`.") + "\n\n"
        else:
            result += INVALID_NAME
    return result.strip()


def search_code_snippets(
    search_terms: list[str] | None = None,
    line_nums: list[int] | None = None,
    file_path_or_pattern: str | None = "**/*.py",
) -> str:
    """Search the repository and return the code that matches names, keywords or line numbers.

    Args:
        search_terms: Names, keywords, or code to search for; for `file_path:QualifiedName` or
            `file_path` the complete code is returned.
        line_nums: Lines of the file `file_path_or_pattern` whose function or class is returned.
        file_path_or_pattern: A path or glob pattern of the files to search.
    """
    graph = _graph()
    files, result = _matching_files(graph, file_path_or_pattern)
    for term in search_terms or []:
        if is_test(term):
            result += f"No results for test files: `{term}`. Please do not search for any test files.\n\n"
        elif term := term.strip().strip("."):
            result += _section(term, _found(graph, term, files))
    if line_nums and file_path_or_pattern in graph.entities:
        numbers = [line_nums] if isinstance(line_nums, int) else line_nums
        term = f"{file_path_or_pattern}:line {', '.join(map(str, numbers))}"
        result += _section(term, _at_lines(graph, graph.entities[file_path_or_pattern], numbers, term))
    return result.strip()


def explore_tree_structure(
    start_entities: list[str],
    direction: str = "downstream",
    traversal_depth: int = 2,
    entity_type_filter: list[str] | None = None,
    dependency_type_filter: list[str] | None = None,
) -> str:
    """Return a tree of what files, classes and functions of the repository contain, import, call and inherit.

    Args:
        start_entities: Classes and functions as "file_path:QualifiedName", files and directories as paths.
        direction: 'downstream' for what they depend on, 'upstream' for what depends on them, or 'both'.
        traversal_depth: The depth of the tree; -1 for no limit.
        entity_type_filter: Some of 'class', 'function', 'file', 'directory'; None includes all.
        dependency_type_filter: Some of 'contains', 'imports', 'invokes', 'inherits'; None includes all.
    """
    assert direction in ("downstream", "upstream", "both"), (
        f"Invalid value for `direction`: Expected one of 'downstream', 'upstream', and 'both'. Received: '{direction}'."
    )
    assert traversal_depth >= -1, (
        "Invalid value for `traversal_depth`: It must be either -1 or a non-negative integer (>= 0). "
        f"Received: {traversal_depth}."
    )
    _check_filter("edge", "edge", dependency_type_filter, EDGES)
    _check_filter("node", "node", entity_type_filter, KINDS)
    graph = _graph()
    trees, hints = [], ""
    for start in start_entities:
        name = (start if start == "/" else start.strip("/")).removesuffix(".__init__")
        if name not in graph.entities:
            hints += _candidates(graph, name)
        elif is_test(name):
            hints += f"No results for the test entity: `{name}`. Please do not include any test entities.\n\n"
        else:
            tree = _Tree(graph, traversal_depth, entity_type_filter, dependency_type_filter)
            trees.append("\n".join([name, *tree.branches(name, "", 0, direction)]))
    return ("\n\n".join(trees) + ("\n\n" + hints if hints else "")).strip()


class _Tree:
    """Draws the tree of the edges from one entity, each edge once."""

    def __init__(self, graph: CodeGraph, depth: int, kinds: list[str] | None, edges: list[str] | None) -> None:
        self._graph, self._kinds, self._edges = graph, kinds, edges
        self._depth = DEPTH_WITHOUT_LIMIT if depth == -1 else depth
        self._seen: set[str] = set()
        self._visited_edges: set[tuple[str, str, str]] = set()

    def branches(self, name: str, prefix: str, level: int, direction: str) -> list[str]:
        if name in self._seen or level >= self._depth:
            return []
        self._seen.add(name)
        neighbours = [
            *(self._neighbours(name, "downstream") if direction in ("downstream", "both") else ()),
            *(self._neighbours(name, "upstream") if direction in ("upstream", "both") else ()),
        ]
        lines = []
        for number, (edge, other, way) in enumerate(neighbours, 1):
            is_last = number == len(neighbours)
            connector = f"{'└' if is_last else '├'}── {edge} ── "
            lines.append(prefix + connector + other)
            indented = prefix + (" " if is_last else "│") + " " * (len(connector) - 1)
            lines += self.branches(other, indented, level + 1, way)
        return lines

    def _neighbours(self, name: str, way: str) -> list[tuple[str, str, str]]:
        found = []
        for other, edges in (self._graph.out if way == "downstream" else self._graph.into).get(name, {}).items():
            if is_test(other) or (self._kinds is not None and self._graph.entities[other].kind not in self._kinds):
                continue
            for edge in edges:
                step = (name, edge, other) if way == "downstream" else (other, edge, name)
                if step not in self._visited_edges and (self._edges is None or edge in self._edges):
                    self._visited_edges.add(step)
                    found.append((edge if way == "downstream" else f"{edge}-by", other, way))
        return found


def _graph() -> CodeGraph:
    return build(os.path.abspath(os.environ.get("REPO_PATH", "")))


def _check_filter(what: str, kind: str, wanted: list[str] | None, valid: tuple[str, ...]) -> None:
    invalid = [name for name in wanted or [] if name not in valid]
    assert not invalid, f"Invalid {what} types {invalid} in {kind}_type_filter. Expected {kind} type in {list(valid)}"


def _candidates(graph: CodeGraph, name: str) -> str:
    found = ranked(name, _searchable(graph, None))[:5]
    if not found:
        return f"The entity name `{name}` is invalid. There are no possible candidate entities in record.\n"
    listed = "".join(f"{entity.kind}: `{entity.id}`\n" for entity in found)
    return (
        f"The entity name `{name}` is invalid. Based on your input, here are some candidate entities you might be "
        f"referring to:\n{listed}Source: Retrieved entity using keyword search (bm25).\n\n"
    )


def _matching_files(graph: CodeGraph, pattern: str | None) -> tuple[set[str], str]:
    """Return the files to search, and a note if the pattern matches none."""
    files = {entity.id for entity in graph.entities.values() if entity.kind == "file" and not is_test(entity.id)}
    if not pattern or pattern == "**/*.py":  # fnmatch would leave out those at the top
        return files, ""
    is_glob = any(char in pattern for char in "*?[")
    found = {file for file in files if (fnmatch.fnmatch(file, pattern) if is_glob else pattern in file)}
    if found:
        return found, ""
    return files, f"No files found for file pattern '{pattern}'. Will search all files.\n...\n"


def _section(term: str, found: str) -> str:
    return f'##Searching for term "{term}"...\n### Search Result:\n{found or "No locations found."}\n\n'


def _found(graph: CodeGraph, term: str, files: set[str]) -> str:
    """Return the code for a term: an id, a name, or keywords."""
    if term in graph.entities:
        return _complete(graph.entities[term], f"Exact match found for entity name `{term}`.")
    name = term
    for word in ("class ", "Class ", "function ", "Function ", "method ", "Method ", "def "):
        name = name.removeprefix(word).strip()
    prefixes = set(name.lower().split(".")[:-1])
    name = name.rpartition(".")[2] if not name.endswith(".py") else name
    named = [entity for entity in _searchable(graph, files) if _is_named(entity, name)]
    qualified = [entity for entity in named if prefixes <= set(entity.id.lower().replace(":", ".").split("."))]
    named = qualified or named
    source = f"Match found for entity name `{name}`."
    if len(named) > MAX_SHOWN:
        listed = "".join(f"Found {entity.kind} `{entity.id}`.\n" for entity in named)
        return f"{listed}Source: {source}\nHint: Use more detailed query to get the full content of some if needed.\n"
    if named:
        return "\n".join(_preview(entity, source) for entity in named)
    return "\n".join(_preview(entity, BY_KEYWORD) for entity in ranked(term, _searchable(graph, files))[:5])


def _searchable(graph: CodeGraph, files: set[str] | None) -> list[Entity]:
    return [
        entity
        for entity in graph.entities.values()
        if entity.kind != "directory" and not is_test(entity.id) and (files is None or entity.file in files)
    ]


def _is_named(entity: Entity, name: str) -> bool:
    return name.lower() in (entity.name.lower(), entity.name.lower().removesuffix(".py"))


def _at_lines(graph: CodeGraph, file: Entity, numbers: list[int], term: str) -> str:
    """Return the class or function around each line, otherwise the lines around it."""
    source = f"Retrieved code context including {term}."
    shown: dict[str, str] = {}
    for number in numbers:
        around = [
            entity
            for entity in graph.entities.values()
            if entity.kind in ("class", "function") and entity.file == file.id and entity.start <= number <= entity.end
        ]
        if around:
            entity = max(around, key=lambda entity: entity.start)
            shown[entity.id] = _preview(entity, source)
        else:
            lines = file.code.split("\n")[max(0, number - 21) : number + 20]
            code = "\n".join(f"{n} | {line}" for n, line in enumerate(lines, max(1, number - 20)))
            shown[str(number)] = f"Found code snippet in file `{file.id}`.\nSource: {source}\n```\n{code}\n```\n"
    return "\n".join(shown.values())


def _complete(entity: Entity, source: str) -> str:
    code = _numbered(entity) + "\n" if entity.code else ""
    return f"Found {entity.kind} `{entity.id}`.\nSource: {source}\n{code}"


def _preview(entity: Entity, source: str) -> str:
    if entity.kind == "function" or entity.end - entity.start <= SMALL_LINES:
        return _complete(entity, source)
    return (
        f"Found {entity.kind} `{entity.id}`.\nSource: {source}\n"
        f"Just show the structure of this {entity.kind} due to response length limitations:\n"
        f"```\n{_structure(entity)}\n```\nHint: Search `{entity.id}` to get the full content if needed.\n"
    )


def _numbered(entity: Entity) -> str:
    lines = entity.code.split("\n")
    width = len(str(entity.start + len(lines) - 1))
    numbered = (f"{number:{width}} | {line}" for number, line in enumerate(lines, entity.start))
    return "```\n" + "\n".join(numbered) + "\n```"


def _structure(entity: Entity) -> str:
    """Return the headers of classes and functions, and assignments."""
    lines = entity.code.split("\n")

    def head(node: Definition) -> list[str]:
        first, end = node.lineno - entity.start, node.body[0].lineno - entity.start
        return lines[first : max(end, first + 1)]

    def below(node: ast.AST) -> list[str]:
        found: list[str] = []
        for part in getattr(node, "body", []):
            if isinstance(part, ast.ClassDef):
                found += [*head(part), *below(part)]
            elif isinstance(part, Definition):
                found += [*head(part), " " * part.body[0].col_offset + "..."]
            elif isinstance(part, ast.Assign):
                found += lines[part.lineno - entity.start : (part.end_lineno or part.lineno) - entity.start + 1]
        return found

    tree = entity.tree
    return "\n".join([*(head(tree) if isinstance(tree, ast.ClassDef) else ()), *(below(tree) if tree else lines)])


K1, B = 1.5, 0.75
"""The usual parameters of BM25."""


def ranked(query: str, entities: Sequence[Entity]) -> list[Entity]:
    """Return the entities in which words of the query occur, best first, by BM25."""
    wanted = set(_words(query))
    if not wanted or not entities:
        return []
    counts = [Counter(_words(f"{entity.id} {entity.code}")) for entity in entities]
    lengths = [count.total() for count in counts]
    mean = sum(lengths) / len(lengths)
    known = {word: sum(word in count for count in counts) for word in wanted}
    rarity = {word: math.log(1 + (len(counts) - n + 0.5) / (n + 0.5)) for word, n in known.items()}

    def score(count: Counter[str], length: int) -> float:
        damped = K1 * (1 - B + B * length / mean)
        return sum(rarity[word] * count[word] * (K1 + 1) / (count[word] + damped) for word in wanted)

    scores = [score(count, length) for count, length in zip(counts, lengths, strict=True)]
    order = sorted(range(len(entities)), key=lambda number: -scores[number])
    return [entities[number] for number in order if scores[number] > 0]


def _words(text: str) -> Iterator[str]:
    """Yield words in lower case, including the words in names: for `readFile`, `readfile`, `read` and `file`."""
    for name in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", text):
        yield name.lower()
        parts = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)
        if len(parts) > 1:
            yield from (part.lower() for part in parts)
