"""Streams: cut anywhere, they say what the whole reply says; odd ones go on as they came."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anthropic
import httpx
import openai
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from offprompt.gateway.events import EventReader, ServerEvent, event_bytes
from offprompt.testing.strict_chunks import Delivery
from tests.gateway.between import Between
from tests.gateway.client import Client, own_ids, script, text_of
from tests.gateway.conftest import ALSO_THINKING, NewGateway
from tests.gateway.echo import Heard
from tests.service.talk import Say, Wire, as_reply, call, calls, flat, messages_of, tool

ORDER = "ORD-2291-KX-7-upper-deck-window"
USAGES: dict[Wire, list[dict[str, Any]]] = {
    "openai": [{"prompt_tokens": n, "completion_tokens": 2, "total_tokens": n + 2} for n in (10, 20, 30)],
    "anthropic": [{"input_tokens": n, "output_tokens": 2, "cache_read_input_tokens": n} for n in (10, 20, 30)],
    "responses": [{"input_tokens": n, "output_tokens": 2, "total_tokens": n + 2} for n in (10, 20, 30)],
}


@pytest.fixture(params=ALSO_THINKING, ids=["plain", "thinking"])
def thinks(request: pytest.FixtureRequest) -> bool:
    return request.param


def turn(wire: Wire) -> list[dict[str, Any]]:
    """Three replies of one turn: two ask the memory, the last one calls a tool."""
    first, second, third = USAGES[wire]
    read = calls(call("mem_read", "m1", slot="order"), text="I look ␤it up\u2028now. 上海 [[mem:order]] 👍")
    both = calls(call("mem_write", "m2", slot="city", value="Ulm"), call("look", "c0", text="[[mem:none]]"))
    last = calls(
        call("ship", "c1", text="[[mem:order]]", note="a\u2028b\x85c"),
        call("look", "c2", text="[[MEM: order ]]"),
        text="So it is {{mem:order}}, [[mem:no_such]].",
    )
    usages = zip((read, both, last), (first, second, third), strict=True)
    return own_ids([as_reply(Say(said.text, said.calls, usage), wire) for said, usage in usages])


def said_by(running: Any, wire: Wire, delivery: Delivery | None) -> list[Any]:
    """What a client has of that turn."""
    running.alice.write("order", ORDER, policy="by_handle")
    if delivery is not None:
        running.upstream.deliver(delivery)
    more: dict[str, Any] = {"stream_options": {"include_usage": True}} if wire == "openai" and delivery else {}
    tools = [tool("ship", wire), tool("look", wire)]
    with Client(running, wire, streams=delivery is not None, tools=tools, **more) as client:
        reply = client.say("Ship my order")
        answer = reply.model_dump(mode="json", exclude_none=True)
        for key in ("parsed_output", "model", "service_tier", "system_fingerprint"):
            answer.pop(key, None)
        has = [
            client.messages,
            client.calls(reply),
            answer.get("usage"),
            answer.get("stop_reason"),
            text_of(reply, wire),
        ]
        if wire == "openai":
            has.append(answer["choices"][0]["finish_reason"])
    assert running.upstream.faults == []
    return [*has, answer["id"], [messages_of(each) for each in running.upstream.requests]]


@pytest.mark.parametrize("seed", range(4))
def test_a_stream_says_what_the_whole_reply_says(gateway: NewGateway, wire: Wire, seed: int) -> None:
    whole = said_by(gateway(*turn(wire)), wire, None)
    delivery = Delivery(seed=seed, longest=(1, 3, 7, 40)[seed], noise=wire != "responses" and seed % 2 == 1)
    streamed = said_by(gateway(*turn(wire)), wire, delivery)
    assert streamed == whole
    _, called, usage, *_ = whole
    assert [each[0] for each in called] == ["c1", "c2"]
    assert called[0][2]["text"] == called[1][2]["text"] == ORDER
    assert usage[{"openai": "prompt_tokens"}.get(wire, "input_tokens")] == 60, "all that the turn cost"


LINE_ENDS = ("\n", "\r\n", "\r")
DATA = st.text(st.sampled_from("ab \u2028\u2029\x85\x0b\x0c\x1c上👍{}"), max_size=12)


@given(st.lists(st.tuples(DATA, st.sampled_from(LINE_ENDS), st.booleans()), max_size=5), st.data())
@example([("\u2028", "\r\n", True)], None)
def test_events_are_the_same_wherever_their_bytes_are_cut(given_events: list[Any], data: Any) -> None:
    raw = "".join(
        f"{': ping' + end if comment else ''}event: x{end}data: {json.dumps({'t': text}, ensure_ascii=False)}{end}{end}"
        for text, end, comment in given_events
    ).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=6))) if data is not None else range(len(raw))
    reader, found = EventReader(), list[ServerEvent]()
    for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        found += reader.feed(raw[start:end])
    assert [event.data["t"] for event in found if event.data is not None] == [text for text, _, _ in given_events]
    assert raw.startswith(b"".join(event.raw for event in found))


def chat(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "choices": [choice], **more}


def events(*given: dict[str, Any] | bytes) -> Callable[[Heard], list[bytes]]:
    """An upstream that streams these."""
    raw = [each if isinstance(each, bytes) else b"data: " + json.dumps(each).encode() + b"\n\n" for each in given]
    return lambda _: [b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", *raw]


ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
SAID, END = chat({"content": "Hello there, "}), chat({}, "stop")
USED: dict[str, Any] = {"id": "c1", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 1}}
DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    "given_events",
    [
        [SAID, END, DONE],
        [b": keep-alive\n\n", SAID, b"\n", b"event: odd\n\n", END, DONE],
        [SAID, END],
        [SAID, END, USED, b"data:[DONE]\r\n\r\n"],
        [b'data: {"id":"c1",  "choices":[{"index":0,"delta":{"content":"A b "},"x":1.0}]}\r\r', END, DONE],
        [SAID, b'data: {"error": {"message": "overloaded", "code": 529}}\n\n'],
        [SAID, b'data: {"id": "c1", "choices": [{"index": 0, "delta": {"content": "!"}, "finish_reason": "stop"}]}\n'],
        [SAID, END, DONE[:-1]],
        [b'data: {"id": "c1", "choices": [{"index": 0, "delta": {"content": "\\ud83d"}}]}\n\n', END, DONE],
        list[Any](),
    ],
    ids=["plain", "comments", "no_done", "usage", "odd_bytes", "error", "no_end", "done_cut", "half", "empty"],
)
def test_a_stream_that_needs_no_change_is_the_same_bytes(given_events: list[Any]) -> None:
    answer = events(*given_events)
    with Between(answer) as between:
        status, headers, body = between.ask("POST", "/v1/chat/completions", [], json.dumps(ASKED).encode())
    assert status == 200
    assert body == b"".join(answer(Heard("", [], b""))[1:])
    assert dict(headers)["offprompt-memory"] == "on"


def test_counts_that_come_behind_the_end_come_before_it_and_are_in_the_ledger() -> None:
    with Between(events(SAID, END, DONE, USED)) as between:
        _, _, body = between.ask("POST", "/v1/chat/completions", [], json.dumps(ASKED).encode())
        assert body.endswith(DONE)
        assert b'"prompt_tokens": 7' in body
        scope = between.memory.scope(user="alice")
        (entry,) = scope.session(next(iter(scope.memories.sessions())), wire="openai", model="m").ledger()
        assert entry.usage.input == 7


def test_an_error_in_a_stream_ends_the_turn() -> None:
    asks = chat(
        {"tool_calls": [{"index": 0, "id": "m1", "function": {"name": "mem_read", "arguments": '{"slot":"a"}'}}]}
    )
    failed = b'data: {"error": {"message": "overloaded"}}\n\n'
    with Between(events(asks, failed, DONE)) as between:
        _, _, body = between.ask("POST", "/v1/chat/completions", [], json.dumps(ASKED).encode())
        assert len(between.upstream.heard) == 1, "behind an error nobody asks on"
    assert failed in body
    assert b"mem_read" not in body


def test_a_next_request_that_fails_is_an_error_in_the_stream(gateway: NewGateway, wire: Wire) -> None:
    running = gateway(*script(wire, calls(call("mem_read", "m1", slot="city"), text="I look.")))
    refused = pytest.raises(
        (openai.APIError, anthropic.APIError, RuntimeError), match=r"status 500|response\.completed"
    )
    with Client(running, wire, streams=True) as client, refused:
        client.say("Where do I live?")
    assert len(running.upstream.requests) == 2


def test_a_reply_that_no_session_reads_comes_as_it_is() -> None:
    odd = b'{"id": "r1", "object": "response", "status": "queued",  "output": [], "error": null}'
    asked = {"model": "gpt-5", "input": "hi"}
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(odd)
    with Between(lambda _: [head + odd]) as between:
        status, _, body = between.ask("POST", "/v1/responses", [], json.dumps(asked).encode())
    assert (status, body) == (200, odd)


@pytest.mark.parametrize("asked", [{}, {"refusal": "I cannot do that.", "content": None}, {"reasoning_content": "Hm."}])
def test_a_reply_that_needs_no_change_is_the_same_bytes(asked: dict[str, Any]) -> None:
    message: dict[str, Any] = {"role": "assistant", "content": "Hello.", "annotations": [], "odd": 1.0, **asked}
    logprobs = {"content": [{"token": "Hello", "logprob": -0.1}], "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": "stop", "x": None}
    reply = json.dumps({"id": "c", "choices": [choice], "usage": {"prompt_tokens": 1}, "z": [None]}, indent=1).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(reply)
    with Between(lambda _: [head + reply]) as between:
        body = between.ask("POST", "/v1/chat/completions", [], json.dumps({**ASKED, "stream": False}).encode())[2]
    assert body == reply


def test_counts_are_asked_for_by_the_client_and_come_once(gateway: NewGateway) -> None:
    said = [call("mem_write", slot="city", value="Ulm"), "Noted."]
    replies = [as_reply(each, "openai") for each in said]
    for reply, usage in zip(replies, USAGES["openai"], strict=False):
        reply["usage"] = usage
    running = gateway(*replies, *script("openai", "Hello."))
    with openai.OpenAI(base_url=f"{running.url}/v1", api_key="k", max_retries=0) as client:
        create: Any = client.chat.completions.create
        asked: Any = {
            "model": "gpt-4o-mini",
            "messages": [{"role": "user", "content": "I live in Ulm"}],
            "stream": True,
        }
        chunks = list(create(**asked, stream_options={"include_usage": True}))
        assert [chunk.usage.prompt_tokens for chunk in chunks if chunk.usage] == [30]
        assert [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason] == [
            "stop"
        ]
        assert not any(chunk.usage for chunk in create(**asked))


def test_several_replies_at_once_and_functions_go_through(gateway: NewGateway) -> None:
    running = gateway(*[as_reply("Hello.", "openai")] * 2)
    several: list[dict[str, Any]] = [{"n": 2}, {"functions": [{"name": "f", "parameters": {}}]}]
    for more in several:
        answer = httpx.post(f"{running.url}/v1/chat/completions", json={**ASKED, "stream": False, **more}, timeout=20)
        assert answer.headers["offprompt-memory"].startswith("off; ")
    assert "mem_" not in flat(running.upstream.requests)


def test_numbers_that_are_none_go_on_as_they_came() -> None:
    assert event_bytes({"a": float("nan"), "b": -float("inf")}, named=False) == b'data: {"a":NaN,"b":-Infinity}\n\n'
