"""Handloom as an agent for editors: the Agent Client Protocol over standard input and output.

`serve` is the command. `methods` validates messages, `server` keeps the sessions, `editor_session` is one of them, and
`updates`, `tool_calls` and `prompts` translate between the protocol and Handloom's events. Only the command imports
this package, because the screen does not need the protocol's library.
"""
