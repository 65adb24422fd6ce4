"""What gateways and variable stores have got wrong in public, each by its name, through the providers' own clients."""

from __future__ import annotations

import copy
import json
from typing import Any

import openai
import pytest

from offprompt.records import Identity, canonical
from offprompt.testing.clock import MovedClock
from offprompt.testing.upstream import Upstream
from tests.gateway.client import Client, script, text_of
from tests.gateway.conftest import ALSO_THINKING, NewGateway, before
from tests.service.talk import WIRES, Say, Wire, call, calls, flat, messages_of, tool

ORDER = "ORD-2291-KX-7-upper-deck-window"


@pytest.fixture(params=ALSO_THINKING, ids=["plain", "thinking"])
def thinks(request: pytest.FixtureRequest) -> bool:
    return request.param


def test_a_handle_in_arguments_is_resolved_streamed_or_not(gateway: NewGateway, wire: Wire, streams: bool) -> None:
    running = gateway(*script(wire, call("ship", "c1", text="[[mem:order]]"), "Shipped [[mem:order]].", "Yes."))
    running.alice.write("order", ORDER, policy="by_handle")
    with Client(running, wire, streams=streams, tools=[tool("ship", wire)]) as client:
        asked = client.say("Ship my order")
        assert client.calls(asked) == [("c1", "ship", {"text": ORDER})]
        told = client.answer(("c1", "done"))
        assert text_of(told, wire) == f"Shipped {ORDER}."
        client.say("Sure?")
    assert running.upstream.faults == []
    assert ORDER not in flat(running.upstream.requests), "the model never sees it"
    assert canonical(messages_of(running.upstream.requests[2])[: len(messages_of(running.upstream.requests[1]))]) == (
        canonical(messages_of(running.upstream.requests[1]))
    )


def test_a_call_with_a_bad_handle_is_not_run_and_the_model_is_told(
    gateway: NewGateway, wire: Wire, streams: bool
) -> None:
    running = gateway(*script(wire, call("ship", "c1", text="[[mem:nothing_such]]"), "I have no such order."))
    with Client(running, wire, streams=streams, tools=[tool("ship", wire)]) as client:
        reply = client.say("Ship my order")
        assert client.calls(reply) == []
        assert text_of(reply, wire) == "I have no such order."
    assert "nothing_such" in flat(messages_of(running.upstream.requests[1])[-1])


def test_handles_are_names_and_not_numbered_anew(gateway: NewGateway, wire: Wire) -> None:
    running = gateway(*script(wire, *["Fine."] * 4))
    running.alice.write("order", ORDER, policy="by_handle")
    with Client(running, wire) as client:
        for text in ("Hello", "How is it?", "And now?", "Bye"):
            client.say(text)
            running.alice.write(f"more_{len(client.messages)}", "something long enough to be a handle " * 3)
    heads = {canonical([request.get("system"), request.get("tools")]) for request in running.upstream.requests}
    assert len(heads) == 1
    for one, now in zip(running.upstream.requests, running.upstream.requests[1:], strict=False):
        assert messages_of(now)[: len(messages_of(one))] == messages_of(one)


def test_what_one_tenant_stores_no_other_ones_handle_reaches(gateway: NewGateway, wire: Wire, streams: bool) -> None:
    anybody = Identity()
    running = gateway(*script(wire, "It is [[mem:order]].", "It is [[mem:order]]."), without_key=anybody)
    running.alice.write("order", ORDER, policy="by_handle")
    told: list[str] = []
    for user in ("alice", "bob"):
        header = {"Offprompt-User": user}
        with Client(running, wire, streams=streams, extra_headers=header) as client:
            told.append(text_of(client.say("Where is my order?"), wire))
    assert ORDER in told[0]
    assert ORDER not in told[1]


