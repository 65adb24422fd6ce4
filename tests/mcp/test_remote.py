"""The same tools over a scope that a server keeps: what the program does with `--url http://…`."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

import offprompt
from offprompt.mcp.remote import ServerDoor
from offprompt.mcp.server import MemoryServer
from offprompt.service.model_memory import ModelMemory
from tests.mcp.conftest import ask, call, program, said
from tests.rest.running import Running, running


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(embedder="none") as own:
        yield own


@contextmanager
def tools_of(server: Running, user: str) -> Generator[Any]:
    """The tools over a user's scope on the server."""
    with offprompt.open(server.url) as memory:
        door = ServerDoor(memory.scope(user=user))
        own = ModelMemory(door)
        yield MemoryServer(lambda _request, _role: own, door.tokenizer).server


def test_values_and_sentences_are_kept_by_the_server(server: Running) -> None:
    with tools_of(server, "alice") as own:
        assert call(own, "mem_write", name="城市", value="里斯本").structured_content == {"name": "城市", "version": 1}
        assert call(own, "mem_read", name="城市").structured_content["value"] == "里斯本"
        memory_id = call(own, "mem_write", value="Tea comes from Fujian").structured_content["name"]
        found = call(own, "mem_search", query="Fujian tea").structured_content["items"]
        assert memory_id in [item["name"] for item in found]
        listed = call(own, "mem_list").structured_content["items"]
        assert [item["name"] for item in listed] == ["城市", memory_id]
        assert call(own, "mem_write", name="城市", value="波尔图", if_version=5).is_error
        assert not call(own, "mem_forget", name="城市").is_error
        assert not call(own, "mem_forget", name=memory_id).is_error
        assert call(own, "mem_list").structured_content == {"items": []}
        assert server.memory.scope(user="alice").slots.undo("城市").value == "里斯本"


def test_a_long_value_is_paged_as_everywhere(server: Running) -> None:
    text = "她住在里斯本，喜欢喝茶。" * 500
    with tools_of(server, "long") as own:
        assert not call(own, "mem_write", name="long", value=text).is_error

        async def talk(client: Client) -> str:
            whole, cursor = "", ""
            while True:
                arguments = {"name": "long", **({"cursor": cursor} if cursor else {})}
                page = (await client.call_tool("mem_read", arguments)).structured_content
                whole, cursor = whole + page["value"], page.get("cursor", "")
                if not cursor:
                    return whole

        assert ask(own, talk) == text


def test_secrets_and_locked_names_are_left_alone(server: Running) -> None:
    kept = server.memory.scope(user="bob")
    kept.write("wifi", "correct-horse-battery", policy="never")
    kept.write("note", "it is correct-horse-battery")
    kept.write("plan", "free")
    kept.slots.lock("plan")
    with tools_of(server, "bob") as own:
        assert call(own, "mem_read", name="wifi").is_error
        assert "correct-horse-battery" not in call(own, "mem_read", name="note").model_dump_json()
        for name in ("wifi", "plan"):
            assert said(call(own, "mem_write", name=name, value="x")) == f"not done: the application locked {name}"
            assert call(own, "mem_forget", name=name).is_error
        assert (kept.read("wifi"), kept.read("plan")) == ("correct-horse-battery", "free")


def test_the_program_speaks_to_a_server(server: Running, tmp_path: Path) -> None:
    own = program(tmp_path / "a.db", "--url", server.url, "--user", "eve")
    assert own.env is not None
    own.env["OFFPROMPT_KEY"] = "any"
    written = call(own, "mem_write", name="city", value="Lisbon")
    assert written.structured_content == {"name": "city", "version": 1}
    assert server.memory.scope(user="eve").read("city") == "Lisbon"


def test_a_server_that_is_away_is_an_answer() -> None:
    with running(embedder="none") as gone, tools_of(gone, "alice") as own:
        gone.stop()
        assert said(call(own, "mem_write", name="city", value="Lisbon")) == "memory is not available now"
