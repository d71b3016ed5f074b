"""The browser pane."""
