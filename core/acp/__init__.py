"""What both sides of the Agent Client Protocol need: the wire. The server for editors is `tui.acp`."""
