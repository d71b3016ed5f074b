"""The engine's part of building the sandbox's image: fetch the base, run the Dockerfile, report progress and errors.

EngineStream makes one streaming request to the engine that can be cancelled. Errors become errors of core/errors.py in
one or two sentences that say what to do next; the engine distinguishes kinds of errors by their text alone.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING, Any

import requests
from docker import auth, errors, utils
from docker.utils import config
from docker.utils.proxy import ProxyConfig

from core.errors import ConfigurationError, HandloomError, RuntimeUnavailableError
from runtime.docker.engine import engine_gone
from runtime.image.build_context import Recipe

if TYPE_CHECKING:
    import docker
    from requests import Response
if TYPE_CHECKING:
    import docker

LAST_LINES = 12
"""Lines of a failed step's output that are shown."""
ANOTHER_BASE = "Name another with --base, or as `base` under [docker] in config.toml."

_NO_SUCH_IMAGE = re.compile(r"manifest unknown|not found|access denied|does not exist|invalid reference", re.IGNORECASE)
_NO_SPACE = re.compile(r"no space left on device", re.IGNORECASE)
_NO_NETWORK = re.compile(
    r"temporary failure resolving|could not resolve|name resolution|name or service not known|no such host"
    r"|network is unreachable|connection refused|NewConnectionError|connection timed out|i/o timeout",
    re.IGNORECASE,
)
_STATUS = re.compile(r"returned a non-zero code: (\d+)")


class EngineError(Exception):
    """The engine refused a request, or reported an error in its stream."""

    def __init__(self, reason: str, status: int = 0) -> None:
        super().__init__(reason)
        self.status = status
        """HTTP status; 0 for an error reported in the stream."""


def base_failed(base: str, error: EngineError) -> HandloomError:
    """Return the error for a base that is not on this machine and could not be fetched."""
    reason = str(error)
    if _NO_SPACE.search(reason):
        return no_space()
    if error.status in (400, 404) or (_NO_SUCH_IMAGE.search(reason) and not _NO_NETWORK.search(reason)):
        return ConfigurationError(
            f"There is no image {base} here or in its registry, or it wants a `docker login`. {ANOTHER_BASE}"
        )
    return RuntimeUnavailableError(
        f"The image {base} is not on this machine and cannot be fetched ({reason}). "
        "Connect to the network and try again, or name an image that is here with --base."
    )


def step_failed(step: str, reason: str, said: Sequence[str]) -> RuntimeUnavailableError:
    """Return the error for a failed build step; `said` are the lines that it printed."""
    if _NO_SPACE.search("\n".join([reason, *said])):
        return no_space()
    advice = (
        "The build has no network. Connect and try again, or take a base that has all packages."
        if _NO_NETWORK.search("\n".join(said))
        else f"Try again, or take another base. {ANOTHER_BASE}"
    )
    status = _STATUS.search(reason)
    how = f"ended with status {status[1]}" if status else f"failed ({reason})"
    last = "".join(f"\n    {line}" for line in said[-LAST_LINES:])
    return RuntimeUnavailableError(f"The image was not built: the step “{step}” {how}.{last}\n{advice}")


def no_space() -> RuntimeUnavailableError:
    """Return the error for a full disk of the engine."""
    return RuntimeUnavailableError(
        "The container engine's disk is full. `docker system df` shows what fills it; make room, then try again."
    )


Message = Mapping[str, Any]


class EngineStream:
    """A streaming request to the engine that can be cancelled."""

    def __init__(
        self,
        client: docker.DockerClient,
        path: str,
        params: Mapping[str, str],
        headers: Mapping[str, str],
        data: bytes = b"",
    ) -> None:
        self._api = client.api
        self._url = f"{client.api.base_url}/v{client.api.api_version}{path}"
        self._request = {"params": dict(params), "headers": dict(headers), "data": data}
        self._response: Response | None = None
        self._given_up = Event()

    async def follow(self, take: Callable[[Message], None]) -> None:
        """Send the request and pass on every message. Raises EngineError, and the SDK's errors if the engine is gone.

        Cancelling waits for the thread, which ends immediately once the engine has begun to answer.
        """
        loop = asyncio.get_running_loop()
        reading = asyncio.ensure_future(asyncio.to_thread(self._read, lambda m: loop.call_soon_threadsafe(take, m)))
        try:
            await asyncio.shield(reading)
        except asyncio.CancelledError:
            self._given_up.set()
            self._shut()
            await asyncio.wait([reading])
            reading.exception()  # mark as retrieved: it is caused by the closed connection
            raise

    def _read(self, take: Callable[[Message], object]) -> None:
        response = self._response = self._api.post(self._url, stream=True, timeout=None, **self._request)
        with response:
            if response.status_code != 200:
                raise EngineError(_reason(response), response.status_code)
            for line in response.iter_lines():
                if self._given_up.is_set():
                    return
                if line:
                    take(json.loads(line))

    def _shut(self) -> None:
        """Shut the connection down to wake the thread that is reading from it."""
        connection = getattr(self._response and self._response.raw, "connection", None)
        if (waiting := getattr(connection, "sock", None)) is not None:
            with suppress(OSError):
                waiting.shutdown(socket.SHUT_RDWR)


