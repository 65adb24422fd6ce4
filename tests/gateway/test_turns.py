"""A turn through the gateway: the client's SDK unchanged, memory calls run inside, the reply is one."""

from __future__ import annotations

import json

from tests.gateway.client import Client, script, text_of
from tests.gateway.conftest import NewGateway
from tests.service.talk import Wire, call, calls, flat, messages_of


def test_memory_calls_run_inside_and_the_client_sees_one_reply(gateway: NewGateway, wire: Wire, streams: bool) -> None:
    saved = calls(call("mem_write", slot="city", value="Ulm an der Donau"), text="One moment.")
    running = gateway(*script(wire, saved, "Noted.", "You live there."), head="always")
    with Client(running, wire, streams=streams) as client:
        reply = client.say("I live in Ulm an der Donau")
        assert "mem_write" not in json.dumps(client.messages)
        assert "One moment." in text_of(reply, wire)
        assert text_of(reply, wire).endswith("Noted.")
        assert running.alice.read("city") == "Ulm an der Donau"
        client.say("Where do I live?")
    assert running.upstream.faults == []
    first, second, third = running.upstream.requests
    assert messages_of(second)[: len(messages_of(first))] == messages_of(first)
    assert messages_of(third)[: len(messages_of(second))] == messages_of(second)
    assert "Ulm" in flat(messages_of(third)[-2:])


def test_the_id_of_a_reply_that_took_several_is_the_one_that_the_docs_say(
    gateway: NewGateway, wire: Wire, streams: bool
) -> None:
    replies = script(wire, call("mem_read", slot="city"), "Ulm.")
    for at, reply in enumerate(replies):
        reply["id"] = f"reply_{at}"
    running = gateway(*replies, head="always")
    running.alice.write("city", "Ulm")
    with Client(running, wire, streams=streams) as client:
        reply = client.say("Where?")
    assert text_of(reply, wire) == "Ulm."
    is_last = wire == "responses" and not streams  # from which a client may go on
    assert reply.id == f"reply_{int(is_last)}"
