"""Variables that make other programs run something, or give them another program."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.security.shell.programs import Call
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
    if name in ("PS0", "PS1", "PS2", "PS4") and ("$(" in value.text or "`" in value.text):
        reader.findings.name("run.hooked", f"{name}={value.text}")
        reader.inside(value.text, state)
    elif name in _COMMANDS and value.text and value.text not in _HARMLESS:
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


_OPTIONS = {
    "man": ("-P", "--pager", "-H"),
    "zip": ("-TT", "--unzip-command"),
    "sort": ("--compress-program",),
    "split": ("--filter",),
    "bind": ("-x",),
    "complete": ("-C",),
    "compgen": ("-C",),
    "enable": ("-f",),
    "hash": ("-p",),
    "less": ("+",),
    "more": ("+",),
    "strace": ("-o",),
    "make": ("SHELL",),
    "rg": ("--pre", "--hostname-bin"),
    "ag": ("--pager",),
    "ack": ("--pager",),
    "tcpdump": ("-z",),
    "diff": ("--paginate-with",),
    "jq": ("env", "$ENV"),
    "ip": ("exec",),
}
"""Options, or beginnings of arguments, by which a program runs another one."""


def options_that_run(call: Call) -> None:
    """Name what the options of a program would have it run."""
    for at, word in enumerate(call.args):
        for option in _OPTIONS.get(call.name, ()):
            if call.name == "jq":
                if option == word.text or "$ENV" in word.text or word.text.startswith("env"):
                    call.rule("secret.environment")
                continue
            is_joined = word.text.startswith(option + "=") or (option == "+" and word.text[:2] == "+!")
            if word.text != option and not is_joined:
                continue
            value = (
                word.text.lstrip("+!").partition("=")[2] or word.text.lstrip("+!") if is_joined else _behind(call, at)
            )
            if call.name == "strace" and not value.startswith(("|", "!")):
                continue
            call.rule("run.hooked")
            command = value.lstrip("|!").partition(":")[2] if call.name == "bind" else value.lstrip("|!")
            call.reader.inside(command, call.state)


def _behind(call: Call, at: int) -> str:
    """What stands behind an argument: the rest of the words for `hash`, else the next one."""
    rest = call.args[at + 1 :]
    return " ".join(word.text for word in (rest[:1] if call.name != "ip" else rest[1:]))
