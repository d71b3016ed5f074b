"""One page, served on a free port of this machine, for as long as it is wanted."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def served(page: str) -> Iterator[str]:
    """Its address."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            with suppress(OSError):  # a closing browser does not wait for its requests
                self.wfile.write(page.encode())

        def log_message(self, format: str, *args: object) -> None:
            """Does nothing: the owner of the server records requests."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
