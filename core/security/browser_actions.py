"""What browser actions would do: the calls of BrowserGym's functions, each with literal arguments."""

from __future__ import annotations

import ast

from core.security.findings import Findings
from core.security.hosts import host_of, is_local, is_plain_url
from core.security.risk_rules import names

MAX_CHARS = 64 * 1024
_QUIET = names(
    "go_back go_forward noop scroll hover focus new_tab tab_close tab_focus report_infeasible"
    " clear send_msg_to_user mouse_move get_page_text"
)
_CLICKS = {
    "click",
    "dblclick",
    "mouse_click",
    "mouse_dblclick",
    "mouse_down",
    "mouse_up",
    "mouse_drag_and_drop",
    "drag_and_drop",
}
_TYPES = {
    "fill",
    "press",
    "keyboard_press",
    "keyboard_type",
    "keyboard_insert_text",
    "select_option",
    "keyboard_down",
    "keyboard_up",
}
_UPLOADS = {"upload_file", "mouse_upload_file"}


def read_page(url: str, findings: Findings) -> None:
    """A page that is opened."""
    host = host_of(url)
    lowered = url.strip().lower()
    if lowered.startswith(("file:", "view-source:file:")):
        findings.name("page.local-file", url)
        findings.reading(url.partition("://")[2] or url)
        return
    if lowered.startswith(("javascript:", "data:", "blob:")):
        findings.name("page.script", url)
        return
    if lowered.startswith(("about:", "chrome:")) and "blank" in lowered:
        return
    if not is_plain_url(url.strip()):
        findings.not_understood(url, "the address is ambiguous")
    findings.calling(host, "page.open", url)
    if not is_local(host):
        findings.add(findings.urls, url)


def read_browser(code: str, findings: Findings) -> None:
    """Browser functions to call."""
    try:
        tree = ast.parse(code[:MAX_CHARS])
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        findings.name("page.unknown", code)
        return
    if len(code) > MAX_CHARS:
        findings.not_understood(code[:80], "too long")
    for node in tree.body:
        match node:
            case ast.Expr(value=ast.Call(func=ast.Name(id=name)) as call):
                _call(name, call, findings)
            case ast.Expr(value=ast.Constant()):
                continue
            case _:
                findings.name("page.unknown", ast.unparse(node)[:200])


def _call(name: str, call: ast.Call, findings: Findings) -> None:
    values: list[object] = []
    try:
        values = [ast.literal_eval(value) for value in [*call.args, *[key.value for key in call.keywords]]]
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        findings.name("page.unknown", name)
    if name in ("goto", "open_url"):
        read_page(str(values[0]) if values else "", findings)
    elif name in _UPLOADS:
        findings.name("page.upload", f"{name}({', '.join(map(str, values))})")
        for value in values[1:]:
            for path in value if isinstance(value, list) else [value]:
                findings.reading(findings.places.resolve(str(path), findings.places.workspace) or str(path))
    elif name in _TYPES:
        findings.name("page.fill", f"{name}({', '.join(map(str, values))})")
    elif name not in _QUIET | _CLICKS:
        findings.name("page.unknown", name)
