"""MCP servers: tools, resources and prompts of other programs, through the official SDK of the Model Context Protocol.

The SDK and all data of servers stay in a child process, the MCP host.

In the host:

    mcp_host            the process: reads orders, answers with lines
    connection          one server: connect, list, call
    transports          programs and addresses as streams for the SDK, with size limits
    launch              becomes the server's program
    catalogue           what a server offers, cleaned and limited

In Handloom:

    server_definitions  servers in the settings and in the files of a workspace
    approvals           which commands and tools the user has approved
    supervisor          starts servers, keeps their state, and retries; shared by all conversations
    sandbox_link        what connects a server in a conversation's sandbox with the host
    mcp_host_client     the host's process and its protocol
    tool_registry       the tools of one conversation, and their calls

Texts of servers are untrusted. The host cleans and limits them.
"""
