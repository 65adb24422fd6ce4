"""What we add to a request comes when it is of use: for a user of whom something is known, or once something leaves."""

from __future__ import annotations

from typing import Any

from tests.gateway.client import Client, script
from tests.gateway.conftest import NewGateway
from tests.service.talk import Wire, call, flat, messages_of, tool


def named(request: dict[str, Any]) -> list[str]:
    """The tools of a request."""
    return [str((each.get("function") or each)["name"]) for each in request.get("tools", [])]


def test_a_user_of_whom_nothing_is_known_is_sent_as_the_client_sent_it(
    gateway: NewGateway, wire: Wire, streams: bool
) -> None:
    running = gateway(*script(wire, "Hello.", "Nice.", "In Ulm."))
    with Client(running, wire, streams=streams, tools=[tool("look", wire)]) as client:
        client.say("Hello, I live in Ulm")
        client.say("And I like it")
        first = list(client.messages)
    with Client(running, wire, streams=streams, tools=[tool("look", wire)]) as client:
        client.say("Where do I live?")
    one, two, three = running.upstream.requests
    assert named(one) == named(two) == ["look"]
    assert messages_of(one) == first[:1]
    assert len(messages_of(two)) == 3
    assert "system" not in one
    assert named(three) == ["look", "mem_write", "mem_read", "mem_forget", "mem_search"], "the next conversation has it"
    assert "Ulm" in flat(three)


def test_what_leaves_the_prompt_brings_the_tools_that_find_it_again(gateway: NewGateway, wire: Wire) -> None:
    running = gateway(*script(wire, call("look", "c1", text="a"), "Seen.", "Bye."))
    with Client(running, wire, tools=[tool("look", wire)]) as client:
        client.say("Look at the log")
        client.answer(("c1", "a line of a very long log that says little\n" * 8000))
        client.say("Thanks")
    one, two, three = running.upstream.requests
    assert named(one) == ["look"]
    assert named(two) == named(three) == ["look", "mem_write", "mem_read", "mem_forget", "mem_search"]
    assert "[[mem:@" in flat(two)
    assert len(flat(two)) < 20_000
    assert running.upstream.faults == []


def test_a_cut_comes_where_it_pays_and_brings_the_tools_that_find_it_again(gateway: NewGateway, wire: Wire) -> None:
    running = gateway(*script(wire, *["Go on."] * 30))
    with Client(running, wire) as client:
        for at in range(30):
            client.say(f"Chapter {at}: " + f"and then in the year {at} they went on to the next town; " * 40)
    heads = [bool(named(request)) for request in running.upstream.requests]
    if wire != "openai":
        assert not any(heads), "where what is cached costs a tenth, breaking it does not pay yet"
        return
    first = heads.index(True)
    assert heads == [False] * first + [True] * (30 - first), "once it is there it stays"
    before, then = running.upstream.requests[first - 1 : first + 1]
    assert len(messages_of(then)) < len(messages_of(before)), "it comes with the cut"


def test_where_it_is_wanted_it_is_there_from_the_first_word_on(gateway: NewGateway, wire: Wire) -> None:
    running = gateway(*script(wire, "Hello."), head="always")
    with Client(running, wire) as client:
        client.say("Hello")
    assert "mem_write" in named(running.upstream.requests[0])
