"""The settings: declared once, read from every source, changed by the user."""
