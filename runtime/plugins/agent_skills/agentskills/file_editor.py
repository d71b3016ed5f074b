"""The editor as a function: the commands of the agent's editor, and its texts (`openhands_aci/editor/__init__.py`).

It is the server's own editor. Its package is in sight while it is imported and not after that, so that a cell finds
its own `runtime` and `core` where it has any.
"""

import json
import os
import sys
import uuid
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[4]
_PACKAGES = ("runtime", "core")


def file_editor(  # noqa: PLR0917  # as V0 has it
    command: str,
    path: str,
    file_text: str | None = None,
    view_range: list[int] | None = None,
    old_str: str | None = None,
    new_str: str | None = None,
    insert_line: int | None = None,
    enable_linting: bool = False,
) -> str:
    """Views, creates and edits plain-text files: `view`, `create`, `str_replace`, `insert`, `undo_edit`."""
    result: dict[str, Any] = {"output": None, "error": None}
    editor, refusals = _editor()
    try:
        editor.check(command, path, os.getcwd())
        if command == "view":
            result |= {"output": editor.view(path, view_range), "path": path}
        else:
            arguments = {
                "create": (file_text,),
                "str_replace": (old_str, new_str),
                "insert": (insert_line, new_str),
                "undo_edit": (),
            }
            edit = getattr(editor, command)(path, *arguments[command])
            contents = {"old_content": edit.old, "new_content": edit.new}
            result |= {"output": edit.output, "path": path, "prev_exist": edit.old is not None, **contents}
    except refusals as error:
        result["error"] = str(error)
    said = f"ERROR:\n{result['error']}" if result["error"] else result["output"]
    marker = uuid.uuid4().hex
    told = json.dumps({**result, "formatted_output_and_error": said})
    return f"<oh_aci_output_{marker}>\n{told}\n</oh_aci_output_{marker}>"


@cache
def _editor() -> tuple[Any, tuple[type[Exception], ...]]:
    """The editor of this kernel, whose history is in memory, and what it refuses with."""
    theirs = _take_out()
    sys.path.insert(0, str(_ROOT))
    try:
        beneath = import_module("runtime.server.safe_paths")
        editor = import_module("runtime.server.editor")
    finally:
        sys.path.remove(str(_ROOT))
        _take_out()
        sys.modules.update(theirs)
    umask = os.umask(0)
    os.umask(umask)
    return editor.Editor(beneath.Roots(), umask), (editor.EditorError, beneath.FileError, OSError)


def _take_out() -> dict[str, Any]:
    """The modules of those names that are loaded, which are so no more."""
    names = [name for name in sys.modules if name.partition(".")[0] in _PACKAGES]
    return {name: sys.modules.pop(name) for name in names}
