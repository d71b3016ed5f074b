"""Find and build the sandbox's image, and remove the images that it replaces.

An image with our tag is complete, because the engine tags it after the last step. Builds of the same content have the
same tag, so concurrent builds do no harm. Calls to the engine run in worker threads, and building and fetching are
streaming requests that can be cancelled (EngineStream). Errors become errors of core/errors.py in one or two sentences
that say what to do next; the engine distinguishes kinds of errors by their text alone.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

import requests
from docker import auth, errors, utils
from docker.utils import config
from docker.utils.proxy import ProxyConfig

from core.errors import ConfigurationError, HandloomError, RuntimeUnavailableError
from runtime.docker.engine import engine_gone
from runtime.image.build_context import Recipe, User

if TYPE_CHECKING:
    import docker
    from docker.models.images import Image
    from requests import Response

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

Say = Callable[[str], None]
Message = Mapping[str, Any]

KEEP_REPLACED_S = 3600.0
"""How long a replaced image is kept, because another process may be about to create a container from it."""
UNFINISHED_S = 3 * 3600.0
"""How long an image without a name is kept, because it may belong to a running build."""
OURS = "handloom.image=sandbox"
"""Label of every image from the Dockerfile, finished or not."""
DEFAULT_BASE = "python:3.13-slim-bookworm"
"""The official slim Python image, on the Debian release that the tests use."""
BASE_LABEL, CONTENT_LABEL, EXTRAS_LABEL = "handloom.base", "handloom.content", "handloom.with"
"""Labels of a finished image."""

_STEP = re.compile(r"Step (\d+)/(\d+) : (.*)")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
"""Colours that the engine puts around a step's standard error."""
_RUNNING = " ---> Running in "
"""Follows a step that is executed, but not a cached step."""
_ENGINE_LINES = (" ---> ", "Removing intermediate container ")
"""Prefixes of the engine's own lines."""
_TITLES = {
    "RUN sh /opt/handloom/build/packages": "Debian packages",
    "RUN sh /opt/handloom/build/vscode": "Programs added with --with",
    "RUN python3 -m venv": "Python packages of the action server",
    "RUN /opt/handloom/bin/python -m compileall": "Handloom's own code",
}
"""Titles of the slow steps by the beginning of the instruction. The other steps are not reported."""
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


async def find(client: docker.DockerClient, base: str, recipe: Recipe | None = None) -> str | None:
    """Return the image that `build` would make of a base, if it exists. Takes some milliseconds.

    An image with more extras is preferred. Without a base it is the one of DEFAULT_BASE, else the newest of any base,
    which somebody named when it was built. Raises RuntimeUnavailableError if no engine answers.
    """
    return await _call(_found, client, base, recipe or Recipe(User.of_host()))


async def usual_base(client: docker.DockerClient, recipe: Recipe | None = None) -> str:
    """Return the base of the image that conversations used before an update, so that a build need not name it again.

    It is DEFAULT_BASE, unless there are images and all are on others; then that of the newest. Raises
    RuntimeUnavailableError if no engine answers.
    """
    return await _call(_usual_base, client, recipe or Recipe(User.of_host()))


async def build(
    client: docker.DockerClient,
    base: str,
    say: Callable[[str], None],
    *,
    recipe: Recipe | None = None,
    force: bool = False,
) -> str:
    """Build the image unless it, or one with more extras, exists, and return its tag.

    `say` gets each step as it begins, on the event loop. The default recipe is the running code, for the current user,
    without extras. `force` repeats every step. Replaced images are removed if they are older than an hour and no
    container uses them. Cancelling ends the build at the engine and leaves no incomplete image under a tag. Raises
    ConfigurationError for a base that does not exist, and RuntimeUnavailableError if the engine, the network, the disk
    or a step fails.
    """
    recipe = recipe or Recipe(User.of_host())
    if not force and (existing := await _call(_found, client, base, recipe)):
        return existing
    if await _call(_base_id, client, base) is None:
        await fetch(client, base, say)
    tag = await _call(_tag, client, base, recipe)
    await run_steps(client, base, recipe, tag, say, force=force)
    await _call(_remove_replaced, client, base, recipe, tag)
    return tag


# -- existing images ---------------------------------------------------------------------------------------------------


