"""Two programs share one user's memory over MCP: what is saved in a chat is known in the editor.

After `make demo`: .venv/bin/python examples/two_hosts.py"""

import asyncio
import sys

from mcp import Client, StdioServerParameters

# What a host's settings say: the command that it starts. Whose memory it is stands here, and no model chooses it.
server = StdioServerParameters(
    command=sys.executable, args=["-m", "offprompt", "mcp", "--url", "shared.db", "--user", "lin@example.com"]
)


async def chat() -> None:
    async with Client(server) as host:
        print([tool.name for tool in (await host.list_tools()).tools])
        await host.call_tool("mem_write", {"name": "reply_style", "value": "简洁，用中文"})
        await host.call_tool("mem_write", {"value": "The billing service moved to Rust in March"})


async def editor() -> None:
    async with Client(server) as host:
        style = await host.call_tool("mem_read", {"name": "reply_style"})
        print(style.structured_content)
        found = await host.call_tool("mem_search", {"query": "which language is billing written in?"})
        print(found.structured_content["items"][0]["text"])
        late = await host.call_tool("mem_write", {"name": "reply_style", "value": "long", "if_version": 0})
        print("written over what it had not read:", not late.is_error)


asyncio.run(chat())
asyncio.run(editor())

# prints:
# ['mem_write', 'mem_read', 'mem_forget', 'mem_search', 'mem_list']
# {'name': 'reply_style', 'version': 1, 'value': '简洁，用中文'}
# The billing service moved to Rust in March
# written over what it had not read: False
