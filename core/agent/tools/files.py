"""Tools for files: str_replace_editor and edit_file edit them; grep, glob and view only read.

`grep` and `glob` are built into shell commands here. What the model wrote is quoted, cannot become another command or
an option, and cannot contain control characters.
"""

from __future__ import annotations

import re
import shlex

from core.agent.tools.tool import RISK_PARAMETER, Arguments, InvalidCall, Tool, parameters_of, risk_of
from core.events import (
    ActionSecurityRisk,
    CmdRunAction,
    FileEditAction,
    FileEditSource,
    FileReadAction,
    FileReadSource,
)

VIEW_RANGE = "For view: first and last line, counted from 1; -1 is the last line of the file."


def _to_action(arguments: Arguments) -> FileReadAction | FileEditAction:
    """Return a read for `view` and an edit for every other command. The editor checks the other arguments."""
    if arguments["command"] == "view":
        return FileReadAction(
            path=arguments["path"],
            impl_source=FileReadSource.OH_ACI,
            view_range=arguments.get("view_range"),
            security_risk=risk_of(arguments),
        )
    return FileEditAction(
        path=arguments["path"],
        command=arguments["command"],
        file_text=arguments.get("file_text"),
        old_str=arguments.get("old_str"),
        new_str=arguments.get("new_str"),
        insert_line=arguments.get("insert_line"),
        impl_source=FileEditSource.OH_ACI,
        security_risk=risk_of(arguments),
    )


STR_REPLACE_EDITOR = Tool(
    name="str_replace_editor",
    description=(
        "View, create and edit text files.\n"
        "- view: a file with line numbers, or what is in a folder down to two levels.\n"
        "- create: a new file; fails where one exists.\n"
        "- str_replace: put new_str in place of old_str. old_str must be in the file exactly once, character "
        "for character, white space too: take in enough lines around it. Without new_str it is deleted.\n"
        "- insert: put new_str after the line insert_line; 0 is before the first.\n"
        "- undo_edit: take back the last edit of the file."
    ),
    parameters={
        "command": {
            "type": "string",
            "enum": ["view", "create", "str_replace", "insert", "undo_edit"],
            "description": "What to do.",
        },
        **parameters_of(
            FileEditAction,
            path="Absolute path of the file or folder.",
            file_text="For create: what the file contains.",
            old_str="For str_replace: the text to be replaced.",
            new_str="For str_replace and insert: the new text.",
            insert_line="For insert: the line after which new_str goes.",
        ),
        **parameters_of(FileReadAction, view_range=VIEW_RANGE),
        "security_risk": RISK_PARAMETER,
    },
    required=("command", "path", "security_risk"),
    actions=(FileReadAction, FileEditAction),
    to_action=_to_action,
)


def _to_draft(arguments: Arguments) -> FileEditAction:
    return FileEditAction(
        path=arguments["path"],
        content=arguments["content"],
        start=arguments.get("start", 1),
        end=arguments.get("end", -1),
        impl_source=FileEditSource.LLM_BASED_EDIT,
        security_risk=risk_of(arguments),
    )


EDIT_FILE = Tool(
    name="edit_file",
    description=(
        "Edit a text file by a draft: write how the lines from start to end become, and leave out what stays the same "
        "behind a comment such as `# ... existing code ...`. Another model writes the whole lines from it. A file that "
        "does not exist is created with the content as it is.\n"
        "- start and end are lines of the file, counted from 1, both included; -1 as end is the last line. A range can "
        "have at most 300 lines, so give one in a longer file.\n"
        "- start and end both -1: the content is appended as it is."
    ),
    parameters={
        **parameters_of(
            FileEditAction,
            path="Absolute path of the file.",
            content="The draft of the new lines.",
            start="First line of the range.",
            end="Last line of the range.",
        ),
        "security_risk": RISK_PARAMETER,
    },
    required=("path", "content", "security_risk"),
    actions=(FileEditAction,),
    to_action=_to_draft,
)


MAX_LINES = 200
LINE_CHARS = 400
"""Cuts the lines of minified files, which can have megabytes."""
MAX_CHARS = 2_000
"""The limit of one argument."""
TIMEOUT_S = 60.0


