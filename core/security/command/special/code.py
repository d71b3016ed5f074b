"""Interpreters, package managers and runners of a project's code."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from core.security.command.call import Call
from core.security.command.expansion import Value, known
from core.security.command.table import Given
from core.security.python_code import is_understood
from core.security.rules import names

_MODULES = {"pip": "pip", "pytest": "pytest", "mypy": "mypy", "ruff": "ruff", "black": "black", "isort": "isort",
            "flake8": "flake8", "pylint": "pylint", "coverage": "coverage", "build": "build",
            "virtualenv": "virtualenv",
            "uvicorn": "uvicorn", "mkdocs": "mkdocs", "pre_commit": "pre-commit", "textual": "textual"}  # fmt: skip
_QUIET_MODULES = names("venv json.tool compileall py_compile tabnanny this calendar platform sysconfig site ensurepip")
_PROJECT_MODULES = frozenset(["unittest", "doctest"])
_RUNNING_MODULES = names(
    "IPython ipykernel jupyter jupyter_core notebook nbconvert xonsh ptpython bpython ptipython pudb ipdb "
    "debugpy scalene viztracer memory_profiler line_profiler kernprof pyinstrument py_spy pexpect fire "
    "invoke fabric plumbum sh twine pipx nox tox hatch poetry pdm uv conda mamba numpy torch cython "
    "Cython numba cffi setuptools pkg_resources wheel"
)
"""Modules of others that run what they are given."""
_ADDRESS = re.compile(r"(?:git|hg|svn|bzr|ssh|https?|ftp|file)(?:\+\w+)?://|git@|.*@ ?(?:git\+|https?://)|.*\.git$")
_INDEXES = re.compile(
    r"https://(?:pypi\.org|files\.pythonhosted\.org|registry\.npmjs\.org|test\.pypi\.org"
    r"|download\.pytorch\.org)(?:/|$)"
)


def _python(call: Call, given: Given) -> None:
    words = list(given.of("a"))
    for name, value in given.options:
        if name in ("-c", "-m") and value is not None:
            return _python_code(call, value) if name == "-c" else _python_module(call, value, words)
    if given.has("--version", "-V", "--help", "-h"):
        return None
    if not words or words[0].text == "-":
        if call.stdin.text is not None:
            return _python_code(call, known(call.stdin.text))
        _piped(call)
        return None
    call.runs(words[0])
    call.mentions(words[1:])
    return None


_GCC = {
    "-f": re.compile(
        r"(?!plugin|dump|profile|opt-info|diagnostics|save|debug-prefix|callgraph)[a-zA-Z0-9-]+(?:=[\w,-]+)?"
    ),
    "-W": re.compile(r"[\w+-]+(?:=[\w+-]+)?"),
    "-m": re.compile(r"[\w.+-]+(?:=[\w.+-]+)?"),
    "-M": re.compile(r"[MDPG]"),
}
"""What may stand behind these options of compilers."""
_CMAKE_RUNS = re.compile(r"LAUNCHER|COMPILER|COMMAND|PROGRAM|EXECUTABLE|RULE|TOOLCHAIN|INCLUDE|MODULE|LINKER|TOOL|WRAP")
_TOOL_RUNS = names(
    "exec shell dbshell eval console repl dlx run-script python x qtconsole -- try-repo runscript shell_plus"
)
_LOOKS = names("list search show info policy madison deps outdated config doctor home leaves depends rdepends pkgnames")
"""Subcommands of system package managers that change nothing."""
_INSTALLS = names(
    "install add update upgrade full-upgrade dist-upgrade reinstall tap link fetch download refresh sync create"
)
_CHOOSES = names(
    "use local global default versions current ls list-remote ls-remote toolchain component target env remove pin init"
)


def _piped(call: Call) -> None:
    """What is piped into an interpreter runs."""
    if call.stdin.is_remote:
        call.rule("run.remote")
    if not call.stdin.is_given:
        call.rule("shell.interactive")
        return
    raise call.fail(None, "it runs what is piped to it")


def _python_code(call: Call, value: Value) -> None:
    if value.text is None or not is_understood(value.text, call.reader.findings, call.folders):
        raise call.fail(value, "code")
    if "import" in value.text:  # a file of the folder may have the name of a module
        call.project()


def _python_module(call: Call, value: Value, rest: list[Value]) -> None:
    name = value.text
    if name is None:
        raise call.fail(value, "a module")
    if name in _MODULES:
        call.command([known(_MODULES[name]), *rest])
    elif name == "http.server":
        call.rule("net.listen")
    elif name in _QUIET_MODULES:
        for one in rest:
            if not one.start.startswith("-"):
                (call.writes if name == "venv" or (len(rest) > 1 and one is rest[-1]) else call.reads)(one)
    elif name in _PROJECT_MODULES:
        call.project()
    elif name.partition(".")[0] in sys.stdlib_module_names | _RUNNING_MODULES:
        raise call.fail(value, "a module")
    else:
        call.project()
        call.mentions(rest)


def _shell(call: Call, given: Given) -> None:
    words = list(given.of("a"))
    if given.has("--version", "--help"):
        return
    if given.has("-c"):
        call.script(given.values("-c")[0])
    elif given.has("-s") or not words:
        if call.stdin.text is not None:
            call.script(known(call.stdin.text))
        else:
            _piped(call)
    elif given.has("-n"):
        call.reads(words[0])
    else:
        call.runs(words[0])
        call.mentions(words[1:])


def _node(call: Call, given: Given) -> None:
    if not given.of("x") and not given.has("-v", "-h", "--version", "--help", "--test"):
        _piped(call)
    if given.has("--test"):
        call.project()
    for value in given.of("x")[:1]:
        if value.text in ("eval", "repl", "run", "task", "test", "lint", "check", "install", "serve", "compile"):
            raise call.fail()


def _toolchain(call: Call, given: Given) -> None:
    words = [value.text or "?" for value in given.of("t")]
    safe = (
        "build",
        "test",
        "compile",
        "check",
        "restore",
        "analyze",
        "format",
        "list",
        "show",
        "info",
        "version",
        "clean",
    )
    if words and words[0] in safe and not any(re.search(r"[;&|$`]|eval|exec", word) for word in words):
        call.project()
    elif words[:1] == ["install"] and call.name in ("bundle", "composer", "gem"):
        call.rule("package.install")
    elif words:
        call.rule("program.unknown", f"{call.name} {words[0]}")


# -- packages ----------------------------------------------------------------------------------------------------------


def package_address(call: Call, given: Given) -> None:
    """A package from an address is named."""
    indexes = given.values(
        "-i", "--index-url", "--extra-index-url", "--index", "--default-index", "--registry", "--proxy"
    )
    for value in indexes:
        if not _INDEXES.match(value.start.partition("=")[2] or value.start):
            call.rule("package.install-url", value.shown)
    words = [*given.of("t"), *given.values("--from", "--with", "--git", "-p", "--package", "--spec")]
    for value in words:
        if call.name == "go" or (call.name == "uv" and value.shown.startswith("git+")):
            continue
        if _ADDRESS.match(value.start) and not value.start.startswith("git+https://github.com/"):
            call.rule("package.install-url", value.shown)
    for value in given.of("t"):
        if value.text and value.text.startswith((".", "/", "~")):
            call.mentions([value])


def _uvx(call: Call, given: Given) -> None:
    package_address(call, given)
    words = list(given.of("a"))
    if not words:
        if given.has("--version", "--help", "-V"):
            return
        raise call.fail()
    text = re.sub(r"(?<=.)@[\w.^~<>=*-]+$", "", words[0].text or "")
    if given.values("--from") or not call.reader.knows(text):
        if _ADDRESS.match(text):
            call.rule("package.install-url", text)
        call.rule("package.run", words[0].shown)
        return
    call.rule("package.install")
    call.command([known(text), *words[1:]])


def _uv_run(call: Call, given: Given) -> None:
    package_address(call, given)
    words = list(given.of("a"))
    if given.has("-m") and words:
        _python_module(call, words[0], words[1:])
    elif words and (words[0].text or "").endswith(".py"):
        call.command([known("python"), *words])
    elif words:
        call.command(words)


def _npm_run(call: Call, given: Given) -> None:
    for value in given.of("x")[:1]:
        if value.text is None:
            raise call.fail(value, "a script")
    call.mentions(given.of("x"))


def _npm_config(call: Call, given: Given) -> None:
    words = given.of("t")
    if words and words[0].text not in ("get", "list", "ls"):
        raise call.fail(None, "a setting of npm")


def _twine(call: Call, given: Given) -> None:
    words = given.of("t")
    if not words or words[0].text != "check":
        call.rule("package.publish")


def _cargo(call: Call, given: Given) -> None:
    call.mentions(given.of("x"))


def _system_packages(call: Call, given: Given) -> None:
    words = [value.text or "?" for value in given.of("t")]
    verb = words[0] if words else ""
    if verb in ("remove", "purge", "autoremove", "uninstall", "erase", "del"):
        call.rule("persist.system")
    elif call.name in ("dpkg", "rpm") or verb in _INSTALLS or given.has("-S", "-u", "-y"):
        call.rule("package.install")
    elif verb and verb not in _LOOKS:
        raise call.fail(None, f"a subcommand of {call.name}")


def _installer(call: Call, given: Given) -> None:
    words = [value.text or "?" for value in given.of("t")]
    if words and words[0] not in _INSTALLS | _LOOKS | _CHOOSES:
        raise call.fail(None, f"a subcommand of {call.name}")
    call.rule("package.install")


# -- runners -----------------------------------------------------------------------------------------------------------


def _make(call: Call, given: Given) -> None:
    for value in given.of("t"):
        name, equals, rest = value.start.partition("=")
        if (value.text is None and value.is_foreign) or (
            equals
            and (
                re.search(r"[$`;|&]", rest)
                or name.strip(":+?") in ("SHELL", "MAKEFLAGS", "MAKEFILES", "MAKE", ".SHELLFLAGS")
            )
        ):
            raise call.fail(value, "a variable of make")
    for value in given.values("-f", "--file", "--makefile", "--justfile"):
        call.runs(value)


def _gcc(call: Call, given: Given) -> None:
    for name, value in given.options:
        if value is None or name not in _GCC:
            continue
        if value.text is None or not _GCC[name].fullmatch(value.text):
            raise call.fail(value, "an option of the compiler")
    for value in given.of("r"):
        if value.start.startswith("@"):
            raise call.fail(value, "a file of options")


def _cmake(call: Call, given: Given) -> None:
    for value in given.values("-D"):
        if value.text is None or not re.fullmatch(r"[\w:]+=[\w.+-]*", value.text) or _CMAKE_RUNS.search(value.text):
            raise call.fail(value, "a variable of cmake")


def _tool(call: Call, given: Given) -> None:
    for value in given.of("t"):
        if (value.text is None and value.is_foreign) or value.start in _TOOL_RUNS or "://" in value.start:
            raise call.fail(value, f"an operand of {call.name}")


def _pytest(call: Call, given: Given) -> None:
    for value in given.values("-p"):
        if not (value.text or "").startswith("no:"):
            call.project()
    call.mentions(given.of("t"))


def _coverage(call: Call, given: Given) -> None:
    words = list(given.of("a"))
    if given.has("-m") and words:
        _python_module(call, words[0], words[1:])
    elif words:
        call.command([known("python"), *words])


def _gradle(call: Call, given: Given) -> None:
    if call.name == "java" and any(value.text in ("-cp", "-jar") for value in call.args):
        raise call.fail()


def _go_flags(call: Call, given: Given) -> None:
    for value in given.values("-ldflags", "-gcflags"):
        if (value.text is None and value.is_foreign) or re.search(
            r"extld|-exec|toolexec|linkmode=external", value.shown
        ):
            raise call.fail(value, "flags of the compiler")
    for value in given.of("a")[:1]:
        if value.text is None or value.is_glob:
            raise call.fail(value, "a program")
        is_remote = "@" in value.text or "." in value.text.partition("/")[0].strip(".")
        if is_remote and not value.text.endswith(".go"):
            call.rule("package.run", value.shown)
        if value.text.startswith(("/", "~", "../")):
            call.runs(value)
    call.mentions(given.of("a")[1:])


def _go_env(call: Call, given: Given) -> None:
    if given.has("-u"):
        raise call.fail()


HANDLERS: dict[str, Callable[[Call, Given], None]] = {
    "python": _python,
    "shell": _shell,
    "node": _node,
    "toolchain": _toolchain,
    "package_address": package_address,
    "uvx": _uvx,
    "uv_run": _uv_run,
    "npm_run": _npm_run,
    "npm_config": _npm_config,
    "twine": _twine,
    "cargo": _cargo,
    "system_packages": _system_packages,
    "make": _make,
    "installer": _installer,
    "gcc": _gcc,
    "cmake": _cmake,
    "tool": _tool,
    "pytest": _pytest,
    "coverage": _coverage,
    "gradle": _gradle,
    "go_flags": _go_flags,
    "go_env": _go_env,
}
"""By their names in the table."""
