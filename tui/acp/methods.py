"""The methods that a client may call. Each validates its parameters by the protocol's schema.

The library's own router is not used, because it lets `_meta` of a message replace validated parameters.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from acp.exceptions import RequestError
from pydantic import BaseModel, ValidationError

from core.errors import HandloomError, UsageError
from tui.terminal_io.sanitizer import sanitize_line

log = logging.getLogger(__name__)

INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32600, -32601, -32602, -32603
NOT_FOUND = -32002
"""As the protocol numbers a thing that is not there."""
NAME_CELLS = 60


@dataclass(frozen=True, slots=True)
class Method:
    """What a method takes, and who answers it."""

    takes: type[BaseModel]
    answer: Callable[[Any], Awaitable[BaseModel | None]]


class Methods:
    """All methods of one connection, requests and notifications by their names."""

    def __init__(self, requests: Mapping[str, Method], notifications: Mapping[str, Method]) -> None:
        self._requests = requests
        self._notifications = notifications

    async def __call__(self, name: str, params: Any, is_notification: bool) -> BaseModel | None:
        """Answer one message. Raises RequestError, and for a request nothing else."""
        if is_notification:
            await self._notified(name, params)
            return None
        try:
            return await _answered(self._requests, name, params)
        except RequestError:
            raise
        except HandloomError as error:
            raise RequestError(
                INVALID_PARAMS if isinstance(error, UsageError) else INTERNAL_ERROR, str(error)
            ) from error
        except Exception as error:  # the boundary to the client: a request always gets its answer
            log.exception("the request %a failed", name)
            text = f"Handloom failed: {type(error).__name__}. Its log says more: logs/handloom.log in its home."
            raise RequestError(INTERNAL_ERROR, text) from error

    async def _notified(self, name: str, params: Any) -> None:
        """Take a notification; what is wrong with it is for the log, because it has no answer."""
        try:
            await _answered(self._notifications, name, params)
        except (RequestError, HandloomError) as error:
            log.warning("the notification %a was not taken: %s", name[:NAME_CELLS], error)


async def _answered(methods: Mapping[str, Method], name: str, params: Any) -> BaseModel | None:
    method = methods.get(name)
    if method is None:
        raise RequestError(METHOD_NOT_FOUND, f"There is no method {sanitize_line(name, NAME_CELLS)!r} here.")
    try:
        taken = method.takes.model_validate({} if params is None else params)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        where = sanitize_line(".".join(map(str, first["loc"])), NAME_CELLS) or "params"
        raise RequestError(INVALID_PARAMS, f"{name}: {where}: {first['msg']}.") from error
    return await method.answer(taken)