def test_the_clients_messages_are_its_own(gateway: NewGateway, wire: Wire, streams: bool) -> None:
    running = gateway(*script(wire, call("mem_write", slot="city", value="Ulm"), "Noted.", "Ulm."))
    with Client(running, wire, streams=streams) as client:
        client.say("I live in Ulm")
        held = copy.deepcopy(client.messages)
        client.say("Where?")
        assert client.messages[: len(held)] == held
        assert "mem_" not in json.dumps(client.messages)


def test_no_clock_stands_in_the_head(wire: Wire) -> None:
    texts: list[str] = []
    for days in (0, 40):
        clock = MovedClock(1_800_000_000.0 + days * 86_400)
        with (
            before(Upstream(script(wire, "Hello.", "Bye.")), settings={"clock": clock}) as running,
            Client(running, wire) as client,
        ):
            running.alice.write("city", "Ulm")
            client.say("Hello")
            clock.move(86_400 + 3_661)
            client.say("Bye")
        sent = [[each.get("system"), each.get("tools"), messages_of(each)[:2]] for each in running.upstream.requests]
        texts += map(canonical, sent)
    assert texts[0] == texts[2]
    assert texts[1] == texts[3]
    heads = [canonical([request.get("system"), request.get("tools")]) for request in running.upstream.requests]
    assert heads[0] == heads[1]


def test_pairs_of_calls_and_results_stay_together_where_history_is_cut(wire: Wire, streams: bool) -> None:
    said: list[Any] = []
    for at in range(12):
        both = calls(call("mem_read", f"m{at}", slot="city"), call("look", f"c{at}", text="a"))
        said += [both, f"Seen {at}."]
    with (
        before(Upstream(script(wire, *said)), settings={"context_tokens": 4000}) as running,
        Client(running, wire, streams=streams, model="small", tools=[tool("look", wire)]) as client,
    ):
        running.alice.write("city", "Ulm")
        for at in range(12):
            client.say(f"Chapter {at}: " + "and then they went on to the next town; " * 20)
            client.answer((f"c{at}", f"the town of chapter {at} is small " * 8))
    assert running.upstream.faults == []
    last = canonical(messages_of(running.upstream.requests[-1]))
    left = [at for at in range(12) if f'"c{at}"' in last]
    assert 0 < len(left) < 12, "something left, and not all"
    for at in left:
        assert last.count(f'"c{at}"') == last.count(f'"m{at}"') == 2, "a call stands with its result"


def test_pairs_stay_together_where_a_turn_is_cut_between_its_calls(wire: Wire, streams: bool) -> None:
    long = "a town that is small and lies by the river " * 30  # in the call: a cut would come right behind it
    said = [calls(call("mem_read", f"m{at}", slot="city"), call("look", f"c{at}", text=long)) for at in range(12)]
    with (
        before(Upstream(script(wire, *said, "Seen.")), settings={"context_tokens": 4000}) as running,
        Client(running, wire, streams=streams, model="small", tools=[tool("look", wire)]) as client,
    ):
        running.alice.write("city", "Ulm")
        client.say("Look at every town")
        for at in range(12):
            client.answer((f"c{at}", f"town {at}"))
    assert running.upstream.faults == []
    last = canonical(messages_of(running.upstream.requests[-1]))
    left = [at for at in range(12) if f'"c{at}"' in last]
    assert 0 < len(left) < 12, "something left, and not all"
    assert "Look at every town" in last
    for at in left:
        assert last.count(f'"c{at}"') == last.count(f'"m{at}"') == 2, "a call stands with its result"


def test_the_memory_block_is_the_same_in_all_calls_of_a_turn(gateway: NewGateway, wire: Wire) -> None:
    said = [call("look", "c1", text="a"), call("look", "c2", text="b"), "Oak Street."]
    running = gateway(*script(wire, *said))
    running.alice.remember("The dentist moved to Oak Street 12 last week")
    with Client(running, wire, tools=[tool("look", wire)]) as client:
        client.say("Where is my dentist now?")
        running.alice.remember("The dentist has a new phone")
        client.answer(("c1", "nothing"))
        client.answer(("c2", "nothing"))
    first, second, third = (messages_of(request) for request in running.upstream.requests)
    assert "Oak Street 12" in flat(first)
    assert second[: len(first)] == first
    assert third[: len(second)] == second


