"""One open conversation: AgentSession and its parts."""
