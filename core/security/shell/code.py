"""Programs that run code: shells, interpreters, `eval`, and files as programs."""

from __future__ import annotations

import posixpath

from core.security.places import Region
from core.security.rules import names
from core.security.shell.programs import Call, Handler, shown
from core.security.shell.words import Out, Word, literal, options


def run_text(call: Call, text: Word, *, here: bool = False) -> Out:
    """A word that is run as commands of the shell."""
    if "decoded" in text.kinds:
        call.rule("run.decoded")
    if "remote" in text.kinds:
        call.rule("run.remote")
    if not text.known:
        call.rule("opaque.text")
    source = text.text if text.known else text.bare or text.text
    return (
        call.reader.here(source, call.state, call.stdin) if here else call.reader.inside(source, call.state, call.stdin)
    )


def run_stream(call: Call, given: Out, language: str = "shell") -> Out:
    """Code that arrives on standard input or in a file whose content is known."""
    if "decoded" in given.kinds:
        call.rule("run.decoded")
    if "remote" in given.kinds:
        call.rule("run.remote")
    if given.text is None:
        call.rule("opaque.text" if language == "shell" else "opaque.code")
        return Out(None, given.kinds)
    if language == "shell":
        return call.reader.inside(given.text, call.state)
    if language == "python":
        from core.security.python import read_python

        read_python(given.text, call.reader, call.state)
    else:
        from core.security.shell.languages import read_other

        read_other(call, given.text)
    return Out(None, given.kinds)


def run_file(call: Call, path: str, language: str = "shell") -> Out:
    """A file that is run."""
    findings = call.reader.findings
    findings.add(findings.runs, path)
    put = call.reader.files.get(path)
    if put is not None:
        return run_stream(call, put, _language_of(path, language))
    where = findings.places.place(path)
    if where is Region.INSIDE:
        call.rule("run.project")
    elif where is Region.SYSTEM:
        call.rule("program.unknown")
    else:
        call.rule("run.elsewhere" if where is not Region.TEMPORARY else "opaque.code")
    for word in call.args:
        if "/" in word.text and not word.text.startswith("-"):
            call.reads(word)
    return Out(None, call.stdin.kinds)


def _language_of(path: str, language: str) -> str:
    return {".py": "python", ".sh": "shell", ".js": "other", ".rb": "other", ".pl": "other"}.get(
        posixpath.splitext(path)[1], language
    )


def _shell(call: Call) -> Out:
    found, rest = options(call.args, "-O -o --rcfile --init-file", first_ends=True)
    flags = {name for name, _ in found}
    if any(name in ("--rcfile", "--init-file") for name in flags):
        call.rule("run.hooked")
    if "-c" in flags or any(name.startswith("-") and not name.startswith("--") and "c" in name for name in flags):
        if not rest:
            return Out("")
        call.state = call.state.inner()
        call.state.arguments = rest[2:]
        return run_text(call, rest[0])
    if "-s" in flags or not rest or rest[0].text in ("-", "/dev/stdin"):
        if not call.stdin.kinds and call.stdin.text == "":
            if "--version" not in flags:
                call.rule("shell.interactive")
            return Out("")
        return run_stream(call, call.stdin)
    return run_program_file(call, rest[0], "shell")


def run_program_file(call: Call, word: Word, language: str) -> Out:
    """A file, as an argument of its interpreter."""
    if word.content is not None or word.kinds & {"remote", "decoded"} or word.text.startswith("/dev/fd/"):
        return run_stream(call, Out(word.content, word.kinds), language)
    path, is_known = call.path(word)
    if not is_known:
        call.rule("opaque.code", word.text)
    return run_file(call, path, language)


def _eval(call: Call) -> Out:
    words = [word for word in call.args if word.text != "--"]
    known = all(word.known for word in words)
    kinds = frozenset[str]().union(*(word.kinds for word in words))
    text = Word(shown(words), " ".join(word.text if word.known else word.bare for word in words), known, kinds)
    return run_text(call, text, here=True)


def _source(call: Call) -> Out:
    if not call.args:
        return Out("")
    word = call.args[0]
    path, _ = call.path(word)
    if path in call.reader.files and call.reader.files[path].text is not None and word.content is None:
        return call.reader.here(call.reader.files[path].text or "", call.state)
    if path.endswith(("/activate", "/.venv/bin/activate", "/conda.sh", "/nvm.sh")):
        call.rule("run.project")
        return Out("")
    call.reads(word) if word.content is None else None
    call.state.cwd = call.state.cwd if call.reader.findings.places.place(path) is Region.INSIDE else None
    return run_program_file(call, word, "shell")


