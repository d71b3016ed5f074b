"""What a cell or a script of Python would do, told by its syntax tree. What is made at run time is opaque.

Names are followed through imports and plain assignments; `!command`, `%magic` and `os.system("...")` go to the reader
of the shell. Bounded in size and depth; never raises for any text.
"""

from __future__ import annotations

import ast
import warnings

from core.security.python_calls import Calls
from core.security.rules import names
from core.security.shell.reader import Reader, State
from core.security.shell.words import Word

MAX_CHARS = 64 * 1024
_INSIDE = names(
    "__globals__ __subclasses__ __builtins__ __code__ __class__ __mro__ __bases__ __dict__ __getattribute__"
)


def read_python(code: str, reader: Reader, state: State) -> None:
    """Name what the code would do in the reader's Findings."""
    findings = reader.findings
    if len(code) > MAX_CHARS:
        findings.name("opaque.size")
        code = code[:MAX_CHARS]
    if state.depth > 8:
        findings.name("opaque.size")
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
        _Walk(reader, state).visit(tree)
    except (SyntaxError, ValueError, MemoryError):
        findings.name("python.syntax")
    except RecursionError:
        findings.name("opaque.size")


class _Walk(Calls, ast.NodeVisitor):
    """Goes over one tree, in the order in which it stands."""

    def __init__(self, reader: Reader, state: State) -> None:
        super().__init__(reader, state)
        self._called: set[int] = set()

    def read(self, code: str) -> None:
        self.state.depth += 1
        read_python(code, self.reader, self.state)
        self.state.depth -= 1

    def visit_Import(self, node: ast.Import) -> None:
        for name in node.names:
            self.names[name.asname or name.name.partition(".")[0]] = (
                name.name if name.asname else name.name.partition(".")[0]
            )
            self.imported(name.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for name in node.names:
            self.names[name.asname or name.name] = f"{node.module or ''}.{name.name}"
            dotted = f"{node.module}.{name.name}"
            if name.asname and name.asname != name.name and self.is_dangerous(dotted):
                self.findings.name("python.dynamic", f"{dotted} as {name.asname}")
            if name.name == "*" and (node.module or "").partition(".")[0] in ("os", "subprocess", "shutil", "socket"):
                self.findings.name("python.dynamic", f"from {node.module} import *")
        self.imported(node.module or "")

    def visit_Assign(self, node: ast.Assign) -> None:
        text, dotted = self.text(node.value), self.dotted(node.value)
        self.generic_visit(node)
        for target in node.targets:
            if isinstance(target, ast.Name):
                if text is not None:
                    self.values[target.id] = text
                if dotted:
                    self.names[target.id] = dotted
                elif isinstance(node.value, ast.Call) and (made := self.dotted(node.value.func)):
                    self.names[target.id] = made
            elif isinstance(target, ast.Subscript) and self.dotted(target.value) == "os.environ":
                name = self.text(target.slice) or ""
                self.reader.assign(name, Word(text or "?", text or "", text is not None), self.state)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if self.dotted(node.value) == "os.environ":
            self.environment(self.text(node.slice))
            self.visit(node.slice)
            return
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if self.dotted(node) == "os.environ":
            self.environment(None)
        if node.attr in _INSIDE:
            self.findings.name("python.dynamic", node.attr)
        elif id(node) not in self._called and self.is_dangerous(self.dotted(node)):
            self.findings.name("python.dynamic", self.dotted(node))
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.forget(node.id)
            return
        if id(node) not in self._called and node.id not in self.values and self.is_dangerous(self.dotted(node)):
            self.findings.name("python.dynamic", node.id)
        if node.id in ("__builtins__", "__loader__"):
            self.findings.name("python.dynamic", node.id)
        if self.names.get(node.id) == "os.environ":
            self.environment(None)

    def visit_Call(self, node: ast.Call) -> None:
        name = self.dotted(node.func)
        self._called.add(id(node.func))
        self.call(name, node)
        if name in ("os.getenv", "os.environ.get"):
            for part in node.args[1:]:
                self.visit(part)
            return
        self.generic_visit(node)

    def _branch(self, node: ast.AST) -> None:
        """What may run, or run again: what it binds is not known in a loop, nor behind it."""
        bound = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
        if isinstance(node, ast.For | ast.While | ast.AsyncFor):
            for name in bound:
                self.values.pop(name, None)
        self.generic_visit(node)
        for name in bound:
            self.values.pop(name, None)

    visit_If = visit_For = visit_AsyncFor = visit_While = visit_Try = visit_Match = _branch

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        for part in ast.walk(node.args):
            if isinstance(part, ast.arg):
                self.forget(part.arg)
        self._branch(node)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        before = self.text(ast.Name(node.target.id)) if isinstance(node.target, ast.Name) else None
        more = self.text(node.value)
        self.generic_visit(node)
        if before is not None and more is not None and isinstance(node.target, ast.Name):
            self.values[node.target.id] = before + more
