"""The skills: `from agentskills import *` in a kernel. Names and order are OpenHands V0's.

Importing it loads only the standard library; a function imports other libraries when it is called. The docstrings of
the functions are for the model, which reads them with `help` or as `documentation()`.
"""

from __future__ import annotations

from inspect import getdoc, signature
from textwrap import indent

from .file_ops import file_editor, find_file, goto_line, open_file, scroll_down, scroll_up, search_dir, search_file
from .file_reader import (
    openai_key,
    parse_audio,
    parse_docx,
    parse_image,
    parse_latex,
    parse_pdf,
    parse_pptx,
    parse_video,
)
from .repo_ops import explore_tree_structure, get_entity_contents, search_code_snippets

__all__ = [  # noqa: RUF022  # V0's order
    "open_file",
    "goto_line",
    "scroll_down",
    "scroll_up",
    "search_dir",
    "search_file",
    "find_file",
    "parse_pdf",
    "parse_docx",
    "parse_latex",
    "parse_pptx",
    "get_entity_contents",
    "search_code_snippets",
    "explore_tree_structure",
    "file_editor",
]
if openai_key():
    __all__ += ["parse_audio", "parse_image", "parse_video"]


def documentation() -> str:
    """Return the signature and docstring of every skill except `file_editor`, which the agent has as a tool."""
    skills = [globals()[name] for name in __all__ if name != "file_editor"]
    return "\n\n".join(
        f"{skill.__name__}{signature(skill)}:\n{indent(getdoc(skill) or '', '    ')}" for skill in skills
    )
