"""The sandbox's image, from which containers are created.

    build_context   the files of the image, and the tag that is computed from them
    builder         find, build and remove images, with progress and errors of the engine

    Dockerfile, packages, requirements.lock    run by the engine; `make lock` generates the last one

An image contains programs and no secrets. Its code is this package's, so an image and a client with the same tag use
the same protocol.
"""

from runtime.image.build_context import Recipe, User
from runtime.image.builder import DEFAULT_BASE, build, current_tag, find

PYTHON = "/opt/handloom/bin/python"
"""The action server's interpreter in the image; `python3` is that of the base."""
SERVER = (PYTHON, "-I", "-m", "runtime.server")
"""The action server's command. With -I, packages that the agent installs in its home and environment variables that it
sets have no effect on the server."""

__all__ = ["DEFAULT_BASE", "PYTHON", "SERVER", "Recipe", "User", "build", "current_tag", "find"]
