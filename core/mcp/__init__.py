"""MCP servers: tools, resources and prompts of other programs, by the official SDK of the Model Context Protocol.

The SDK and every byte of a server stay in a child process, the MCP host (`host`, `connection`, `stdio`, `web`); here
are the specifications (`servers`), what the user agreed to (`pins`), the supervisor (`supervisor`) and what a
conversation has of it (`toolbox`). A server's texts are foreign: they are bounded and cleaned in the host.
"""
