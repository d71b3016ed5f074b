"""When the agent acts: a pure machine that decides, and a thin shell that performs."""
