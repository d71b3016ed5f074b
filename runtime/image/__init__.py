"""The sandbox's image: what a container of Handloom is made from.

    context     what goes in, and the tag that is made from it
    building    find, build, remove what was replaced
    steps       the engine's work: the base, the Dockerfile, progress
    stream      one request to the engine that can be cancelled
    failures    what went wrong, in words that say what to do next

    Dockerfile, packages, requirements.lock    what the engine carries out; `make lock` makes the last one

An image holds programs and no secret. Its code is this package's, so an image and a client of the same tag speak the
same protocol.
"""

from runtime.image.build_context import Recipe, User
from runtime.image.builder import build, current_tag, find

DEFAULT_BASE = "python:3.13-slim-bookworm"
"""The official slim Python image, on the Debian whose packages the tests run with."""
PYTHON = "/opt/handloom/bin/python"
"""The action server's interpreter in the image; `python3` is the base's."""
SERVER = (PYTHON, "-I", "-m", "runtime.server")
"""The action server's command. Isolated (-I): what the agent installs in its home or writes into its environment does
not run in the server."""

__all__ = ["DEFAULT_BASE", "PYTHON", "SERVER", "Recipe", "User", "build", "current_tag", "find"]
