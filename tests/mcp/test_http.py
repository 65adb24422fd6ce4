"""The MCP server over HTTP: whose memory it is says the key, and a header within it; never the model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import offprompt
from offprompt import Offprompt
from offprompt.errors import UnauthenticatedError
from offprompt.mcp.http import McpApp
from offprompt.records import Identity
from offprompt.rest.guarding import guard_for
from offprompt.rest.guards import Deferred
from tests.mcp.conftest import said

R = TypeVar("R")
URL: Final = "http://127.0.0.1/mcp"
KEYS: Final = {
    "alice": Identity(users=("alice",), default_user="alice", key="k1"),
    "bob": Identity(users=("bob",), default_user="bob", key="k2"),
    "reader": Identity(users=("alice",), default_user="alice", roles=frozenset({"read"}), key="k3"),
    "anyone": Identity(key="k4"),
}


def identify(method: str, headers: Mapping[str, str], *, has_body: bool) -> Identity | Deferred:
    """Who asks, by the name that stands for the key; of some it is known at once, others are looked up."""
    assert has_body == (method == "POST")
    name = headers.get("authorization", "").removeprefix("Bearer ")
    if name not in KEYS:
        raise UnauthenticatedError("no key: send Authorization: Bearer KEY")
    return KEYS[name] if name == "alice" else lambda: KEYS[name]


@asynccontextmanager
async def living(app: McpApp) -> AsyncGenerator[McpApp]:
    """The application between its startup and its shutdown."""
    told, heard = asyncio.Queue[dict[str, Any]](), asyncio.Queue[Any]()
    running = asyncio.ensure_future(app({"type": "lifespan"}, told.get, heard.put))
    await told.put({"type": "lifespan.startup"})
    assert (await heard.get())["type"] == "lifespan.startup.complete"
    yield app
    await told.put({"type": "lifespan.shutdown"})
    await running


def http(app: McpApp, headers: Mapping[str, str]) -> httpx2.AsyncClient:
    """An HTTP client that calls the application."""
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), headers=dict(headers))


async def talked(
    app: McpApp, key: str, talk: Callable[[Client], Awaitable[R]], *, mode: str = "auto", **headers: str
) -> R:
    """A conversation of MCP's client with a key. headers: `Offprompt-…`, by the second word of their names."""
    named = {f"Offprompt-{name}": value for name, value in headers.items()}
    async with (
        http(app, {"Authorization": f"Bearer {key}", **named}) as own,
        Client(streamable_http_client(URL, http_client=own), mode=mode) as client,
    ):
        return await talk(client)


def served(memory: Offprompt, run: Callable[[McpApp], Awaitable[R]]) -> R:
    """What a run against the application gives."""

    async def alive() -> R:
        async with living(McpApp(memory, identify)) as app:
            return await run(app)

    return asyncio.run(alive())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_each_key_has_a_memory_of_its_own(memory: Offprompt, mode: str) -> None:
    async def write(client: Client) -> Any:
        return await client.call_tool("mem_write", {"name": "city", "value": "里斯本"})

    async def read(client: Client) -> Any:
        return await client.call_tool("mem_read", {"name": "city"})

    async def run(app: McpApp) -> list[Any]:
        return [
            await talked(app, "alice", write, mode=mode),
            await talked(app, "alice", read, mode=mode),
            await talked(app, "bob", read, mode=mode),
        ]

    written, own, other = served(memory, run)
    assert written.structured_content == {"name": "city", "version": 1}
    assert own.structured_content["value"] == "里斯本"
    assert other.is_error
    assert {event.actor for event in memory.scope(user="alice").events()} == {"mcp key:k1 for:alice"}


def test_headers_narrow_what_the_key_allows_and_no_more(memory: Offprompt) -> None:
    async def write(client: Client) -> Any:
        return await client.call_tool("mem_write", {"name": "city", "value": "Porto"})

    async def run(app: McpApp) -> list[Any]:
        return [
            await talked(app, "alice", write, User="bob"),
            await talked(app, "alice", write, App="other"),
            await talked(app, "anyone", write),
            await talked(app, "anyone", write, User="%E5%B0%8F%E6%98%8E"),
            await talked(app, "alice", write, Agent="coder"),
            await talked(app, "reader", write),
            await talked(app, "anyone", write, Shared="true"),
        ]

    other, app, nobody, chinese, agent, reader, shared = served(memory, run)
    assert "the key does not allow user='bob'" in said(other)
    assert "the key is of another app" in said(app)
    assert "Offprompt-User: alice" in said(nobody)
    assert "this needs the role 'write'" in said(reader)
    assert all(result.is_error for result in (other, app, nobody, reader, shared))
    assert not any(result.is_error for result in (chinese, agent))
    assert [str(one.scope) for one in memory.users()] == ["user=alice agent=coder", "user=小明"]


