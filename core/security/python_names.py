"""What names and values of a piece of Python are, as far as its text alone tells."""

from __future__ import annotations

import ast
import base64

from core.security.shell.words import Word, literal

_UNBOUND = {
    "system": "os.system",
    "popen": "os.popen",
    "Popen": "subprocess.Popen",
    "check_output": "subprocess.check_output",
    "check_call": "subprocess.check_call",
    "getoutput": "subprocess.getoutput",
    "rmtree": "shutil.rmtree",
    "urlopen": "urllib.request.urlopen",
    "urlretrieve": "urllib.request.urlretrieve",
    "create_connection": "socket.create_connection",
}
"""Names that an earlier cell may have imported; nobody calls something else so."""


class Names:
    """Names and values as they stand at one point of the code."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        """Dotted paths of what was imported, or made by a call of it."""
        self.values: dict[str, str] = {}
        """Texts that variables hold."""

    def forget(self, name: str) -> None:
        """The name is bound to something that is not known."""
        self.names.pop(name, None)
        self.values.pop(name, None)

    def word(self, node: ast.expr | None) -> Word:
        """A value as a word; its parts that are not known as they are written."""
        text = self.text(node) if node is not None else None
        if text is not None:
            return literal(text)
        if isinstance(node, ast.JoinedStr):
            parts = [str(part.value) if isinstance(part, ast.Constant) else "" for part in node.values]
            return Word("".join(part or "$X" for part in parts), "".join(parts), False)
        if isinstance(node, ast.BinOp):
            left, right = self.word(node.left), self.word(node.right)
            return Word(left.text + right.text, left.bare + right.bare, False)
        return Word("$X" if node is None or not isinstance(node, ast.Name) else f"${node.id}", "", False)

    def text(self, node: ast.expr | None) -> str | None:
        """A text that can be told."""
        match node:
            case ast.Constant(value=str() as value):
                return value
            case ast.Constant(value=bytes() as value):
                return value.decode("utf-8", "replace")
            case ast.Name(id=name):
                return self.values.get(name)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                one, other = self.text(left), self.text(right)
                return one + other if one is not None and other is not None else None
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                one, other = self.text(left), self.text(right)
                return f"{one}/{other}" if one is not None and other is not None else None
            case ast.JoinedStr(values=values):
                texts = [self.text(part.value if isinstance(part, ast.FormattedValue) else part) for part in values]
                return "".join(text for text in texts if text is not None) if None not in texts else None
            case ast.Call(func=func, args=args):
                return self.called(self.dotted(func), func, args)
        return None

    def called(self, name: str, func: ast.expr, args: list[ast.expr]) -> str | None:
        first = self.text(args[0]) if args else None
        if (
            name in ("pathlib.Path", "Path", "str", "os.path.expanduser", "pathlib.PurePath", "os.fspath")
            and first is not None
        ):
            return first
        if name == "pathlib.Path.home":
            return "~"
        if name == "os.path.join":
            texts = [self.text(part) for part in args]
            return "/".join(text for text in texts if text is not None) if None not in texts else None
        if name in ("base64.b64decode", "bytes.fromhex") and first is not None:
            try:
                data = base64.b64decode(first) if name.endswith("b64decode") else bytes.fromhex(first)
            except ValueError:
                return None
            return data.decode("utf-8", "replace")
        if isinstance(func, ast.Attribute) and func.attr in (
            "decode",
            "encode",
            "expanduser",
            "strip",
            "resolve",
            "absolute",
        ):
            return self.text(func.value)
        return None

    def dotted(self, node: ast.expr) -> str:
        """`os.system` for what is called so, through imports and aliases; empty for what has no name."""
        match node:
            case ast.Name(id=name):
                return self.names.get(name, _UNBOUND.get(name, name))
            case ast.Attribute(value=value, attr=attr):
                return f"{before}.{attr}" if (before := self.dotted(value)) else ""
            case ast.Call(func=ast.Name(id="get_ipython")):
                return "get_ipython()"
            case ast.Call(func=ast.Name(id="__import__"), args=[first, *_]):
                return self.text(first) or ""
            case ast.Call(func=func, args=[first, *_]) if self.dotted(func) == "importlib.import_module":
                return self.text(first) or ""
            case ast.Call(func=ast.Name(id="getattr"), args=[value, second, *_]) if self.text(second) is not None:
                return f"{self.dotted(value)}.{self.text(second)}"
            case ast.Call(func=func):
                made = self.dotted(func)
                return made if made.rpartition(".")[2][:1].isupper() else ""
        return ""
