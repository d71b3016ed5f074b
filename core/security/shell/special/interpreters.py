"""Interpreters, and programs that fetch and start tools."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from core.security.python_code import is_understood
from core.security.risk_rules import names
from core.security.shell.expansion import Value, known
from core.security.shell.program_call import Call
from core.security.shell.program_table import Given

_TOOLS = {
    "uvx": names("ruff black isort mypy flake8 pytest mkdocs marimo pre-commit textual jupyter ty pyright"),
    "npx": names("tsx tsc eslint prettier vitest jest mocha"),
}
"""Packages that are the programs of the table with their names."""
_MODULES = {name: name for name in ("pip", "pytest", "mypy", "ruff", "black", "isort", "flake8", "mkdocs", "textual")}
_FOREIGN_MODULES = names(
    "IPython ipykernel jupyter jupyter_core jupyter_server notebook nbconvert papermill xonsh ptpython bpython pudb"
    " ipdb "
    "debugpy scalene viztracer memory_profiler line_profiler kernprof pyinstrument py_spy pexpect fire invoke fabric "
    "plumbum sh twine pipx nox tox hatch poetry pdm uv conda mamba numpy torch accelerate deepspeed cython Cython"
    " numba "
    "cffi setuptools distutils pkg_resources wheel ansible awscli celery gunicorn twisted scrapy django flask ray dask "
    "test mpi4py joblib paramiko supervisor watchdog watchfiles livereload coverage"
)
"""Modules of others that run what they are given."""
_ONLY_BASH = re.compile(r"\[\[|\$'|&>|\|&|<<<|[<>]\(|\{\S*,|\b(?:declare|typeset|pushd|popd|source|pipefail)\b")
"""What `sh` reads otherwise than bash: `[[ x || y ]]` runs y, and `declare` is not found."""
_SHELL_FLAGS = re.compile(r"-[euxl]*([co]?)")


def _piped(call: Call) -> None:
    """What is piped into an interpreter runs."""
    if call.stdin.is_remote:
        call.rule("run.remote")
    if not call.stdin.is_given:
        call.rule("shell.interactive")
        return
    raise call.fail(None, "it runs what is piped to it")


def _python(call: Call, given: Given) -> None:
    words = list(given.of("q"))
    while words and re.fullmatch(r"-[uBqIEsS]+", words[0].text or ""):
        words.pop(0)
    first = words[0].text if words else "-"
    if first in ("--version", "-V", "--help", "-h"):
        return
    if first in ("-c", "-m") and words[1:]:
        (_python_code(call, words[1]) if first == "-c" else _python_module(call, words[1], words[2:]))
    elif first == "-" and call.stdin.text is not None:
        _python_code(call, known(call.stdin.text))
    elif first == "-":
        _piped(call)
    elif words[0].start.startswith("-"):
        raise call.fail(words[0], "an option of python")
    else:
        call.runs(words[0])
        call.mentions(words[1:])


def _python_code(call: Call, value: Value) -> None:
    if value.text is None or not is_understood(value.text, call.reader.findings, call.folders):
        raise call.fail(value, "code")
    if "import" in value.text:  # a file of the folder may have the name of a module
        call.project()


def _python_module(call: Call, value: Value, rest: list[Value]) -> None:
    name = value.text or ""
    top, dot, _ = name.partition(".")
    call.project()  # a file of the folder may have the name of the module
    if name in _MODULES:
        call.command([known(_MODULES[name]), *rest])
    elif name == "http.server" and all((one.text or "").isdigit() for one in rest):
        call.rule("net.listen")
    elif name in ("venv", "unittest", "build"):
        for one in rest:
            call.hands(one)
        if name == "venv" and any(one.start.startswith("--c") for one in rest):
            _emptied(call, rest)
    elif name == "json.tool" and len(rest) < 2:
        for one in rest:
            call.reads(one)
    elif dot and top.isidentifier() and top not in sys.stdlib_module_names | _FOREIGN_MODULES | _MODULES.keys():
        call.mentions(rest)
    else:
        raise call.fail(value, "a module")


def _shell(call: Call, given: Given) -> None:
    words = list(given.of("q"))
    while words and words[0].start.startswith("-"):
        found = _SHELL_FLAGS.fullmatch(words[0].text or "?")
        if words[0].text == "-s" or found is None or (found[1] and not words[1:]):
            break
        if found[1] == "c":
            return _script(call, words[1])
        if found[1] == "o" and words.pop(1).text != "pipefail":
            break
        words.pop(0)
    if words and words[0].text not in ("-", "-s"):
        if words[0].start.startswith(("-", "+")):
            raise call.fail(words[0], f"an option of {call.name}")
        call.runs(words[0])
        return call.mentions(words[1:])
    if call.stdin.text is None:
        return _piped(call)
    return _script(call, known(call.stdin.text))


def _script(call: Call, value: Value) -> None:
    if call.name == "sh" and value.text is not None and _ONLY_BASH.search(value.text):
        raise call.fail(value, "a form of bash in a text for sh")
    call.script(value)


def _fetched_tool(call: Call, given: Given) -> None:
    words = given.of("a")
    found = re.fullmatch(r"([\w-]+)(?:@(?:latest|\d[\w.]*))?", (words[0].text or "") if words else "")
    if found is None or found[1] not in _TOOLS["uvx" if call.name in ("uvx", "uv") else "npx"]:
        call.rule("package.run", words[0].shown if words else "")
        return
    call.rule("package.install")
    call.command([known(found[1]), *words[1:]])


def _node(call: Call, given: Given) -> None:
    if not given.of("x") and not given.options:
        _piped(call)


def _uv_run(call: Call, given: Given) -> None:
    words = given.of("a")
    if not words:
        raise call.fail()
    if given.has("-m"):
        _python_module(call, words[0], words[1:])
    else:
        call.command([known("python"), *words] if (words[0].text or "").endswith(".py") else words)


def _npm_package(call: Call, given: Given) -> None:
    """A word with a slash is a folder of the workspace only if it begins with a dot, and else one of a forge."""
    for value in given.of("k"):
        text = value.start
        if ("/" in text and not text.startswith(("@", "./", "../")) and not text.endswith(".tgz")) or (
            ":" in text or "#" in text
        ):
            call.rule("package.install-url", value.shown)


def _emptied(call: Call, values: list[Value]) -> None:
    """`--clear` removes all that is in the folder of an environment."""
    for value in values:
        if not value.start.startswith("-"):
            call.removes(value, recursive=True)


def _uv_venv(call: Call, given: Given) -> None:
    if given.has("-c"):
        raise call.fail(None, "-c of uv venv")
    if given.has("--clear"):
        _emptied(call, given.of("k"))


HANDLERS: dict[str, Callable[[Call, Given], None]] = {
    "python": _python,
    "shell": _shell,
    "fetched_tool": _fetched_tool,
    "node": _node,
    "uv_run": _uv_run,
    "uv_venv": _uv_venv,
    "npm_package": _npm_package,
}
"""By their names in the table."""
