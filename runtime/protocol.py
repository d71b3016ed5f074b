"""The wire format between Handloom and a sandbox. Pure functions of bytes and events: no sockets, no clock.

`POST /execute_action` takes `{"action": {"action": "run", "args": {...}, "timeout": 10, "id": 7}}`, and beside it the
secrets for this command, `"secrets": {"NAME": "value"}`, which are neither stored nor logged. The answer is one
observation in V0 form as JSON. For callers that accept `application/x-ndjson` it is frames while the action runs, one
JSON object per line, and the observation as the last line. Closing the response interrupts the action, except for a
request with RESUME_HEADER: its action and its lines continue, with an empty line if there is nothing new for a while.
`GET /actions/{token}?after=N` continues after frame N, and `DELETE /actions/{token}` interrupts the action and deletes
its answer.

Everything decoded here may be hostile: invalid data raises ProtocolError and nothing else.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from core.errors import UsageError
from core.events import (
    Action,
    EventFormatError,
    Frame,
    Observation,
    PageShown,
    Status,
    TerminalOutput,
    TokenDelta,
    UnknownAction,
    UnknownObservation,
    event_from_dict,
    event_to_dict,
    to_json,
    without_ours,
)
from core.sandbox_types import Job, Port, SandboxUsage
from core.secrets.command_secrets import injected, validated

PROTOCOL_VERSION = 1
KEY_HEADER = "X-Session-API-Key"
VERSION_HEADER = "X-Handloom-Protocol"
"""The protocol version, in all of our requests and answers. Clients of V0 do not send it, and get V0's fields only."""
INSTANCE_HEADER = "X-Handloom-Instance"
"""The ID of the server process that answers, or for which a request is meant."""
OWNER_HEADER = "X-Handloom-Owner"
"""The conversation that has claimed the server."""
RESUME_HEADER = "X-Handloom-Resume"
"""The token of an action that continues when the connection breaks."""
AFTER_HEADER = "X-Handloom-After"
"""In the answer to such an action: the number of the frame before the first line, counted from 1."""
JSON_TYPE = "application/json"
NDJSON_TYPE = "application/x-ndjson"

MAX_REQUEST_BYTES = 8 * 1024 * 1024
"""An action is text written by a model; anything larger is a mistake or an attack."""
MAX_LINE_BYTES = 64 * 1024 * 1024
"""The longest line of an answer: the observation of an edit has the file twice, and a page has images."""

NO_ACTION_ID = -1
"""The ID of an action without one, because the caller has no event stream."""


MAX_WEB_HOSTS = 20
MAX_ADDRESS_CHARS = 200
_WEB_ADDRESS = r"https?://[A-Za-z0-9.\-\[\]:]+(/[A-Za-z0-9._~/\-]*)?"


class ProtocolError(ValueError):
    """Bytes that are not of this protocol; the text says which part is wrong."""


def encode_request(action: Action, action_id: int) -> bytes:
    """Encode the body of `POST /execute_action`, including the secrets for this action."""
    body: dict[str, Any] = {"action": {**event_to_dict(action), "id": action_id}}
    return _encode(body | {"secrets": dict(values)} if (values := injected()) else body)


def decode_request(body: bytes) -> tuple[Action, int]:
    """Return the action of a request and its ID, or NO_ACTION_ID. Raises ProtocolError."""
    data = decode_object(body).get("action")
    if not isinstance(data, dict):
        raise ProtocolError("the body must be a JSON object with an object 'action'")
    event = _event(data)
    if isinstance(event, UnknownAction) or not isinstance(event, Action):
        raise ProtocolError(f"{data.get('action')!r} is not an action that this server knows")
    action_id = data.get("id", NO_ACTION_ID)
    if not isinstance(action_id, int) or isinstance(action_id, bool):
        raise ProtocolError("'id' must be an integer")
    return event, action_id


def decode_secrets(body: bytes) -> Mapping[str, str]:
    """Return the secrets of a request by name. Raises ProtocolError, whose text contains no values."""
    secrets = decode_object(body).get("secrets", {}) if b'"secrets"' in body else {}
    if not isinstance(secrets, dict) or not all(isinstance(value, str) for value in secrets.values()):
        raise ProtocolError("'secrets' must be an object of strings")
    try:
        return validated(secrets)
    except ValueError as error:
        raise ProtocolError(str(error)) from None