def test_a_key_that_reads_lists_searches_and_attaches(memory: Offprompt) -> None:
    memory.scope(user="alice").write("city", "Lisbon")

    async def talk(client: Client) -> list[Any]:
        return [
            (await client.call_tool("mem_search", {"query": "city"})).structured_content["items"][0]["name"],
            (await client.call_tool("mem_list")).structured_content["items"][0]["name"],
            (await client.list_resources()).resources[1].name,
            "Lisbon" in (await client.get_prompt("about_me")).messages[0].content.model_dump()["text"],
        ]

    assert served(memory, lambda app: talked(app, "reader", talk)) == ["city", "city", "city", True]


def test_without_a_key_nothing_is_read(memory: Offprompt) -> None:
    async def run(app: McpApp) -> list[httpx2.Response]:
        async with http(app, {}) as own:
            return [await own.request(method, URL, content="{") for method in ("POST", "GET", "DELETE", "PUT")]

    for answer in served(memory, run):
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["code"] == "UnauthenticatedError"


def test_what_is_no_call_is_refused_and_the_server_goes_on(memory: Offprompt) -> None:
    headers = {"Authorization": "Bearer alice", "Accept": "application/json, text/event-stream"}
    own_type = {"Content-Type": "application/json"}

    async def run(app: McpApp) -> dict[str, int]:
        async with http(app, headers) as own:
            asked = {
                "broken": own.post(URL, content="{", headers=own_type),
                "batch": own.post(URL, content="[]", headers=own_type),
                "form": own.post(URL, content="a=1", headers={"Content-Type": "application/x-www-form-urlencoded"}),
                "long": own.post(URL, content=b" " * (1 << 21), headers=own_type),
                "elsewhere": own.post("http://127.0.0.1/v1/slots", content="{}", headers=own_type),
            }
            found = {name: (await answer).status_code for name, answer in asked.items()}
        found["after"] = len((await talked(app, "alice", lambda client: client.list_tools())).tools)
        return found

    assert served(memory, run) == {
        "broken": 400,
        "batch": 400,
        "form": 400,
        "long": 413,
        "elsewhere": 404,
        "after": 5,
    }


def test_no_stream_is_held_open_for_what_is_never_said(memory: Offprompt) -> None:
    headers = {"Authorization": "Bearer alice", "Accept": "text/event-stream"}

    async def run(app: McpApp) -> list[httpx2.Response]:
        async with http(app, headers) as own:
            return [await own.request(method, URL) for method in ("GET", "DELETE", "PUT", "HEAD", "OPTIONS")]

    for answer in served(memory, run):
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_many_callers_at_once_each_find_their_own(memory: Offprompt) -> None:
    async def one(app: McpApp, number: int) -> str:
        async def talk(client: Client) -> str:
            await client.call_tool("mem_write", {"name": "number", "value": str(number)})
            return (await client.call_tool("mem_read", {"name": "number"})).structured_content["value"]

        return await talked(app, "anyone", talk, User=f"user-{number}")

    async def run(app: McpApp) -> list[str]:
        return list(await asyncio.gather(*(one(app, number) for number in range(40))))

    assert served(memory, run) == [str(number) for number in range(40)]


def test_requests_of_an_app_are_counted_here_too() -> None:
    headers = {"Authorization": "Bearer local_0", "Accept": "application/json, text/event-stream"}
    asks = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}

    async def run(memory: Offprompt) -> list[httpx2.Response]:
        app = McpApp(memory, guard_for(memory, ["127.0.0.1"], token="local_0", user="alice"))
        async with living(app), http(app, headers) as own:
            return [await own.post(URL, json=asks) for _ in range(3)]

    with offprompt.open(":memory:", embedder="none", requests_per_minute=2) as memory:
        answers = asyncio.run(run(memory))
    assert [answer.status_code for answer in answers][2] == 429
    assert all(answer.status_code != 429 for answer in answers[:2])
    assert int(answers[2].headers["retry-after"]) >= 1
    assert answers[2].json()["code"] == "RateError"


def test_told_to_stop_it_takes_no_more(memory: Offprompt) -> None:
    async def run(app: McpApp) -> httpx2.Response:
        app.drain()
        async with http(app, {"Authorization": "Bearer alice"}) as own:
            return await own.post(URL, json={})

    answer = served(memory, run)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
