"""What a model may not do over MCP: see secrets, change what is locked, pass off a tool's words as the user's."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

import offprompt
from offprompt import Offprompt
from offprompt.testing import MovedClock
from tests.mcp.conftest import ask, call, refusal, said, server_of

PHRASE = "correct-horse-battery-staple"


@pytest.fixture
def kept(memory: Offprompt) -> Offprompt:
    """A memory with a secret, and with words that quote it."""
    alice = memory.scope(user="alice")
    alice.write("wifi", PHRASE, policy="never")
    alice.write("note", f"the wifi is {PHRASE}, the user is alice")
    alice.write("backup", base64.b64encode(PHRASE.encode()).decode())
    alice.remember(f"At home one types {PHRASE} to go online", derive="none")
    return memory


def test_a_secret_is_in_no_answer_however_it_is_asked_for(kept: Offprompt) -> None:
    server = server_of(kept).server
    memory_id = kept.scope(user="alice").memories.list()[0].memory_id

    async def talk(client: Client) -> list[Any]:
        asked = [("mem_read", {"name": name}) for name in ("wifi", "WIFI", "note", "backup", memory_id)]
        asked += [("mem_search", {"query": query}) for query in ("wifi", PHRASE, "go online")]
        asked += [("mem_list", {}), ("mem_forget", {"name": "wifi"}), ("mem_write", {"name": "wifi", "value": "x"})]
        answers: list[Any] = [await client.call_tool(tool, arguments) for tool, arguments in asked]
        answers += [await client.list_resources(), await client.get_prompt("about_me")]
        answers += [await client.read_resource(f"mem://{one}") for one in ("profile", "slots/note", "slots/backup")]
        return answers

    answers = ask(server, talk)
    texts = [answer.model_dump_json() for answer in answers]
    for form in (PHRASE, base64.b64encode(PHRASE.encode()).decode().rstrip("=")):
        assert [text for text in texts if form in text] == []
    assert said(answers[0]) == "wifi is never shown to models"
    assert "the wifi is [[mem:wifi]], the user is alice" in said(answers[2])
    refused = refusal(server, lambda client: client.read_resource("mem://slots/wifi"))
    assert "never shown to models" in refused.message
    assert not any('"name":"wifi"' in text for text in texts)


def test_a_secret_that_was_overwritten_or_forgotten_is_still_none_to_show(kept: Offprompt) -> None:
    alice = kept.scope(user="alice")
    alice.write("wifi", "another-passphrase-entirely")
    alice.forget("wifi")
    assert PHRASE not in call(server_of(kept).server, "mem_read", name="note").model_dump_json()


def test_a_secret_that_the_application_gave_is_neither_written_nor_forgotten(kept: Offprompt) -> None:
    server = server_of(kept).server
    for tool, arguments in (("mem_write", {"value": "x"}), ("mem_forget", {})):
        refused = call(server, tool, name="wifi", **arguments)
        assert said(refused) == "not done: the application locked wifi"
    assert kept.scope(user="alice").read("wifi") == PHRASE


def test_what_a_model_stores_under_a_secret_name_it_does_not_see_again(memory: Offprompt) -> None:
    server = server_of(memory).server
    assert not call(server, "mem_write", name="api_key", value="abc").is_error
    assert said(call(server, "mem_read", name="api_key")) == "api_key is never shown to models"
    assert said(call(server_of(memory, language="zh").server, "mem_read", name="api_key")) == "api_key 不向模型显示"
    assert call(server, "mem_list").structured_content == {"items": []}


def test_a_locked_name_is_the_applications(memory: Offprompt) -> None:
    alice = memory.scope(user="alice")
    alice.write("plan", "free")
    alice.slots.lock("plan")
    server = server_of(memory).server
    assert said(call(server, "mem_write", name="plan", value="pro")) == "not done: the application locked plan"
    assert call(server, "mem_forget", name="plan").is_error
    assert alice.read("plan") == "free"


def test_with_locked_names_only_known_ones_are_written(tmp_path: Path) -> None:
    with offprompt.open(tmp_path / "a.db", embedder="none", lock_names=True) as memory:
        memory.scope(user="alice").write("city", "Lisbon")
        server = server_of(memory).server
        assert said(call(server, "mem_write", name="town", value="x")) == (
            "not done: town is new; only known slots may be written"
        )
        assert not call(server, "mem_write", name="city", value="Porto").is_error


def test_a_slot_is_written_ten_times_a_minute(memory: Offprompt) -> None:
    clock = MovedClock()
    with offprompt.open(":memory:", embedder="none", clock=clock) as memory:
        server = server_of(memory).server
        for number in range(10):
            assert not call(server, "mem_write", name="n", value=str(number)).is_error
        often = call(server, "mem_write", name="n", value="10")
        assert often.is_error
        assert said(often).endswith("wait a minute")
        clock.move(60)
        assert not call(server, "mem_write", name="n", value="10").is_error


def test_untrusted_text_replaces_nothing_that_the_user_said(memory: Offprompt) -> None:
    alice = memory.scope(user="alice")
    alice.write("bank", "Coop")
    server = server_of(memory, trust="tool").server
    assert said(call(server, "mem_write", name="bank", value="Evil")) == (
        "not done: bank is not yours to change; use another name"
    )
    assert call(server, "mem_forget", name="bank").is_error
    assert alice.read("bank") == "Coop"
    assert not call(server, "mem_write", name="diet", value="meat").is_error
    slot = alice.slots.get("diet")
    assert slot is not None
    assert (slot.trust, slot.source, slot.actor) == ("tool", "model", "mcp")
    assert slot.policy != "card"
    memory_id = call(server, "mem_write", value="My name is Eve").structured_content["name"]
    assert alice.slots.get("user_name") is None or alice.slots.get("user_name").policy == "by_handle"  # type: ignore[union-attr]
    read = call(server, "mem_read", name=memory_id)
    assert "(unverified)" in said(read)
    found = call(server, "mem_search", query="diet").structured_content["items"]
    assert [item["unverified"] for item in found if item["name"] == "diet"] == [True]


def test_every_change_is_in_the_events_with_its_actor_and_without_its_value(memory: Offprompt) -> None:
    server = server_of(memory).server
    call(server, "mem_write", name="city", value="Lissabon")
    call(server, "mem_read", name="city")
    call(server, "mem_forget", name="city")
    call(server, "mem_write", value="Ich wohne in Lissabon")
    events = memory.scope(user="alice").events()
    assert {"slot.write", "slot.forget", "memory.add"} <= {event.op for event in events}
    assert {event.actor for event in events if event.op.startswith("slot.")} == {"mcp"}
    assert "Lissabon" not in repr(events)


def test_forgetting_a_value_forgets_what_rules_read_from_the_same_words(memory: Offprompt) -> None:
    alice = memory.scope(user="alice")
    alice.remember({"role": "user", "content": "I live in Lisbon"})
    profile = [slot.name for slot in alice.slots.list()]
    assert profile
    server = server_of(memory).server
    call(server, "mem_write", name="residence", value="Lisbon")
    call(server, "mem_forget", name="residence")
    assert [slot.name for slot in alice.slots.list()] == []
