"""Markdown for people: the task, every message, every action and its result folded, pictures inside the file.

What was said is quoted, so that nobody can speak as somebody else. Whatever text came from outside, the document has no
HTML but ours, no fence ends before its time, and opening it fetches nothing.
"""

from __future__ import annotations

import html
import re
from typing import BinaryIO

from core.import_export.document_text import Entry, clock, dollars, entry, one_line, readable, which_is_code
from core.import_export.export_pages import Page, Told
from core.store.blobs import BlobRef

_RUNS = re.compile(r"`+")
_LONG_RUN = re.compile(r"`{3,}|~{3,}")
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_ENTITY = re.compile(r"&(?=#?\w{1,40};)")
_SPECIAL = re.compile(r"([\\`*_\[\]<>&|~$!#])")


class Writer:
    """Writes the document."""

    def __init__(self, out: BinaryIO, told: Told) -> None:
        self._out = out
        self._cost = told.cost_before
        info = told.info
        self._write(f"# {escaped(told.title)}\n\n")
        facts = {
            "Model": info.model,
            "Folder": info.workspace,
            "Begun": clock(info.created_at),
            "Last event": clock(info.updated_at),
            "Events": str(info.event_count),
            "Conversation": info.id,
        }
        self._write("\n".join(f"- {name}: {escaped(one_line(value))}" for name, value in facts.items() if value) + "\n")

    def take(self, page: Page) -> None:
        """Write the next events; what nobody follows is left out."""
        for envelope in page.events:
            if envelope.event.llm_metrics is not None:
                self._cost = envelope.event.llm_metrics.accumulated_cost
            told = entry(envelope)
            if told.role in ("user", "agent"):
                who = "User" if told.role == "user" else "Agent"
                what = f" · {told.title}" if told.title else ""
                self._write(f"\n## {who}{what}\n\n<sub>{clock(envelope.timestamp)} · event {envelope.id}</sub>\n")
                if told.text.strip():
                    self._write(f"\n{quoted(told.text)}\n")
            elif told.role != "quiet":
                self._write_step(told)
            for url in told.pictures:
                self._write_picture(url, page)

    def end(self) -> None:
        """Say what it cost."""
        self._write(f"\n---\n\nModels: {dollars(self._cost)}\n")

    def _write_step(self, told: Entry) -> None:
        if told.prose.strip():
            self._write(f"\n{quoted(told.prose)}\n")
        mark = {"action": "▸", "result": "✕" if told.failed else "✓", "error": "✕"}[told.role]
        title = html.escape(one_line(told.title, 120))
        if not told.text.strip():
            self._write(f"\n{mark} {code_span(one_line(told.title, 120))}\n")
            return
        summary = f"<details><summary>{mark} <code>{title}</code></summary>"
        self._write(f"\n{summary}\n\n{fenced(told.text, told.language)}\n\n</details>\n")

    def _write_picture(self, url: str, page: Page) -> None:
        ref = BlobRef.parse(url)
        blob = page.blobs.get(ref.digest) if ref else None
        if ref is None or blob is None:
            self._write("\n*A picture that is not stored with the conversation.*\n")
        else:
            self._write(f"\n![{ref.width} × {ref.height} pixels]({blob.data_url()})\n")

    def _write(self, text: str) -> None:
        self._out.write(text.encode())


def escaped(text: str) -> str:
    """One line of text that reads the same in Markdown."""
    return _SPECIAL.sub(r"\\\1", text)


def code_span(text: str) -> str:
    """One line of text as code that it cannot end."""
    fence = "`" * (max([0, *(len(run) for run in _RUNS.findall(text))]) + 1)
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"


def fenced(text: str, language: str = "") -> str:
    """A text in a fence that it cannot close: longer than any run of backticks in it."""
    body = readable(text).rstrip("\n")
    fence = "`" * max([2, *(len(run) for run in _RUNS.findall(body))]) + "`"
    return f"{fence}{language}\n{body}\n{fence}"


def quoted(text: str) -> str:
    """What somebody wrote, as a quotation: its Markdown works, its HTML and its remote pictures do not.

    Where fences stand so that readers might differ about what is code, all of it is shown as it was typed.
    """
    lines = readable(text).expandtabs(4).strip("\n").split("\n")
    is_code, unclosed = which_is_code(lines)
    prose = [line for line, code in zip(lines, is_code, strict=True) if not code]
    if any(_LONG_RUN.search(line) for line in prose):
        out = fenced(text).split("\n")
    else:
        spans_hold = _spans_hold(prose)
        out = [line if code else _safe(line, spans_hold) for line, code in zip(lines, is_code, strict=True)]
        out += [unclosed] if unclosed else []
    return "\n".join(f"> {line}".rstrip() for line in out)


def _spans_hold(lines: list[str]) -> bool:
    """Whether each line closes the code spans that it opens, whatever blocks a reader makes of the lines.

    Only then is what looks like code within a line code for every reader. Cells of tables would cut through it.
    """
    return all(
        "\\`" not in line and "|" not in line and "`" not in _SPAN.sub("", line) for line in lines if "`" in line
    )


def _safe(line: str, keeps_spans: bool) -> str:
    """A line of prose whose text cannot become HTML, an entity or a picture from elsewhere."""
    if not keeps_spans or "`" not in line:
        return _plain(line)
    parts, end = [], 0
    for span in _SPAN.finditer(line):
        parts += [_plain(line[end : span.start()]), span[0]]
        end = span.end()
    return "".join([*parts, _plain(line[end:])])


def _plain(text: str) -> str:
    text = _TAG.sub("&lt;", _ENTITY.sub("&amp;", text)).replace("![", "!\\[")
    return re.sub(r"(?i)(javascript|vbscript):", r"\1&#8203;:", text)
