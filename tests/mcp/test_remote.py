"""The same tools over a scope that a server keeps: what the program does with `--url http://…`."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

import offprompt
from offprompt.bootstrap.server_door import ServerDoor
from offprompt.mcp.server import MemoryServer
from offprompt.records import Identity, Trust
from offprompt.service.model_memory import ModelMemory
from tests.mcp.conftest import ask, call, program, said
from tests.rest.running import Running, running


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(embedder="none") as own:
        yield own


@contextmanager
def tools_of(server: Running, user: str, *, trust: Trust = "user") -> Generator[Any]:
    """The tools over a user's scope on the server."""
    with offprompt.open(server.url) as memory:
        door = ServerDoor(memory.scope(user=user), trust=trust)
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


def test_what_is_known_is_seen_corrected_and_pinned_on_the_server(server: Running) -> None:
    with tools_of(server, "known") as own:
        call(own, "mem_write", name="城市", value="里斯本")
        memory_id = call(own, "mem_write", value="Tea comes from Fujian").structured_content["name"]
        assert not call(own, "mem_write", name=memory_id, value="Tea comes from Yunnan", pinned=True).is_error
        items = call(own, "mem_search", query="你记得我什么").structured_content["items"]
        assert [(item["text"], item.get("pinned")) for item in items] == [
            ("Tea comes from Yunnan", True),
            ("里斯本", None),
        ]
    with tools_of(server, "known", trust="tool") as own:
        assert call(own, "mem_write", name=memory_id, value="Tea comes from Rome").is_error
        assert call(own, "mem_write", name=memory_id, pinned=False).is_error


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


def test_what_a_model_writes_is_a_models_on_the_server_too(server: Running) -> None:
    kept = server.memory.scope(user="eve")
    with tools_of(server, "eve") as own:
        call(own, "mem_write", name="city", value="Lisbon")
        memory_id = call(own, "mem_write", value="茶来自福建").structured_content["name"]
        call(own, "mem_forget", name=memory_id)
        call(own, "mem_write", name="plan", value="free")
        call(own, "mem_forget", name="plan")
    kept.memories.undo(memory_id, actor="mcp")
    slot, memory = kept.slots.get("city", actor="mcp"), kept.memories.get(memory_id)
    assert slot is not None
    assert memory is not None
    assert (slot.source, slot.trust) == ("model", "user")
    assert (memory.source, memory.trust) == ("model", "user")
    done = [event for event in kept.events() if event.op.startswith(("slot.write", "slot.forget", "memory."))]
    assert {event.actor for event in done} == {"mcp"}


def test_a_slot_is_written_ten_times_a_minute_over_a_server_too(server: Running) -> None:
    with tools_of(server, "many") as own:
        said_of = [said(call(own, "mem_write", name="n", value=str(number))) for number in range(11)]
    assert said_of[9] == "saved n v10"
    assert said_of[10].startswith("not done: ")
    assert "minute" in said_of[10]
    assert server.memory.scope(user="many").read("n") == "9"


def test_untrusted_text_replaces_and_forgets_nothing_that_the_user_said_to_a_server(server: Running) -> None:
    kept = server.memory.scope(user="mallory")
    kept.write("city", "Lisbon")
    (fact, *_) = kept.remember("I am allergic to nuts", derive="none")
    with tools_of(server, "mallory", trust="tool") as own:
        assert said(call(own, "mem_write", name="city", value="Oslo")).startswith("not done: city is not yours")
        assert said(call(own, "mem_write", name="city", value="奥斯陆")).startswith("未执行：city 不能由你改动")
        assert call(own, "mem_forget", name="city").is_error
        assert call(own, "mem_forget", name=fact.name).is_error
        assert not call(own, "mem_write", name="page", value="says so").is_error
    assert (kept.read("city"), kept.memories.get(fact.name) is not None) == ("Lisbon", True)
    page = kept.slots.get("page")
    assert page is not None
    assert (page.source, page.trust) == ("model", "tool")


def test_with_locked_names_a_server_lets_models_write_known_ones_only() -> None:
    with running(embedder="none", lock_names=True) as own_server, tools_of(own_server, "alice") as own:
        own_server.memory.scope(user="alice").write("city", "Lisbon")
        new = call(own, "mem_write", name="street", value="Rua Augusta")
        assert said(new) == "not done: street is new; only known slots may be written"
        assert said(call(own, "mem_write", name="街道", value="x")) == "未执行：街道 不存在；只能写已有槽位"
        assert not call(own, "mem_write", name="city", value="Porto").is_error
        assert own_server.memory.scope(user="alice").slots.snapshot() == {"city": "Porto"}


def test_a_key_that_only_reads_writes_nothing_as_a_model() -> None:
    def reads(method: str, headers: Mapping[str, str], *, has_body: bool) -> Identity:
        del method, headers, has_body
        return Identity(users=("alice",), default_user="alice", roles=frozenset({"read"}))

    with running(embedder="none", identify=reads) as own_server:
        with tools_of(own_server, "alice") as own:
            assert "this needs the role 'write'" in said(call(own, "mem_write", name="city", value="Oslo"))
            assert "this needs the role 'write'" in said(call(own, "mem_write", value="Oslo it is"))
        with tools_of(own_server, "bob") as own:
            assert "does not allow user='bob'" in said(call(own, "mem_read", name="city"))


def test_the_program_speaks_to_a_server(server: Running, tmp_path: Path) -> None:
    own = program(tmp_path / "a.db", "--url", server.url, "--user", "zoe", "--untrusted")
    assert own.env is not None
    own.env["OFFPROMPT_KEY"] = "any"
    written = call(own, "mem_write", name="city", value="Lisbon")
    assert written.structured_content == {"name": "city", "version": 1}
    slot = server.memory.scope(user="zoe").slots.get("city")
    assert slot is not None
    assert (slot.value, slot.source, slot.trust) == ("Lisbon", "model", "tool")


def test_a_server_that_is_away_is_an_answer() -> None:
    with running(embedder="none") as gone, tools_of(gone, "alice") as own:
        gone.stop()
        assert said(call(own, "mem_write", name="city", value="Lisbon")) == "memory is not available now"
