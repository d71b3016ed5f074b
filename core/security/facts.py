"""What an action would do, told by reading it: the risk, why, which commands, which paths, whom it would call.

Pure: nothing is run or looked up, and no action makes it raise. What cannot be told is opaque and never taken for safe.
The model's own rating of its action is not in here: it is another voice (`core.security.analyzers`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass

from core.events import (
    RECALL_TOOL,
    Action,
    ActionSecurityRisk,
    AgentDelegateAction,
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
    MCPAction,
)
from core.security.browser import read_browser, read_page
from core.security.findings import Findings
from core.security.places import Places
from core.security.rules import RULES, strictest, strictness
from core.security.shell.reader import Reader, State

MAX_REASONS = 12
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Facts:
    """What an action would do, as far as reading it tells."""

    risk: ActionSecurityRisk
    reasons: tuple[str, ...] = ()
    """Why, one short sentence each, for the user: the rule's id, what it says, and the part that it is about."""
    commands: tuple[str, ...] = ()
    """Each simple command, words joined by one space; what wrappers (env, sudo, xargs...) start stands in it too."""
    reads: tuple[str, ...] = ()
    """Paths, absolute where that can be told."""
    writes: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    """Whom it would call, other machines only."""
    opaque: bool = False
    """Part of it cannot be told by reading."""
    sends: bool = False
    """It could carry data out of the sandbox."""
    rules: tuple[str, ...] = ()
    """The ids of the rules that it meets, the strictest first."""
    urls: tuple[str, ...] = ()
    """The addresses that it would call."""
    runs: tuple[str, ...] = ()
    """Files whose code it would run; a folder stands for the project in it."""
    carries: bool = False
    """It sends data beyond an address: uploads, posts, pushes, fills a form."""


def facts_of(action: Action, *, workspace: str, cwd: str = "", read_only: Collection[str] = ()) -> Facts:
    """What `action` would do in `workspace` (absolute), beginning in `cwd` (the workspace where it is empty).

    `read_only` names the MCP tools whose servers say that they change nothing.
    """
    places = Places("/" + workspace.strip("/"))
    findings = Findings(places)
    start = cwd or getattr(action, "cwd", None) or places.workspace
    read = _READERS.get(type(action))
    if read is not None:
        try:
            read(action, findings, State(places.resolve(start, places.workspace)))
        except Exception:  # the boundary to what models write
            log.exception("an action cannot be read: %s", action.kind)
            findings.name("opaque.failed", action.kind)
    elif isinstance(action, MCPAction):
        harmless = action.name == RECALL_TOOL or action.name in read_only
        findings.name("mcp.read-only" if harmless else "mcp.call", action.name)
        findings.sends = not harmless
    elif action.acts and action.kind not in _THOUGHTS:
        findings.name("opaque.action", action.kind)
    return _facts(findings)


def prepare() -> None:
    """Load the grammar and the readers of programs: some hundred milliseconds, once; call it beside the loop."""
    facts_of(CmdRunAction(command="ls"), workspace="/")
    facts_of(IPythonRunCellAction(code="1"), workspace="/")


_THOUGHTS = frozenset({"think", "task_tracking"})


def _facts(findings: Findings) -> Facts:
    ordered = sorted(findings.rules, key=lambda rule: -strictness(RULES[rule].risk))
    named = [rule for rule in ordered if RULES[rule].risk is not ActionSecurityRisk.LOW] or ordered
    return Facts(
        strictest(*(RULES[rule].risk for rule in ordered)),
        tuple(_reason(rule, findings.rules[rule]) for rule in named[:MAX_REASONS]),
        tuple(findings.commands),
        tuple(findings.reads),
        tuple(findings.writes),
        tuple(findings.hosts),
        findings.opaque,
        findings.sends,
        tuple(ordered),
        tuple(findings.urls),
        tuple(findings.runs),
        findings.carries,
    )


def _reason(rule: str, about: str) -> str:
    text = RULES[rule].reason
    short = " ".join(about.split())
    return f"{text} ({rule}{': ' + short[:100] if short else ''})"


def _run(action: CmdRunAction, findings: Findings, state: State) -> None:
    if action.is_input:
        if action.command.strip() not in ("C-c", "C-d", "C-z", ""):
            findings.name("opaque.input", action.command)
            Reader(findings).read(action.command, state)
        return
    Reader(findings).read(action.command, state)


def _cell(action: IPythonRunCellAction, findings: Findings, state: State) -> None:
    from core.security.python_cells import read_cell

    read_cell(action.code, Reader(findings), state)


def _file_read(action: FileReadAction, findings: Findings, state: State) -> None:
    findings.reading(findings.places.resolve(action.path, state.cwd) or action.path)


def _file_write(action: FileWriteAction, findings: Findings, state: State) -> None:
    findings.writing(findings.places.resolve(action.path, state.cwd) or action.path)


def _file_edit(action: FileEditAction, findings: Findings, state: State) -> None:
    path = findings.places.resolve(action.path, state.cwd) or action.path
    findings.reading(path)
    if action.command != "view":
        findings.writing(path)


def _page(action: BrowseURLAction, findings: Findings, state: State) -> None:
    read_page(action.url, findings)


def _browse(action: BrowseInteractiveAction, findings: Findings, state: State) -> None:
    read_browser(action.browser_actions, findings)


def _delegate(action: AgentDelegateAction, findings: Findings, state: State) -> None:
    findings.name("agent.delegate", action.agent)


_READERS: dict[type[Action], Callable[..., None]] = {
    CmdRunAction: _run,
    IPythonRunCellAction: _cell,
    FileReadAction: _file_read,
    FileWriteAction: _file_write,
    FileEditAction: _file_edit,
    BrowseURLAction: _page,
    BrowseInteractiveAction: _browse,
    AgentDelegateAction: _delegate,
}
