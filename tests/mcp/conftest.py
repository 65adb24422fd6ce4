"""A memory behind MCP's own client: in this process, or in a program of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from mcp import Client, MCPError, StdioServerParameters

import offprompt
from offprompt import Offprompt
from offprompt.mcp.server import MemoryServer
from offprompt.records import Role, Scope, Trust
from offprompt.service.model_doors import StoreDoor
from offprompt.service.model_memory import ModelMemory
from offprompt.wire.head import Language

R = TypeVar("R")
ALICE = Scope(user="alice")


@pytest.fixture
def memory() -> Iterator[Offprompt]:
    with offprompt.open(":memory:", embedder="none") as opened:
        yield opened


def server_of(
    opened: Offprompt, scope: Scope = ALICE, *, trust: Trust = "user", language: Language | None = None
) -> MemoryServer:
    """A server over one scope of an opened memory."""
    bound = opened.scope(user=scope.user, agent=scope.agent, session=scope.session, app=scope.app, shared=scope.shared)
    own = ModelMemory(StoreDoor(opened.parts, bound, trust=trust, via="mcp"))

    def memory_for(request: Any, role: Role) -> ModelMemory:
        assert request is None
        assert role in ("read", "write")
        return own

    return MemoryServer(memory_for, opened.parts.tokenizer, language)


def ask(target: Any, talk: Callable[[Client], Awaitable[R]], *, mode: str = "auto") -> R:
    """What a conversation of MCP's client with a server gives."""

    async def run() -> R:
        async with Client(target, mode=mode) as client:
            return await talk(client)

    return asyncio.run(run())


def call(target: Any, tool: str, **arguments: Any) -> Any:
    """The result of one call."""
    return ask(target, lambda client: client.call_tool(tool, arguments))


def refusal(target: Any, talk: Callable[[Client], Awaitable[object]], *, mode: str = "auto") -> MCPError:
    """The protocol's error that a conversation ends with."""

    async def caught(client: Client) -> MCPError:
        with pytest.raises(MCPError) as failed:
            await talk(client)
        return failed.value

    return ask(target, caught, mode=mode)


def said(result: Any) -> str:
    """The text of a result."""
    return result.content[0].text


def program(store: Path, *arguments: str) -> StdioServerParameters:
    """`offprompt mcp` over a file, as a host starts it."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(("XDG_", "LANG", "OFFPROMPT_"))}
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "offprompt", "mcp", "--url", str(store), *arguments],
        env={**kept, "OFFPROMPT_EMBEDDER": "none"},
    )
