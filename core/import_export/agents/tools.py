"""The tool calls of other agents as actions of V0: one table by the tool's name, for all agents.

A tool that is not in the table becomes a call of an MCP tool, with its name and arguments whole.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

JsonObject = dict[str, Any]
_Made = tuple[str, JsonObject]
"""The kind of an action, and its arguments."""

_PATHS = ("file_path", "path", "filePath", "absolute_path", "target_file", "filename", "notebook_path", "TargetFile")
_OLD = ("old_string", "old_str", "oldString", "old_text", "search")
_NEW = ("new_string", "new_str", "newString", "new_text", "replace")
_WHOLE = ("content", "file_text", "contents", "new_source", "fileContent")
_PATCHES = ("input", "patch", "patchText", "patch_text", "diff")
_SHELLS = ("bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/bin/zsh", "/usr/bin/bash", "/usr/bin/zsh")
_SCRIPT_OPTIONS = ("-c", "-lc", "-ic", "-lic")
_HERE_PATCH = re.compile(r"^\s*(?:cd [^\n;&|]+ && )?apply_patch\s+<<\s*['\"]?(\w+)['\"]?\n(.*?)\n\1\s*$", re.DOTALL)
_PATCHED_FILE = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)
_PATCH_MARK = "*** "
"""How the lines of a patch of `apply_patch` begin that are not lines of a file."""
_DONE = {"completed": "done", "done": "done", "in_progress": "in_progress", "active": "in_progress"}


def action(name: str, arguments: Any) -> _Made:
    """The kind and the arguments of the action for a tool call.

    `arguments` are an object, JSON text of one, or plain text. Never raises: a call that does not fit its row becomes a
    call of an MCP tool.
    """
    fields = _fields(arguments)
    make = _TOOLS.get(name.lower().removeprefix("functions."))
    made = make(fields) if make is not None else None
    return made or ("call_tool_mcp", {"name": name, "arguments": fields})


def shell_text(command: Any) -> str:
    """The shell text of a command: a text, or a list of words, without a `bash -lc` around it."""
    if isinstance(command, str):
        return command
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        return ""
    if len(command) == 3 and command[0] in _SHELLS and command[1] in _SCRIPT_OPTIONS:
        return str(command[2])
    return shlex.join(command)


def task_list(items: Any) -> list[JsonObject]:
    """A task list as V0 stores it, of the list of another agent; entries that are none are left out."""
    found: list[JsonObject] = []
    for number, item in enumerate(items if isinstance(items, list) else [], 1):
        if not isinstance(item, Mapping):
            continue
        title = _text(item, ("content", "title", "description", "step", "text", "subject"))
        status = _DONE.get(str(item.get("status", "")).lower(), "todo")
        if title:
            found.append({"id": str(item.get("id") or number), "title": title, "status": status, "notes": ""})
    return found


def patched_paths(patch: str) -> list[str]:
    """The files that a patch of `apply_patch` names."""
    return [path.strip() for path in _PATCHED_FILE.findall(patch)]


def patch_diff(patch: str) -> str:
    """The changed lines of a patch of `apply_patch`, with their signs; any other text as it is.

    A place without line numbers, and the name of each of several files, become unchanged lines.
    """
    if not patch.startswith("*** Begin Patch"):
        return patch
    has_several = len(patched_paths(patch)) > 1
    found: list[str] = []
    for line in patch.split("\n"):
        if line.startswith("@@"):
            place = line.removeprefix("@@").strip()
            found += [f" {place or '…'}"] if place or (found and found[-1][:1] in "+-") else []
        elif not line.startswith(_PATCH_MARK):
            found.append(line)
        elif has_several and (name := _PATCHED_FILE.match(line)):
            found.append(f" {name[1].strip()}")
    return "\n".join(found)


def _fields(arguments: Any) -> JsonObject:
    if isinstance(arguments, str):
        try:
            parsed = json.loads(arguments)
        except (ValueError, RecursionError):
            return {"input": arguments}
        return parsed if isinstance(parsed, dict) else {"input": arguments}
    return dict(arguments) if isinstance(arguments, Mapping) else {}


def _text(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """The first of these fields that is a text with something in it."""
    return next((value for name in names if isinstance(value := fields.get(name), str) and value), "")


def _some(fields: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """The first of these fields that is a text, even an empty one."""
    return next((value for name in names if isinstance(value := fields.get(name), str)), None)


def _run(fields: JsonObject) -> _Made | None:
    words = fields.get("command")
    if isinstance(words, list) and len(words) == 2 and words[0] == "apply_patch" and isinstance(words[1], str):
        return _patch({"input": words[1]})
    command = shell_text(words or fields.get("cmd") or fields.get("input"))
    if not command:
        commands = fields.get("commands")  # a list of commands that run one after the other
        command = "\n".join(map(shell_text, commands)) if isinstance(commands, list) else ""
    if not command:
        return None
    if here := _HERE_PATCH.match(command):
        return _patch({"input": here[2]})
    args: JsonObject = {"command": command}
    if folder := _text(fields, ("workdir", "cwd", "working_dir", "directory")):
        args["cwd"] = folder
    return "run", args


def _read(fields: JsonObject) -> _Made | None:
    path = _text(fields, _PATHS)
    return ("read", {"path": path}) if path else None


def _replace(fields: JsonObject) -> _Made | None:
    path, old, new = _text(fields, _PATHS), _some(fields, _OLD), _some(fields, _NEW)
    if not path:
        return None
    if old is None or new is None:
        return _patch(fields) if _text(fields, _PATCHES) else ("edit", {"path": path, "command": "", "content": ""})
    return "edit", {"path": path, "command": "str_replace", "old_str": old, "new_str": new, "impl_source": "oh_aci"}


def _write(fields: JsonObject) -> _Made | None:
    path, text = _text(fields, _PATHS), _some(fields, _WHOLE)
    if not path or text is None:
        return None
    return "edit", {"path": path, "command": "create", "file_text": text, "impl_source": "oh_aci"}


def _cell(fields: JsonObject) -> _Made | None:
    """A change of one cell of a notebook, of which only the new text is known."""
    path, text = _text(fields, _PATHS), _some(fields, _WHOLE) or ""
    if not path:
        return None
    head = f" cell {_text(fields, ('cell_id', 'cell_number'))}".rstrip()
    patch = "\n".join([head, *(f"+{line}" for line in text.split("\n") if text)])
    return "edit", {"path": path, "command": "", "content": patch, "impl_source": "oh_aci"}


def _several(fields: JsonObject) -> _Made | None:
    """Several replacements in one file."""
    path, edits = _text(fields, _PATHS), fields.get("edits")
    if not path or not isinstance(edits, list):
        return None
    pairs = [(_some(edit, _OLD), _some(edit, _NEW)) for edit in edits if isinstance(edit, Mapping)]
    old = "\n".join(pair[0] or "" for pair in pairs)
    new = "\n".join(pair[1] or "" for pair in pairs)
    return "edit", {"path": path, "command": "str_replace", "old_str": old, "new_str": new, "impl_source": "oh_aci"}


def _patch(fields: JsonObject) -> _Made | None:
    patch = _text(fields, _PATCHES)
    if not patch:
        return None
    paths = patched_paths(patch) or [_text(fields, _PATHS)]
    return "edit", {"path": ", ".join(paths), "command": "", "content": patch, "impl_source": "oh_aci"}


def _editor(fields: JsonObject) -> _Made | None:
    """One tool with a `command`: OpenHands', SWE-agent's and goose's editor."""
    command, path = fields.get("command"), _text(fields, _PATHS)
    if not path or not isinstance(command, str):
        return _replace(fields)
    if command in ("view", "read"):
        return "read", {"path": path, "impl_source": "oh_aci"}
    if command in ("create", "write"):
        return _write(fields)
    if command in ("str_replace", "edit_file"):
        is_deletion = _some(fields, _OLD) is not None and _some(fields, _NEW) is None
        return _replace({**fields, "new_str": ""} if is_deletion else fields)
    args: JsonObject = {"path": path, "command": command, "impl_source": "oh_aci"}
    if isinstance(fields.get("insert_line"), int):
        args["insert_line"] = fields["insert_line"]
    if (new := _some(fields, _NEW)) is not None:
        args["new_str"] = new
    return "edit", args


