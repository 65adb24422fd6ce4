"""The real clients of both providers against a strict upstream on loopback."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pydantic
import pytest

from offprompt import AsyncSession, Session
from offprompt.service.bound import BoundScope
from offprompt.testing.upstream import Upstream
from tests.service.talk import MODELS, Say, Wire, as_reply, call, calls, messages_of, result, tool


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream() as running:
        yield running
        assert running.faults == []


def script(upstream: Upstream, wire: Wire, *saying: str | Say) -> None:
    upstream.replies += [as_reply(each, wire) for each in saying]


def create(upstream: Upstream, wire: Wire) -> Any:
    if wire == "openai":
        return openai.OpenAI(api_key="k", base_url=f"{upstream.url}/v1", max_retries=0).chat.completions.create
    if wire == "responses":
        return openai.OpenAI(api_key="k", base_url=f"{upstream.url}/v1", max_retries=0).responses.create
    return anthropic.Anthropic(api_key="k", base_url=upstream.url, max_retries=0).messages.create


def said(answer: Any, wire: Wire) -> list[Any]:
    """What an application appends of a reply."""
    if wire == "openai":
        return [answer.choices[0].message]
    return list(answer.output) if wire == "responses" else [{"role": "assistant", "content": answer.content}]


def test_complete(upstream: Upstream, wire: Wire, alice: BoundScope) -> None:
    session = alice.session("s1", model=MODELS[wire], wire=wire, system="Be brief.", tools=[tool("look", wire)])
    alice.write("city", "Ulm an der Donau", policy="by_handle")
    script(upstream, wire, call("mem_read", slot="city"), "In Ulm.", call("look", "c1", text="[[mem:city]]"), "Rain.")
    messages: list[Any] = [{"role": "user", "content": "Where do I live?"}]
    reply = session.complete(create(upstream, wire), messages, timeout=20)
    assert (reply.done, reply.text, reply.reads) == (True, "In Ulm.", {"city": "Ulm an der Donau"})
    messages += [*reply.messages, {"role": "user", "content": "And the weather there?"}]
    reply = session.complete(create(upstream, wire), messages)
    assert json.loads(reply.tool_calls[0].arguments) == {"text": "Ulm an der Donau"}
    messages += [*reply.messages, *result(wire, ("c1", "rain"))]
    assert session.complete(create(upstream, wire), messages).text == "Rain."
    assert len(upstream.requests) == 4
    assert session.ledger()[0].usage.input == 1


def test_messages_as_the_clients_objects(upstream: Upstream, wire: Wire, alice: BoundScope) -> None:
    """Applications append what the client returned, whole or in pieces."""
    session = alice.session("s1", model=MODELS[wire], wire=wire, tools=[tool("look", wire)])
    both = calls(
        call("look", "c1", text="x"), call("mem_write", "m1", slot="n", value="12345678901"), text="Let me see."
    )
    script(upstream, wire, both, "Seen.", "Welcome.")
    ask = create(upstream, wire)
    messages: list[Any] = [{"role": "user", "content": "Look"}]
    answer = ask(**session.prepare(messages))
    session.absorb(answer)
    if wire == "openai":
        message = answer.choices[0].message
        messages.append({"role": "assistant", "content": message.content, "tool_calls": message.tool_calls})
    else:
        messages += said(answer, wire)
    messages += result(wire, ("c1", "seen"))
    answer = ask(**session.prepare(messages))
    assert session.absorb(answer).text == "Seen."
    messages += said(answer, wire)
    messages.append({"role": "user", "content": "Thanks"})
    assert session.absorb(ask(**session.prepare(messages))).text == "Welcome."
    assert "12345678901" not in str(upstream.requests[1:])
    first, last = messages_of(upstream.requests[1]), messages_of(upstream.requests[2])
    assert last[: len(first)] == first


class Place(pydantic.BaseModel):
    """What an application wants an answer, or a tool's arguments, to be."""

    city: str


def test_parsed_replies_go_back_without_what_the_client_added(upstream: Upstream, alice: BoundScope) -> None:
    look = openai.pydantic_function_tool(Place, name="look")
    session = alice.session("s1", model="gpt-4o-mini", actions="text", tools=[dict(look)])
    script(upstream, "openai", calls(call("look", "c1", city="Ulm"), text='{"city": "Ulm"}'), "Ulm.", "Yes.")
    client = openai.OpenAI(api_key="k", base_url=f"{upstream.url}/v1", max_retries=0)
    messages: list[Any] = [{"role": "user", "content": "Which city?"}]
    answer = client.chat.completions.parse(**session.prepare(messages), response_format=Place)
    assert answer.choices[0].message.parsed == Place(city="Ulm")
    reply = session.absorb(answer)
    for back in (reply.messages, [answer.choices[0].message]):
        client.chat.completions.create(**session.prepare([*messages, *back, *result("openai", ("c1", "seen"))]))
    assert len(reply.tool_calls) == 1
    assert "parsed" not in str(upstream.requests)


def test_async_clients(upstream: Upstream, wire: Wire, alice: BoundScope) -> None:
    session = alice.async_session("s1", model=MODELS[wire], wire=wire)
    alice.write("city", "Ulm", policy="by_handle")
    script(upstream, wire, call("mem_read", slot="city"), "In Ulm.")

    async def play() -> Any:
        messages: list[Any] = [{"role": "user", "content": "Where do I live?"}]
        if wire != "anthropic":
            async with openai.AsyncOpenAI(api_key="k", base_url=f"{upstream.url}/v1", max_retries=0) as client:
                ask = client.chat.completions.create if wire == "openai" else client.responses.create
                return await session.complete(ask, messages)
        async with anthropic.AsyncAnthropic(api_key="k", base_url=upstream.url, max_retries=0) as claude:
            return await session.complete(claude.messages.create, messages)

    assert asyncio.run(play()).text == "In Ulm."


def test_the_upstream_is_strict(wire: Wire) -> None:
    with Upstream() as running:
        broken = result(wire, ("c1", "no call asked for this"))
        with pytest.raises((openai.BadRequestError, anthropic.BadRequestError)):
            create(running, wire)(
                model="m", **({"input": broken} if wire == "responses" else {"messages": broken, "max_tokens": 5})
            )
        assert any("c1" in fault for fault in running.faults)


def test_async_session_is_session() -> None:
    def public(kind: type) -> dict[str, Any]:
        return {name: member for name, member in vars(kind).items() if not name.startswith("_")}

    ours, theirs = public(Session), public(AsyncSession)
    for gateways in ("preview", "bounded", "follow", "pending"):  # which have threads of their own
        del ours[gateways]
    assert set(ours) | {"scope"} == set(theirs)
    for name, member in ours.items():
        if isinstance(member, property):
            assert isinstance(theirs[name], property)
            continue
        assert list(inspect.signature(member).parameters) == list(inspect.signature(theirs[name]).parameters), name
        kinds = [each.kind for each in inspect.signature(member).parameters.values()]
        assert kinds == [each.kind for each in inspect.signature(theirs[name]).parameters.values()]
        # Streams are iterated with `async for`; opening one asks nothing, and an end waits for nothing.
        assert inspect.iscoroutinefunction(theirs[name]) == (name not in ("absorb_stream", "stream_reader", "end"))
