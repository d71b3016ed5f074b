"""Where everything of one Handloom is kept. Standard library only until it is asked, because the first frame asks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

CONFIG = "config.toml"
"""The settings in it."""
THEMES = "themes"
"""The folder of the user's own themes in it."""


def home_folder(environ: Mapping[str, str]) -> Path:
    """Where conversations, settings and logs are kept: HANDLOOM_HOME, or the platform's data folder."""
    named = environ.get("HANDLOOM_HOME")
    if named:
        return Path(named).expanduser().absolute()
    from platformdirs import user_data_path  # some milliseconds that not every start needs

    return user_data_path("handloom", appauthor=False)