def test_recalled_text_is_not_captured_again(gateway: NewGateway, wire: Wire, streams: bool) -> None:
    running = gateway(*script(wire, "Oak Street 12.", "Yes."))
    running.alice.remember("The dentist moved to Oak Street 12 last week")
    with Client(running, wire, streams=streams) as client:
        client.say("Where is my dentist now?")
        client.say("Sure?")
    held = [one.text for one in running.alice.memories.list().memories]
    assert sum("Oak Street 12" in text for text in held) == 1, "neither what was shown, nor the answer that repeats it"


ODD_IDS = [
    *((wire, call_id) for wire in WIRES for call_id in ("x", "call_" + "9" * 59)),
    ("openai", "工具_1"),
    ("openai", "toolu:01/AbC=="),  # Anthropic's rule for ids does not allow such
]


@pytest.mark.parametrize(("wire", "call_id"), ODD_IDS)
def test_long_and_odd_call_ids_stay_as_they_are(gateway: NewGateway, wire: Wire, call_id: str, streams: bool) -> None:
    running = gateway(*script(wire, call("look", call_id, text="a"), "Done."))
    with Client(running, wire, streams=streams, tools=[tool("look", wire)]) as client:
        reply = client.say("Look")
        assert [each[0] for each in client.calls(reply)] == [call_id]
        assert text_of(client.answer((call_id, "seen")), wire) == "Done."
    assert running.upstream.faults == []


def test_ids_that_come_again_in_a_turn_are_not_taken_for_one_another(gateway: NewGateway, streams: bool) -> None:
    """As of servers that count the calls of each message anew; OpenAI's wire alone takes that."""
    said: list[str | Say] = []
    for at in range(2):
        said += [
            call("mem_search", "call_0", query=f"town {at}"),
            call("look", "call_0", text="[[mem:nothing_such]]"),
            call("look", "call_0", text=f"town {at}"),
            f"Seen {at}.",
        ]
    running = gateway(*script("openai", *said))
    running.alice.write("city", "Ulm")
    with Client(running, "openai", streams=streams, tools=[tool("look", "openai")]) as client:
        for at in range(2):
            assert client.calls(client.say(f"Look {at}")) == [("call_0", "look", {"text": f"town {at}"})]
            assert text_of(client.answer(("call_0", f"small {at}")), "openai") == f"Seen {at}."
        assert "mem_" not in json.dumps(client.messages)
    assert running.upstream.faults == []
    last = canonical(messages_of(running.upstream.requests[-1]))
    assert last.count('"call_0"') == 2 * 6, "what was hidden is put back, each call with its result"


def test_two_memory_calls_and_one_of_the_client_in_a_message(gateway: NewGateway, wire: Wire, streams: bool) -> None:
    three = calls(
        call("mem_write", "m1", slot="city", value="Ulm"),
        call("look", "c1", text="weather"),
        call("mem_read", "m2", slot="city"),
        text="One moment.",
    )
    running = gateway(*script(wire, three, "Sunny.", "Bye."))
    with Client(running, wire, streams=streams, tools=[tool("look", wire)]) as client:
        reply = client.say("I live in Ulm; how is the weather?")
        assert client.calls(reply) == [("c1", "look", {"text": "weather"})]
        assert text_of(client.answer(("c1", "sunny")), wire) == "Sunny."
        client.say("Thanks")
    assert running.upstream.faults == []
    assert running.alice.read("city") == "Ulm"
    last = canonical(messages_of(running.upstream.requests[-1]))
    assert last.count('"m1"') == last.count('"m2"') == last.count('"c1"') == 2, "each call stands with its result"


