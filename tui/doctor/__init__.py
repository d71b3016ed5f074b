"""`handloom doctor`: checks this machine for missing requirements, and says what to do about each.

report            the list of checks, and the command that runs them
checks            the machine, its terminal, what is stored, models and servers
sandbox_checks    isolation, container engine, remote server, browser
repair_cli        `--repair`: checks stored data and recovers what is readable
"""
