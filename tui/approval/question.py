"""The question about an action: the whole action as sanitized text, its risk, and the rule that asks.

Pure. Imported with the first conversation.
"""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from core.controller.state import Pending
from core.events import (
    Action,
    AgentDelegateAction,
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    Envelope,
    Event,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
    Judged,
    MCPAction,
    event_to_dict,
)
from core.security.confirmation import Judgement, Verdict
from core.security.facts import Facts, facts_of
from core.security.patterns import WorkFolders
from core.security.risk_rules import RULES
from core.security.suggested_rules import Reach, proposal, reach_of
from tui.approval.risk_text import BROKEN, NOT_UNDERSTOOD, REASON_CELLS, asker, risk_of, risk_words, rule_words
from tui.i18n import _, counted
from tui.terminal_io.sanitizer import sanitize, sanitize_line

MAX_REASONS = 5
MAX_HEAD_CELLS = 1_000
MIXED_CHARS = 20_000
"""Characters of a body that are searched for mixed alphabets."""
MAX_COMPARED = 1_000_000
"""Limit for the product of the numbers of lines of an edit before and after."""
UNKNOWN_KINDS = frozenset({"action.unknown", "program.unknown"})
"""Risk rules about unknown actions and programs."""
_ABOUT_THE_ACTION = frozenset({"thought", "confirmation_state", "security_risk"})


@dataclass(frozen=True, slots=True)
class Question:
    """An action that needs approval. All texts are sanitized."""

    action_id: int
    title: str
    body: str
    risk: str
    """The strictest rating, in words; empty if it is not an action."""
    rule: str = ""
    """The rule, mode or check that asks."""
    reasons: tuple[str, ...] = ()
    stays: bool = False
    """Whether it asks every time, despite permissions."""
    pattern: str = ""
    """The suggested pattern, if any."""
    look: Callable[[str], Reach] | None = None
    """Checks another pattern. Follows links on the disk."""
    number: int = 1
    """Its number among the waiting actions."""
    of: int = 1
    behind: int = 0
    """The number of actions in the queue after it."""
    diff: tuple[str, ...] = ()
    """The signed lines of an edit; the first line of the body names the file."""
    path: str = ""
    """The file of an edit."""
    starts_at_deny: bool = False
    """Whether it is risky or not understood, so that Enter alone does not allow it."""
    is_broken: bool = False
    """Whether a file of rules or permissions cannot be read, so nothing can be stored."""


def ask_about(envelope: Envelope, folders: WorkFolders | None = None) -> Question:
    """Make the question about an action. With `folders`, a pattern is suggested, and links are followed."""
    event = envelope.event
    title, body, diff = _words(event)
    if diff:
        body = f"{sanitize_line(body, MAX_HEAD_CELLS)}\n{diff}"
    question = Question(envelope.id, title, sanitize(body).strip("\n"), "")
    if diff:
        lines = tuple(sanitize(diff).split("\n"))
        question = replace(question, diff=lines, path=sanitize_line(str(getattr(event, "path", "")), MAX_HEAD_CELLS))
    if not isinstance(event, Action):
        return question
    judged = event.judgement
    facts = facts_of(event, workspace=folders.workspace) if folders is not None else None
    read = facts.risk if facts is not None else None
    question = replace(question, risk=risk_words(event, read))
    reasons = (
        *(_unquoted(reason, body) for reason in (judged.reasons if judged is not None else ())),
        *_look_alikes(body),
    )
    shown = tuple(sanitize_line(reason, REASON_CELLS) for reason in reasons[:MAX_REASONS])
    if left := len(reasons) - len(shown):
        shown = (*shown, counted(left, "and {n} more reason", "and {n} more reasons"))
    question = replace(question, reasons=shown)
    question = replace(question, rule=rule_words(asker(event)), stays=judged is not None and judged.stays)
    rule = judged.rule if judged is not None else ""
    starts_at_deny = risk_of(event, read) == "high" or rule in NOT_UNDERSTOOD or _is_unknown(event, facts)
    question = replace(question, starts_at_deny=starts_at_deny, is_broken=rule == BROKEN)
    return question if folders is None else _with_proposal(question, event, folders)


_QUOTES = RULES["not-understood"].reason.removesuffix(".") + ": "


def _unquoted(reason: str, body: str) -> str:
    """A reason that quotes the whole action, which is shown above it, without the quote."""
    quote = re.sub(r"( \([^()]*\))?\.?$", "", reason.removeprefix(_QUOTES))
    shown = " ".join(body.split())
    if reason.startswith(_QUOTES) and (quote == shown or (quote.endswith("…") and shown.startswith(quote[:-1]))):
        return _("Handloom does not understand it.")
    return reason


def _is_unknown(action: Action, facts: Facts | None) -> bool:
    """Whether it is unknown what an action does. A known program can have unknown risk, such as a push."""
    if facts is None:
        return risk_of(action) == "unknown"
    return bool(facts.not_understood) or not UNKNOWN_KINDS.isdisjoint(facts.rules)


