"""Static analysis of an action: its risk and the reasons, its commands, paths and hosts.

Nothing is run, only links are looked up, and no action raises an exception. A part that is not understood makes the
action opaque and is never treated as safe. The model's own rating is not included (see `core.security.analyzers`).
"""

from __future__ import annotations

import ast
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
from core.security.findings import Findings
from core.security.hosts import host_of, is_local, is_plain_url
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
    """What an action would do, as far as static analysis tells."""

    risk: ActionSecurityRisk
    reasons: tuple[str, ...] = ()
    """Why, for the user: each rule's sentence, the part of the action that it is about, and the rule's id."""
    commands: tuple[str, ...] = ()
    """Each simple command, its words joined by one space; wrappers such as sudo come with what they start."""
    reads: tuple[str, ...] = ()
    """Paths, absolute if the folder is known."""
    writes: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    """The other machines that it would call."""
    opaque: bool = False
    """Whether part of it is not understood."""
    sends: bool = False
    """Whether it could send data out of the sandbox."""
    rules: tuple[str, ...] = ()
    """The ids of the rules that it meets, the strictest first."""
    urls: tuple[str, ...] = ()
    """The URLs that it would call."""
    runs: tuple[str, ...] = ()
    """Files whose code it would run; a folder stands for the project in it."""
    carries: bool = False
    """Whether it sends more than a URL: uploads, posts, pushes, fills a form."""
    not_understood: tuple[str, ...] = ()
    """The parts of it that are not understood, each as it is written."""
    unclear: tuple[tuple[str, str], ...] = ()
    """Parts of which it is not known what they read, write or call: the tool, and the part."""
    spellings: tuple[str, ...] = ()
    """Other spellings of the commands: without a program's folder, git's `-C`, variables before it."""
    whole: tuple[str, ...] = ()
    """Those of `writes` that are moved or deleted with everything in them."""
    shell: Shell = field(default_factory=Shell)
    """The state of the shell afterwards."""

    @property
    def runs_code(self) -> bool:
        """Whether it runs code that is not analysed."""
        return any(rule in _CODE for rule in self.rules)


_CODE = names(
    "run.project run.elsewhere run.written run.remote package.install package.install-url package.run "
    "container.run run.remotely program.unknown"
)


def facts_of(
    action: Action,
    *,
    workspace: str,
    cwd: str = "",
    read_only: Collection[str] = (),
    shell: Shell | None = None,
    is_link: Callable[[str], bool] = lambda folder: False,
) -> Facts:
    """Analyse an action in `workspace`, an absolute path. Never raises unless `is_link` does (see Places).

    `shell` is the state of the shell, by default one in `cwd` or the workspace. `read_only` has the names of the MCP
    tools that change nothing, as their servers say.
    """
    places = Places("/" + workspace.strip("/"), is_link)
    findings = Findings(places)
    start = places.resolve(cwd or getattr(action, "cwd", None) or places.workspace, places.workspace)
    shell = shell or Shell((start or places.workspace,))
    try:
        shell = _inspect(action, findings, shell, read_only)
    except Exception:  # the boundary to what models write
        log.exception("an action cannot be analysed: %s", action.kind)
        findings.not_understood(str(action.kind), "reading it failed")
        shell = replace(shell, lost="a command that could not be read")
    return _facts(findings, shell)


def prepare() -> None:
    """Load the table of programs; call it in a thread."""
    facts_of(CmdRunAction(command="ls"), workspace="/")
    facts_of(IPythonRunCellAction(code="1"), workspace="/")


def _inspect(action: Action, findings: Findings, shell: Shell, read_only: Collection[str]) -> Shell:
    """Report what an action does; returns the state of the shell afterwards."""
    match action:
        case CmdRunAction(command=command, is_input=True):
            if command.strip() not in ("C-c", "C-d", "C-z", ""):
                findings.not_understood(command, "input for a running program")
        case CmdRunAction(command=command):
            return Reader(findings).read(command, shell)
        case IPythonRunCellAction(code=code):
            if not is_understood(code, findings, (findings.places.workspace,)) or may_be_magic(code):
                findings.not_understood(code, "code")
                return replace(shell, has_opaque_cells=True)
            if shell.has_opaque_cells:
                findings.not_understood(code, "an earlier cell may have changed what it calls")
        case FileReadAction(path=path) | FileEditAction(path=path, command="view"):
            findings.read_path(_resolved(path, findings))
        case FileWriteAction(path=path):
            findings.write_path(_resolved(path, findings))
        case FileEditAction(path=path):
            findings.read_path(path := _resolved(path, findings))
            findings.write_path(path)
        case BrowseURLAction(url=url):
            _inspect_page(url, findings)
        case BrowseInteractiveAction(browser_actions=code):
            _inspect_browser_code(code, findings)
        case AgentDelegateAction(agent=agent):
            findings.report("agent.delegate", agent)
        case MCPAction(name=name):
            is_harmless = name == RECALL_TOOL or name in read_only
            findings.report("mcp.read-only" if is_harmless else "mcp.call", name)
            findings.sends = not is_harmless
        case _ if action.acts and action.kind not in ("think", "task_tracking"):
            findings.report("action.unknown", action.kind)
    return shell


