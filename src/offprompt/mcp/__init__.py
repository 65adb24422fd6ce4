"""The entrance for tools over MCP: five tools, resources and prompts over one scope's memory."""
