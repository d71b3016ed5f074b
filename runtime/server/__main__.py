"""The entry of `python -m runtime.server`; what it does is in `main`.

aiohttp reads all of the system's certificate authorities while it is imported, a quarter of the time that a
server takes to start. This process calls nobody over TLS, so they are hidden from it for that moment.
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
