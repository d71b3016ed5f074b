"""Cells of a notebook: Python with `!commands` and `%magics` in it."""

from __future__ import annotations

import re

from core.security.python import read_python
from core.security.rules import names
from core.security.shell.reader import Reader, State
from core.security.shell.words import literal


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
