"""A session on OpenAI's responses: what is this wire's own, with the real client too."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import openai
import pydantic
import pytest

import offprompt
from offprompt.errors import UsageError
from offprompt.records import Message
from offprompt.service.bound import BoundScope
from offprompt.service.session import Session
from offprompt.testing.strict import Delivery, Said, SaidCall, StrictUpstream
from offprompt.testing.strict_server import StrictServer
from offprompt.wire.prices import PriceSheet
from tests.service.talk import Talk, tool

CITY = "Ulm an der Donau, 多瑙河畔"
LOOK = tool("look", "responses")
SHEET = PriceSheet("s", 1, 1, 0.1, 5)
SCRIPT = [
    Said(calls=(SaidCall("mem_read", {"slot": "city"}, "m1"),), thinking="I look it up."),
    Said("In [[mem:city]], 就在[[mem:city]].", thinking="Found."),
    Said("A moment.", (SaidCall("look", {"text": "[[mem:city]]"}, "c1"),), thinking="The weather."),
    Said("Rain in [[mem:city]].", thinking="Rain."),
    Said("Any time."),
]


def scripted(said: list[Said]) -> Callable[..., Said]:
    script = iter(said)

    def model(**_: Any) -> Said:
        return next(script)

    return model


def opened(**options: Any) -> tuple[BoundScope, Session]:
    alice = offprompt.open(":memory:").scope(user="alice")
    alice.write("city", CITY, policy="by_handle")
    return alice, alice.session("s1", model="gpt-5-mini", wire="responses", tools=[LOOK], **options)


@pytest.fixture
def server() -> Iterator[StrictServer]:
    with StrictServer(scripted(SCRIPT), sheet=SHEET) as running:
        running.deliver(Delivery(seed=5, longest=4, noise=True))
        yield running
        assert running.faults == []


def client(server: StrictServer) -> openai.OpenAI:
    return openai.OpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0, timeout=20)


def check_requests(requests: list[dict[str, Any]]) -> None:
    """Each goes on from the one before up to its user message, no value in it but the one that was read."""
    assert len(requests) == 5
    for before, now in itertools.pairwise(requests):
        end = max(at for at, item in enumerate(before["input"]) if item.get("role") == "user")
        assert now["input"][:end] == before["input"][:end]
        assert now["tools"] == before["tools"]
    assert [CITY in json.dumps(request["input"], ensure_ascii=False) for request in requests] == [
        False,
        True,
        False,
        False,
        False,
    ]
    kinds = [item.get("type") or item["role"] for item in requests[-1]["input"]]
    assert kinds == [
        "system",
        "user",
        *("reasoning", "function_call", "function_call_output"),
        *("reasoning", "message"),
        "user",
        *("reasoning", "message", "function_call", "function_call_output"),
        *("reasoning", "message"),
        "user",
    ]


def test_the_real_client(server: StrictServer) -> None:
    alice, session = opened(system="Be brief.")
    create = client(server).responses.create
    items: list[Any] = [{"role": "user", "content": "Where do I live?"}]
    reply = session.complete(create, items)
    assert (reply.text, reply.reads) == (f"In {CITY}, 就在{CITY}.", {"city": CITY})
    items += [*reply.messages, {"role": "user", "content": [{"type": "input_text", "text": "And the weather?"}]}]
    reply = session.complete(create, items)
    assert [(each.call_id, json.loads(each.arguments)) for each in reply.tool_calls] == [("c1", {"text": CITY})]
    items += [*reply.messages, {"type": "function_call_output", "call_id": "c1", "output": f"rain in {CITY}"}]
    reply = session.complete(create, items)
    assert reply.text == f"Rain in {CITY}."
    items += [*reply.messages, {"role": "user", "content": "Thanks"}]
    before = copy.deepcopy(items)
    assert session.complete(create, items).text == "Any time."
    assert items == before
    check_requests(server.requests)
    assert session.ledger()[-1].usage.cached
    assert alice.session("s1", wire="responses").record == session.record


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_real_client_streams(server: StrictServer, asynchronous: bool) -> None:
    alice, session = opened(system="Be brief.")
    items: list[Any] = []

    def add(*more: Any) -> None:
        items.extend(more)

    def check(events: list[Any], text: str) -> None:
        said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        assert said == text == events[-1].response.output_text
        assert "mem_read" not in str([event.response.output for event in events if hasattr(event, "response")])
        assert [event.sequence_number for event in events] == list(range(len(events)))

    def played(turn: Callable[[], tuple[list[Any], Any]]) -> None:
        add({"role": "user", "content": "Where do I live?"})
        assert turn()[1].text == f"In {CITY}, 就在{CITY}."
        add({"role": "user", "content": "And the weather?"})
        events, reply = turn()
        check(events, "A moment.")
        arguments = "".join(each.delta for each in events if each.type == "response.function_call_arguments.delta")
        assert arguments == reply.tool_calls[0].arguments
        assert json.loads(arguments) == {"text": CITY}
        add({"type": "function_call_output", "call_id": "c1", "output": "rain"})
        check(turn()[0], f"Rain in {CITY}.")
        add({"role": "user", "content": "Thanks"})
        check(turn()[0], "Any time.")

    if asynchronous:
        theirs = alice.async_session("s1", model="gpt-5-mini", wire="responses", tools=[LOOK], system="Be brief.")

        async def one() -> tuple[list[Any], Any]:
            async with openai.AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0) as other:
                new: tuple[Any, ...] = ()
                while True:
                    request = await theirs.prepare([*items, *new])
                    stream = theirs.absorb_stream(await other.responses.create(**request, stream=True))
                    events = [event async for event in stream]
                    new = stream.reply.messages
                    if stream.reply.done:
                        add(*new)
                        return events, stream.reply

        played(lambda: asyncio.run(one()))
    else:
        create: Any = client(server).responses.create

        def turn() -> tuple[list[Any], Any]:
            new: tuple[Any, ...] = ()
            while True:
                stream = session.absorb_stream(create(**session.prepare([*items, *new]), stream=True))
                events = list(stream)
                new = stream.reply.messages
                if stream.reply.done:
                    add(*new)
                    return events, stream.reply

        played(turn)
    check_requests(server.requests)


def test_the_clients_objects_come_back(server: StrictServer) -> None:
    """Applications append `response.output`: what the model wrote, our calls in it, without our answers."""
    _, session = opened()
    create: Any = client(server).responses.create
    items: list[Any] = [{"role": "user", "content": "Where do I live?"}]
    result = {"type": "function_call_output", "call_id": "c1", "output": "rain"}
    behind: list[Any] = [None, {"role": "user", "content": "And the weather?"}, result, None]
    texts: list[str] = []
    for more in behind:
        answer = create(**session.prepare(items))
        texts.append(session.absorb(answer).text)
        items += [*answer.output, *([more] if more else [])]
    assert texts == ["", f"In {CITY}, 就在{CITY}.", "A moment.", f"Rain in {CITY}."]
    last = server.requests[-1]["input"]
    assert [item["call_id"] for item in last if item.get("type") == "function_call_output"] == ["m1", "c1"]
    assert CITY not in json.dumps(last, ensure_ascii=False)


class Place(pydantic.BaseModel):
    city: str


def test_parsed_replies_go_back_without_what_the_client_added() -> None:
    with StrictServer(scripted([Said('{"city": "Ulm"}'), Said("Ulm."), Said("Yes.")])) as running:
        _, session = opened()
        items: list[Any] = [{"role": "user", "content": "Which city?"}]
        answer = client(running).responses.parse(**session.prepare(items), text_format=Place)
        assert answer.output_parsed == Place(city="Ulm")
        reply = session.absorb(answer)
        for back in (reply.messages, answer.output):
            request = session.prepare([*items, *back, {"role": "user", "content": "Sure?"}])
            client(running).responses.create(**request)
        assert running.faults == []
        assert running.requests[1]["input"] == running.requests[2]["input"]
        assert "parsed" not in json.dumps(running.requests)


def play(said: list[Said], *, binding: bool = False, **options: Any) -> tuple[BoundScope, Session, StrictUpstream]:
    alice, session = opened(**options)
    return alice, session, StrictUpstream("responses", scripted(said), sheet=SHEET, binding=binding)


@pytest.mark.parametrize("text", ["In [[mem:city]].", "I know it."])
def test_answers_that_were_left_out_between_replies_are_put_back(text: str) -> None:
    """Without them the items of two replies stand together, and each must be known again, with its reasoning."""
    _, session, upstream = play([SCRIPT[0], Said(text, thinking="Found."), Said("Yes.")])
    items: list[Any] = [{"role": "user", "content": "Where do I live?"}]
    reply = session.complete(upstream, items)
    items += [item for item in reply.messages if item.get("type") != "function_call_output"]
    items.append({"role": "user", "content": "Sure?"})
    assert session.complete(upstream, items).warnings == ()
    assert upstream.faults == []
    first, last = upstream.requests[1]["input"], upstream.requests[2]["input"]
    assert last[: len(first) - 1] == first[:-1]
    assert [item.get("type") for item in last[2:7]] == [
        *("reasoning", "function_call", "function_call_output"),
        *("reasoning", "message"),
    ]


def test_reasoning_is_bound_to_what_stands_before_it() -> None:
    """A provider that verifies it takes every request of a session that shows nothing for one turn only."""
    said = [
        Said("Let me look.", (SaidCall("look", {"text": "[[mem:city]]"}, "c1"),), thinking="One."),
        Said(calls=(SaidCall("mem_write", {"slot": "note", "value": "x" * 60}, "m1"),), thinking="Two."),
        Said("Saved.", thinking="Three."),
        Said("Bye.", thinking="Four."),
    ]
    _, session, upstream = play(said, binding=True)
    items: list[Any] = [{"role": "user", "content": "Look"}]
    items += session.complete(upstream, items).messages
    items.append({"type": "function_call_output", "call_id": "c1", "output": f"seen at {CITY}"})
    items += session.complete(upstream, items).messages
    items.append({"role": "user", "content": "Bye"})
    assert session.complete(upstream, items).text == "Bye."
    assert upstream.faults == []
    reasons = [item for item in upstream.requests[-1]["input"] if item.get("type") == "reasoning"]
    assert [item["summary"][0]["text"] for item in reasons] == ["One.", "Two.", "Three."]
    assert "x" * 60 not in json.dumps(upstream.requests[-1])


@pytest.mark.parametrize("known", [{"role": "assistant", "content": f"In {CITY}, 就在{CITY}."}, None])
def test_the_resolved_text_goes_back_as_the_model_wrote_it(known: Message | None) -> None:
    _, session, upstream = play([*SCRIPT[:2], Said("Yes.")])
    items: list[Any] = [{"role": "user", "content": "Where do I live?"}]
    reply = session.complete(upstream, items)
    items += reply.messages if known is None else [*reply.messages[:3], known]
    items.append({"role": "user", "content": "Sure?"})
    session.complete(upstream, items)
    assert upstream.faults == []
    assert CITY not in json.dumps(upstream.requests[-1], ensure_ascii=False)
    assert "In [[mem:city]], 就在[[mem:city]]." in json.dumps(upstream.requests[-1], ensure_ascii=False)


def test_an_incomplete_response() -> None:
    said = [Said("A long", finish="length", thinking="Hm"), Said(thinking="Hm, hm", finish="length"), Said("Short.")]
    _, session, upstream = play(said)
    items: list[Any] = [{"role": "user", "content": "Tell me"}]
    for text, warned in (("A long", True), ("", True), ("Short.", False)):
        reply = session.complete(upstream, items)
        assert (reply.done, reply.text, any("cut off" in each for each in reply.warnings)) == (True, text, warned)
        items += [*reply.messages, {"role": "user", "content": "Go on"}]
    assert upstream.faults == []


def test_reasoning_alone_is_not_sent_back_and_breaks_nothing() -> None:
    """A response that ends while the model thinks holds nothing that the provider takes back."""
    alone: Message = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    _, session, upstream = play([Said("Now."), Said("Now.")])
    items: list[Any] = [{"role": "user", "content": "Think"}]
    session.prepare(items)
    details = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    reply = session.absorb({"object": "response", "output": [alone], **details})
    assert any("cut off" in each for each in reply.warnings)
    forms: list[list[Any]] = [list(reply.messages), [alone]]
    for back in forms:
        again = session.prepare([*items, *back, {"role": "user", "content": "And?"}])
        assert [item["role"] for item in again["input"]] == ["system", "user", "user"]
        upstream(**again)
    assert upstream.faults == []


@pytest.mark.illegal
def test_refusals_and_hosted_tools_stay_where_they_stood() -> None:
    search = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "x"},
    }
    refusal = {"type": "refusal", "refusal": "I will not."}
    message = {"type": "message", "id": "m", "status": "completed", "role": "assistant", "content": [refusal]}
    _, session = opened()
    items: list[Any] = [{"role": "user", "content": "Do it"}]
    session.prepare(items)
    reply = session.absorb({"object": "response", "status": "completed", "output": [search, message]})
    assert (reply.done, reply.text, list(reply.messages)) == (True, "", [search, message])
    request = session.prepare([*items, *reply.messages, {"role": "user", "content": "Why?"}])
    assert request["input"][2:4] == [search, message]


def test_state_that_the_provider_keeps_is_refused() -> None:
    _, session, upstream = play([Said("Hi."), Said("Hi again.")])
    items: list[Any] = [{"role": "user", "content": "Hello"}]
    session.prepare(items)
    first = upstream(**session.prepare(items))
    session.absorb(first)
    second = {**upstream(**session.prepare(items)), "previous_response_id": first["id"]}
    with pytest.raises(UsageError, match=r"previous_response_id.*leave it out"):
        session.absorb(second)
    with pytest.raises(UsageError, match="item_reference"):
        session.prepare([*items, {"type": "item_reference", "id": "msg_1"}])
    with pytest.raises(UsageError, match="messages is not a list"):
        session.prepare("Hello")


def test_the_applications_own_instructions_stay_its_own() -> None:
    _, session, upstream = play([Said("Hi.")])
    items = [{"role": "user", "content": "Hello"}]
    session.complete(upstream, items, instructions="Speak like a pirate.", store=False)
    request = upstream.requests[0]
    assert request["instructions"] == "Speak like a pirate."
    assert "memory of named slots" in request["input"][0]["content"]


def test_text_actions_and_cuts(alice: BoundScope) -> None:
    one = Talk(alice.session("s1", model="gpt-5-mini", wire="responses", actions="text", policy="window"), "responses")
    write = '{"action":"mem_write","slot":"note","value":"to be kept"}'
    assert one.turn("Keep this: to be kept", f"Well: {write}").text == "Well: "
    assert alice.read("note") == "to be kept"
    read = '{"action":"mem_read","slot":"note"}'
    assert one.turn("What did I say?", read, "To be kept.").reads == {"note": "to be kept"}
    for number in range(30):
        one.turn(f"Say {number} " * 60, "Said. " * 90)
    assert sum(entry.cut for entry in one.session.ledger()) > 1
