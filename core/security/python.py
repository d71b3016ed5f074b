"""What a cell or a script of Python would do, told by its syntax tree. What is made at run time is opaque.

Names are followed through imports and plain assignments; `!command`, `%magic` and `os.system("...")` go to the reader
of the shell. Bounded in size and depth; never raises for any text.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable

from core.security.rules import names
from core.security.shell.reader import Reader, State
from core.security.shell.words import Out, Word, literal

MAX_CHARS = 64 * 1024

_RUNS = names(
    "os.system os.popen subprocess.run subprocess.call subprocess.Popen subprocess.check_call"
    " subprocess.check_output subprocess.getoutput subprocess.getstatusoutput"
    " asyncio.create_subprocess_shell asyncio.create_subprocess_exec pty.spawn os.execv"
    " os.execvp os.execl os.execlp os.spawnl os.spawnv os.spawnlp commands.getoutput sh.bash"
    " pexpect.spawn pexpect.run os.posix_spawn get_ipython().system get_ipython().getoutput"
    " os.execve os.execvpe"
)
_FETCHES = re.compile(
    r"^(?:requests|httpx|aiohttp|urllib\.request|urllib3|http\.client|websockets?|pycurl|treq|grequests)\b(?!\.(?:exceptions|Timeout|utils))"
)
_RAW = re.compile(
    r"^(?:socket\.(?:socket|create_connection|getaddrinfo|gethostbyname)|asyncio\.open_connection|ssl\.|telnetlib|ftplib|paramiko|dns\.)"
)
_MAIL = re.compile(r"^(?:smtplib|imaplib|poplib|slack_sdk|telegram|discord|twilio|tweepy)\b")
_DYNAMIC = names(
    "eval exec compile __import__ importlib.import_module runpy.run_path runpy.run_module"
    " builtins.eval builtins.exec types.FunctionType code.interact importlib.reload"
    " types.CodeType importlib.__import__"
)
_LOADS = names(
    "pickle.load pickle.loads marshal.loads shelve.open dill.load dill.loads joblib.load"
    " yaml.unsafe_load torch.load cloudpickle.load cloudpickle.loads pandas.read_pickle"
)
_NATIVE = re.compile(r"^(?:ctypes|cffi|mmap)\b")
_REMOVES = {"shutil.rmtree": True, "os.remove": False, "os.unlink": False, "os.rmdir": False, "os.removedirs": True}
_MOVES = names(
    "shutil.move os.rename os.replace shutil.copy shutil.copy2 shutil.copyfile shutil.copytree os.symlink os.link"
)
_MAKES = {"os.mkdir", "os.makedirs", "os.chmod", "os.chown", "os.truncate", "os.mknod"}
_ENVIRONMENT = {"os.environ", "os.getenv", "os.environ.get", "os.environ.copy", "os.environ.items"}
_READS = re.compile(
    r"(?:^|\.)(?:read_text|read_bytes|read_csv|read_json|read_excel|read_parquet|read_table|loadtxt|imread)$"
)
_WRITES = re.compile(
    r"(?:^|\.)(?:write_text|write_bytes|to_csv|to_json|to_excel|to_parquet|savefig|savetxt|imwrite|touch|symlink_to)$"
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


def read_cell(code: str, reader: Reader, state: State) -> None:
    """As `read_python`, for a cell of a notebook with its `!commands` and `%magics`."""
    findings = reader.findings
    head, _, rest = code.partition("\n")
    if head.startswith("%%"):
        name = head[2:].split()[0] if head[2:].split() else ""
        if name in ("bash", "sh", "script", "!", "system", "sx"):
            reader.read(rest, state)
        elif name in ("writefile", "file"):
            path, is_known = reader.path(literal(head.split()[-1]), state)
            findings.writing(path, is_known=is_known)
        elif name in ("time", "timeit", "capture", "prun"):
            read_cell(rest, reader, state)
        elif name in ("html", "markdown", "latex", "svg"):
            return
        else:
            findings.name("python.magic", head)
            findings.name("opaque.code", head)
        return
    lines = []
    for line in code.split("\n"):
        stripped = line.strip()
        indent = line[: len(line) - len(line.lstrip())]
        found = re.match(r"^(?:[\w, ]+=\s*)?(!!?|%)(.*)$", stripped)
        if not found or (found[1] == "%" and not re.match(r"^\s*[a-zA-Z_]", found[2])):
            lines.append(line)
            continue
        lines.append(f"{indent}pass")
        _shell_line(found[1], found[2].strip(), reader, state)
    read_python("\n".join(lines), reader, state)


_QUIET_MAGICS = names(
    "matplotlib load_ext autoreload time timeit who whos pwd reset config precision pylab"
    " history lsmagic pdb debug xmode colors pinfo pdoc"
)
_SHELL_MAGICS = names("pip conda mamba cd ls cat mkdir rm rmdir cp mv less more man env")


def _shell_line(mark: str, text: str, reader: Reader, state: State) -> None:
    name, _, rest = text.partition(" ")
    if mark.startswith("!"):
        reader.read(re.sub(r"\{[^{}]*\}", "$IPYTHON", text), state)
    elif name in ("sx", "system", "bash", "sh"):
        reader.read(rest, state)
    elif name in ("time", "timeit", "prun") and rest:
        read_python(rest, reader, state)
    elif name in _SHELL_MAGICS:
        reader.read(text, state)
    elif name == "run":
        reader.read(f"python {rest}", state)
    elif name not in _QUIET_MAGICS:
        reader.findings.name("python.magic", text)


class _Walk(ast.NodeVisitor):
    """Goes over one tree; names are resolved to dotted paths where they can be."""

    def __init__(self, reader: Reader, state: State) -> None:
        self.reader, self.state, self.findings = reader, state, reader.findings
        self._names: dict[str, str] = {}
        self._values: dict[str, str] = {}
        self._secret = False

    def visit_Import(self, node: ast.Import) -> None:
        for name in node.names:
            self._names[name.asname or name.name.partition(".")[0]] = (
                name.name if name.asname else name.name.partition(".")[0]
            )
            self._imported(name.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for name in node.names:
            self._names[name.asname or name.name] = f"{node.module or ''}.{name.name}"
            if name.name == "*" and (node.module or "").partition(".")[0] in ("os", "subprocess", "shutil", "socket"):
                self.findings.name("python.dynamic", f"from {node.module} import *")
        self._imported(node.module or "")

    def _imported(self, module: str) -> None:
        if _NATIVE.match(module):
            self.findings.name("python.native", module)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        text = self._text(node.value)
        dotted = self._dotted(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                self._values.pop(target.id, None)
                if text is not None:
                    self._values[target.id] = text
                if dotted:
                    self._names[target.id] = dotted
                elif isinstance(node.value, ast.Call) and (made := self._dotted(node.value.func)):
                    self._names[target.id] = made
            elif isinstance(target, ast.Subscript) and self._dotted(target.value) == "os.environ":
                name = self._text(target.slice) or ""
                self.reader.assign(name, Word(text or "?", text or "", text is not None), self.state)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if self._dotted(node.value) == "os.environ":
            self._environment(self._text(node.slice))
            self.visit(node.slice)
            return
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if self._dotted(node) == "os.environ":
            self._environment(None)
        if node.attr in (
            "__globals__",
            "__subclasses__",
            "__builtins__",
            "__code__",
            "__class__",
            "__mro__",
            "__bases__",
        ):
            self.findings.name("python.dynamic", node.attr)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in ("__builtins__", "__loader__"):
            self.findings.name("python.dynamic", node.id)
        if self._names.get(node.id) == "os.environ":
            self._environment(None)

    def _environment(self, name: str | None) -> None:
        if name is None or re.search(r"(?i)key|token|secret|passw|credential", name):
            self.findings.name("secret.environment" if name is None else "secret.keyring", f"os.environ {name or ''}")
            self._secret = True

    def visit_Call(self, node: ast.Call) -> None:
        name = self._dotted(node.func)
        self._call(name, node)
        if name in ("os.getenv", "os.environ.get"):
            for part in node.args[1:]:
                self.visit(part)
            return
        self.generic_visit(node)

    def _call(self, name: str, node: ast.Call) -> None:
        last = name.rpartition(".")[2] if name else getattr(node.func, "attr", "")
        if name in ("os.getenv", "os.environ.get"):
            self._environment(self._text(node.args[0]) if node.args else None)
        elif name in _RUNS:
            self._run(name, node)
        elif name in _DYNAMIC:
            text = self._text(node.args[0]) if node.args else None
            if text is not None and name in ("eval", "exec", "builtins.exec", "builtins.eval"):
                self.state.depth += 1
                read_python(text, self.reader, self.state)
                self.state.depth -= 1
            elif name in ("__import__", "importlib.import_module", "importlib.__import__") and text is not None:
                self._imported(text)
            else:
                self.findings.name("python.dynamic", name)
        elif name in ("getattr", "setattr", "globals", "locals", "vars") and name != "vars":
            if name in ("globals", "locals") or len(node.args) < 2 or self._text(node.args[1]) is None:
                self.findings.name("python.dynamic", name)
        elif name in _LOADS:
            self.findings.name("python.loads", name)
        elif _NATIVE.match(name):
            self.findings.name("python.native", name)
        elif _MAIL.match(name):
            self.findings.name("message.sent", name)
        elif _RAW.match(name):
            self.findings.name("net.raw", name)
            self._hosts(node)
        elif _FETCHES.match(name) or (last in ("urlopen", "urlretrieve") and not name):
            self._fetch(name, last, node)
        elif self._file_call(name, last, node):
            return
        elif name in ("os.kill", "os.killpg"):
            self.findings.name("machine.kill-one", name)
        elif name in (
            "get_ipython().run_line_magic",
            "get_ipython().run_cell_magic",
            "get_ipython().run_cell",
            "get_ipython().magic",
        ):
            self.findings.name("python.dynamic", name)
        elif name == "os.chdir":
            word = self._argument(node, 0)
            path, is_known = self.reader.path(word, self.state)
            self.state.cwd = path if is_known else None

    def _file_call(self, name: str, last: str, node: ast.Call) -> bool:
        """Whether a call is about files, which are named then."""
        if name in _REMOVES:
            self._path(node, 0, lambda word: self._removed(word, recursive=_REMOVES[name]))
        elif last in ("unlink", "rmdir") and isinstance(node.func, ast.Attribute):
            self._removed(self._word(self._receiver(node)), recursive=False)
        elif name in _MOVES:
            self._path(node, 0, self._read_path)
            self._path(node, 1, self._write_path)
        elif name in _MAKES:
            self._path(node, 0, self._write_path)
        elif (
            name in ("open", "io.open", "codecs.open", "os.open", "gzip.open", "zipfile.ZipFile", "tarfile.open")
            or last == "open"
        ):
            self._open(name, node)
        elif _READS.search(last):
            self._read_path(
                self._word(self._receiver(node)) if last.endswith(("text", "bytes")) else self._argument(node, 0)
            )
        elif _WRITES.search(last):
            is_own = last.endswith(("_text", "_bytes", "touch", "symlink_to"))
            self._write_path(self._word(self._receiver(node)) if is_own else self._argument(node, 0))
        elif last in ("extractall", "extract", "unpack_archive"):
            self.findings.name("write.unpacked", last)
        else:
            return False
        return True

    def _run(self, name: str, node: ast.Call) -> None:
        argument = (
            node.args[0]
            if node.args
            else next((key.value for key in node.keywords if key.arg in ("args", "cmd")), None)
        )
        if isinstance(argument, ast.List | ast.Tuple):
            self.reader.run([self._word(part) for part in argument.elts], self.state.inner(), Out(""))
            return
        if re.search(r"exec[lv]|spawn[lv]", name):
            self.reader.run(
                [self._word(part) for part in node.args[1:]] or [self._word(argument)], self.state.inner(), Out("")
            )
            return
        text = self._text(argument) if argument is not None else None
        if text is None:
            self.findings.name("opaque.text", name)
            if isinstance(argument, ast.JoinedStr | ast.BinOp):
                self.reader.inside(self._word(argument).text, self.state)
            return
        self.reader.inside(text, self.state)

    def _fetch(self, name: str, last: str, node: ast.Call) -> None:
        if last in names(
            "Session Client AsyncClient ClientSession HTTPAdapter Request Timeout PoolManager build_opener"
        ):
            for word in [self._argument(node, 0)] if last in ("Request",) else []:
                self._url(word)
            return
        word = self._argument(node, 1 if last in ("request", "Request") and node.args[1:] else 0, "url")
        self._url(word)
        keys = {key.arg for key in node.keywords}
        sends = keys & {"data", "json", "files", "content"} or last in ("post", "put", "patch")
        if sends and not self._local(word):
            self.findings.name("secret.sent" if self._secret else "net.post", name)
            values = [
                key.value for key in node.keywords if key.arg in ("data", "json", "files", "content")
            ] + node.args[1:]
            if any(
                "files" in keys or any(isinstance(part, ast.Name | ast.Call) for part in ast.walk(value))
                for value in values
            ):
                self.findings.name("net.upload", name)
        if any(
            key.arg == "verify" and isinstance(key.value, ast.Constant) and key.value.value is False
            for key in node.keywords
        ):
            self.findings.name("net.unchecked", name)

    def _local(self, word: Word) -> bool:
        from core.security.network import host_of, is_local

        return is_local(host_of(word.text))

    def _url(self, word: Word) -> None:
        from core.security.network import host_of

        host = host_of(word.text) if word.known or "://" in word.text else ""
        self.findings.calling(host, "net.fetch", word.text)
        if not self._local(word):
            self.findings.add(self.findings.urls, word.text)
            if not word.known:
                self.findings.name(
                    "secret.sent" if self._secret else "net.in-address" if host else "net.fetch", word.text
                )

    def _hosts(self, node: ast.Call) -> None:
        for part in ast.walk(node):
            if isinstance(part, ast.Tuple) and part.elts and (host := self._text(part.elts[0])):
                self.findings.calling(host, "net.raw", host)

    def _open(self, name: str, node: ast.Call) -> None:
        is_method = isinstance(node.func, ast.Attribute) and not name.startswith(
            ("io.", "codecs.", "os.", "gzip.", "tarfile.", "zipfile.")
        )
        mode_at = 0 if is_method else 1
        mode = next((self._text(key.value) for key in node.keywords if key.arg == "mode"), None)
        if mode is None and len(node.args) > mode_at:
            mode = self._text(node.args[mode_at]) or "w"
        word = self._word(self._receiver(node)) if is_method else self._argument(node, 0, "file")
        if any(char in (mode or "r") for char in "wax+"):
            self._write_path(word)
        else:
            self._read_path(word)

    def _receiver(self, node: ast.Call) -> ast.expr | None:
        value = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(value, ast.Name) and value.id in self._values:
            return ast.Constant(self._values[value.id])
        return value

    def _argument(self, node: ast.Call, at: int, key: str = "") -> Word:
        value = (
            node.args[at]
            if len(node.args) > at
            else next((part.value for part in node.keywords if part.arg == key), None)
        )
        return self._word(value)

    def _path(self, node: ast.Call, at: int, then: Callable[[Word], None]) -> None:
        if len(node.args) > at:
            then(self._word(node.args[at]))

    def _read_path(self, word: Word) -> None:
        path, is_known = self.reader.path(word, self.state)
        if self.findings.reading(path, is_known=is_known):
            self._secret = True

    def _write_path(self, word: Word) -> None:
        path, is_known = self.reader.path(word, self.state)
        self.findings.writing(path, is_known=is_known)

    def _removed(self, word: Word, *, recursive: bool) -> None:
        from core.security.shell.files import removed
        from core.security.shell.programs import Call

        removed(Call(self.reader, self.state, "rm", [word], Out("")), word, recursive=recursive)

    def _word(self, node: ast.expr | None) -> Word:
        """A value as a word; its parts that are not known as they are written."""
        text = self._text(node) if node is not None else None
        if text is not None:
            return literal(text)
        if isinstance(node, ast.JoinedStr):
            parts = [str(part.value) if isinstance(part, ast.Constant) else "" for part in node.values]
            return Word("".join(part or "$X" for part in parts), "".join(parts), False)
        if isinstance(node, ast.BinOp):
            left, right = self._word(node.left), self._word(node.right)
            return Word(left.text + right.text, left.bare + right.bare, False)
        return Word("$X" if node is None or not isinstance(node, ast.Name) else f"${node.id}", "", False)

    def _text(self, node: ast.expr | None) -> str | None:
        """A text that can be told."""
        match node:
            case ast.Constant(value=str() as value):
                return value
            case ast.Constant(value=bytes() as value):
                return value.decode("utf-8", "replace")
            case ast.Name(id=name):
                return self._values.get(name)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                one, other = self._text(left), self._text(right)
                return one + other if one is not None and other is not None else None
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                one, other = self._text(left), self._text(right)
                return f"{one}/{other}" if one is not None and other is not None else None
            case ast.JoinedStr(values=values):
                texts = [self._text(part.value if isinstance(part, ast.FormattedValue) else part) for part in values]
                return "".join(text for text in texts if text is not None) if None not in texts else None
            case ast.Call(func=func, args=args):
                return self._called(self._dotted(func), func, args)
        return None

    def _called(self, name: str, func: ast.expr, args: list[ast.expr]) -> str | None:
        import base64

        first = self._text(args[0]) if args else None
        if (
            name in ("pathlib.Path", "Path", "str", "os.path.expanduser", "pathlib.PurePath", "os.fspath")
            and first is not None
        ):
            return first
        if name == "pathlib.Path.home":
            return "~"
        if name == "os.path.join":
            texts = [self._text(part) for part in args]
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
            return self._text(func.value)
        return None

    def _dotted(self, node: ast.expr) -> str:
        """`os.system` for what is called so, through imports and aliases; empty for what has no name."""
        match node:
            case ast.Name(id=name):
                return self._names.get(name, name)
            case ast.Attribute(value=value, attr=attr):
                return f"{before}.{attr}" if (before := self._dotted(value)) else ""
            case ast.Call(func=ast.Name(id="get_ipython")):
                return "get_ipython()"
            case ast.Call(func=ast.Name(id="__import__"), args=[ast.Constant(value=str() as module), *_]):
                return module
            case ast.Call(func=func, args=[ast.Constant(value=str() as module), *_]) if (
                self._dotted(func) == "importlib.import_module"
            ):
                return module
            case ast.Call(func=ast.Name(id="getattr"), args=[value, second, *_]) if self._text(second) is not None:
                return f"{self._dotted(value)}.{self._text(second)}"
            case ast.Call(func=func):
                made = self._dotted(func)
                return made if made.rpartition(".")[2][:1].isupper() else ""
        return ""
