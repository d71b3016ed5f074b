"""Where the interpreter looks for modules in Handloom's own processes, and the command that starts such a process.

Handloom's own folder comes first, so that no package of the same name replaces `core`, `runtime`, `tui` or
`themes`. Folders that `PYTHONPATH` gives relative to the current folder, and those inside or around a workspace, are
excluded, because others may write to them. Other folders of `PYTHONPATH` stay, for packages with plugins. The
environment stays as it is, for the programs that agents run.

Run as a file, this starts one module in a new process: `python -P interpreter.py LEFT_OUT MODULE ARGUMENT...`. Until
the folders are in order it imports only what Python loads before any program.
"""

import os
import site
import sys

_FILE = os.path.abspath(__file__)
OWN = os.path.dirname(os.path.dirname(_FILE))
"""The folder that holds `core`, `runtime`, `tui` and `themes`."""
OPTIONS = ("--workspace", "--working-dir")
"""Command line options whose value is a folder in which an agent works."""


def start_command(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that starts a module in a process which excludes the same folders as this one."""
    searched = set(sys.path)
    left_out = [folder for folder in _given() if os.path.isabs(folder) and os.path.normpath(folder) not in searched]
    return (sys.executable, "-P", _FILE, os.pathsep.join(left_out), module, *arguments)


def workspaces_of(words: list[str]) -> list[str]:
    """Return the folders in which an agent may work: the current one, and those in a command line."""
    folders = [os.curdir]
    for number, word in enumerate(words):
        name, _, value = word.partition("=")
        if len(name) > len("--") and any(option.startswith(name) for option in OPTIONS):  # argparse takes a beginning
            folders.append(value or "".join(words[number + 1 : number + 2]))
    return folders


def search_own_modules_first(workspaces: list[str]) -> None:
    """Put Handloom's folder first in `sys.path`, and exclude workspaces. Call it before other imports."""
    out = {os.path.abspath(folder) for folder in _given() if not os.path.isabs(folder)}
    if not sys.flags.safe_path:
        out.add(sys.path[0])  # the folder of the script, or the current one
    _take_out(out)
    sys.path.insert(0, OWN)
    for workspace in workspaces:
        leave_out(workspace)


def leave_out(workspace: str) -> None:
    """Exclude entries of PYTHONPATH that are inside or around this workspace from further imports."""
    _take_out({given for folder in _given() if _overlaps(given := os.path.abspath(folder), workspace)})


def _given() -> list[str]:
    value = os.environ.get("PYTHONPATH", "")
    return value.split(os.pathsep) if value else []


def _take_out(folders: set[str]) -> None:
    """Remove these folders, except those of Python and installed packages, which a workspace may contain."""
    library = os.path.dirname(os.__file__)
    stay = {OWN, library, os.path.join(library, "lib-dynload"), *site.getsitepackages(), site.getusersitepackages()}
    sys.path[:] = [folder for folder in sys.path if folder in stay or folder not in folders]


def _overlaps(folder: str, workspace: str) -> bool:
    """Whether one folder is or contains the other, compared by device and inode."""
    folder, workspace = os.path.realpath(folder), os.path.realpath(workspace)
    return _holds(workspace, folder) or _holds(folder, workspace)


def _holds(outer: str, inner: str) -> bool:
    try:
        wanted = os.stat(outer)
    except OSError:
        return False
    while True:
        try:
            if os.path.samestat(os.stat(inner), wanted):
                return True
        except OSError:
            pass  # what is not there may come to be; the folders above it count
        above = os.path.dirname(inner)
        if above == inner:
            return False
        inner = above


def _run(left_out: str, module: str, arguments: list[str]) -> None:
    search_own_modules_first([])
    _take_out({os.path.abspath(folder) for folder in left_out.split(os.pathsep) if folder})
    import runpy

    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _run(sys.argv[1], sys.argv[2], sys.argv[3:])
