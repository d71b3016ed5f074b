"""Handloom as an agent for editors: the Agent Client Protocol over standard input and output.

`server` has the command and keeps the sessions, `methods` validates messages, `editor_session` is one session, and
`updates`, `tool_calls` and `prompts` translate between the protocol and Handloom's events. Only the command imports
this package, because the screen does not need the protocol's library.
"""
