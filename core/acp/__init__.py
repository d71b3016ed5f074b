"""Other agents over the Agent Client Protocol, and its JSON-RPC transport. The server for editors is `tui.acp`."""