def _reason(response: Response) -> str:
    try:
        return str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"status {response.status_code}"


Say = Callable[[str], None]

OURS = "handloom.image=sandbox"
"""Label of every image from the Dockerfile, finished or not."""
BASE_LABEL, CONTENT_LABEL = "handloom.base", "handloom.content"
"""Labels of a finished image."""

_STEP = re.compile(r"Step (\d+)/(\d+) : (.*)")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
"""Colours that the engine puts around a step's standard error."""
_RUNS = " ---> Running in "
"""Follows a step that is executed, but not a cached step."""
_ENGINES_OWN = (" ---> ", "Removing intermediate container ")
"""Prefixes of the engine's own lines."""
_TITLES = {
    "RUN sh /opt/handloom/build/packages": "Debian packages",
    "RUN python3 -m venv": "Python packages of the action server",
    "RUN /opt/handloom/bin/python -m compileall": "Handloom's own code",
}
"""Titles of the slow steps by the beginning of the instruction. The other steps are not reported."""


async def fetch(client: docker.DockerClient, base: str, say: Say) -> None:
    """Pull the base from its registry. Raises ConfigurationError, RuntimeUnavailableError."""
    say(f"Fetching {base}")
    repository, tag = utils.parse_repository_tag(base)
    failed: list[str] = []

    def take(message: Message) -> None:
        if "error" in message:
            failed.append(str(message["error"]))

    try:
        headers = await asyncio.to_thread(_credentials, client, repository)
        params = {"fromImage": repository, "tag": tag or "latest"}
        await EngineStream(client, "/images/create", params, headers).follow(take)
        if failed:
            raise EngineError(failed[0])
    except EngineError as error:
        raise base_failed(base, error) from error
    except (errors.DockerException, requests.RequestException) as error:
        raise engine_gone(error) from error


def _credentials(client: docker.DockerClient, repository: str) -> dict[str, str]:
    """Return the headers with the credentials that `docker login` has stored for the registry, if any."""
    registry, _ = auth.resolve_repository_name(repository)
    found = auth.get_config_header(client.api, registry)
    return {"X-Registry-Auth": found.decode()} if found else {}


async def run_steps(
    client: docker.DockerClient, base: str, recipe: Recipe, tag: str, say: Say, *, anew: bool = False
) -> None:
    """Build the Dockerfile and tag the image; `anew` disables the cache. Raises RuntimeUnavailableError."""
    context, content, ways = await asyncio.to_thread(lambda: (recipe.tar(), recipe.content(), proxies()))
    params = {
        "t": tag,
        "rm": "1",
        "forcerm": "1",
        "nocache": "1" if anew else "0",
        "buildargs": json.dumps(ways | {"BASE": base, "UID": str(recipe.user.uid), "GID": str(recipe.user.gid)}),
        "labels": json.dumps({BASE_LABEL: base, CONTENT_LABEL: content}),
    }
    progress = Progress(say)
    try:
        await EngineStream(client, "/build", params, {"Content-Type": "application/x-tar"}, context).follow(
            progress.take
        )
        if progress.failed:
            raise EngineError(progress.failed)
    except EngineError as error:
        raise step_failed(progress.step, str(error), list(progress.said)) from error
    except (errors.DockerException, requests.RequestException) as error:
        raise engine_gone(error) from error


def proxies() -> dict[str, str]:
    """Return the proxy variables of the user's Docker configuration, for steps that download packages.

    They are predefined build arguments, which appear neither in the image's history nor in its tag.
    """
    known = config.load_general_config().get("proxies", {}).get("default", {})
    return dict(ProxyConfig.from_dict(known).get_environment())


class Progress:
    """Follows the messages of a build: the current step, its last lines, and whether it failed."""

    def __init__(self, say: Say) -> None:
        self.step = "preparing"
        self.failed = ""
        self.said: deque[str] = deque(maxlen=LAST_LINES)
        self._say = say
        self._news = ""
        self._line = ""

    def take(self, message: Message) -> None:
        if "error" in message:
            self.failed = str(message["error"]).strip()
            return
        *lines, self._line = (self._line + _COLOURS.sub("", str(message.get("stream", "")))).split("\n")
        for line in lines:
            self._take_line(line)

    def _take_line(self, line: str) -> None:
        if step := _STEP.match(line):
            number, count, instruction = step.groups()
            title = next((title for start, title in _TITLES.items() if instruction.startswith(start)), "")
            self.step = title or instruction
            self._news = title and f"Step {number} of {count}: {title}"
            self.said.clear()
        elif line.startswith(_RUNS):
            if self._news:
                self._say(self._news)
        elif line.strip() and not line.startswith(_ENGINES_OWN):
            self.said.append(line.rstrip())