def _facts(findings: Findings, shell: Shell) -> Facts:
    ordered = sorted(findings.rules, key=lambda rule: -strictness(RULES[rule].risk))
    named = [rule for rule in ordered if RULES[rule].risk is not ActionSecurityRisk.LOW] or ordered
    return Facts(
        strictest(*(RULES[rule].risk for rule in ordered)),
        tuple(_reason(rule, findings.rules[rule]) for rule in named[:MAX_REASONS]),
        opaque=findings.opaque,
        sends=findings.sends,
        carries=findings.carries,
        rules=tuple(ordered),
        not_understood=tuple(findings.unknown),
        unclear=tuple(findings.unclear.items()),
        shell=shell,
        **{name: tuple(getattr(findings, name)) for name in _LISTS},
    )


_LISTS = ("commands", "reads", "writes", "hosts", "urls", "runs", "spellings", "whole")


def _reason(rule: str, about: str) -> str:
    text = RULES[rule].reason.removesuffix(".")
    short = " ".join(about.split())
    short = short if len(short) <= MAX_ABOUT else f"{short[: MAX_ABOUT - 1]}…"
    text = f"{text}: {short}" if short else text
    return f"{text}." if rule == "not-understood" else f"{text} ({rule})."


def _resolved(path: str, findings: Findings) -> str:
    if "\0" in path:
        findings.not_understood(repr(path), "a NUL in a path")
    return findings.places.resolve(path, findings.places.workspace) or path


# -- the browser: BrowserGym's functions with literal arguments --------------------------------------------------------

MAX_BROWSER_CHARS = 64 * 1024
_HARMLESS_CALLS = names(
    "go_back go_forward noop scroll hover focus new_tab tab_close tab_focus report_infeasible clear send_msg_to_user "
    "mouse_move get_page_text click dblclick mouse_click mouse_dblclick mouse_down mouse_up mouse_drag_and_drop "
    "drag_and_drop"
)
_TYPING_CALLS = names(
    "fill press keyboard_press keyboard_type keyboard_insert_text select_option keyboard_down keyboard_up"
)


def _inspect_page(url: str, findings: Findings) -> None:
    host = host_of(url)
    lowered = url.strip().lower()
    if lowered.startswith(("file:", "view-source:file:")):
        findings.report("page.local-file", url)
        findings.read_path(url.partition("://")[2] or url)
        return
    if lowered.startswith(("javascript:", "data:", "blob:")):
        findings.report("page.script", url)
        return
    if lowered in {"about:blank", "chrome://newtab/"}:
        return
    if not is_plain_url(url.strip()):
        findings.not_understood(url, "the address is ambiguous")
    findings.call_host(host, "page.open", url)
    if not is_local(host):
        findings.add(findings.urls, url)


def _inspect_browser_code(code: str, findings: Findings) -> None:
    try:
        tree = ast.parse(code[:MAX_BROWSER_CHARS])
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        findings.report("page.unknown", code)
        return
    if len(code) > MAX_BROWSER_CHARS:
        findings.not_understood(code[:80], "too long")
    for node in tree.body:
        match node:
            case ast.Expr(value=ast.Call(func=ast.Name(id=name)) as call):
                _inspect_browser_call(name, call, findings)
            case ast.Expr(value=ast.Constant()):
                continue
            case _:
                findings.report("page.unknown", ast.unparse(node)[:200])


def _inspect_browser_call(name: str, call: ast.Call, findings: Findings) -> None:
    values: list[object] = []
    try:
        values = [ast.literal_eval(value) for value in [*call.args, *[key.value for key in call.keywords]]]
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        findings.report("page.unknown", name)
    shown = f"{name}({', '.join(map(str, values))})"
    if name in ("goto", "open_url"):
        _inspect_page(str(values[0]) if values else "", findings)
    elif name in ("upload_file", "mouse_upload_file"):
        findings.report("page.upload", shown)
        for value in values[1:]:
            for path in value if isinstance(value, list) else [value]:
                findings.read_path(findings.places.resolve(str(path), findings.places.workspace) or str(path))
    elif name in _TYPING_CALLS:
        findings.report("page.fill", shown)
    elif name not in _HARMLESS_CALLS:
        findings.report("page.unknown", name)
