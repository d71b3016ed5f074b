"""Agents: what turns a model's answers into actions.

An agent holds no state between steps: the history, handed in, is all it knows. `registry` makes one by its
class name. To add a tool, add an entry to a module in `tools/`.
"""
