"""The action server, which runs in the sandbox: `python -m runtime.server`.

    main, request_guard, lease     start and end, who may call, and whose server it is
    app, action_executor           the routes, and one table from action to handler; plugins add rows
    bash_session, shell, terminal  commands: the session, one bash, one pseudo-terminal
    prompt, outputs                where a command ends and what the model reads about it; its output, stored and live
    user_terminal                  the user takes over the terminal
    file_actions, editor           reading and writing files, and the editor's commands
    transfers                      files into and out of the sandbox
    processes, shortage_watch      process tree and jobs; memory, disk and processes that run out

Invariants: what an action does wrong becomes an observation, and what the server starts ends with it.
"""
