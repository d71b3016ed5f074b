"""The sandbox: where actions run, and how the rest of Handloom reaches it.

    protocol              the wire format between Handloom and an action server, without IO
    client                sends one action to an action server; `reconnecting_client` survives a broken connection
    server_runtime        what all runtimes with an action server share
    server/               the action server, which runs in the sandbox: `python -m runtime.server`
    local, docker, remote one launcher each: how a sandbox starts, ends and is reached
    isolation/            bubblewrap, seccomp, resource limits, the egress proxy, protected paths
    plugins/              Jupyter, the browser, agent skills, VS Code
    checkpoints/          snapshots of a workspace

Of `core`, this package imports only the events, the errors and a few pure modules, so that a sandbox loads no model, no
database and no screen.
"""