def _quoted(arguments: Arguments, name: str, default: str = "") -> str:
    """Return an argument as one quoted word of a shell command. Raises InvalidCall."""
    text = arguments.get(name) or default
    if not text.isprintable():
        raise InvalidCall(f'Argument "{name}" may not hold line ends or control characters')
    if len(text) > MAX_CHARS:
        raise InvalidCall(f'Argument "{name}" is longer than {MAX_CHARS} characters')
    return shlex.quote(text)


def _command(command: str) -> CmdRunAction:
    shown = f"{command} | cut -c 1-{LINE_CHARS} | head -n {MAX_LINES}"
    return CmdRunAction(command=shown, security_risk=ActionSecurityRisk.LOW, timeout=TIMEOUT_S, blocking=True)


def _grep(arguments: Arguments) -> CmdRunAction:
    include = f" --include={_quoted(arguments, 'include')}" if arguments.get("include") else ""
    pattern, path = _quoted(arguments, "pattern"), _quoted(arguments, "path", ".")
    return _command(f"command grep -rnIEH --exclude-dir=.git{include} -e {pattern} -- {path}")


def _glob(arguments: Arguments) -> CmdRunAction:
    _quoted(arguments, "pattern")
    _quoted(arguments, "path", ".")
    path = (arguments.get("path") or ".").rstrip("/")
    root = path if path.startswith(("/", ".")) or not path else f"./{path}"  # find takes -x, ( and ! for tests
    pattern = shlex.quote(f"^{_escaped(root)}/{_expression(arguments['pattern'])}$")
    found = f"command find {shlex.quote(root or '/')} -name .git -prune -o -type f -print"
    return _command(f"{found} | command grep -E -e {pattern} | LC_ALL=C sort")


def _expression(pattern: str) -> str:
    """Return a glob as an extended regular expression; one without a slash matches at any depth."""
    pattern = pattern.removeprefix("./")
    parts = re.split(r"(\*\*/|\*|\?)", pattern if "/" in pattern else f"**/{pattern}")
    wild = {"**/": "(.*/)?", "*": "[^/]*", "?": "[^/]"}
    return "".join(wild.get(part) or _escaped(part) for part in parts if part)


def _escaped(text: str) -> str:
    return re.sub(r"([.\\^$*+?{}\[\]()|])", r"\\\1", text)


GREP = Tool(
    name="grep",
    description=(
        "Search the contents of files for an extended regular expression. The answer has FILE:LINE:TEXT, the first "
        f"{MAX_LINES} lines. Binary files and .git are left out."
    ),
    parameters={
        "pattern": {"type": "string", "description": "The extended regular expression, as of grep -E."},
        "path": {"type": "string", "description": "The file or folder to search in; the working folder if left out."},
        "include": {"type": "string", "description": "Only files with names like this, such as *.py."},
    },
    required=("pattern",),
    actions=(CmdRunAction,),
    to_action=_grep,
)
GLOB = Tool(
    name="glob",
    description=f"Find files by name: *.py at any depth, or src/**/test_*.py. The first {MAX_LINES}, sorted by path.",
    parameters={
        "pattern": {"type": "string", "description": "The glob; ** stands for any folders, * and ? for no slash."},
        "path": {"type": "string", "description": "The folder to look in; the working folder if left out."},
    },
    required=("pattern",),
    actions=(CmdRunAction,),
    to_action=_glob,
)
VIEW = Tool(
    name="view",
    description="Read a text file with line numbers, or see what is in a folder down to two levels.",
    parameters=parameters_of(
        FileReadAction, path="Absolute path of the file or folder.", view_range=VIEW_RANGE.removeprefix("For view: ")
    ),
    required=("path",),
    actions=(FileReadAction,),
    to_action=lambda arguments: FileReadAction(
        path=arguments["path"],
        impl_source=FileReadSource.OH_ACI,
        view_range=arguments.get("view_range"),
        security_risk=ActionSecurityRisk.LOW,
    ),
)
