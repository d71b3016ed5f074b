"""Static analysis of an action: its risk and the reasons, its commands, paths and hosts.

Pure: nothing is run or looked up, and no action raises an exception. A part that is not understood makes the action
opaque and is never treated as safe. The model's own rating is not included (see `core.security.analyzers`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

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
from core.security.browser_actions import read_browser, read_page
from core.security.findings import Findings
from core.security.paths import Places
from core.security.python_code import is_understood, may_be_magic
from core.security.risk_rules import RULES, names, strictest, strictness
from core.security.shell.reader import Reader
from core.security.shell.shell_state import Shell

MAX_REASONS = 12
MAX_ABOUT = 140
"""Characters of the part of an action that a reason quotes."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Facts:
    """What an action would do, as far as reading it tells."""

    risk: ActionSecurityRisk
    reasons: tuple[str, ...] = ()
    """Why, for the user: each rule's sentence, the part of the action that it is about, and the rule's id."""
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
    not_understood: tuple[str, ...] = ()
    """The parts of it that are not understood, each as it is written."""
    unclear: tuple[tuple[str, str], ...] = ()
    """Parts of which it is not known what they read, write or call: the tool, and the part."""
    spellings: tuple[str, ...] = ()
    """The commands as they could be written, too: without a program's folder, git's `-C`, variables before it."""
    whole: tuple[str, ...] = ()
    """Those of `writes` that are moved or removed with all that is in them."""
    shell: Shell = field(default_factory=Shell)
    """What is known of the shell behind it."""

    @property
    def runs_code(self) -> bool:
        """Whether it runs code that is not read."""
        return any(rule in _CODE for rule in self.rules)


_CODE = names(
    "run.project run.elsewhere run.written run.remote package.install package.install-url package.run "
    "container.run run.remotely program.unknown"
)


def facts_of(
    action: Action, *, workspace: str, cwd: str = "", read_only: Collection[str] = (), shell: Shell | None = None
) -> Facts:
    """What `action` would do in `workspace` (absolute), beginning in `cwd` (the workspace where it is empty).

    `shell` is what earlier commands left of the shell; it says where the shell is. `read_only` names the MCP tools
    whose servers say that they change nothing.
    """
    places = Places("/" + workspace.strip("/"))
    findings = Findings(places)
    start = places.resolve(cwd or getattr(action, "cwd", None) or places.workspace, places.workspace)
    shell = shell or Shell((start or places.workspace,))
    read = _READERS.get(type(action))
    if read is not None:
        try:
            shell = read(action, findings, shell) or shell
        except Exception:  # the boundary to what models write
            log.exception("an action cannot be read: %s", action.kind)
            findings.not_understood(str(action.kind), "reading it failed")
            shell = replace(shell, lost="a command that could not be read")
    elif isinstance(action, MCPAction):
        harmless = action.name == RECALL_TOOL or action.name in read_only
        findings.name("mcp.read-only" if harmless else "mcp.call", action.name)
        findings.sends = not harmless
    elif action.acts and action.kind not in _THOUGHTS:
        findings.name("action.unknown", action.kind)
    return _facts(findings, shell)


def prepare() -> None:
    """Read the table of programs, once; call it beside the loop."""
    facts_of(CmdRunAction(command="ls"), workspace="/")
    facts_of(IPythonRunCellAction(code="1"), workspace="/")


_THOUGHTS = frozenset({"think", "task_tracking"})


def _facts(findings: Findings, shell: Shell) -> Facts:
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
        tuple(findings.unknown),
        tuple(findings.unclear.items()),
        tuple(findings.spellings),
        tuple(findings.whole),
        shell,
    )


def _reason(rule: str, about: str) -> str:
    text = RULES[rule].reason.removesuffix(".")
    short = " ".join(about.split())[:MAX_ABOUT]
    text = f"{text}: {short}" if short else text
    return f"{text}." if rule == "not-understood" else f"{text} ({rule})."


def _run(action: CmdRunAction, findings: Findings, shell: Shell) -> Shell:
    if action.is_input:
        if action.command.strip() not in ("C-c", "C-d", "C-z", ""):
            findings.not_understood(action.command, "input for a running program")
        return shell
    return Reader(findings).read(action.command, shell)


def _cell(action: IPythonRunCellAction, findings: Findings, shell: Shell) -> None:
    known = is_understood(action.code, findings, (findings.places.workspace,))
    if not known or may_be_magic(action.code):
        findings.not_understood(action.code, "code")


def _path(path: str, findings: Findings) -> str:
    if "\0" in path:
        findings.not_understood(repr(path), "a NUL in a path")
    return findings.places.resolve(path, findings.places.workspace) or path


def _file_read(action: FileReadAction, findings: Findings, shell: Shell) -> None:
    findings.reading(_path(action.path, findings))


def _file_write(action: FileWriteAction, findings: Findings, shell: Shell) -> None:
    findings.writing(_path(action.path, findings))


def _file_edit(action: FileEditAction, findings: Findings, shell: Shell) -> None:
    path = _path(action.path, findings)
    findings.reading(path)
    if action.command != "view":
        findings.writing(path)


def _page(action: BrowseURLAction, findings: Findings, shell: Shell) -> None:
    read_page(action.url, findings)


def _browse(action: BrowseInteractiveAction, findings: Findings, shell: Shell) -> None:
    read_browser(action.browser_actions, findings)


def _delegate(action: AgentDelegateAction, findings: Findings, shell: Shell) -> None:
    findings.name("agent.delegate", action.agent)


_READERS: dict[type[Action], Callable[..., Shell | None]] = {
    CmdRunAction: _run,
    IPythonRunCellAction: _cell,
    FileReadAction: _file_read,
    FileWriteAction: _file_write,
    FileEditAction: _file_edit,
    BrowseURLAction: _page,
    BrowseInteractiveAction: _browse,
    AgentDelegateAction: _delegate,
}
