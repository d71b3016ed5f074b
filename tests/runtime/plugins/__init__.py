"""The plugins of the sandbox."""
