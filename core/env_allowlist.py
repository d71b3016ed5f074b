"""The environment variables that foreign programs outside the sandbox inherit. API keys are not among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "TERM",
             "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
             "SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")  # fmt: skip
"""Variables that every such program inherits."""


def inherited(environ: Mapping[str, str], more: Iterable[str] = ()) -> dict[str, str]:
    """The environment for such a program, with the additional variables that the user configured for it."""
    return {name: environ[name] for name in (*INHERITED, *more) if name in environ}
