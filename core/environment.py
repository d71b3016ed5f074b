"""What comes from the environment: the folder with all data and settings, and what foreign programs inherit.

Needed for the first frame, so it imports almost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

CONFIG = "config.toml"
"""The settings file in the home."""
THEMES = "themes"
"""The folder of the user's own themes in the home."""
INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "TERM",
             "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
             "SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")  # fmt: skip
"""The variables that foreign programs outside the sandbox inherit. API keys are not among them."""


def home_folder(environ: Mapping[str, str]) -> Path:
    """The folder of conversations, settings and logs: HANDLOOM_HOME, or the platform's data folder."""
    named = environ.get("HANDLOOM_HOME")
    if named:
        return Path(named).expanduser().absolute()
    from platformdirs import user_data_path  # takes some milliseconds to import

    return user_data_path("handloom", appauthor=False)


def inherited(environ: Mapping[str, str], more: Iterable[str] = ()) -> dict[str, str]:
    """The environment for such a program, with the additional variables that the user configured for it."""
    return {name: environ[name] for name in (*INHERITED, *more) if name in environ}
