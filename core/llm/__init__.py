"""Models: scripted ones, cassettes, and those of every provider through one litellm child process.

`registry` keeps the models of conversations, and `factory` creates one from the name that a user writes. Only the model
host loads litellm, which is slow to import and takes 200 MB, and only it needs the provider keys.
"""
