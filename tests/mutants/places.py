"""Find the places of a Python file where a small bug can be planted, and what the bug would be.

A place is a node of the syntax tree; a bug replaces a few bytes of the source, so that the difference is as small as
one that a person would type. Pure: reads no file and runs nothing. Not touched are annotations, assertions, log
calls, texts, decorators and what stands under `if TYPE_CHECKING`: a bug there is no bug in what the program does.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

COMPARISONS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "is not": "is", "is": "is not", "not in": "in", "in": "not in",
}  # fmt: skip
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "//": "*", "/": "*", "%": "*", "<<": ">>", ">>": "<<", "&": "|"}
SMALL = 16
"""Integers up to this one are changed by one, larger ones are doubled: 10,000,001 bytes need no test."""
SILENT = frozenset({"log", "logger", "logging", "warnings"})
"""Calls of methods of these only tell something."""


@dataclass(frozen=True)
class Bug:
    """One way to break one place: the bytes from `start` to `end` become `text`."""

    line: int
    kind: str
    start: int
    end: int
    text: bytes

    def planted_in(self, source: bytes) -> bytes:
        """The source with the bug."""
        return source[: self.start] + self.text + source[self.end :]


def difference(path: str, before: bytes, after: bytes) -> str:
    """What changed, as a unified diff without context."""
    old, new = before.decode().splitlines(), after.decode().splitlines()
    return "\n".join(difflib.unified_diff(old, new, path, path, n=0, lineterm=""))


def bugs_in(source: bytes, lines: Iterable[int] | None = None) -> list[list[Bug]]:
    """The bugs of each place, in the order of the file; only those that begin on one of `lines`, where it is given."""
    wanted = None if lines is None else frozenset(lines)
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    return [bugs for bugs in finder.found if bugs and (wanted is None or bugs[0].line in wanted)]


def is_sound(source: bytes, bug: Bug) -> bool:
    """Whether the bug changes the program and can be parsed."""
    try:
        changed = ast.parse(bug.planted_in(source))
    except (SyntaxError, ValueError):
        return False
    return ast.dump(changed) != ast.dump(ast.parse(source))


class _Finder(ast.NodeVisitor):
    """Collects the bugs of every node; the positions of the tree count bytes of UTF-8."""

    def __init__(self, source: bytes) -> None:
        self.found: list[list[Bug]] = []
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    # -- positions

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr | ast.stmt) -> bytes:
        start, end = self._span(node)
        return self._source[start:end]

    def _replaced(self, node: ast.expr | ast.stmt, kind: str, *texts: bytes) -> None:
        start, end = self._span(node)
        self.found.append([Bug(node.lineno, kind, start, end, text) for text in texts])

    def _operator(self, left: ast.expr, right: ast.expr, table: dict[str, str], kind: str) -> None:
        """Replace the operator between two expressions."""
        (_, start), (end, _) = self._span(left), self._span(right)
        names = "|".join(
            r"\b" + n.replace(" ", r"\s+") + r"\b" if n[0].isalpha() else re.escape(n) for n in _long(table)
        )
        if match := re.search(names.encode(), self._source[start:end]):
            other = table[" ".join(match[0].decode().split())]
            line = left.end_lineno or left.lineno
            self.found.append([Bug(line, kind, start + match.start(), start + match.end(), other.encode())])

    # -- nodes without bugs --------------------------------------------------------------------------------------------

    def visit_Assert(self, node: ast.Assert) -> None: ...

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Positions in formatted texts are wrong before Python 3.12."""

    def visit_arg(self, node: ast.arg) -> None: ...

    def visit_Import(self, node: ast.Import) -> None: ...

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None: ...

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for child in (*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body):
            self.visit(child)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for child in node.body:
            self.visit(child)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    # -- expressions

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for left, right in pairwise(operands):
            self._operator(left, right, COMPARISONS, "comparison")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not any(isinstance(side, ast.JoinedStr | ast.List | ast.Tuple) or _is_text(side) for side in _sides(node)):
            self._operator(node.left, node.right, ARITHMETIC, "arithmetic")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        is_and = isinstance(node.op, ast.And)
        self._replaced(
            node, "and/or", (b" or " if is_and else b" and ").join(b"(%s)" % self._text(v) for v in node.values)
        )
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._replaced(node, "not", b"bool(%s)" % self._text(node.operand))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._replaced(node, "constant", str(not value).encode())
        elif isinstance(value, int) and value <= SMALL:
            self._replaced(node, "off by one", *(str(n).encode() for n in (value + 1, value - 1) if n >= 0))
        elif isinstance(value, int | float):
            self._replaced(node, "constant", repr(value * 2 or 1).encode())

    def visit_Slice(self, node: ast.Slice) -> None:
        for bound in (node.lower, node.upper):
            if bound is not None and not isinstance(bound, ast.Constant):
                self._replaced(bound, "off by one", b"(%s) + 1" % self._text(bound))
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._replaced(node.test, "swapped branches", b"(not (%s))" % self._text(node.test))
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for condition in node.ifs:
            self._replaced(condition, "dropped condition", b"True")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id == "range" and not isinstance(node.args[-1], ast.Constant):
            self._replaced(node.args[-1], "off by one", b"(%s) - 1" % self._text(node.args[-1]))
        self.generic_visit(node)

    # -- statements

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self._replaced(node.test, "swapped branches", b"not (%s)" % self._text(node.test))
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            self._replaced(node, "dropped statement", b"pass")
        elif isinstance(node.value, ast.Compare | ast.BoolOp):
            self._replaced(node.value, "return value", b"not (%s)" % self._text(node.value))
        elif not isinstance(node.value, ast.Constant | ast.UnaryOp):
            self._replaced(node.value, "return value", b"None")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Call):
            if _only_tells(call):
                return
            self._replaced(node, "dropped statement", b"pass")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._replaced(node, "dropped statement", b"pass")

    def visit_Assign(self, node: ast.Assign) -> None:
        if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self._replaced(node, "dropped statement", b"pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._replaced(node, "dropped statement", b"pass")
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._replaced(node, "dropped statement", b"pass")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._replaced(node, "dropped statement", b"pass")

    visit_Break = visit_Continue  # type: ignore[assignment]

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if isinstance(node.type, ast.Tuple):
            self._replaced(node.type, "narrowed except", *(self._text(one) for one in node.type.elts))
        elif node.type is not None:
            self._replaced(node.type, "narrowed except", b"()")
        for child in node.body:
            self.visit(child)


def _long(table: Iterable[str]) -> list[str]:
    """The longest first, so that `<=` is not read as `<`."""
    return sorted(table, key=len, reverse=True)


def _sides(node: ast.BinOp) -> Iterator[ast.expr]:
    yield from (node.left, node.right)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _only_tells(call: ast.Call) -> bool:
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    return isinstance(owner, ast.Name) and owner.id.lower().lstrip("_") in SILENT
