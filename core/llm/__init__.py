"""Models: scripted ones, and those of every provider through one litellm child process.

`registry` makes an LLM from the name that a user writes. litellm is loaded in the model host and nowhere
else: it is slow to import, holds 200 MB, and the provider keys need to be known to one process only.
"""
