"""`handloom doctor`: checks this machine for missing requirements, and says what to do about each.

    finding           what a check reports, and what it may look at
    checks            the table of checks, and the short ones
    engine_check, storage_check, terminal_check    the longer ones
    report            runs all checks at once and prints the findings
    repair_cli        `--mend`: checks stored data and recovers what is readable

No check changes this machine, calls another machine unless the settings name it as container engine or remote server,
or prints a value that could be a secret.
"""
