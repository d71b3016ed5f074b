"""What the workspace knows of its conversations. No Textual in here."""