def encode_observation(observation: Observation, *, is_for_v0: bool = False) -> bytes:
    """Encode an observation in V0 form, as the whole answer or as the last line of a stream.

    With `is_for_v0`, fields that only Handloom has are left out, because clients of V0 fail on unknown fields.
    """
    data = event_to_dict(observation)
    return _encode(without_ours(data, observation) if is_for_v0 else data)


def encode_frame(frame: Frame) -> bytes:
    """Encode a frame as one line of a stream, without the line end."""
    match frame:
        case TerminalOutput(cause, data, is_echo):
            text = base64.b64encode(data).decode("ascii")
            echo = {"echo": True} if is_echo else {}
            return _encode({"frame": "terminal_output", "cause": cause, "data": text, **echo})
        case Status(level, id_, message):
            return _encode({"frame": "status", "level": level, "id": id_, "message": message})
        case TokenDelta(cause, text, channel):
            return _encode({"frame": "token_delta", "cause": cause, "text": text, "channel": channel})
        case PageShown(cause, url, title, data, width, height, look):
            text = base64.b64encode(data).decode("ascii")
            seen = {"url": url, "title": title, "width": width, "height": height, **({"look": look} if look else {})}
            return _encode({"frame": "page_shown", "cause": cause, **seen, "data": text})


def decode_line(line: bytes) -> Frame | Observation:
    """Decode one line of an answer. Raises ProtocolError."""
    data = decode_object(line)
    if "observation" in data:
        return decode_observation(data)
    try:
        match data["frame"]:
            case "terminal_output":
                shown = base64.b64decode(data["data"], validate=True)
                return TerminalOutput(int(data["cause"]), shown, data.get("echo") is True)
            case "status":
                is_error = data["level"] == "error"
                return Status("error" if is_error else "info", str(data["id"]), str(data["message"]))
            case "token_delta":
                is_reasoning = data.get("channel") == "reasoning"
                return TokenDelta(int(data["cause"]), str(data["text"]), "reasoning" if is_reasoning else "answer")
            case "page_shown":
                return _page_shown(data)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ProtocolError(f"a frame is incomplete or malformed: {error!r}") from error
    raise ProtocolError(f"there is no frame {data['frame']!r}")


def _page_shown(data: Mapping[str, Any]) -> PageShown:
    return PageShown(
        cause=int(data["cause"]),
        url=str(data["url"]),
        title=str(data["title"]),
        data=base64.b64decode(data["data"], validate=True),
        width=int(data["width"]),
        height=int(data["height"]),
        look=look if isinstance(look := data.get("look"), dict) else {},
    )


def decode_observation(data: Mapping[str, Any]) -> Observation:
    """Decode an observation in V0 form. Raises ProtocolError."""
    event = _event(data)
    if isinstance(event, UnknownObservation) or not isinstance(event, Observation):
        raise ProtocolError(f"{data.get('observation')!r} is not an observation that this version knows")
    return event


def jobs_of(listed: Any) -> list[Job]:
    """Parse the answer to `GET /jobs`. Raises ProtocolError."""
    try:
        return [
            Job(
                pid=int(job["pid"]),
                command=str(job["command"]),
                started_at=float(job["started_at"]),
                cpu_s=float(job["cpu_s"]),
                state=str(job["state"]),
                foreground=job["foreground"] is True,
            )
            for job in listed
        ]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ProtocolError(f"the list of jobs is incomplete: {error!r}") from error


def ports_of(listed: Any) -> list[Port]:
    """Parse the answer to `GET /ports`. Raises ProtocolError."""
    try:
        ports = [Port(int(each["port"]), int(each["pid"]), str(each["command"])) for each in listed]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ProtocolError(f"the list of ports is incomplete: {error!r}") from error
    return [port for port in ports if 0 < port.port < 65536]


NO_EDITOR = "the editor is switched off: add vscode to sandbox.plugins"