def _words(event: Event) -> tuple[str, str, str]:
    """The title, the complete action, and the diff of an edit."""
    diff = ""
    match event:
        case CmdRunAction(command=command, is_input=True):
            title, body = _("Send input to the running command?"), command
        case CmdRunAction(command=command):
            title, body = _("Run this command?"), command
        case IPythonRunCellAction(code=code):
            title, body = _("Run this Python code?"), code
        case FileReadAction():
            title, body = _("Read this file or folder?"), _read_part(event)
        case FileWriteAction(path=path, content=content):
            title, body, diff = _("Write this file?"), path, _diff("", content)
        case FileEditAction(command="create", path=path, file_text=text):
            title, body, diff = _("Create this file?"), path, _diff("", text or "")
        case FileEditAction(command=command, path=path) if command:
            title = _("Edit this file?")
            head = f"{command} {path}"
            if (line := event.insert_line) is not None:
                head = _("{command} {path} after line {line}").format(command=command, path=path, line=line)
            body, diff = head, _diff(event.old_str or "", event.new_str or "")
        case FileEditAction(path=path, content=content):
            head = _("{path} from line {first} to {last}").format(path=path, first=event.start, last=event.end)
            title, body = _("Edit this file?"), f"{head}\n{content}"
        case AgentDelegateAction(agent=agent, inputs={"task": str(task)}) if len(event.inputs) == 1:
            title, body = _("Delegate this task to {agent}?").format(agent=sanitize_line(agent, 60)), task
        case BrowseURLAction(url=url):
            title, body = _("Open this page?"), url
        case BrowseInteractiveAction(browser_actions=code):
            title, body = _("Run these browser actions?"), code
        case MCPAction(name=name, arguments=arguments):
            title, body = _("Call the tool {name}?").format(name=sanitize_line(name, 60)), _json(arguments)
        case _:
            title = _("Run “{kind}”?").format(kind=sanitize(type(event).kind))
            arguments = event_to_dict(event).get("args", {})
            body = _json({name: value for name, value in arguments.items() if name not in _ABOUT_THE_ACTION})
    return title, body, diff


def _read_part(action: FileReadAction) -> str:
    """The path, and the lines if only some are read; those of the action count from 0, and -1 is the end."""
    if action.view_range:
        first, last = action.view_range[0], action.view_range[-1]
    else:
        first, last = action.start + 1, action.end
    if last != -1:
        return _("{path} from line {first} to {last}").format(path=action.path, first=first, last=last)
    return action.path if first <= 1 else _("{path} from line {first}").format(path=action.path, first=first)


def _with_proposal(question: Question, action: Action, folders: WorkFolders) -> Question:
    facts = facts_of(action, workspace=folders.workspace)

    def look(text: str) -> Reach:
        return reach_of(text, action, facts, folders)

    return replace(question, pattern=proposal(action, facts, folders), look=look)


_WORD = re.compile(r"[^\W\d_]+")


def _look_alikes(text: str) -> Iterator[str]:
    """Warnings about words that mix Latin letters with similar ones of other scripts."""
    if text.isascii():
        return
    for word in dict.fromkeys(_WORD.findall(text[:MIXED_CHARS])):
        others = [letter for letter in word if not letter.isascii() and _script(letter) in ("CYRILLIC", "GREEK")]
        if others and any(letter.isascii() for letter in word):
            codes = ", ".join(f"U+{ord(letter):04X}" for letter in dict.fromkeys(others))
            yield _("“{word}” mixes alphabets: {codes} only look like Latin letters.").format(word=word, codes=codes)


def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _diff(old: str, new: str) -> str:
    """All lines with their signs; none are omitted. Large edits are not compared, because that could take minutes."""
    olds, news = old.splitlines(), new.splitlines()
    parts: Sequence[tuple[str, int, int, int, int]] = [("replace", 0, len(olds), 0, len(news))]
    if len(olds) * len(news) <= MAX_COMPARED:
        parts = difflib.SequenceMatcher(None, olds, news).get_opcodes()
    lines = list[str]()
    for tag, begin, end, new_begin, new_end in parts:
        lines += [(" " if tag == "equal" else "-") + line for line in olds[begin:end]]
        lines += ["+" + line for line in news[new_begin:new_end]] if tag != "equal" else []
    return "\n".join(lines)


def judged_again(envelope: Envelope, judgement: Judgement) -> Envelope:
    """The action with a new judgement, for `ask_about`."""
    action = envelope.event
    if not isinstance(action, Action):
        return envelope
    judged = Judged(
        verdict="deny" if judgement.verdict is Verdict.DENY else "ask",
        rule=judgement.rule,
        reasons=list(judgement.reasons),
        stays=judgement.stays,
        risk=judgement.risk.name.lower(),
    )
    return replace(envelope, event=action.model_copy(update={"judgement": judged}))


def placed(question: Question, queue: Sequence[Pending]) -> Question:
    """Add the number among the waiting actions, and the number of actions after it."""
    waiting = [pending for pending in queue if pending.held]
    own = next((pending for pending in waiting if pending.id == question.action_id), None)
    if own is None:
        return question
    behind = len(queue) - 1 - queue.index(own)
    return replace(question, number=waiting.index(own) + 1, of=len(waiting), behind=behind)
