#!/bin/sh
""":"
# sh finds the interpreter, because the path in a line `#!/path/python` must not have a blank. In a virtual environment
# it is beside this script; elsewhere it has the version of the folder in which Handloom is installed.
self=$0
[ -L "$self" ] && self=$(readlink -f -- "$self")
here=${self%/*}
[ "$here" = "$self" ] && here=.
[ -f "$here/../pyvenv.cfg" ] && exec "$here/python" "$0" "$@"
for package in "$here"/../lib/python3.*/*-packages/handloom "$here"/../lib/python3.*/*-packages/_handloom.pth; do
  python=${package#"$here/../lib/"}
  python=${python%%/*}
  [ -x "$here/$python" ] && exec "$here/$python" "$0" "$@"
  [ -e "$package" ] && command -v "$python" >/dev/null && exec "$python" "$0" "$@"
done
[ -x "$here/python3" ] && exec "$here/python3" "$0" "$@"
exec python3 "$0" "$@"
"""
# The scripts `handloom` and `handloom-server`: take other people's modules out of the way, then start the program.
#
# Installed as the scripts themselves and not as entry points, because the script that an installer makes of an entry
# point imports the package by its name, and the first `handloom` on `PYTHONPATH` may be the workspace's. So nothing is
# imported here that Python has not loaded before any program, until the folder that holds Handloom's own modules is
# first on `sys.path`. That folder is found by where this file is, or where Python installs packages.

import os
import site
import sys

MARK = os.path.join("core", "interpreter.py")
"""What that folder holds."""
EDITABLE = "_handloom.pth"
"""The file among the installed packages that says where a source tree is, made by an editable install."""


def own_folder() -> str:
    """The folder that holds `core`, `runtime`, `tui` and `themes`. Raises FileNotFoundError."""
    beside = os.path.dirname(os.path.realpath(__file__))
    above = os.path.dirname(beside)
    if os.path.basename(beside) == "handloom":  # this is the module, not the script
        candidates = [beside, above]
    else:
        python = f"python{sys.version_info.major}.{sys.version_info.minor}"
        packages = [os.path.join(above, "lib", python, "site-packages"), *site.getsitepackages()]
        packages += [site.getusersitepackages(), above]  # the last: pip install --target
        candidates = []
        for folder in packages:
            candidates.append(os.path.join(folder, "handloom"))
            if os.path.isfile(source := os.path.join(folder, EDITABLE)):
                with open(source, encoding="utf-8") as lines:
                    candidates += lines.read().splitlines()
    for folder in candidates:
        if os.path.isfile(os.path.join(folder, MARK)):
            return folder
    raise FileNotFoundError("handloom: its own modules cannot be found. Install Handloom again.")


def main() -> int:
    """Run the program that this file is called by; the answer is its exit status."""
    searched, given = sys.path[:], os.environ.get("PYTHONPATH", "").split(os.pathsep)
    last = {sys.path[0], *map(os.path.abspath, given)}
    sys.path[:] = [own_folder(), *sorted(searched, key=last.__contains__)]  # what `core` itself imports is Python's
    from core.interpreter import search_own_modules_first, workspaces_of

    sys.path[:] = searched
    search_own_modules_first(workspaces_of(sys.argv))
    if os.path.basename(sys.argv[0]) == "handloom-server":
        from runtime.server.__main__ import main as serve

        return serve()
    from tui.__main__ import main as start

    return start()


if __name__ == "__main__":
    sys.exit(main())
