"""Where a client asks for JSON, what the model says before it asks its memory is no part of the reply."""

from __future__ import annotations

import json
from typing import Any

from offprompt.testing.strict_chunks import Delivery
from tests.gateway.client import Client, script, text_of
from tests.gateway.conftest import NewGateway
from tests.service.talk import Wire, call, calls, flat, messages_of, tool

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
AS_JSON: dict[Wire, dict[str, Any]] = {
    "openai": {"response_format": {"type": "json_schema", "json_schema": {"name": "c", "schema": SCHEMA}}},
    "responses": {"text": {"format": {"type": "json_schema", "name": "c", "schema": SCHEMA, "strict": True}}},
    "anthropic": {"extra_body": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}},
}
READS = calls(call("mem_read", "m1", slot="city"), text="Let me look that up.")
SAID = '{"city": "[[mem:city]]"}'


def test_the_reply_is_json_whatever_was_said_before_a_memory_call(
    gateway: NewGateway, wire: Wire, streams: bool
) -> None:
    running = gateway(*script(wire, READS, SAID, '{"city": "the same"}'))
    running.alice.write("city", "Ulm")
    with Client(running, wire, streams=streams, **AS_JSON[wire]) as client:
        assert json.loads(text_of(client.say("Where do I live?"), wire)) == {"city": "Ulm"}
        assert json.loads(text_of(client.say("Sure?"), wire)) == {"city": "the same"}
    last = running.upstream.requests[2]
    assert "Let me look that up." in flat(last), "the model's own words are in its history again"
    assert "mem_read" in str(messages_of(last))
    assert running.upstream.faults == []


def test_a_stream_in_pieces_of_any_size_says_the_same(gateway: NewGateway, wire: Wire) -> None:
    said: list[Any] = []
    for delivery in (None, Delivery(seed=1, longest=1), Delivery(seed=2, longest=40)):
        looks = calls(call("mem_read", "m2", slot="city"), call("look", "c1", text="[[mem:city]]"), text=SAID)
        again = calls(call("mem_read", "m3", slot="town"), text="And that.")
        running = gateway(*script(wire, READS, again, looks))
        running.alice.write("city", "Ulm")
        if delivery is not None:
            running.upstream.deliver(delivery)
        with Client(running, wire, streams=delivery is not None, tools=[tool("look", wire)], **AS_JSON[wire]) as client:
            reply = client.say("Where do I live?")
            said.append([client.messages, client.calls(reply), text_of(reply, wire)])
    assert said[0] == said[1] == said[2]


def test_a_clients_call_behind_such_words_keeps_them(gateway: NewGateway, wire: Wire, streams: bool) -> None:
    looks = calls(call("mem_read", "m2", slot="city"), call("look", "c1", text="a"), text="And at this.")
    running = gateway(*script(wire, READS, looks, SAID))
    running.alice.write("city", "Ulm")
    with Client(running, wire, streams=streams, tools=[tool("look", wire)], **AS_JSON[wire]) as client:
        first = client.say("Where do I live?")
        assert text_of(first, wire) == "And at this."
        assert [each[0] for each in client.calls(first)] == ["c1"]
        assert json.loads(text_of(client.answer(("c1", "nothing")), wire)) == {"city": "Ulm"}
    assert running.upstream.faults == []


def test_without_such_a_wish_all_texts_are_told(gateway: NewGateway, wire: Wire, streams: bool) -> None:
    running = gateway(*script(wire, READS, "It is Ulm."))
    running.alice.write("city", "Ulm")
    with Client(running, wire, streams=streams) as client:
        said = text_of(client.say("Where do I live?"), wire)
    assert said.startswith("Let me look that up.")
    assert said.endswith("It is Ulm.")
