"""Markdown export: messages, actions with their results folded, and pictures inside the file.

Messages are quoted, so that their text cannot imitate another speaker. Text from events cannot add HTML, close a code
fence or make the viewer fetch anything.
"""

from __future__ import annotations

import html
import re
from typing import BinaryIO

from core.events import Envelope, EventSource
from core.import_export.document_text import (
    STILL_RUNNING,
    Entry,
    clock,
    code_lines,
    describe,
    dollars,
    one_line,
    readable,
)
from core.import_export.exporter import ExportContext, Page
from core.store.blobs import BlobRef

_RUNS = re.compile(r"`+")
_LONG_RUN = re.compile(r"`{3,}|~{3,}")
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_ENTITY = re.compile(r"&(?=#?\w{1,40};)")
_SPECIAL = re.compile(r"([\\`*_\[\]<>&|~$!#])")


class MarkdownWriter:
    def __init__(self, out: BinaryIO, context: ExportContext) -> None:
        self._out = out
        self._cost = context.cost_before
        self._speaker = ""
        """Whose heading was the last one."""
        info = context.info
        self._write(f"# {escaped(context.title)}\n\n")
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
        """Write the next events, without `quiet` ones."""
        for envelope in page.events:
            if envelope.event.llm_metrics is not None:
                self._cost = envelope.event.llm_metrics.accumulated_cost
            entry = describe(envelope)
            if entry.role in ("user", "agent"):
                who = "User" if entry.role == "user" else "Agent"
                what = f" · {entry.title}" if entry.title else ""
                self._write_heading(who, envelope, what)
                if entry.text.strip():
                    self._write(f"\n{quoted(entry.text)}\n")
            elif entry.role != "quiet":
                self._write_step(entry, envelope)
            for url in entry.pictures:
                self._write_picture(url, page)

    def end(self) -> None:
        self._write(f"\n---\n\nModels: {dollars(self._cost)}\n")

    def _write_step(self, entry: Entry, envelope: Envelope) -> None:
        who = "User" if envelope.source is EventSource.USER else "Agent"
        if entry.prose.strip() or (entry.role == "action" and who != self._speaker):
            self._write_heading(who, envelope)
        if entry.prose.strip():
            self._write(f"\n{quoted(entry.prose)}\n")
        ended = "✕" if entry.failed else "•" if entry.title == STILL_RUNNING else "✓"
        mark = {"action": "▸", "result": ended, "error": "✕"}[entry.role]
        title = html.escape(one_line(entry.title, 120))
        if not entry.text.strip():
            self._write(f"\n{mark} {code_span(one_line(entry.title, 120))}\n")
            return
        summary = f"<details><summary>{mark} <code>{title}</code></summary>"
        self._write(f"\n{summary}\n\n{fenced(entry.text, entry.language)}\n\n</details>\n")

    def _write_heading(self, who: str, envelope: Envelope, what: str = "") -> None:
        self._speaker = who
        self._write(f"\n## {who}{what}\n\n<sub>{clock(envelope.timestamp)} · event {envelope.id}</sub>\n")

    def _write_picture(self, url: str, page: Page) -> None:
        ref = BlobRef.parse(url)
        blob = page.blobs.get(ref.digest) if ref else None
        if ref is None or blob is None:
            self._write("\n*This picture is not stored with the conversation.*\n")
        else:
            self._write(f"\n![{ref.width} × {ref.height} pixels]({blob.data_url()})\n")

    def _write(self, text: str) -> None:
        self._out.write(text.encode())


def escaped(text: str) -> str:
    """One line of text with Markdown characters escaped."""
    return _SPECIAL.sub(r"\\\1", text)


def code_span(text: str) -> str:
    """One line of text as a code span that it cannot close."""
    fence = "`" * (max([0, *(len(run) for run in _RUNS.findall(text))]) + 1)
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"


def fenced(text: str, language: str = "") -> str:
    """Text in a fence that it cannot close, longer than any run of backticks in it."""
    body = readable(text).rstrip("\n")
    fence = "`" * max([2, *(len(run) for run in _RUNS.findall(body))]) + "`"
    return f"{fence}{language}\n{body}\n{fence}"


def quoted(text: str) -> str:
    """A message as a quotation: its Markdown works, its HTML and remote pictures do not.

    If Markdown readers could disagree about what is code, the whole message is shown as it was typed.
    """
    lines = readable(text).expandtabs(4).strip("\n").split("\n")
    is_code, unclosed = code_lines(lines)
    prose = [line for line, code in zip(lines, is_code, strict=True) if not code]
    if any(_LONG_RUN.search(line) for line in prose):
        out = fenced(text).split("\n")
    else:
        spans_hold = _spans_hold(prose)
        out = [line if code else _safe(line, spans_hold) for line, code in zip(lines, is_code, strict=True)]
        out += [unclosed] if unclosed else []
    return "\n".join(f"> {line}".rstrip() for line in out)


def _spans_hold(lines: list[str]) -> bool:
    """Whether each line closes the code spans that it opens, and no table cell can cut through one.

    Only then do all Markdown readers agree about the code in a line.
    """
    return all(
        "\\`" not in line and "|" not in line and "`" not in _SPAN.sub("", line) for line in lines if "`" in line
    )


def _safe(line: str, keeps_spans: bool) -> str:
    """A line of prose that cannot become HTML, an entity or a remote picture."""
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
