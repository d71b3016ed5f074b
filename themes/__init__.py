"""Our themes, one TOML file each, read by `tui.themes.theme_files`. To add one, add a file: a test checks contrast."""
