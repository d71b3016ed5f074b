"""Settings for all tests of the screen: Pilot waits for an idle event loop, and style sheets are parsed once."""

from __future__ import annotations

from tests.tui import idle, parsed_styles

idle.install()
parsed_styles.install()
