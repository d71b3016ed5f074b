"""Reading shell commands: a closed grammar, a table of programs, and what a shell's earlier commands changed."""
