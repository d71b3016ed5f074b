"""What calls of Python would do: programs, files, the network, code that is made while it runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from core.security.network import host_of, is_local
from core.security.python_names import Names
from core.security.rules import names
from core.security.shell.reader import Reader, State
from core.security.shell.words import Out, Word

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
_READS = re.compile(
    r"(?:^|\.)(?:read_text|read_bytes|read_csv|read_json|read_excel|read_parquet|read_table|loadtxt|imread)$"
)
_WRITES = re.compile(
    r"(?:^|\.)(?:write_text|write_bytes|to_csv|to_json|to_excel|to_parquet|savefig|savetxt|imwrite|touch|symlink_to)$"
)
_MODULES = names("os subprocess shutil asyncio socket requests httpx urllib sys json re pathlib importlib builtins pty")


class Calls(Names):
    """Names the rules that calls meet."""

    def __init__(self, reader: Reader, state: State) -> None:
        super().__init__()
        self.reader, self.state, self.findings = reader, state, reader.findings
        self.reads_secrets = False

    def read(self, code: str) -> None:
        """Code within the code. Overridden by the walk over a tree."""
        raise NotImplementedError

    def environment(self, name: str | None) -> None:
        if name is None or re.search(r"(?i)key|token|secret|passw|credential", name):
            self.findings.name("secret.environment" if name is None else "secret.keyring", f"os.environ {name or ''}")
            self.reads_secrets = True

    def call(self, name: str, node: ast.Call) -> None:
        if not self.is_told(name):
            name = self.earlier(node) or name
        last = name.rpartition(".")[2] if name else getattr(node.func, "attr", "")
        if not name and isinstance(node.func, ast.Subscript | ast.Call | ast.Lambda | ast.IfExp):
            self.findings.name("python.dynamic", ast.unparse(node.func)[:100])
        if name in ("os.getenv", "os.environ.get"):
            self.environment(self.text(node.args[0]) if node.args else None)
        elif name in _RUNS:
            self._run(name, node)
        elif name in _DYNAMIC:
            text = self.text(node.args[0]) if node.args else None
            if text is not None and name in ("eval", "exec", "builtins.exec", "builtins.eval"):
                self.read(text)
            elif name in ("__import__", "importlib.import_module", "importlib.__import__") and text is not None:
                self.imported(text)
            else:
                self.findings.name("python.dynamic", name)
        elif name in ("getattr", "setattr", "globals", "locals", "vars") and name != "vars":
            if name in ("globals", "locals") or len(node.args) < 2 or self.text(node.args[1]) is None:
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
            self._removed(self.word(self._receiver(node)), recursive=False)
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
                self.word(self._receiver(node)) if last.endswith(("text", "bytes")) else self._argument(node, 0)
            )
        elif _WRITES.search(last):
            is_own = last.endswith(("_text", "_bytes", "touch", "symlink_to"))
            self._write_path(self.word(self._receiver(node)) if is_own else self._argument(node, 0))
        elif last in ("extractall", "extract", "unpack_archive"):
            self.findings.name("write.unpacked", last)
        else:
            return False
        return True

    def imported(self, module: str) -> None:
        """A module that is imported."""
        if _NATIVE.match(module):
            self.findings.name("python.native", module)

    def is_dangerous(self, dotted: str) -> bool:
        """Whether a name is one that may not be handed on: what is done with it then is not seen."""
        return dotted in _RUNS or dotted in _REMOVES or dotted in _DYNAMIC - {"compile"} or dotted in _LOADS

    def is_told(self, dotted: str) -> bool:
        """Whether the first part of a dotted path is known in this code, or is a module's usual name."""
        first = dotted.partition(".")[0]
        return first in _MODULES or first in {path.partition(".")[0] for path in self.names.values()}

    def earlier(self, node: ast.Call) -> str:
        """What a method may be, of an object that an earlier cell made; empty where nothing is known."""
        attribute = getattr(node.func, "attr", "")
        first = node.args[0] if node.args else None
        if attribute in ("Popen", "check_output", "check_call", "getoutput"):
            return f"subprocess.{attribute}"
        if attribute in ("system", "popen"):
            return f"os.{attribute}"
        if attribute in ("run", "call") and (
            isinstance(first, ast.List | ast.JoinedStr) or self.text(first) is not None
        ):
            return "subprocess.run"
        if attribute in ("get", "post", "put", "patch", "request", "delete") and "://" in (self.word(first).text):
            return f"requests.{attribute}"
        return ""

    def _run(self, name: str, node: ast.Call) -> None:
        argument = (
            node.args[0]
            if node.args
            else next((key.value for key in node.keywords if key.arg in ("args", "cmd")), None)
        )
        if isinstance(argument, ast.List | ast.Tuple):
            self.reader.run([self.word(part) for part in argument.elts], self.state.inner(), Out(""))
            return
        if re.search(r"exec[lv]|spawn[lv]", name):
            self.reader.run(
                [self.word(part) for part in node.args[1:]] or [self.word(argument)], self.state.inner(), Out("")
            )
            return
        text = self.text(argument) if argument is not None else None
        if text is None:
            self.findings.name("opaque.text", name)
            if isinstance(argument, ast.JoinedStr | ast.BinOp):
                self.reader.inside(self.word(argument).text, self.state)
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
            self.findings.name("secret.sent" if self.reads_secrets else "net.post", name)
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
        return is_local(host_of(word.text))

    def _url(self, word: Word) -> None:
        host = host_of(word.text) if word.known or "://" in word.text else ""
        self.findings.calling(host, "net.fetch", word.text)
        if not self._local(word):
            self.findings.add(self.findings.urls, word.text)
            if not word.known:
                self.findings.name(
                    "secret.sent" if self.reads_secrets else "net.in-address" if host else "net.fetch", word.text
                )

    def _hosts(self, node: ast.Call) -> None:
        for part in ast.walk(node):
            if isinstance(part, ast.Tuple) and part.elts and (host := self.text(part.elts[0])):
                self.findings.calling(host, "net.raw", host)

    def _open(self, name: str, node: ast.Call) -> None:
        is_method = isinstance(node.func, ast.Attribute) and not name.startswith(
            ("io.", "codecs.", "os.", "gzip.", "tarfile.", "zipfile.")
        )
        mode_at = 0 if is_method else 1
        mode = next((self.text(key.value) for key in node.keywords if key.arg == "mode"), None)
        if mode is None and len(node.args) > mode_at:
            mode = self.text(node.args[mode_at]) or "w"
        word = self.word(self._receiver(node)) if is_method else self._argument(node, 0, "file")
        if any(char in (mode or "r") for char in "wax+"):
            self._write_path(word)
        else:
            self._read_path(word)

    def _receiver(self, node: ast.Call) -> ast.expr | None:
        value = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(value, ast.Name) and value.id in self.values:
            return ast.Constant(self.values[value.id])
        return value

    def _argument(self, node: ast.Call, at: int, key: str = "") -> Word:
        value = (
            node.args[at]
            if len(node.args) > at
            else next((part.value for part in node.keywords if part.arg == key), None)
        )
        return self.word(value)

    def _path(self, node: ast.Call, at: int, then: Callable[[Word], None]) -> None:
        if len(node.args) > at:
            then(self.word(node.args[at]))

    def _read_path(self, word: Word) -> None:
        path, is_known = self.reader.path(word, self.state)
        if self.findings.reading(path, is_known=is_known):
            self.reads_secrets = True

    def _write_path(self, word: Word) -> None:
        path, is_known = self.reader.path(word, self.state)
        self.findings.writing(path, is_known=is_known)

    def _removed(self, word: Word, *, recursive: bool) -> None:
        from core.security.shell.files import removed
        from core.security.shell.programs import Call

        removed(Call(self.reader, self.state, "rm", [word], Out("")), word, recursive=recursive)
