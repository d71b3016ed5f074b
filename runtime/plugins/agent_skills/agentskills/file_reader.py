"""PDF, Word, PowerPoint and LaTeX as text. Everything is printed.

Source of rules and texts: `openhands/runtime/plugins/agent_skills/file_reader/file_readers.py`. The libraries are those
of the extra `documents`, and pylatexenc; what is missing is said, with what to do.
"""

import os
from importlib import import_module
from typing import Any

DOCUMENTS = "pip install 'handloom[documents]'"


def parse_pdf(file_path: str) -> None:
    """Parses the content of a PDF file and prints it.

    Args:
        file_path: str: The path to the file to open.
    """
    print(f"[Reading PDF file from {file_path}]")
    if (pdf := _library("pdfminer.high_level", "PDF", DOCUMENTS)) is None:
        return
    with open(file_path, "rb") as file:
        text = pdf.extract_text(file)
    pages = text.split("\f")[:-1] if text.endswith("\f") else text.split("\f")
    print("".join(f"@@ Page {number} @@\n{page}\n\n" for number, page in enumerate(pages, 1)).strip())


def parse_docx(file_path: str) -> None:
    """Parses the content of a DOCX file and prints it.

    Args:
        file_path: str: The path to the file to open.
    """
    print(f"[Reading DOCX file from {file_path}]")
    if (docx := _library("docx", "DOCX", DOCUMENTS)) is None:
        return
    paragraphs = docx.Document(file_path).paragraphs
    print("".join(f"@@ Page {number} @@\n{one.text}\n\n" for number, one in enumerate(paragraphs, 1)))


def parse_latex(file_path: str) -> None:
    """Parses the content of a LaTex file and prints it.

    Args:
        file_path: str: The path to the file to open.
    """
    print(f"[Reading LaTex file from {file_path}]")
    if (latex := _library("pylatexenc.latex2text", "LaTex", "pip install pylatexenc")) is None:
        return
    with open(file_path, encoding="utf-8", errors="replace") as file:
        print(latex.LatexNodes2Text().latex_to_text(file.read()).strip())


def parse_pptx(file_path: str) -> None:
    """Parses the content of a pptx file and prints it.

    Args:
        file_path: str: The path to the file to open.
    """
    print(f"[Reading PowerPoint file from {file_path}]")
    if (pptx := _library("pptx", "PowerPoint", DOCUMENTS)) is None:
        return
    try:
        text = []
        for number, slide in enumerate(pptx.Presentation(str(file_path)).slides, 1):
            text.append(f"@@ Slide {number} @@")
            text += [shape.text for shape in slide.shapes if hasattr(shape, "text")]
        print("\n".join(text))
    except Exception as error:  # noqa: BLE001  # a file of a stranger, by a library of others; V0 tells it like this
        print(f"Error reading PowerPoint file: {error}")


def can_ask_openai() -> bool:
    """Whether the media skills are there, which ask a model at OpenAI: by its key in the environment."""
    return bool(openai_key())


def openai_key() -> str:
    return os.environ.get("OPENAI_API_KEY") or os.environ.get("SANDBOX_ENV_OPENAI_API_KEY", "")


def _library(name: str, kind: str, install: str) -> Any:
    """A library, or None after it was said that it is missing."""
    try:
        return import_module(name)
    except ImportError:
        print(f"ERROR: {kind} files cannot be read here: {name.partition('.')[0]} is missing. Install it: {install}")
        return None