def test_no_client_names_another_user(gateway: NewGateway) -> None:
    running = gateway(*script("openai", "Hello."))
    running.memory.scope(user="bob").write("city", "a city that only Bob may hear of")
    refused = pytest.raises(openai.PermissionDeniedError, match="the gateway's own user")
    with Client(running, "openai", extra_headers={"Offprompt-User": "bob"}) as client, refused:
        client.say("Where do I live?")
    assert running.upstream.requests == []
    with Client(running, "openai", user="bob") as client:  # for the provider; whose memory it is, is known
        client.say("Where do I live?")
    assert "only Bob" not in flat(running.upstream.requests)
    assert running.upstream.requests[0]["user"] == "bob"


def test_who_is_named_nowhere_is_told_how(gateway: NewGateway) -> None:
    running = gateway(*script("openai", "Hello."), without_key=None)
    with Client(running, "openai") as client, pytest.raises(openai.BadRequestError, match="Offprompt-Key"):
        client.say("Hello")
    refused = pytest.raises(openai.AuthenticationError, match="not known")
    with Client(running, "openai", extra_headers={"Offprompt-Key": "op_no_such"}) as client, refused:
        client.say("Hello")


def test_a_secret_goes_to_no_tool_that_it_is_not_for(gateway: NewGateway, wire: Wire, streams: bool) -> None:
    secret = "sk-live-hunter2-hunter2"  # noqa: S105
    two = calls(call("post", "c1", text="[[mem:api_key]]"), call("pay", "c2", text="[[mem:api_key]]"))
    running = gateway(*script(wire, two, "Posted. [[mem:api_key]]"))
    running.alice.slots.write("api_key", secret, policy="never")
    running.alice.slots.allow("api_key", "pay", "text")
    with Client(running, wire, streams=streams, tools=[tool("post", wire), tool("pay", wire)]) as client:
        reply = client.say("Pay and post")
        assert client.calls(reply) == [("c2", "pay", {"text": secret})]
        assert secret not in text_of(client.answer(("c2", "paid")), wire)
    assert secret not in flat(running.upstream.requests)


def test_yes_twice_is_two_turns(gateway: NewGateway, wire: Wire) -> None:
    running = gateway(*script(wire, "Sure?", "Really?", "Done."))
    with Client(running, wire) as client:
        client.say("Delete it")
        client.say("yes")
        client.say("yes")
    sessions = running.alice.memories.sessions()
    assert len(sessions) == 1
    journal = running.alice.session(next(iter(sessions)), wire=wire, model="").journal()
    assert [entry.text for entry in journal if entry.kind == "user"] == ["Delete it", "yes", "yes"]


def test_an_edit_and_a_regeneration_are_branches(gateway: NewGateway, wire: Wire) -> None:
    running = gateway(*script(wire, "Red.", "Blue.", "Green.", "Done."))
    with Client(running, wire) as client:
        client.say("Name a colour")
        client.messages = client.messages[:1]
        client.ask()  # once more
        asked = list(client.messages)
        client.say("Thanks")
        client.messages = [*asked, {"role": "user", "content": "Thanks a lot"}]
        client.ask()
    last = flat(messages_of(running.upstream.requests[-1]))
    assert "Blue." in last
    assert "Red." not in last
    assert "Green." not in last
    assert running.upstream.faults == []


def test_the_same_words_on_another_wire_are_another_conversation(gateway: NewGateway) -> None:
    replies = [reply for wire in WIRES for reply in script(wire, "Ulm.")]
    running = gateway(*replies)
    running.alice.write("home_city", "Ulm an der Donau")
    for wire in WIRES:
        with Client(running, wire) as client:
            client.say("What is my home city?")
    assert ["Ulm an der Donau" in flat(request) for request in running.upstream.requests] == [True] * 3
