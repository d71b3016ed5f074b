"""The skills: `from agentskills import *` in a kernel. Names and order are OpenHands V0's.

Imports nothing but the standard library; what a function needs beyond that, it imports when it is called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from .file_editor import file_editor
from .file_ops import find_file, goto_line, open_file, scroll_down, scroll_up, search_dir, search_file
from .file_reader import can_ask_openai, parse_docx, parse_latex, parse_pdf, parse_pptx
from .media import parse_audio, parse_image, parse_video
from .repo_ops import explore_tree_structure, get_entity_contents, search_code_snippets

__all__ = [  # noqa: RUF022  # in the order in which V0 documents them
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
if can_ask_openai():
    __all__ += ["parse_audio", "parse_image", "parse_video"]


def documentation() -> str:
    """Signature and docstring of every skill, as V0 puts them into prompts; `file_editor` is known as a tool."""
    return "".join(_documented(globals()[name]) for name in __all__ if name != "file_editor")


def _documented(skill: Callable[..., object]) -> str:
    lines = [line.strip() for line in (skill.__doc__ or "").split("\n")]
    body = "\n".join("    " + line for line in lines if line)
    return f"{skill.__name__}{inspect.signature(skill)}:\n{body}\n\n"
