"""The prompt: where the user writes to the agent, and what helps to write. See `view`."""

from tui.prompt.view import Prompt

__all__ = ["Prompt"]