def _browse(fields: JsonObject) -> _Made | None:
    url = _text(fields, ("url", "uri"))
    return ("browse", {"url": url}) if url else None


def _tasks(fields: JsonObject) -> _Made | None:
    items = next((fields[name] for name in ("todos", "plan", "task_list", "tasks", "items") if name in fields), None)
    if not isinstance(items, list):
        return None
    return "task_tracking", {"command": "plan", "task_list": task_list(items)}


def _delegate(fields: JsonObject) -> _Made | None:
    agent = _text(fields, ("subagent_type", "agent_name", "agent", "agent_type", "recipe", "mode")) or "agent"
    task = _text(fields, ("prompt", "task", "message", "instructions", "objective", "description"))
    return "delegate", {"agent": agent, "inputs": {"task": task}}


def _think(fields: JsonObject) -> _Made | None:
    thought = _text(fields, ("thought", "content"))
    return ("think", {"thought": thought}) if thought else None


_ROWS: tuple[tuple[Callable[[JsonObject], _Made | None], str], ...] = (
    (_run, "bash shell shell_command exec_command local_shell run_shell_command execute_bash run_terminal_cmd"
           " execute_command run_commands developer__shell terminal"),
    (_read, "read read_file view view_image read_image readfile readmediafile"),
    (_replace, "edit replace str_replace edit_file apply_diff search_replace search_and_replace"),
    (_write, "write write_file write_to_file create_file"),
    (_cell, "notebookedit"),
    (_several, "multiedit multi_edit"),
    (_patch, "apply_patch patch"),
    (_editor, "editor file_editor str_replace_editor str_replace_based_edit_tool text_editor developer__text_editor"),
    (_browse, "webfetch web_fetch fetch fetch_web_content browse"),
    (_tasks, "todowrite todo_write todos write_todos update_plan update_todo_list task_tracker"),
    (_delegate, "task agent spawn_agent invoke_agent delegate new_task"),
    (_think, "think"),
)  # fmt: skip
_TOOLS: Mapping[str, Callable[[JsonObject], _Made | None]] = {
    name: make for make, names in _ROWS for name in names.split()
}
