"""Messages about model calls and what a sandbox refused, as templates that the screen can translate.

Imports nothing, so that the screen can use it without loading model code.
"""

from __future__ import annotations

import re
from collections.abc import Callable

RETRY_STATUS = "STATUS$LLM_RETRY"
"""Id of the notice that a model call is made again. It withdraws what was streamed of the answer before."""
NO_PICTURES = "{model} does not support images; {other} answers instead."
NO_ROOM = "The conversation no longer fits {model}; {other} answers instead."
FAILED = "{model} failed; {other} answers instead. {error}"
FAILED_BEFORE = "{model} failed recently; {other} answers instead."
NO_TOOLS = "{model} does not support tool calls; it will write them as text."
RETRYING = "Retrying LLM request, {tries} in {seconds} s: {reason}"
NO_RECORD = "The recording {path} cannot be written: {error}. Recording stops; the conversation continues."
WAITING_FOR_SERVERS = "Waiting for MCP servers: {names}"
HOST_REFUSED = "The sandbox refused network access to {host}; the user can allow it (sandbox.allowed_hosts)."
HOST_DENIED = "{host} is denied by the rule {rule}"
HOST_PRIVATE = "{host} is an address of this machine or its network; the user can add it to sandbox.allowed_hosts"
NO_PROXY = "{what} was not reached: the sandbox has no network access except for programs that use its proxy."
PATH_HIDDEN = "{what} is not in the sandbox. If it exists on this machine, sandbox.readable_paths makes it readable."
PATH_OUTSIDE = "Outside of the workspace, the sandbox lets commands only read: {what}."
PATH_PROTECTED = "{what} is read-only in the sandbox, because the user's programs obey it (sandbox.protected_paths)."
PATH_DENIED = "{what} is closed in the sandbox by a deny rule of the user (policy.toml or a permission)."
REFUSED = (HOST_REFUSED, NO_PROXY, PATH_HIDDEN, PATH_OUTSIDE, PATH_PROTECTED, PATH_DENIED, HOST_PRIVATE, HOST_DENIED)
"""What the isolation of a sandbox refused an action."""
SLOW_DOWN, NO_ANSWER, NO_CONNECTION, PROVIDER_FAILED, BROKE_OFF = (
    "the provider asks for fewer requests",
    "no answer in time",
    "the connection failed",
    "the provider failed",
    "the answer broke off; what was shown of it is withdrawn",
)
FORMS = (FAILED_BEFORE, NO_PICTURES, NO_ROOM, FAILED, NO_TOOLS, RETRYING, NO_RECORD, WAITING_FOR_SERVERS, *REFUSED)
"""All templates; the first that matches counts."""
WORDS = (SLOW_DOWN, NO_ANSWER, NO_CONNECTION, PROVIDER_FAILED, BROKE_OFF)
"""Values of placeholders that are translated, too."""
_PLACE = re.compile(r"\\\{(\w+)\\\}")
_PATTERNS = tuple((form, re.compile(_PLACE.sub(r"(?P<\1>.+?)", re.escape(form)), re.DOTALL)) for form in FORMS)


def is_rate_limit(id: str, message: str) -> bool:
    """Whether this status says that a model call waits, because the provider asks for fewer requests."""
    return id == RETRY_STATUS and message.endswith(SLOW_DOWN)


def translated(text: str, look_up: Callable[[str], str]) -> str:
    """Translate a status message. `look_up` translates a template or a word. Any other text stays unchanged."""
    for form, pattern in _PATTERNS:
        if (found := pattern.fullmatch(text)) is not None:
            parts = {name: look_up(part) if part in WORDS else part for name, part in found.groupdict().items()}
            return look_up(form).format(**parts)
    return text
