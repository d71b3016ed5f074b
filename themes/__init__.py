"""Our themes, one TOML file each, read by `tui.display.themes`. To add one, add a file; a test checks its contrast."""
