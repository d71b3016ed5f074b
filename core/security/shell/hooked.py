"""Variables that make other programs run something, or give them another program."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.security.shell.reader import Reader, State
    from core.security.shell.words import Word

_COMMANDS = frozenset(
    [
        "PROMPT_COMMAND",
        "GIT_SSH_COMMAND",
        "GIT_SSH",
        "GIT_PAGER",
        "GIT_EDITOR",
        "GIT_ASKPASS",
        "GIT_EXTERNAL_DIFF",
        "GIT_SEQUENCE_EDITOR",
        "PAGER",
        "MANPAGER",
        "EDITOR",
        "VISUAL",
        "BROWSER",
        "SSH_ASKPASS",
        "LESSOPEN",
        "LESSCLOSE",
        "RSYNC_RSH",
        "CVS_RSH",
        "SUDO_ASKPASS",
        "GIT_PROXY_COMMAND",
    ]
)
"""Whose value is a command."""
_CODE = frozenset(
    [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "LD_AUDIT",
        "DYLD_INSERT_LIBRARIES",
        "BASH_ENV",
        "ENV",
        "PYTHONSTARTUP",
        "PERL5OPT",
        "RUBYOPT",
        "NODE_OPTIONS",
        "JAVA_TOOL_OPTIONS",
        "GCONV_PATH",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_SYSTEM",
        "GIT_TEMPLATE_DIR",
        "PERL5LIB",
        "PS4",
        "SHELLOPTS",
        "BASHOPTS",
    ]
)
"""Whose value names code that others load."""
_HARMLESS = frozenset(["cat", "less", "more", "true", "false", ":", "vi", "vim", "nano", "emacs", "ssh", "''"])
_ROUTES = frozenset(
    [
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "PIP_INDEX_URL",
        "PIP_EXTRA_INDEX_URL",
    ]
)


def hooked(reader: Reader, name: str, value: Word, state: State) -> None:
    """Name the rules that setting a variable meets."""
    if name in _COMMANDS and value.text and value.text not in _HARMLESS:
        reader.findings.name("run.hooked", f"{name}={value.text}")
        if value.known:
            reader.inside(value.text, state)
    elif name in _CODE and not (name == "NODE_OPTIONS" and value.text.startswith(("--max", "--openssl"))):
        if value.text:
            reader.findings.name("run.hooked", f"{name}={value.text}")
    elif name in _ROUTES and value.text:
        from core.security.network import host_of

        reader.findings.calling(host_of(value.text), "net.fetch")
    elif name == "PATH" and value.text:
        first = value.text.split(":")[0]
        path = reader.findings.places.resolve(first, state.cwd)
        if first in ("", ".") or (path is not None and reader.findings.places.place(path) == "temporary"):
            reader.findings.name("run.hooked", f"PATH={value.text}")
