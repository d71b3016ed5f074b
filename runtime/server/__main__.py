"""Entry point of `python -m runtime.server`; see `main`.

aiohttp loads all certificate authorities of the system when it is imported, which is a quarter of the server's start-up
time. The server makes no TLS connections, so the certificates are hidden during that import.
"""

import os
import sys

__all__ = ["main"]

_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")

_kept = {name: os.environ.get(name) for name in _CERTIFICATES}
os.environ.update(dict.fromkeys(_CERTIFICATES, os.devnull))
try:
    from runtime.server.main import main
finally:
    for name, value in _kept.items():
        os.environ.pop(name)
        if value is not None:
            os.environ[name] = value

if __name__ == "__main__":
    sys.exit(main())
