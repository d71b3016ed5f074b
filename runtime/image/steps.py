"""What the engine is asked to do for an image: fetch the base, carry out the Dockerfile. Its words become progress.

The requests are the engine's own (`POST /images/create`, `POST /build`, version 1: the builder that every engine has),
because those of the SDK cannot be cancelled.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import requests
from docker import auth, errors, utils
from docker.utils import config
from docker.utils.proxy import ProxyConfig

from runtime.engine import engine_gone
from runtime.image.context import Recipe
from runtime.image.failures import LAST_LINES, EngineError, base_failed, step_failed
from runtime.image.stream import EngineStream, Message

if TYPE_CHECKING:
    import docker

Say = Callable[[str], None]

OURS = "handloom.image=sandbox"
"""The label of every image that the Dockerfile begins, finished or not."""
BASE_LABEL, CONTENT_LABEL = "handloom.base", "handloom.content"
"""The labels of a finished one."""

_STEP = re.compile(r"Step (\d+)/(\d+) : (.*)")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
"""Around what a step says on standard error."""
_RUNS = " ---> Running in "
"""Follows a step that is carried out, and none whose result is known."""
_ENGINES_OWN = (" ---> ", "Removing intermediate container ")
"""Begin lines that no program of a step printed."""
_TITLES = {
    "RUN sh /opt/handloom/build/packages": "Debian packages",
    "RUN python3 -m venv": "Python packages of the action server",
    "RUN /opt/handloom/bin/python -m compileall": "Handloom's own code",
}
"""What a step is about, by how it begins; the others take no time and are not told."""


async def fetch(client: docker.DockerClient, base: str, say: Say) -> None:
    """Get the base from its registry. Raises ConfigurationError, RuntimeUnavailableError."""
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
    """What the user's `docker login` left for the registry; nothing for those that need none."""
    registry, _ = auth.resolve_repository_name(repository)
    found = auth.get_config_header(client.api, registry)
    return {"X-Registry-Auth": found.decode()} if found else {}


async def run_steps(
    client: docker.DockerClient, base: str, recipe: Recipe, tag: str, say: Say, *, anew: bool = False
) -> None:
    """Carry out the Dockerfile and name the image; `anew` repeats known steps. Raises RuntimeUnavailableError."""
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
    """The proxies of the user's Docker configuration, by the names of their variables, for steps that fetch packages.

    The engine knows these names: neither the image's history nor its tag tells of them.
    """
    known = config.load_general_config().get("proxies", {}).get("default", {})
    return dict(ProxyConfig.from_dict(known).get_environment())


class Progress:
    """What a build says, followed: which step it is at, its last lines, and whether it failed."""

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
