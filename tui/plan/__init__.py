"""The agent's plan: what it wants to do, what it does, and what is done."""
