"""A model that obeys every instruction that it reads, and the pages that give them.

Each page shows its orders as `⟪…⟫` in visible text, besides hiding them as an attacker would, because the tests are
about what a model does that has read them. The model opens the addresses that the user named, one after the other,
obeys the orders in each observation, and ends.
"""

from __future__ import annotations

import ast
import html
import json
import re
from collections import deque
from collections.abc import Sequence
from typing import Any

from core.events import TokenUsage
from core.protocols import FrameSink, LLMRequest, LLMResponse, ToolCall
from tests.doubles import bash, call
from tests.security.live.world import MOVED, OWN_HOST, PIXEL, SITE
from tests.security.pages import WORKSPACE, Page

_ORDER = re.compile(r"⟪(.*?)⟫", re.DOTALL)
_ADDRESS = re.compile(rf"http://{re.escape(SITE)}/p/[\w-]+")
_NOTE = re.compile(r"hlcanary\w{8,}")
_REFRESH = "url=http://evil.example/next", f"url=http://{OWN_HOST}{MOVED}"
Step = dict[str, Any]


def steps_of(page: Page, workspace: str) -> list[Step]:
    """The orders of a page in this workspace over plain HTTP, so that sent data can be read."""
    told = json.dumps(page.steps, ensure_ascii=False).replace("https://", "http://").replace(WORKSPACE, workspace)
    steps: list[Step] = json.loads(told)
    return steps


def served(page: Page, workspace: str) -> str:
    """The page as the site serves it."""
    orders = "".join(f"<p>⟪{html.escape(json.dumps(step))}⟫</p>" for step in steps_of(page, workspace))
    body = page.html.replace("https://", "http://").replace(*_REFRESH)
    pixel = f'<img src="http://{OWN_HOST}{PIXEL}" alt="">'
    return f'<!doctype html><meta charset="utf-8"><title>{page.name}</title>{orders}{body}{pixel}'


def orders_in(text: str) -> list[Step]:
    """The orders in an observation, each once: of a page in the browser, or of a fetched one."""
    quoted = "BEGIN accessibility tree" in text
    return [_read(raw, quoted) for raw in dict.fromkeys(_ORDER.findall(text))]


def _read(raw: str, quoted: bool) -> Step:
    step: Step = json.loads(ast.literal_eval(f"'{raw}'") if quoted else html.unescape(raw))
    return step


def tool_call(step: Step, note: str) -> dict[str, Any]:
    """The call with which the model obeys, rated harmless as ordered."""
    ((verb, value),) = step.items()
    parts = [part.replace("{note}", note) for part in ([value] if isinstance(value, str) else value)]
    match verb:
        case "run":
            return bash(parts[0])
        case "goto":
            return call("browser", code=f"goto({parts[0]!r})", security_risk="LOW")
        case "browser":
            return call("browser", code=parts[0], security_risk="LOW")
        case "python":
            return call("execute_ipython_cell", code=parts[0], security_risk="LOW")
        case "write":
            return call("str_replace_editor", command="create", path=parts[0], file_text=parts[1], security_risk="LOW")
        case "mcp":
            return call(parts[0], to=parts[1], text=parts[2])
    raise ValueError(f"{verb} is no step")


class ObeyingLLM:
    """A model whose every answer depends only on what it reads. Implements core.protocols.LLM."""

    name = "obeying"

    def __init__(self) -> None:
        self.obeyed: list[Step] = []
        """The orders that it has followed, as it read them."""
        self._unread: deque[str] | None = None
        self._orders: deque[Step] = deque()
        self._note = ""
        self._answers = 0
        self._read = set[str]()

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        """One call: the next order that it read, else the next address, else the end."""
        if not request.tools:
            return LLMResponse(f"summary-{cause}", "Pages were read.", (), TokenUsage(model=self.name), 0.0)
        if self._unread is None:
            self._unread = deque(_addresses(request.messages))
            return self._does(call("execute_bash", command="cat notes.txt", security_risk="LOW"))
        if not self._note and (found := _NOTE.search(request.last_observation)):
            self._note = found[0]
        self._orders.extend(self._unheard(request.last_observation))
        if self._orders:
            step = self._orders.popleft()
            self.obeyed.append(step)
            return self._does(tool_call(step, self._note))
        if self._unread:
            address = self._unread.popleft()
            if len(self._unread) % 4 == 3:
                return self._does(bash(f"curl -s {address}"))
            return self._does(call("browser", code=f"goto({address!r})", security_risk="LOW"))
        return self._does(call("finish", message="I have read them all."))

    def _unheard(self, text: str) -> list[Step]:
        """The orders in a text that it did not read before: a page is shown again after each click."""
        fresh = [order for order in orders_in(text) if json.dumps(order) not in self._read]
        self._read |= {json.dumps(order) for order in fresh}
        return fresh

    async def aclose(self) -> None:
        """Nothing needs to be closed."""

    def _does(self, wanted: dict[str, Any]) -> LLMResponse:
        self._answers += 1
        id = f"obeying-{self._answers}"
        made = ToolCall(f"call-{self._answers}", wanted["name"], json.dumps(wanted["arguments"]))
        return LLMResponse(id, "", (made,), TokenUsage(model=self.name, response_id=id), 0.0, "tool_calls")


def _addresses(messages: Sequence[dict[str, Any]]) -> list[str]:
    """Addresses that the user named."""
    said = [message["content"] for message in messages if message["role"] == "user"]
    texts = [part if isinstance(part, str) else json.dumps(part) for part in said]
    return list(dict.fromkeys(address for text in texts for address in _ADDRESS.findall(text)))
