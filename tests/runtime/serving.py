"""Action servers for tests: the application in the test's own loop, and the program as a process."""

from __future__ import annotations

from aiohttp import web

KEY = "k" * 64


class Server:
    """The application in this process, on a free port of this machine."""

    def __init__(self, app: web.Application, port: int) -> None:
        self.app = app
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
