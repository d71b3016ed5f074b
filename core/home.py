"""The home folder, with all data and settings. Needed for the first frame, so it imports almost nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

CONFIG = "config.toml"
"""The settings file in the home."""
THEMES = "themes"
"""The folder of the user's own themes in the home."""


def home_folder(environ: Mapping[str, str]) -> Path:
    """The folder of conversations, settings and logs: HANDLOOM_HOME, or the platform's data folder."""
    named = environ.get("HANDLOOM_HOME")
    if named:
        return Path(named).expanduser().absolute()
    from platformdirs import user_data_path  # takes some milliseconds to import

    return user_data_path("handloom", appauthor=False)
