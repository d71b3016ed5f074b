"""Saved conversations, shown as they were. Nothing in here can act."""
