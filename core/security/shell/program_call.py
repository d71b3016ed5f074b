"""One call of a program, and what can be said of it: paths that it reads, writes and removes, hosts, code that it runs.

Handlers of programs and builtins work on a Call; everything that they say goes into the Findings of the action.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING
from urllib.parse import unquote

from core.autorun_paths import is_autorun
from core.secrets.variable_names import is_secret_name
from core.security.findings import Findings
from core.security.hosts import host_of, is_local
from core.security.paths import Region
from core.security.shell.expansion import Value
from core.security.shell.shell_state import Shell
from core.security.shell.syntax import NotUnderstoodError

if TYPE_CHECKING:
    from core.security.shell.reader import Reader

_STREAMS = frozenset(["/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero", "/dev/urandom",
                      "/dev/random"])  # fmt: skip
_MAGIC = re.compile(r"^/proc/[^/]+/(?:root|cwd|fd|task|exe|map_files)(?:/|$)|^/dev/fd/")
_ABOVE = re.compile(r"(?:^|/)(?!\.\.?(?:/|$))[^/]+/+(?:\./+)*\.\.(?:/|$)")
"""`folder/..`: where it leads depends on links."""
_AMBIGUOUS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/(?!/)|(?:[A-Za-z][A-Za-z0-9+.-]*://)?[^/?#]*[^!-$&-~]")
"""An address with one slash, or with `%` or a letter beyond ASCII in its host."""
_SECRET_NAME = re.compile(r"(?i)\$\{?\w*(?:key|token|secret|passw|credential|database_url|_dsn$)")
_OBEYED = frozenset([".git", ".ssh"])
_VARIABLE = re.compile(r"\$\{?[#!]?(\w+)")
_BEFORE_GLOB = re.compile(r"[*?\[]")
_NARROW_GLOB = re.compile(r"(?!\.)[^*?\[]*\*[^*?\[]*")
"""One star in a name that does not begin with a dot."""
_SECRET_FILES = (
    *(".env", ".env.local", ".netrc", ".npmrc", ".pgpass", ".git-credentials", ".htpasswd", "id_rsa", "id_ed25519"),
    *("server.pem", "server.key", "secrets.yaml", "credentials.json", "kubeconfig"),
)
"""What a glob in the workspace may mean."""
_PACKAGE = re.compile(
    r"(?:@[\w.-]+/)?[A-Za-z0-9][\w.-]*(?:\[[\w,.-]+\])?"
    r"(?:@[\w.^~<>=*-]+|(?:\s*(?:,\s*)?[<>=!~]=?=?\s*[\w.*]+)*)"
    r"(?:\s*;[\w\s.<>='\"]+)?"
)
_PACKAGE_CHARS = 300
_FORGE = ("git+https://github.com/", "git+ssh://git@github.com/")


def names_secret(value: Value) -> bool:
    """Whether an unknown value has a variable whose name says that it holds a secret."""
    return value.text is None and (
        _SECRET_NAME.search(value.shown) is not None or any(map(is_secret_name, _VARIABLE.findall(value.shown)))
    )


@dataclass(frozen=True, slots=True)
class Input:
    """What a command reads from its standard input."""

    text: str | None = None
    """A heredoc or a here-string whose text is known."""
    is_given: bool = False
    """Whether something is piped or redirected to it."""
    is_remote: bool = False
    """Whether it came from the network."""
    is_literal: bool = False
    """Whether it is the text of an `echo` or `printf` that names nothing else."""


@dataclass(slots=True)
class Call:
    """A program or a builtin with its arguments."""

    name: str
    args: Sequence[Value]
    reader: Reader
    shell: Shell
    """What is known of the shell; handlers of builtins replace it."""
    stdin: Input
    source: str
    depth: int = 0
    folder: tuple[str, ...] | None = None
    """Where it works, if an option says so."""
    spelled: list[str] = field(default_factory=list)
    """Its words without the options that every subcommand takes."""

    @property
    def findings(self) -> Findings:
        """Where to say what is found."""
        return self.reader.findings

    @property
    def folders(self) -> tuple[str, ...]:
        """Where it may work; empty where that is not known."""
        return self.shell.folders if self.folder is None else self.folder

    def fail(self, value: Value | None = None, why: str = "") -> NotUnderstoodError:
        """The exception for an argument, or for the whole call."""
        return NotUnderstoodError(value.shown if value is not None else self.source, why or self.name)

    def rule(self, rule: str, about: str = "") -> None:
        """Report a rule."""
        self.findings.name(rule, about or self.source)

    # -- paths -----------------------------------------------------------------------------------------------------

    def paths(self, value: Value) -> list[str]:
        """The absolute paths that a value may mean. Raises NotUnderstoodError if they are not known."""
        text = value.text
        if text is None:
            raise self.fail(value, "the path is only known at run time")
        if "\0" in text or "://" in text or _ABOVE.search(text):
            raise self.fail(value, "a path through .., an address or a NUL in a path")
        places = self.findings.places
        if text.startswith("/"):
            found = [text]
        elif text == "~" or text.startswith("~/"):
            found = [places.home + text[1:]]
        elif not self.folders:
            raise self.fail(value, "the current folder is unknown")
        else:
            found = [f"{folder}/{text}" for folder in self.folders]
        paths = [places.resolve(path, None) or path for path in found]
        for path in paths:
            if _MAGIC.search(path) or self.shell.leads_through_link(path):
                raise self.fail(value, "the path may lead elsewhere")
        return paths

    def reads(self, value: Value) -> None:
        """Report a file or folder that is read, with everything in it."""
        places = self.findings.places
        for path in self._read_paths(value):
            self.findings.reading(path)
            if value.is_glob and self._may_be_secret(path):
                self.rule("secret.read", path)
            is_system_glob = value.is_glob and places.place(path) is Region.SYSTEM
            if (
                is_system_glob
                or places.is_above(path, places.home)
                or re.fullmatch(r"/(?:etc|proc|var|run|sys|home|Users)?|/proc/[^/]+", path)
            ):
                self.rule("read.outside", path)

    def lists(self, value: Value) -> None:
        """Report that names, sizes or the like of a file or folder are listed."""
        for path in self._read_paths(value):
            self.findings.add(self.findings.reads, path)
            if rule := self.findings.places.secret(path):
                self.rule(rule, path)

    def _read_paths(self, value: Value) -> list[str]:
        if value.text == "-":
            return []
        try:
            return [path for path in self.paths(value) if path not in _STREAMS]
        except NotUnderstoodError:
            self._may_mean(value, self.findings.reads)
            raise

    def _may_be_secret(self, path: str) -> bool:
        """Whether a glob aims at a file with secrets; `*` alone and `*.py` do not."""
        name = posixpath.basename(path)
        is_plain = name == "*" or re.fullmatch(r"\*\.\w+", name)
        aimed = any(fnmatchcase(one, name) and one.startswith(".") == name.startswith(".") for one in _SECRET_FILES)
        exact = self.findings.places.secret(path.replace("*", "x"))
        return bool(exact) or bool(re.search(r"[?\[]", path)) or (aimed and not is_plain)

    def aims_at_secret(self, glob: str) -> bool:
        """Whether a glob for the names of files that are searched aims at one with secrets; `*.json` does not."""
        return any(
            bool(self.findings.places.secret(f"/{name.replace('*', 'x')}"))
            or (
                not re.fullmatch(r"\**(?:\.(?!env$)\w+)?", name)
                and any(fnmatchcase(one, name) for one in _SECRET_FILES)
            )
            for name in (posixpath.basename(part) for part in re.split(r"[{},]", glob.lower()))
        )

    def _may_mean(self, value: Value, items: dict[str, None]) -> None:
        """Keep the path as it is without links, so that a rule that denies it still applies."""
        if value.text is not None and "\0" not in value.text:
            for folder in self.folders or ("/",) * value.text.startswith("/"):
                self.findings.add(items, posixpath.normpath(posixpath.join(folder, value.text)))

    def writes(self, value: Value) -> None:
        """Report a file or folder that is written."""
        if value.text == "-":
            return
        try:
            paths = self.paths(value)
        except NotUnderstoodError:
            self._may_mean(value, self.findings.writes)
            raise
        for path in paths:
            if path not in _STREAMS:
                self.findings.writing(path)
                self.shell = self.shell.with_written(path)
        if value.is_glob:
            raise self.fail(value, "a pattern as the file to write")

    def makes_folder(self, value: Value) -> None:
        """Report a folder that is created, which is harmless in the home folder."""
        for path in self.paths(value):
            where, is_obeyed = self.findings.places.place(path), bool(self.findings.places.persistence(path))
            if is_autorun(path) and _OBEYED.isdisjoint(path.split("/")):  # nothing is run without a file in it
                is_obeyed = False
            if where in (Region.HOME, Region.INSIDE) and not is_obeyed:
                self.findings.add(self.findings.writes, path)
            else:
                self.findings.writing(path)

    def empties(self, value: Value) -> None:
        """Report files outside the workspace whose contents are lost."""
        for path in self.paths(value) if value.text is not None else ():
            if path not in _STREAMS and self.findings.places.place(path) not in (Region.INSIDE, Region.TEMPORARY):
                self.rule("destroy.emptied", path)

    def removes(self, value: Value, *, recursive: bool) -> None:
        """Report a file or folder that is deleted."""
        if value.text is None:
            self.rule("destroy.variable", value.shown)
            raise self.fail(value, "the path is only known at run time")
        for path in self.paths(value):
            self._removes(path, recursive=recursive)

    def _removes(self, path: str, *, recursive: bool) -> None:
        findings, places = self.findings, self.findings.places
        is_glob = _BEFORE_GLOB.search(path) is not None
        base = posixpath.dirname(_BEFORE_GLOB.split(path)[0]) or "/" if is_glob else path
        name = path.rpartition("/")[2]
        whole = places.is_above(base) and (not is_glob or name in ("*", ".*", "**"))
        if (whole or base in ("/", "~", "/home", places.home) or re.match(r"^/[a-zA-Z]+/?$", base)) and (
            places.place(base) is not Region.TEMPORARY and (recursive or is_glob)
        ):
            self.rule("destroy.root", path)
        if is_glob and (_BEFORE_GLOB.search(path.rpartition("/")[0]) or not _NARROW_GLOB.fullmatch(name)):
            self.rule("destroy.work", path)
        if places.place(path) not in (Region.INSIDE, Region.TEMPORARY):
            self.rule("destroy.outside", path)
            findings.add(findings.writes, path)
            return
        if recursive:
            self.rule("destroy.folder", path)
            findings.add(findings.whole, path)
        findings.writing(path)

    def goes_to(self, value: Value) -> None:
        """The rest of the call works in another folder."""
        self.folder = tuple(self.paths(value)) if value.text is not None else ()

    # -- code ------------------------------------------------------------------------------------------------------

    def project(self) -> None:
        """It runs the code of the project in its folder, or obeys its settings."""
        for folder in self.folders:
            self.findings.add(self.findings.runs, folder)
        if self.shell.wrote_code:
            self.rule("run.written")
        is_here = self.folders and all(self.findings.places.place(one) is Region.INSIDE for one in self.folders)
        self.rule("run.project" if is_here else "run.elsewhere")

    def runs(self, value: Value) -> None:
        """It runs the code in a file."""
        if value.text == "-" or value.is_glob:
            raise self.fail(value, "code")
        for path in self.paths(value):
            if path.startswith(("/dev/", "/proc/")):
                raise self.fail(value, "code")
            self.findings.reading(path)
            self.findings.add(self.findings.runs, path)
            if self.shell.wrote(path) or self.shell.wrote_code:
                self.rule("run.written", path)
            inside = self.findings.places.place(path) is Region.INSIDE
            self.rule("run.project" if inside else "run.elsewhere", path)

    def hands(self, value: Value) -> None:
        """A tool that runs a project's code is given a word; a path in it has to lie in the workspace."""
        if value.text is None and value.is_foreign:
            raise self.fail(value, "the value may come from a command or a file")
        for part in re.split(r"[=,:@\s]", value.start):
            if "://" in value.start or part.startswith(("/", "~")) or ".." in part:
                for path in self.paths(Value(part, value.shown)):
                    self._handed(path)
                    if self.findings.places.place(path) is not Region.INSIDE:
                        self.rule("run.elsewhere", value.shown)
            elif value.text is not None and ("." in part or "/" in part):
                for folder in self.folders:
                    self._handed(self.findings.places.resolve(part, folder) or part)

    def _handed(self, path: str) -> None:
        if rule := self.findings.places.secret(path):  # most tools print what they cannot read
            self.rule(rule, path)
        elif "*" in path and self.aims_at_secret(path):
            self.rule("secret.read", path)
        if self.name != "git" and self.shell.wrote(path):  # a list of options, or settings
            self.rule("run.written", path)

    def installs(self, value: Value) -> None:
        """A package is installed: from the index, from a forge, or from the workspace."""
        text = value.text
        if text is None:
            raise self.fail(value, "a package")
        self.rule("package.install")
        is_file = text.startswith((".", "/", "~")) or ("/" in text and "@" not in text) or text.endswith(".tgz")
        if text.startswith(_FORGE):
            self.findings.calling("github.com", "git.fetch", text)
        elif "://" in text or re.match(r"git@|\w+\+", text):
            self.rule("package.install-url", text)
        elif is_file:
            self.reads(value)
            self.hands(value)
        elif len(text) > _PACKAGE_CHARS or not _PACKAGE.fullmatch(text):
            raise self.fail(value, "a package")

    def mentions(self, values: Sequence[Value]) -> None:
        """Arguments for the project's code: a path outside the workspace counts as read."""
        for value in values:
            if value.text is None and value.is_foreign:
                raise self.fail(value, "the value may come from a command or a file")
            path = re.sub(r"^(?:-[\w-]*=)?@?", "", value.start)
            if path.startswith(("/", "~/", "../")) and not _ABOVE.search(path):
                self.reads(Value(path, value.shown, is_glob=value.is_glob))

    # -- the network -----------------------------------------------------------------------------------------------

    def fetches(self, value: Value, rule: str = "net.fetch") -> bool:
        """An address is called; whether it is on this machine."""
        start = value.start
        if start.startswith("@"):
            raise self.fail(value, "a file of addresses")
        scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", start)
        if scheme and scheme[1].lower() == "file":
            if value.text is None or re.search(r"[%\[{*?#]", value.text):
                raise self.fail(value, "an address of a file")
            path = unquote(value.text.partition("://")[2] or value.text.partition(":")[2])
            self.reads(Value(path if path.startswith("/") else f"/{path.partition('/')[2]}", value.shown))
            return True
        if re.search(r"[\\\s\x00-\x1f]", start) or _AMBIGUOUS.match(start):
            raise self.fail(value, "the address is ambiguous")
        host = host_of(start)
        if names_secret(value):
            self.rule("secret.sent", value.shown)
        if value.text is None and not re.match(r"(?:[A-Za-z]+://)?(?![A-Za-z]+:/)[^/]+/", start):
            self.findings.unclear.setdefault("net", value.shown)
            self.findings.sends = True
            self.rule("net.fetch", value.shown)
            if value.is_foreign:
                self.rule("net.in-address", value.shown)
            return False
        self.findings.calling(host, rule, value.shown)
        local = is_local(host)
        if not local:
            self.findings.add(self.findings.urls, start if "://" in start else f"http://{start}")
            if value.is_foreign:
                self.rule("net.in-address", value.shown)
        return local

    # -- commands in commands --------------------------------------------------------------------------------------

    def command(self, values: Sequence[Value], stdin: Input | None = None) -> None:
        """It runs another program with these words."""
        if not values:
            raise self.fail()
        self.shell = self.reader.call(values, self.shell, stdin or self.stdin, self.source, self.depth + 1,
                                      self.folder)  # fmt: skip

    def script(self, value: Value) -> None:
        """It runs a text as commands of a new shell."""
        if value.text is None:
            raise self.fail(value, "the commands are only known at run time")
        folders = self.folders
        inner = self.shell.at(folders) if folders else self.shell
        inner = Shell(inner.folders, dict.fromkeys(inner.variables), inner.environment, inner.written, inner.links)
        self.shell = self.shell.kept_by(self.reader.inside(value.text, inner, self.depth + 1))