def editor_of(answer: Any) -> str:
    """Parse the answer to `GET /vscode/connection_token`. Raises ProtocolError; UsageError if there is no editor."""
    if not isinstance(answer, dict):
        raise ProtocolError("the answer about the editor is no object")
    url, why = answer.get("url"), answer.get("detail")
    if not isinstance(url, str) or not answer.get("token"):
        reason = str(why or NO_EDITOR)[:500].rstrip(".")
        raise UsageError(f"{reason[:1].upper()}{reason[1:]}.")
    try:
        port = urlsplit(url).port
    except ValueError as error:
        raise ProtocolError(f"the address of the editor is invalid: {error}") from error
    if not port:
        raise ProtocolError("the address of the editor has no port")
    return url


MAX_HISTORY = 10_000
"""Samples of memory that are read from a server."""


GIT_ENTRY = "git"


def git_entry_of(info: Any) -> tuple[int, str]:
    """Parse where git finds its forwarder, in the answer to `GET /server_info`. Raises ProtocolError."""
    entry = info.get(GIT_ENTRY) if isinstance(info, dict) else None
    port, ssh = (entry.get("port"), entry.get("ssh")) if isinstance(entry, dict) else (None, None)
    if not (isinstance(port, int) and 0 < port < 65536 and isinstance(ssh, str) and len(ssh) <= MAX_COMMAND_CHARS):
        raise ProtocolError("the server does not forward git")
    return port, ssh


MAX_COMMAND_CHARS = 10_000
"""Of the command in place of ssh: a few paths."""


def _sample(pair: Any) -> tuple[float, int]:
    ago, size = pair
    ago, size = float(ago), int(size)
    if not (0 <= ago < math.inf and size >= 0):
        raise ValueError(f"{pair!r} is no sample of memory")
    return ago, size


def usage_of(info: Any, limits: tuple[str, ...] = ()) -> SandboxUsage:
    """Parse the answer to `GET /server_info`. Raises ProtocolError."""
    try:
        used = info["sandbox"]
        return SandboxUsage(
            processes=int(used["processes"]),
            memory_bytes=int(used["memory"]),
            cpu_s=float(used["cpu_seconds"]),
            disk_free_bytes=int(info["resources"]["disk"]["free"]),
            uptime_s=float(info["uptime"]),
            limits=limits,
            oom_kills=int(used.get("oom_kills", 0)),
            memory_history=tuple(map(_sample, used.get("memory_history", ())[:MAX_HISTORY])),
        )
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise ProtocolError(f"the server's information is incomplete: {error!r}") from error


def web_hosts(info: Mapping[str, Any]) -> dict[str, int]:
    """Return the valid web addresses in `/server_info` at which the user can see programs of the sandbox, with their
    ports.
    """
    hosts = info.get("web_hosts")
    if not isinstance(hosts, dict):
        return {}
    return {address: port for address, port in list(hosts.items())[:MAX_WEB_HOSTS] if is_web_host(address, port)}


def is_web_host(address: str, port: object) -> bool:
    """Return whether an address is a web address and a port is a valid port number."""
    is_port = isinstance(port, int) and not isinstance(port, bool) and 0 < port < 65536
    return is_port and len(address) <= MAX_ADDRESS_CHARS and re.fullmatch(_WEB_ADDRESS, address) is not None


class LineSplitter:
    """Splits the chunks of an answer into lines."""

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that `data` completes, without line ends. Raises ProtocolError for a line that is too
        long.
        """
        searched = len(self._rest)
        self._rest += data
        while (end := self._rest.find(b"\n", searched)) >= 0:
            line = bytes(self._rest[:end])
            del self._rest[: end + 1]
            searched = 0
            yield line
        if len(self._rest) > self._limit:
            raise ProtocolError(f"a line is longer than {self._limit} bytes")


def _event(data: Mapping[str, Any]) -> Any:
    try:
        return event_from_dict(data)[0]
    except EventFormatError as error:
        raise ProtocolError(str(error)) from error


def _encode(data: Mapping[str, Any]) -> bytes:
    return to_json(data).encode()


def decode_object(line: bytes) -> dict[str, Any]:
    """Return the JSON object in a line. Raises ProtocolError."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"not JSON: {error}") from error
    if not isinstance(data, dict):
        raise ProtocolError(f"a JSON object was expected, not {type(data).__name__}")
    return data
