"""HTML export: one page that replays a conversation in any browser, without a network or other files.

Every event is an article and can be read without JavaScript. The script hides what has not happened yet, and plays.
All text from events is escaped and control characters are made visible; terminal output is JSON in blocks that no text
can close. A Content-Security-Policy allows our own style and script by their hashes, pictures in `data:` URLs, and
nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import datetime
from html import escape
from importlib.resources import files
from typing import BinaryIO

from core.events import AgentStateChangedObservation, Envelope
from core.import_export.asciicast import TerminalDecoder
from core.import_export.document_text import (
    Entry,
    begins_turn,
    clock,
    describe,
    dollars,
    mark_hidden_characters,
    one_line,
    readable,
)
from core.import_export.exporter import ExportContext, Page
from core.import_export.html_prose import prose_html
from core.store.blobs import BlobRef
from core.store.event_rows import kind_of

MOST_CHARS = 200_000
"""Longest text of one event; the archive format has all of it."""
MOST_TERMINAL_CHARS = 32_000_000
"""Terminal output in one page; browsers cannot open a larger one."""
EARLY = 'document.documentElement.className = "live";'
"""Runs before the first event, so that the browser does not lay out events that will be hidden."""
_PARTS = files("core.import_export") / "page"
_NAMES = {"user": "User", "agent": "Agent", "action": "Action", "result": "Result", "error": "Error", "quiet": "Event"}


class HtmlWriter:
    def __init__(self, out: BinaryIO, context: ExportContext) -> None:
        self._out, self._context = out, context
        self._terminal = TerminalDecoder()
        self._terminal_left = MOST_TERMINAL_CHARS
        self._shown: dict[str, int] = {}
        """Pictures that are in the page already: their digest and event."""
        self._cost = context.cost_before
        style, self._script = _page_part("replay.css"), _page_part("screen.js") + _page_part("replay.js")
        self._write(_head(context, style, self._script))

    def take(self, page: Page) -> None:
        """Write the next events, then their terminal output."""
        for envelope in page.events:
            self._write(self._article(envelope, page))
        pieces = []
        for shown in self._terminal.take(page):
            self._terminal_left -= len(shown.text)
            if self._terminal_left >= 0:
                pieces.append([shown.after, _milliseconds(shown.at), mark_hidden_characters(shown.text)])
        if pieces:
            self._write(f'<script type="application/json" class="terminal">{_json(pieces)}</script>\n')

    def end(self) -> None:
        if self._terminal_left < 0:
            self._context.note("The terminal recording is too long for a page; its end was left out.")
        self._write(f"</main>\n{_page_part('panes.html')}<script>{self._script}</script>\n</body>\n</html>\n")

    def _article(self, envelope: Envelope, page: Page) -> str:
        entry = describe(envelope)
        metrics = envelope.event.llm_metrics
        if metrics is not None:
            self._cost = metrics.accumulated_cost
        facts = {
            "t": str(_milliseconds(envelope.timestamp)),
            "kind": one_line(kind_of(envelope.event).partition(":")[2], 40),
            "label": one_line(entry.title or entry.text, 120),
            "cost": dollars(self._cost),
        }
        if isinstance(envelope.event, AgentStateChangedObservation):
            facts["state"] = envelope.event.agent_state.value
        if begins_turn(envelope):
            facts["turn"] = ""
        attributes = "".join(f' data-{name}="{escape(value)}"' for name, value in facts.items())
        classes = f"{entry.role} failed" if entry.failed else entry.role
        inner = _message_html(entry, envelope) if entry.is_prose else _step_html(entry, envelope)
        pictures = "".join(self._picture(url, envelope, page) for url in entry.pictures)
        return f'<article id="e{envelope.id}" class="{classes}"{attributes}>{inner}{pictures}</article>\n'

    def _picture(self, url: str, envelope: Envelope, page: Page) -> str:
        ref = BlobRef.parse(url)
        blob = page.blobs.get(ref.digest) if ref else None
        if ref is None or blob is None:
            return "<p class=gone>This picture is not stored with the conversation.</p>"
        caption = escape(one_line(getattr(envelope.event, "url", ""), 200))
        first = self._shown.setdefault(ref.digest, envelope.id)
        if first != envelope.id:
            return f'<p class=again><a href="#e{first}" data-same="{first}" title="{caption}">The same picture</a></p>'
        size = f"width={ref.width} height={ref.height}"
        return f'<figure><img {size} loading=lazy alt="{caption}" src="{blob.data_url()}"></figure>'

    def _write(self, text: str) -> None:
        self._out.write(text.encode())


def _head(context: ExportContext, style: str, script: str) -> str:
    info = context.info
    title = escape(context.title)
    policy = f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)} {_hash(EARLY)}"
    about = " · ".join(escape(one_line(text)) for text in (info.model, info.workspace, clock(info.created_at)) if text)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="Handloom">
<title>{title}</title>
<style>{style}</style>
<script>{EARLY}</script>
</head>
<body>
<header class="top"><div><h1>{title}</h1><p>{about} · {info.event_count} events</p></div>
<p class="now"><span id="state"></span><span id="cost"></span></p></header>
<main id="chat" tabindex="-1">
"""


def _message_html(entry: Entry, envelope: Envelope) -> str:
    name = _NAMES[entry.role] + (f" · {entry.title}" if entry.title else "")
    return _prose(name, entry.text, envelope)


def _step_html(entry: Entry, envelope: Envelope) -> str:
    """An action or a result: one line, which expands if there is more."""
    title = escape(one_line(entry.title or entry.text, 160))
    before = (
        f"{_heading('Agent', envelope)}<div class=prose>{prose_html(_cut(entry.prose))}</div>"
        if entry.prose.strip()
        else ""
    )
    if not entry.text.strip():
        return f"{before}<p class=step>{title}</p>"
    preview = escape(one_line(entry.text, 100)) if entry.role in ("result", "error") else ""
    body = _diff(entry.text) if entry.language == "diff" else escape(_cut(entry.text))
    summary = f"<summary class=step>{title}<small>{preview}</small></summary>"
    is_open = " open" if entry.role == "error" else ""
    return f"{before}<details{is_open}>{summary}<pre>{body}</pre></details>"


def _prose(name: str, text: str, envelope: Envelope) -> str:
    return f"{_heading(name, envelope)}<div class=prose>{prose_html(_cut(text))}</div>"


def _heading(name: str, envelope: Envelope) -> str:
    at = envelope.timestamp
    return f'<h2>{escape(name)}<time title="{clock(at)}">{at:%H:%M:%S}</time></h2>'


def _diff(text: str) -> str:
    marks = {"+": "ins", "-": "del"}
    lines = []
    for line in _cut(text).split("\n"):
        name = marks.get(line[:1])
        lines.append(f"<{name}>{escape(line)}</{name}>" if name else escape(line))
    return "\n".join(lines)


def _cut(text: str) -> str:
    if len(text) <= MOST_CHARS:
        return readable(text)
    return f"{readable(text[:MOST_CHARS])}\n… {len(text) - MOST_CHARS} characters more"


def _page_part(name: str) -> str:
    return (_PARTS / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(value: object) -> str:
    """JSON that cannot close its script block."""
    return (
        json.dumps(value, separators=(",", ":")).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    )


def _milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1000)
