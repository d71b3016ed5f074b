"""The sandbox: where actions are carried out, and the way to it.

    protocol     the wire between Handloom and a sandbox, without IO
    server/      what runs in the sandbox: `python -m runtime.server`
    client       one action over the wire: frames while it runs, then its observation
    local        a launcher: the server as a child process on this machine

A launcher knows where a sandbox is and how it starts and ends; everything else is the same for all of them.
Of core this package imports the vocabulary (`core.events`) and the errors, so that a sandbox loads no
model, no database and no screen.
"""
