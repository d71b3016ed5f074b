"""str_replace_editor: look at files and change them by exact text."""

from __future__ import annotations

from core.agent.tools.tool import RISK_PARAMETER, Arguments, Tool, parameters_of, risk_of
from core.events import FileEditAction, FileEditSource, FileReadAction, FileReadSource

VIEW_RANGE = "For view: first and last line, counted from 1; -1 is the last line of the file."


def _to_action(arguments: Arguments) -> FileReadAction | FileEditAction:
    """`view` reads; all else edits. What a command needs beyond the path is the editor's to say."""
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
