"""Runs a saved session again: its actions in a real sandbox, and each new result beside the recorded one.

`recipe` reads the steps from a log, `runner` runs them in a new conversation, `alignment` pairs the two logs and
`comparison` compares two results. No model is used, so a rerun costs nothing.
"""
