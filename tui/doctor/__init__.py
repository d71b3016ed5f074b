"""`handloom doctor`: what Handloom needs of this machine, whether it is there, and what to do where it is not.

    finding    what a check says, and what it may look at
    checks     the one table of checks
    report     runs them all at once, and says what they found
    screen, storage, models, sandbox, engine, remote, programs    the checks

No check changes anything on the machine, calls another machine unless the user's settings name it as the engine or the
remote server, or tells a value that could be a secret.
"""
