"""Handloom as an agent for editors: the Agent Client Protocol over standard input and output.

`serve` is the command, on `streams`; `methods` checks messages, `server` knows the sessions, `talk` is one of them,
and `told`, `actions` and `prompts` turn the vocabulary of one side into that of the other. Imported by the command
alone: the protocol's library is nothing that the first frame needs.
"""