def _trap(call: Call) -> Out:
    words = [word for word in call.args if word.text not in ("--", "-", "-p", "-l")]
    return run_text(call, words[0]) if words and len(call.args) > 1 else Out("")


def _python(call: Call) -> Out:
    from core.security.python import read_python

    found, rest = options(call.args, "-c -m -W -X --check-hash-based-pycs", first_ends=True)
    for name, value in found:
        if name == "-c" and value is not None:
            if "decoded" in value.kinds:
                call.rule("run.decoded")
            if "remote" in value.kinds:
                call.rule("run.remote")
            if not value.known:
                call.rule("opaque.code")
            read_python(value.text, call.reader, call.state)
            return Out(None, call.stdin.kinds | value.kinds)
        if name == "-m" and value is not None:
            at = next((at for at, word in enumerate(call.args) if word is value), None)
            args = call.args[at + 1 :] if at is not None else rest
            return _module(call, value, args)
    if {name for name, _ in found} & {"-V", "--version", "-h", "--help", "-VV"}:
        return Out(None)
    if not rest or rest[0].text == "-":
        if not call.stdin.kinds and call.stdin.text == "":
            call.rule("shell.interactive")
            return Out("")
        return run_stream(call, call.stdin, "python")
    for word in rest[1:]:
        if "/" in word.text and not word.text.startswith("-"):
            call.reads(word)
    return run_program_file(call, rest[0], "python")


_MODULES = {
    **{name: name for name in names("pip pytest black mypy ruff coverage twine flake8 isort pylint")},
    **dict.fromkeys(names("unittest build cProfile pdb"), "pytest"),
    **dict.fromkeys(names("venv virtualenv compileall ensurepip site platform calendar this pydoc sysconfig"), ""),
    "json.tool": "jq",
    "py_compile": "cat",
    "http.server": "",
}
"""Modules that are run as the program of that name; those without one write at most what they are given."""


def _module(call: Call, module: Word, args: list[Word]) -> Out:
    name = module.text
    if name not in _MODULES:
        call.rule("run.project")
        findings = call.reader.findings
        findings.add(findings.runs, call.state.cwd or findings.places.workspace)
        return Out(None, call.stdin.kinds)
    if name == "http.server":
        call.rule("net.listen")
        return Out("")
    if not _MODULES[name]:
        call.writes(*[word for word in args[:1] if not word.text.startswith("-")])
        return Out("")
    return call.again([literal(_MODULES[name]), *args])


def _alias(call: Call) -> Out:
    for word in call.args:
        name, has, text = word.text.partition("=")
        if has:
            call.state.aliases[name] = text
            call.reader.inside(text, call.state)
    return Out("")


def _unalias(call: Call) -> Out:
    for word in call.args:
        call.state.aliases.pop(word.text, None)
    return Out("")


def _read(call: Call) -> Out:
    _, rest = options(call.args, "-p -t -n -N -d -u -a -i")
    text = call.stdin.text.split("\n")[0] if call.stdin.text else None  # nothing that is told is not nothing at all
    for word in rest:
        call.state.variables[word.text] = Word(
            text or "", text or "", text is not None and len(rest) == 1, call.stdin.kinds
        )
    found, _ = options(call.args, "-C -c -p -t -n -N -d -u -a -i -s -O")
    for name, value in found:
        if call.name in ("mapfile", "readarray") and name == "-C" and value is not None:
            run_text(call, value)
    return Out("")


def _crontab(call: Call) -> Out:
    call.rule("read.unknown" if [word.text for word in call.args] == ["-l"] else "persist.cron")
    if call.stdin.text:
        for line in call.stdin.text.split("\n")[:20]:
            call.reader.inside(" ".join(line.split()[5:]), call.state)
    return Out(None)


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(names("sh bash dash zsh ksh ash fish rbash mksh csh tcsh"), _shell),
    "eval": _eval,
    **dict.fromkeys(("source", "."), _source),
    "trap": _trap,
    **dict.fromkeys(("python", "pypy", "ipython"), _python),
    "alias": _alias,
    "unalias": _unalias,
    **dict.fromkeys(("read", "mapfile", "readarray"), _read),
    "crontab": _crontab,
}
