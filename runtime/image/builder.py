"""Find and build the sandbox's image, and remove the images that it replaces.

An image with our tag is complete, because the engine tags it after the last step. Builds of the same content have the
same tag, so concurrent builds do no harm. Calls to the engine run in worker threads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

import requests
from docker import errors

from runtime.docker.engine import engine_gone
from runtime.image.build_context import Recipe, User
from runtime.image.build_steps import BASE_LABEL, CONTENT_LABEL, OURS, fetch, run_steps

if TYPE_CHECKING:
    import docker
    from docker.models.images import Image

Given = TypeVar("Given")
Arguments = TypeVarTuple("Arguments")

KEPT_S = 3600.0
"""How long a replaced image is kept, because another process may be about to create a container from it."""
UNFINISHED_S = 3 * 3600.0
"""How long an image without a name is kept, because it may belong to a running build."""


async def current_tag(client: docker.DockerClient, base: str, recipe: Recipe | None = None) -> str:
    """Return the tag that `build` would give. Raises RuntimeUnavailableError if no engine answers."""
    return await _asked(_tag, client, base, recipe or Recipe(User.of_host()))


async def find(client: docker.DockerClient, base: str, recipe: Recipe | None = None) -> str | None:
    """Return the image that `build` would make, if it exists. Takes some milliseconds. Raises as `current_tag`."""
    return await _asked(_found, client, base, recipe or Recipe(User.of_host()))


async def build(
    client: docker.DockerClient,
    base: str,
    say: Callable[[str], None],
    *,
    recipe: Recipe | None = None,
    force: bool = False,
) -> str:
    """Build the image unless it exists, and return its tag. `say` gets each step as it begins, on the event loop.

    The default recipe is the running code, for the current user. `force` repeats every step. Replaced images are
    removed if they are older than an hour and no container uses them. Cancelling ends the build at the engine and
    leaves no incomplete image under a tag. Raises ConfigurationError for a base that does not exist, and
    RuntimeUnavailableError if the engine, the network, the disk or a step fails.
    """
    recipe = recipe or Recipe(User.of_host())
    if not force and (there := await _asked(_found, client, base, recipe)):
        return there
    if await _asked(_base_id, client, base) is None:
        await fetch(client, base, say)
    tag = await _asked(_tag, client, base, recipe)
    await run_steps(client, base, recipe, tag, say, anew=force)
    await _asked(_remove_replaced, client, base, recipe, tag)
    return tag


# -- existing images ---------------------------------------------------------------------------------------------------


async def _asked(ask: Callable[[*Arguments], Given], *arguments: *Arguments) -> Given:
    """Run a blocking call to the engine in a thread. Raises RuntimeUnavailableError."""
    try:
        return await asyncio.to_thread(ask, *arguments)
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
    """Return the tag of the existing image; found by its labels if its base was removed."""
    base_id = _base_id(client, base)
    if base_id is not None:
        tag = recipe.tag(base_id)
        return tag if _image(client, tag) else None
    labels = [f"{BASE_LABEL}={base}", f"{CONTENT_LABEL}={recipe.content()}"]
    return next((tag for found in _listed(client, labels) for tag in found.tags if recipe.named(tag)), None)


def _remove_replaced(client: docker.DockerClient, base: str, recipe: Recipe, tag: str) -> None:
    """Remove older images on the same base, and the remains of failed or cancelled builds."""
    for found in _listed(client, [OURS]):
        is_left = not found.tags and found.age_s > UNFINISHED_S
        is_ours = found.labels.get(BASE_LABEL) == base and all(map(recipe.named, found.tags))
        is_replaced = bool(found.tags) and is_ours and tag not in found.tags and found.age_s > KEPT_S
        for name in (found.tags or [found.id]) if is_left or is_replaced else ():
            with suppress(errors.APIError):  # a container uses it, or another Handloom removed it just before
                client.images.remove(name)


@dataclass(frozen=True, slots=True)
class _Listed:
    """An image in the engine's list."""

    id: str
    tags: list[str]
    labels: Mapping[str, str]
    age_s: float


def _listed(client: docker.DockerClient, labels: list[str]) -> list[_Listed]:
    """Return the images with all of these labels. The SDK's own function fails if one is removed meanwhile."""
    return [
        _Listed(
            id=found["Id"],
            tags=[tag for tag in found["RepoTags"] or () if tag != "<none>:<none>"],
            labels=found["Labels"] or {},
            age_s=time.time() - found["Created"],
        )
        for found in client.api.images(filters={"label": labels})
    ]
