"""Whatever of another's is asked for over MCP is answered as if it had never been."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest
from mcp import Client, MCPError

from offprompt import Offprompt
from offprompt.mcp.http import McpApp
from tests.mcp.test_http import served, talked

NEVER: Final = "m_01m8q0tjxxtq6aptaspsnqxad4"
NONCE: Final = re.compile(r"memory [0-9a-f]{8}>")


async def asked_for(client: Client, memory_id: str) -> list[Any]:
    """Every tool, resource and prompt, asked for the names and the id."""
    found: list[Any] = []
    for name in ("city", "城市", memory_id):
        found.append((await client.call_tool("mem_read", {"name": name})).model_dump())
        found.append((await client.call_tool("mem_forget", {"name": name})).model_dump())
        uri = f"mem://{'memories' if name == memory_id else 'slots'}/{name}"
        try:
            found.append((await client.read_resource(uri)).model_dump())
        except MCPError as exc:
            found.append((exc.code, exc.message))
    calls: list[tuple[str, dict[str, Any]]] = [
        *[("mem_write", {"name": name, "value": "x", "if_version": 1}) for name in ("city", "城市")],
        *[("mem_search", {"query": query}) for query in ("Lisbon", "里斯本", "nuts")],
        ("mem_list", {"cursor": memory_id}),
        ("mem_list", {}),
    ]
    found += [(await client.call_tool(tool, arguments)).model_dump() for tool, arguments in calls]
    found.append((await client.list_resources()).model_dump())
    found.append((await client.read_resource("mem://profile")).model_dump())
    found.append((await client.get_prompt("about_me")).model_dump())
    return found


@pytest.mark.parametrize(
    ("owner", "named"),
    [
        ({"user": "bob"}, {}),
        ({"user": "bob", "agent": "coder"}, {"Agent": "coder"}),
        ({"user": "alice", "app": "shop"}, {}),
        ({"user": "alice", "agent": "coder"}, {"Agent": "billing"}),
        ({"agent": "coder"}, {}),
        ({"session": "s1"}, {"Session": "s1"}),
    ],
    ids=["user", "user of the agent", "app", "agent", "agent alone", "session that was guessed"],
)
def test_what_is_anothers_is_answered_as_what_never_was(
    memory: Offprompt, owner: dict[str, Any], named: dict[str, str]
) -> None:
    memory.scope(user="alice").write("tea", "green")
    theirs = memory.scope(**owner)

    def seen(memory_id: str) -> list[str]:
        async def run(app: McpApp) -> list[Any]:
            return await talked(app, "alice", lambda client: asked_for(client, memory_id), **named)

        found = [NONCE.sub("memory N>", str(each)).replace(memory_id, NEVER) for each in served(memory, run)]
        assert found
        return found

    before = seen(NEVER)
    theirs.write("city", "Lisbon")
    theirs.write("城市", "里斯本")
    (told, *_) = theirs.remember("I am allergic to nuts, 住在里斯本", derive="none")
    after = seen(told.name)
    assert [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]] == []
    assert theirs.slots.snapshot() == {**theirs.slots.snapshot(), "city": "Lisbon", "城市": "里斯本"}
    assert theirs.memories.get(told.name) is not None
