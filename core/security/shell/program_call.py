"""A call of a program, for the handlers of programs and builtins, which report its effects.

Effects are paths that are read, written and deleted, hosts, and code that is run. They go into the Findings of the
action.
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
from core.security.shell.shell_state import Shell, may_be_code
from core.security.shell.syntax import NotUnderstoodError

if TYPE_CHECKING:
    from core.security.shell.reader import Reader

_STREAMS = frozenset(["/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero", "/dev/urandom",
                      "/dev/random"])  # fmt: skip
_MAGIC = re.compile(r"^/proc/[^/]+/(?:root|cwd|fd|task|exe|map_files)(?:/|$)|^/dev/fd/")
_ABOVE = re.compile(r"(?:^|/)(?!\.\.?(?:/|$))[^/]+/+(?:\./+)*\.\.(?:/|$)")
"""`folder/..`, whose target depends on links."""
_UP = re.compile(r"(?:\./+)*\.\.(?:/|$)")
_GLOB_UP = re.compile(r"(?:^|/)\.[*?\[]")
"""A pattern that may match `..` as well, in bash before 5.2 and in other shells."""
_AMBIGUOUS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/(?!/)|(?:[A-Za-z][A-Za-z0-9+.-]*://)?[^/?#]*[^!-$&-~]")
"""A URL with one slash, or with `%` or a non-ASCII letter in its host."""
_SECRET_NAME = re.compile(r"(?i)\$\{?\w*(?:key|token|secret|passw|credential|database_url|_dsn$)")
_VARIABLE = re.compile(r"\$\{?[#!]?(\w+)")
_BEFORE_GLOB = re.compile(r"[*?\[]")
_NARROW_GLOB = re.compile(r"(?!\.)[^*?\[]*\*[^*?\[]*")
"""A name with one star that does not begin with a dot."""
_SECRET_FILES = (
    *(".env", ".env.local", ".netrc", ".npmrc", ".pgpass", ".git-credentials", ".htpasswd", "id_rsa", "id_ed25519"),
    *("server.pem", "server.key", "secrets.yaml", "credentials.json", "kubeconfig"),
)
"""Files in a workspace that a glob may match."""
_PACKAGE = re.compile(
    r"(?:@[\w.-]+/)?[A-Za-z0-9][\w.-]*(?:\[[\w,.-]+\])?"
    r"(?:@[\w.^~<>=*-]+|(?:\s*(?:,\s*)?[<>=!~]=?=?\s*[\w.*]+)*)"
    r"(?:\s*;[\w\s.<>='\"]+)?"
)
_PACKAGE_CHARS = 300
MAX_PATH_CHARS = 4_096
"""The longest path that Linux opens. Patterns are matched in the square of their length."""
_FORGE = ("git+https://github.com/", "git+ssh://git@github.com/")


def names_secret(value: Value) -> bool:
    """Whether an unknown value contains a variable whose name looks like a secret."""
    return value.text is None and (
        _SECRET_NAME.search(value.shown) is not None or any(map(is_secret_name, _VARIABLE.findall(value.shown)))
    )


@dataclass(frozen=True, slots=True)
class Input:
    """The standard input of a command."""

    text: str | None = None
    """The text, if it is a heredoc or a here-string."""
    is_given: bool = False
    """Whether it is a pipe or a redirection."""
    is_remote: bool = False
    """Whether it comes from the network."""


@dataclass(slots=True)
class Call:
    """A program or builtin with its arguments."""

    name: str
    args: Sequence[Value]
    reader: Reader
    shell: Shell
    """The state of the shell, which handlers of builtins replace."""
    stdin: Input
    source: str
    depth: int = 0
    folder: tuple[str, ...] | None = None
    """The working folders, if an option sets them."""
    spelled: list[str] = field(default_factory=list)
    """The program and its subcommands, without options."""

    @property
    def findings(self) -> Findings:
        """The findings of the action."""
        return self.reader.findings

    @property
    def folders(self) -> tuple[str, ...]:
        """The possible working folders; empty if unknown."""
        return self.shell.folders if self.folder is None else self.folder

    def fail(self, value: Value | None = None, why: str = "") -> NotUnderstoodError:
        """Make the exception for an argument, or for the whole call."""
        return NotUnderstoodError(value.shown if value is not None else self.source, why or self.name)

    def report(self, rule: str, about: str = "") -> None:
        """Report a rule."""
        self.findings.report(rule, about or self.source)

    # -- paths -----------------------------------------------------------------------------------------------------

    def paths(self, value: Value) -> list[str]:
        """The absolute paths that a value may be. Raises NotUnderstoodError if they are unknown."""
        text = value.text
        if text is None:
            raise self.fail(value, "the path is only known at run time")
        if len(text) > MAX_PATH_CHARS:
            raise self.fail(value, "too long for a path")
        if "\0" in text or "://" in text or _ABOVE.search(text):
            raise self.fail(value, "a path through .., an address or a NUL in a path")
        places = self.findings.places
        if text.startswith("/"):
            found = [text]
        elif text == "~" or text.startswith("~/"):
            found = [places.home + text[1:]]
        elif not self.folders:
            raise self.fail(value, "the current folder is unknown")
        elif _UP.match(text) and any(places.is_link(one) or self.shell.wrote(one) for one in self.folders):
            raise self.fail(value, "a path through .. from a folder that is reached through a link or was moved")
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
        if value.is_glob and _GLOB_UP.search(value.start):
            raise self.fail(value, "the pattern may expand to a path through ..")
        for path in self._read_paths(value):
            self.findings.read_path(path)
            if value.is_glob and (re.search(r"[?\[]", path) or self.aims_at_secret(path)):
                self.report("secret.read", path)
            is_system_glob = value.is_glob and places.place(path) is Region.SYSTEM
            if (
                is_system_glob
                or places.is_above(path, places.home)
                or re.fullmatch(r"/(?:etc|proc|var(?:/spool)?|run|sys|home|Users)?|/proc/[^/]+", path)
                or (value.is_glob and re.match(r"/[^/]*\*", path))  # /h*/NAME may be a home folder
            ):
                self.report("read.outside", path)

    def lists(self, value: Value) -> None:
        """Report that names, sizes or the like of a file or folder are listed."""
        for path in self._read_paths(value):
            self.findings.add(self.findings.reads, path)
            if rule := self.findings.places.secret(path):
                self.report(rule, path)

    def _read_paths(self, value: Value) -> list[str]:
        if value.text == "-":
            return []
        try:
            return [path for path in self.paths(value) if path not in _STREAMS]
        except NotUnderstoodError:
            self._may_mean(value, self.findings.reads)
            raise

    def aims_at_secret(self, glob: str) -> bool:
        """Whether a glob aims at files with secrets; `*` and `*.json` do not."""
        if self.findings.places.secret(glob.replace("*", "x")):
            return True
        return any(
            bool(self.findings.places.secret(f"/{name.replace('*', 'x')}"))
            or (
                not re.fullmatch(r"\*?(?:\.(?!env$)\w+)?", name)
                and any(fnmatchcase(one, name) for one in _SECRET_FILES)
            )
            for name in (posixpath.basename(part) for part in re.split(r"[{},]", glob.lower()))
        )

    def _may_mean(self, value: Value, items: dict[str, None]) -> None:
        """Add the path without following links, so that a deny rule still applies."""
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
                self.findings.write_path(path)
                self.shell = self.shell.with_written(path)
                if self.shell.runs_behind and may_be_code(path):
                    self.report("run.written", path)
        if value.is_glob:
            raise self.fail(value, "a pattern as the file to write")

    def creates_folder(self, value: Value) -> None:
        """Report a folder that is created, which is harmless in the home folder."""
        for path in self.paths(value):
            places = self.findings.places
            is_inert = is_autorun(path) and {".git", ".ssh"}.isdisjoint(path.split("/"))  # until it has a file
            if places.place(path) in (Region.HOME, Region.INSIDE) and (is_inert or not places.persistence(path)):
                self.findings.add(self.findings.writes, path)
            else:
                self.findings.write_path(path)

    def truncates(self, value: Value) -> None:
        """Report files outside the workspace whose contents are lost."""
        for path in self.paths(value) if value.text is not None else ():
            if path not in _STREAMS and self.findings.places.place(path) not in (Region.INSIDE, Region.TEMPORARY):
                self.report("destroy.emptied", path)

    def removes(self, value: Value, *, recursive: bool) -> None:
        """Report a file or folder that is deleted."""
        if value.text is None:
            self.report("destroy.variable", value.shown)
            raise self.fail(value, "the path is only known at run time")
        for path in self.paths(value):
            self._removes(path, recursive=recursive)

    def _removes(self, path: str, *, recursive: bool) -> None:
        findings, places = self.findings, self.findings.places
        is_glob = _BEFORE_GLOB.search(path) is not None
        base = posixpath.dirname(_BEFORE_GLOB.split(path)[0]) or "/" if is_glob else path
        name = path.rpartition("/")[2]
        whole = places.is_above(base) and (not is_glob or name in ("*", ".*", "**"))
        is_top = base in ("/", "~", "/home", places.home) or re.match(r"^/[a-zA-Z]+/?$", base) is not None
        if (whole or (is_top and places.place(base) is not Region.TEMPORARY)) and (recursive or is_glob):
            self.report("destroy.root", path)
        if is_glob and (_BEFORE_GLOB.search(path.rpartition("/")[0]) or not _NARROW_GLOB.fullmatch(name)):
            self.report("destroy.work", path)
        if places.place(path) not in (Region.INSIDE, Region.TEMPORARY):
            self.report("destroy.outside", path)
            findings.add(findings.writes, path)
            return
        if recursive:
            self.report("destroy.folder", path)
            findings.add(findings.whole, path)
        findings.write_path(path)

    def works_in(self, value: Value) -> None:
        """Set the working folder for the rest of the call."""
        self.folder = tuple(self.paths(value)) if value.text is not None else ()

    # -- code ------------------------------------------------------------------------------------------------------

    def runs_project(self) -> None:
        """Report that it runs code of the project in its folder, or obeys its settings."""
        for folder in self.folders:
            self.findings.add(self.findings.runs, folder)
        if self.shell.may_have_written_code or any(map(self.shell.wrote, self.folders)):
            self.report("run.written")
        is_here = self.folders and all(self.findings.places.place(one) is Region.INSIDE for one in self.folders)
        self.report("run.project" if is_here else "run.elsewhere")

    def runs(self, value: Value) -> None:
        """Report a file whose code is run."""
        if value.text == "-" or value.is_glob:
            raise self.fail(value, "code")
        for path in self.paths(value):
            if path.startswith(("/dev/", "/proc/")):
                raise self.fail(value, "code")
            self.findings.read_path(path)
            self.findings.add(self.findings.runs, path)
            if self.shell.wrote(path) or self.shell.may_have_written_code:
                self.report("run.written", path)
            inside = self.findings.places.place(path) is Region.INSIDE
            self.report("run.project" if inside else "run.elsewhere", path)

    def passes_path(self, value: Value) -> None:
        """Report a word for a tool that runs code of the project: a path in it must be in the workspace."""
        if value.text is None and value.is_foreign:
            raise self.fail(value, "the value may come from a command or a file")
        for part in re.split(r"[=,:@\s\"']", value.start):
            if "://" in value.start or part.startswith(("/", "~")) or ".." in part:
                for path in self.paths(Value(part, value.shown)):
                    self._passed(path)
                    if self.findings.places.place(path) is not Region.INSIDE:
                        self.report("run.elsewhere", value.shown)
            elif value.text is not None and ("." in part or "/" in part):
                for folder in self.folders:
                    self._passed(self.findings.places.resolve(part, folder) or part)

    def _passed(self, path: str) -> None:
        if rule := self.findings.places.secret(path):  # most tools print what they cannot read
            self.report(rule, path)
        elif "*" in path and self.aims_at_secret(path):
            self.report("secret.read", path)
        if self.name != "git" and self.shell.wrote(path):  # a list of options, or settings
            self.report("run.written", path)

    def installs(self, value: Value) -> None:
        """Report a package that is installed from the index, a forge or the workspace."""
        text = value.text
        if text is None:
            raise self.fail(value, "a package")
        self.report("package.install")
        is_file = text.startswith((".", "/", "~")) or ("/" in text and "@" not in text) or text.endswith(".tgz")
        if text.startswith(_FORGE):
            self.findings.call_host("github.com", "git.fetch", text)
        elif "://" in text or re.match(r"git@|\w+\+", text):
            self.report("package.install-url", text)
        elif is_file:
            self.reads(value)
            self.passes_path(value)
        elif len(text) > _PACKAGE_CHARS or not _PACKAGE.fullmatch(text):
            raise self.fail(value, "a package")

    def passes_arguments(self, values: Sequence[Value]) -> None:
        """Report arguments for code of the project: paths outside the workspace count as read."""
        for value in values:
            if value.text is None and value.is_foreign:
                raise self.fail(value, "the value may come from a command or a file")
            path = re.sub(r"^(?:-[\w-]*=)?@?", "", value.start)
            if path.startswith(("/", "~/", "../")) and not _ABOVE.search(path):
                self.reads(Value(path, value.shown, is_glob=value.is_glob))

    # -- the network -----------------------------------------------------------------------------------------------

    def fetches(self, value: Value, rule: str = "net.fetch") -> bool:
        """Report a URL that is called. Returns whether it is on this machine."""
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
        if not re.match(r"(?i)(?!\w+://)|(?:https?|ftps?)://", start):  # curl sends its input to telnet://
            raise self.fail(value, "the protocol")
        host = host_of(start)
        if names_secret(value):
            self.report("secret.sent", value.shown)
        if value.text is None and not re.match(r"(?:[A-Za-z]+://)?(?![A-Za-z]+:/)[^/]+/", start):
            self.findings.unclear.setdefault("net", value.shown)
            self.findings.sends = True
            self.report("net.fetch", value.shown)
            if value.is_foreign:
                self.report("net.in-address", value.shown)
            return False
        self.findings.call_host(host, rule, value.shown)
        local = is_local(host)
        if not local:
            self.findings.add(self.findings.urls, start if "://" in start else f"http://{start}")
            if value.is_foreign:
                self.report("net.in-address", value.shown)
        elif value.is_foreign and value.is_many:
            raise self.fail(value, "the value may be several words")
        return local

    # -- commands in commands --------------------------------------------------------------------------------------

    def command(self, values: Sequence[Value], stdin: Input | None = None) -> None:
        """Analyse another program that is run with these words."""
        if not values:
            raise self.fail()
        self.shell = self.reader.call(values, self.shell, stdin or self.stdin, self.source, self.depth + 1,
                                      self.folder, as_program=self.name not in ("command", "exec"))  # fmt: skip

    def script(self, value: Value) -> None:
        """Analyse a text that is run as commands of a new shell."""
        if value.text is None:
            raise self.fail(value, "the commands are only known at run time")
        folders = self.folders
        inner = self.shell.at(folders) if folders else self.shell
        inner = Shell(inner.folders, dict.fromkeys(inner.variables), inner.environment, inner.written, inner.links)
        self.shell = self.shell.after_subshell(self.reader.read_nested(value.text, inner, self.depth + 1))
