"""The Agent Client Protocol: `handloom acp` as editors use it, and its parts."""