async def _call(call: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """Run a blocking call to the engine in a thread. Raises RuntimeUnavailableError."""
    try:
        return await asyncio.to_thread(call, *arguments)
    except (errors.DockerException, requests.RequestException) as error:
        raise engine_gone(error) from error


def _image(client: docker.DockerClient, name: str) -> Image | None:
    try:
        return client.images.get(name)
    except errors.ImageNotFound:
        return None
    except errors.APIError as error:  # an invalid name
        if error.is_client_error():
            return None
        raise


def _base_id(client: docker.DockerClient, base: str) -> str | None:
    image = _image(client, base)
    return image and image.id


def _tag(client: docker.DockerClient, base: str, recipe: Recipe) -> str:
    return recipe.tag(_base_id(client, base) or base)


def _found(client: docker.DockerClient, base: str, recipe: Recipe) -> str | None:
    """Return the tag of the existing image; found by its labels if its base was removed, or if no base is named."""
    if not base:
        return _found(client, DEFAULT_BASE, recipe) or _newest(client, recipe)
    base_id = _base_id(client, base)
    if base_id is not None:
        return next((tag for each in recipe.sufficient() if _image(client, tag := each.tag(base_id))), None)
    return _newest(client, recipe, f"{BASE_LABEL}={base}")


def _newest(client: docker.DockerClient, recipe: Recipe, *labels: str) -> str | None:
    def extras(found: _ListedImage) -> set[str]:
        return set(found.labels.get(EXTRAS_LABEL, "").split())

    built = _listed(client, [f"{CONTENT_LABEL}={recipe.content()}", *labels])
    enough = [found for found in built if extras(found) >= set(recipe.extras)]
    enough.sort(key=lambda found: (-len(extras(found)), found.age_s))
    return next((tag for found in enough for tag in found.tags if recipe.named(tag)), None)


def _usual_base(client: docker.DockerClient, recipe: Recipe) -> str:
    built = [found for found in _listed(client, [OURS, BASE_LABEL]) if any(map(recipe.named, found.tags))]
    bases = [found.labels[BASE_LABEL] for found in sorted(built, key=lambda found: found.age_s)]
    return DEFAULT_BASE if not bases or DEFAULT_BASE in bases else bases[0]


def _remove_replaced(client: docker.DockerClient, base: str, recipe: Recipe, tag: str) -> None:
    """Remove older images on the same base, and the remains of failed or cancelled builds."""
    for found in _listed(client, [OURS]):
        is_left = not found.tags and found.age_s > UNFINISHED_S
        is_ours = found.labels.get(BASE_LABEL) == base and all(map(recipe.named, found.tags))
        is_replaced = bool(found.tags) and is_ours and tag not in found.tags and found.age_s > KEEP_REPLACED_S
        for name in (found.tags or [found.id]) if is_left or is_replaced else ():
            with suppress(errors.APIError):  # a container uses it, or another Handloom removed it just before
                client.images.remove(name)


@dataclass(frozen=True, slots=True)
class _ListedImage:
    """An image in the engine's list."""

    id: str
    tags: list[str]
    labels: Mapping[str, str]
    age_s: float


def _listed(client: docker.DockerClient, labels: list[str]) -> list[_ListedImage]:
    """Return the images with all of these labels. The SDK's own function fails if one is removed meanwhile."""
    return [
        _ListedImage(
            id=found["Id"],
            tags=[tag for tag in found["RepoTags"] or () if tag != "<none>:<none>"],
            labels=found["Labels"] or {},
            age_s=time.time() - found["Created"],
        )
        for found in client.api.images(filters={"label": labels})
    ]


# -- building ----------------------------------------------------------------------------------------------------------


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
    client: docker.DockerClient, base: str, recipe: Recipe, tag: str, say: Say, *, force: bool = False
) -> None:
    """Build the Dockerfile and tag the image; `force` disables the cache. Raises RuntimeUnavailableError."""
    context, content, proxy_args = await asyncio.to_thread(lambda: (recipe.tar(), recipe.content(), proxies()))
    extras = " ".join(recipe.extras)
    args = {"BASE": base, "WITH": extras, "UID": str(recipe.user.uid), "GID": str(recipe.user.gid)}
    params = {
        "t": tag,
        "rm": "1",
        "forcerm": "1",
        "nocache": "1" if force else "0",
        "buildargs": json.dumps(proxy_args | args),
        "labels": json.dumps({BASE_LABEL: base, CONTENT_LABEL: content, EXTRAS_LABEL: extras}),
    }
    progress = Progress(say)
    try:
        await EngineStream(client, "/build", params, {"Content-Type": "application/x-tar"}, context).follow(
            progress.take
        )
        if progress.failed:
            raise EngineError(progress.failed)
    except EngineError as error:
        raise step_failed(progress.step, str(error), list(progress.output)) from error
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
        self.output: deque[str] = deque(maxlen=LAST_LINES)
        self._say = say
        self._title = ""
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
            self._title = title and f"Step {number} of {count}: {title}"
            self.output.clear()
        elif line.startswith(_RUNNING):
            if self._title:
                self._say(self._title)
        elif line.strip() and not line.startswith(_ENGINE_LINES):
            self.output.append(line.rstrip())


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
        self._cancelled = Event()

    async def follow(self, take: Callable[[Message], None]) -> None:
        """Send the request and pass on every message. Raises EngineError, and the SDK's errors if the engine is gone.

        Cancelling waits for the thread, which ends immediately once the engine has begun to answer.
        """
        loop = asyncio.get_running_loop()
        reading = asyncio.ensure_future(asyncio.to_thread(self._read, lambda m: loop.call_soon_threadsafe(take, m)))
        try:
            await asyncio.shield(reading)
        except asyncio.CancelledError:
            self._cancelled.set()
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
                if self._cancelled.is_set():
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


def step_failed(step: str, reason: str, output: Sequence[str]) -> RuntimeUnavailableError:
    """Return the error for a failed build step; `output` are its last lines."""
    if _NO_SPACE.search("\n".join([reason, *output])):
        return no_space()
    advice = (
        "The build has no network. Connect and try again, or take a base that has all packages."
        if _NO_NETWORK.search("\n".join(output))
        else f"Try again, or take another base. {ANOTHER_BASE}"
    )
    status = _STATUS.search(reason)
    how = f"ended with status {status[1]}" if status else f"failed ({reason})"
    last = "".join(f"\n    {line}" for line in output[-LAST_LINES:])
    return RuntimeUnavailableError(f"The image was not built: the step “{step}” {how}.{last}\n{advice}")


def no_space() -> RuntimeUnavailableError:
    """Return the error for a full disk of the engine."""
    return RuntimeUnavailableError(
        "The container engine's disk is full. `docker system df` shows what fills it; make room, then try again."
    )
