"""Runs a saved session again: its actions in a real sandbox, and each new result beside the recorded one.

`recipe` reads the steps from a log, `rerun_agent` gives them to a conversation, `runner` runs it, `alignment` pairs the
two logs and `comparison` compares two results, without what `normalization` removes. No model is used, so a rerun costs
nothing.
"""
