"""Interpreters of other languages than the shell and Python, and programs that start one in an environment."""

from __future__ import annotations

import re

from core.security.rules import names
from core.security.shell.code import run_program_file, run_stream, run_text
from core.security.shell.programs import Call, Handler
from core.security.shell.words import Out, Word, options

_CALLS_OUT = re.compile(
    r"require|import|exec|spawn|system|fetch|http|net\.|socket|open|unlink|\brm\b|write|eval|Function|process\.(?!version|argv|platform|arch)|child|fs\b|ENV|getenv|"
    r"File|Dir\b|IO\b|Kernel|`|Socket|curl|file_|shell|passthru|popen|getline|\|",
    re.IGNORECASE,
)
"""What code of another language than Python would need to do more than compute and print."""


def _interpreter(call: Call) -> Out:
    flags = {
        "node": "-e -p --eval --print",
        "nodejs": "-e -p",
        "deno": "",
        "bun": "-e",
        "perl": "-e -E -I",
        "ruby": "-e -I -r",
        "php": "-r -d",
    }
    found, rest = options(call.args, flags.get(call.name, "-e -c"))
    codes = [
        value
        for name, value in found
        if name in ("-e", "-E", "-p", "-r", "-c", "--eval", "--print") and value is not None
    ]
    if call.name in ("awk", "gawk", "mawk", "nawk"):
        return _awk(call)
    for code in codes:
        if not code.known or code.kinds & {"decoded", "remote"}:
            call.rule("run.decoded" if "decoded" in code.kinds else "opaque.code")
        read_other(call, code.text)
    if codes:
        if call.name in ("perl", "ruby") and any(name.startswith("-i") for name, _ in found):
            call.writes(*rest)
        return Out(None, call.stdin.kinds | call.reads(*[word for word in rest if "/" in word.text]).kinds)
    if {name for name, _ in found} & {"--version", "-v", "-V", "--help", "-h"}:
        return Out(None)
    if call.name in ("deno", "bun") and rest:
        inner = rest[0].text
        if inner in ("install", "add", "i", "upgrade", "x", "create"):
            call.rule("package.install")
        else:
            call.rule("run.project")
            call.reader.findings.add(call.reader.findings.runs, call.state.cwd or "")
        return Out(None)
    if call.name == "php" and any(word.text == "-S" for word in call.args):
        call.rule("net.listen")
    if not rest:
        if call.stdin.text == "" and not call.stdin.kinds:
            call.rule("shell.interactive")
            return Out("")
        return run_stream(call, call.stdin, "other")
    return run_program_file(call, rest[0], "other")


def read_other(call: Call, code: str) -> None:
    """Code of a language that is not read: harmless only where it has nothing that could reach out."""
    call.rule("opaque.code" if _CALLS_OUT.search(code) else "run.project")
    if re.search(r"exec|system|spawn|`|popen|shell", code):
        for text in re.findall(r"[\"'`]([^\"'`\n]{3,400})[\"'`]", code)[:8]:
            call.reader.inside(text, call.state)


def _awk(call: Call) -> Out:
    found, rest = options(call.args, "-F -v -f -e -i")
    code = [value for name, value in found if name == "-e" and value is not None] or rest[:1]
    if any(name == "-f" for name, _ in found):
        call.rule("run.project")
    for word in code:
        if re.search(r"system\s*\(|\|\s*getline|\|\s*\"|/inet/|print[^;}]*\|", word.text):
            call.rule("opaque.code")
            for text in re.findall(r'"([^"\n]{2,400})"', word.text)[:8]:
                call.reader.inside(text, call.state)
        for path in re.findall(r'>>?\s*"([^"]+)"', word.text):
            call.writes(Word(path, path))
    given = call.reads(*rest[1:]) if rest[1:] else call.stdin
    return Out(None, given.kinds)


def _inner(call: Call) -> Out:
    """`uv run`, `poetry run` and the like."""
    found, rest = options(
        call.args, "-p --project --directory -n --python --with --env --group --extra --name -C", first_ends=True
    )
    if not rest:
        return Out(None)
    verb = rest[0].text
    if verb in ("run", "exec") and len(rest) > 1:
        if any(name == "--with" for name, _ in found):
            call.rule("package.run")
        _, command = options(
            rest[1:],
            "-n --with --python -p --extra --group --project --directory --name --env-file --index-url",
            first_ends=True,
        )
        if any(word.text.startswith("--with") for word in rest[1:]):
            call.rule("package.run")
        return call.again(command) if command else Out("")
    if verb in names("list show info version tree env check config search cache python --version help"):
        return Out(None)
    if verb == "pip" and call.name == "uv":
        return call.again([Word("pip", "pip"), *rest[1:]])
    if verb in ("venv", "init", "new", "build", "lock", "shell", "activate", "format"):
        call.rule("run.project" if verb != "shell" else "shell.interactive")
        return Out("")
    call.rule("package.publish" if verb == "publish" else "package.run" if verb in ("tool", "x") else "package.install")
    return Out("")


def _fetched(call: Call) -> Out:
    """`npx`, `uvx`: a package that is fetched where it is not there, and run."""
    _, rest = options(call.args, "-p --package -c --from --with --python", first_ends=True)
    call.rule("package.run")
    texts = [call.args[at + 1] for at, word in enumerate(call.args[:-1]) if word.text in ("-c", "--call")]
    if texts:
        return run_text(call, texts[0])
    return Out(None, frozenset[str]().union(*(word.kinds for word in rest)))


def _gdb(call: Call) -> Out:
    if any(word.text in ("-p", "--pid", "attach") for word in call.args):
        call.rule("machine.debug")
    for word in call.args:
        if found := re.match(r"(?:shell|!|python|call)\b\s*(.*)", word.text):
            call.rule("opaque.code")
            call.reader.inside(found[1], call.state)
    if call.name == "gdb" and any(word.text == "--args" for word in call.args):
        at = [word.text for word in call.args].index("--args")
        return call.again(call.args[at + 1 :])
    call.rule("run.project")
    return Out(None)


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(
        names(
            "node nodejs deno bun perl ruby php lua luajit Rscript julia tclsh awk gawk mawk nawk"
            " osascript pwsh powershell groovy jshell guile racket sbcl"
        ),
        _interpreter,
    ),
    **dict.fromkeys(names("uv poetry pipenv conda mamba micromamba pdm hatch rye"), _inner),
    **dict.fromkeys(("npx", "pnpx", "bunx", "uvx"), _fetched),
    "gdb": _gdb,
}
