"""The terminal pane: what commands print, as a terminal shows it."""
