"""What the agent may do without asking."""
