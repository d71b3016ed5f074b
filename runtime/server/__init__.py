"""What runs in the sandbox: the action server, started by `python -m runtime.server`.

    app, guard       the routes, and who may call them
    executor         one table from action to handler; plugins add rows
    bash             BashSession: a shell that lives as long as the server
    terminal         a process on a pseudo-terminal, by events
    prompt, output   where a command ends, and what the model gets to see of it; both without IO
    files, editor    reading and writing, and the editor's commands
    tasks            the plan of the agent
    processes        who descends from whom, and the end of all of them
    hardening        what the server forbids itself

One invariant: what an action does wrong becomes an observation, and what the server starts ends with it.
"""
