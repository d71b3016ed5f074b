"""The event log: every event of a conversation, one line each."""
