"""Replies put together from their chunks: the whole reply again, and nothing that was cut off."""

from __future__ import annotations

from typing import Any, Literal

import anthropic.types
import openai.types.chat
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offprompt.errors import UnsupportedError, UsageError
from offprompt.records import compact
from offprompt.testing.strict_chunks import Delivery, split_reply
from offprompt.wire.actions import parse_actions
from offprompt.wire.profiles import SHAPES
from offprompt.wire.streams import CUT, assemble

Wire = Literal["openai", "anthropic"]
WIRES: list[Wire] = ["openai", "anthropic"]
WORDS = st.text(st.sampled_from([*'a, 城"\\\n😀{}[[mem:x]]é']), max_size=8)
OBJECTS = st.dictionaries(WORDS, st.one_of(WORDS, st.integers(), st.lists(WORDS, max_size=2)), max_size=3)
SEEDS = st.integers(0, 10_000)


@st.composite
def chats(draw: st.DrawFn) -> dict[str, Any]:
    calls = [
        {"id": f"c{at}", "type": "function", "function": {"name": f"tool{at}", "arguments": compact(draw(OBJECTS))}}
        for at in range(draw(st.integers(0, 3)))
    ]
    message: dict[str, Any] = {"role": "assistant", "content": draw(st.one_of(st.none(), WORDS)) if calls else "hi"}
    if calls:
        message["tool_calls"] = calls
    if draw(st.booleans()):
        message["reasoning_content"] = draw(WORDS) + "x"
    usage = {
        "prompt_tokens": 7,
        "completion_tokens": 3,
        "total_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 2},
    }
    choice = {"index": 0, "message": message, "finish_reason": draw(st.sampled_from(["stop", "length", "tool_calls"]))}
    return {"id": "r1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    if draw(st.booleans()):
        blocks.append({"type": "thinking", "thinking": draw(WORDS), "signature": "sig"})
        blocks.append({"type": "redacted_thinking", "data": "xyz"})
    blocks += [{"type": "text", "text": draw(WORDS)} for _ in range(draw(st.integers(0, 2)))]
    for at in range(draw(st.integers(0, 3))):
        blocks.append({"type": "tool_use", "id": f"t{at}", "name": f"tool{at}", "input": draw(OBJECTS)})
    usage = {"input_tokens": 7, "output_tokens": 3, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 0}
    head = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
    return {**head, "content": blocks, "stop_reason": draw(st.sampled_from(["end_turn", "tool_use"])), "usage": usage}


REPLIES = {"openai": chats(), "anthropic": messages()}


@pytest.mark.parametrize("wire", WIRES)
@given(st.data(), SEEDS, st.booleans())
def test_split_and_assembled_is_the_same(wire: Wire, data: st.DataObject, seed: int, noise: bool) -> None:
    reply = data.draw(REPLIES[wire])
    chunks = list(split_reply(reply, wire, Delivery(seed=seed, longest=data.draw(st.integers(1, 9)), noise=noise)))
    made = assemble(chunks, wire=wire)
    assert made == reply


@pytest.mark.parametrize("wire", WIRES)
@given(st.data(), SEEDS)
def test_the_sdks_objects_are_chunks_too(wire: Wire, data: st.DataObject, seed: int) -> None:
    reply = data.draw(REPLIES[wire])
    chunks = list(split_reply(reply, wire, Delivery(seed=seed)))
    if wire == "openai":
        objects: list[Any] = [openai.types.chat.ChatCompletionChunk.model_validate(chunk) for chunk in chunks]
    else:
        reader: Any = pydantic.TypeAdapter(anthropic.types.RawMessageStreamEvent)
        objects = [reader.validate_python(chunk) for chunk in chunks]
    assert assemble(objects, wire=wire) == reply


@pytest.mark.parametrize("wire", WIRES)
@given(st.data(), SEEDS, st.integers(0, 40))
def test_what_was_cut_off_is_marked_and_left_out(wire: Wire, data: st.DataObject, seed: int, at: int) -> None:
    reply = data.draw(REPLIES[wire])
    chunks = list(split_reply(reply, wire, Delivery(seed=seed), usage=False))
    made = assemble(split_reply(reply, wire, Delivery(seed=seed, cut=at), usage=False), wire=wire)
    shape = SHAPES[wire]
    whole = {call.call_id: call for call in shape.calls(shape.reply(reply).message)}
    raw = shape.reply(made)
    assert all(call == whole[call.call_id] for call in shape.calls(raw.message))
    ended = at >= len(chunks) - (1 if wire == "anthropic" else 0)
    assert (raw.finish == CUT) is (not ended)


@pytest.mark.parametrize("wire", WIRES)
def test_no_memory_call_runs_that_was_cut_off(wire: Wire) -> None:
    arguments = {"slot": "city", "value": "Ulm an der Donau"}
    if wire == "openai":
        function = {"name": "mem_write", "arguments": compact(arguments)}
        message = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": function}]}
        reply: dict[str, Any] = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    else:
        block = {"type": "tool_use", "id": "c1", "name": "mem_write", "input": arguments}
        reply = {"content": [block], "role": "assistant", "stop_reason": "tool_use"}
    ran: set[int] = set()
    for at in range(60):
        made = assemble(split_reply(reply, wire, Delivery(longest=3, cut=at)), wire=wire)
        for action in parse_actions(made).actions:
            assert action.arguments == arguments
            ran.add(at)
    assert ran
    assert min(ran) > 6


def test_arguments_that_break_off_at_the_token_limit_are_left_out_of_messages() -> None:
    start: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"role": "assistant", "content": [], "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"a": "b'}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]
    made = assemble(events, wire="anthropic")
    assert (made["content"], made["stop_reason"]) == ([], "max_tokens")
    assert made["usage"] == {"input_tokens": 1, "output_tokens": 9}


def chat(*deltas: dict[str, Any], finish: str = "tool_calls") -> list[dict[str, Any]]:
    chunks = [{"choices": [{"delta": delta}]} for delta in deltas]
    return [*chunks, {"choices": [{"delta": {}, "finish_reason": finish}]}, {"choices": []}, {}]


def call(arguments: str | None, **fields: Any) -> dict[str, Any]:
    name = fields.pop("name", None)
    return {"tool_calls": [{**fields, "function": {"name": name, "arguments": arguments}}]}


@pytest.mark.parametrize(
    "deltas",
    [
        [call("{", index=0, id="a", name="x"), call("}", index=0), call("{}", index=1, id="b", name="y")],
        [call("{", id="a", name="x"), call("}"), call("{}", id="b", name="y")],
        [call("{}", index=0, id="a", name="x"), call("{}", index=0, id="b", name="y")],
        [call("{", index=0, id="a", name="x"), call("}", index=0, id="a", name="x"), call("{}", id="b", name="y")],
        [
            call("", index=0, id="a", name="x"),
            call(None, index=1, id="b", name="y"),
            call("{}", index=1),
            call("{}", index=0),
        ],
        [call("{", id="a", name="x"), call("{}", id="b", name="y"), call("}", id="a")],
        [call("", index=0, id="a", name="x"), call("{}", index=0, id="a", name="x"), call("{}", id="b", name="y")],
    ],
)
def test_calls_are_told_apart_as_servers_send_them(deltas: list[dict[str, Any]]) -> None:
    made = assemble(chat(*deltas), wire="openai")
    calls = made["choices"][0]["message"]["tool_calls"]
    assert [(each["id"], each["function"]["name"], each["function"]["arguments"]) for each in calls] == [
        ("a", "x", "{}"),
        ("b", "y", "{}"),
    ]


def test_names_in_pieces_and_arguments_as_objects() -> None:
    made = assemble(chat(call(None, index=0, id="a", name="mem_"), call(None, index=0, name="read")), wire="openai")
    assert made["choices"][0]["message"]["tool_calls"][0]["function"] == {"name": "mem_read", "arguments": ""}
    given_whole = call(None, index=0, id="a", name="x")
    given_whole["tool_calls"][0]["function"]["arguments"] = {"城": 1}
    made = assemble(chat(given_whole), wire="openai")
    assert made["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"城":1}'


def test_events_without_index_or_start_are_taken() -> None:
    events: list[dict[str, Any]] = [
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "你"}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "好"}},
        {"type": "content_block_stop"},
        {"type": "content_block_start", "content_block": {"type": "tool_use", "id": "t", "name": "x", "input": {}}},
        {"type": "content_block_stop"},
        {"type": "unknown"},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    ]
    made = assemble(events, wire="anthropic")
    assert made["content"] == [
        {"type": "text", "text": "你好"},
        {"type": "tool_use", "id": "t", "name": "x", "input": {}},
    ]


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_of_nothing_is_cut(wire: Wire) -> None:
    made = assemble([], wire=wire)
    assert SHAPES[wire].reply(made).finish == CUT


def test_thinking_without_its_signature_and_empty_text_are_not_kept_of_a_cut_reply() -> None:
    thought = {"type": "thinking", "thinking": "", "signature": ""}
    begun = {"type": "content_block_start", "index": 0, "content_block": thought}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}
    assert assemble([begun, delta], wire="anthropic")["content"] == []
    signed = {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s"}}
    text = {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}
    made = assemble([begun, delta, signed, text], wire="anthropic")
    assert made["content"] == [{"type": "thinking", "thinking": "hm", "signature": "s"}]


def test_what_is_no_raw_chunk_is_refused() -> None:
    with pytest.raises(UsageError, match="a chunk is a str"):
        assemble(["data: x"], wire="openai")
    with pytest.raises(UnsupportedError, match=r"create\(stream=True\)"):
        assemble([{"type": "text", "text": "a", "snapshot": "a"}], wire="anthropic")
    with pytest.raises(UnsupportedError, match=r"create\(stream=True\)"):
        assemble([{"type": "chunk", "chunk": {}, "snapshot": {}}], wire="openai")
