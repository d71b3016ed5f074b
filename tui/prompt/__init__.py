"""The prompt: where the user writes to the agent, and what helps to write. See `view`."""
