"""One run of a LlamaIndex agent with its OpenAI client: URL, store, session, text; prints the answer."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent

import offprompt
from offprompt.integrations.llama_index import OffpromptMemory


def ship(order: str) -> str:
    """Ship an order."""
    return f"shipped {order}"


async def main(url: str, store: str, session_id: str, text: str) -> None:
    llm: Any = import_module("llama_index.llms.openai").OpenAI(model="gpt-4o-mini", api_base=f"{url}/v1", max_retries=0)
    with offprompt.open(store) as memory:
        agent: Any = FunctionAgent(tools=[ship], llm=llm, streaming=False)
        answer = await agent.run(user_msg=text, memory=OffpromptMemory(session_id, memory, user="alice"))
    sys.stdout.write(f"{answer}\n")


asyncio.run(main(*sys.argv[1:]))
