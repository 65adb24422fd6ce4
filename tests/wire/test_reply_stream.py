"""A streamed reply as the application sees it: the same as the whole one resolved, memory calls hidden."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal

import anthropic.types
import openai.types.chat
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offprompt.records import MEMORY_ACTIONS, compact
from offprompt.testing.strict_chunks import Delivery, split_reply
from offprompt.wire.argument_stream import ArgumentStream
from offprompt.wire.handle_stream import HandleStream
from offprompt.wire.handles import resolve_arguments, resolve_text
from offprompt.wire.profiles import SHAPES
from offprompt.wire.reply_stream import Filters, ReplyStream
from offprompt.wire.streams import assemble
from tests.wire.test_handle_stream import TEXTS, lookup

Wire = Literal["openai", "anthropic"]
WIRES: list[Wire] = ["openai", "anthropic"]
NAMES = st.sampled_from(["look", "mem_read", "send", "mem_write"])
VALUES = st.sampled_from(["x", "[[mem:city]]", "to [[mem:城市]]", "[[mem:order]]", "[[mem:nobody]]", "caf\u00e9\n"])
CALLS = st.lists(st.tuples(NAMES, st.dictionaries(st.sampled_from("ab"), VALUES)), max_size=4)


def filters(calls: Literal["whole", "streamed"] = "whole") -> Filters:
    return Filters(lambda: HandleStream(lookup, missing="?"), lambda _: ArgumentStream(lookup), calls=calls)


def reply_of(wire: Wire, text: str, calls: Iterable[tuple[str, Any]] = (), thinking: str = "") -> dict[str, Any]:
    made = [(f"c{at}", name, arguments) for at, (name, arguments) in enumerate(calls)]
    if wire == "anthropic":
        head: list[dict[str, Any]] = [{"type": "thinking", "thinking": thinking, "signature": "s"}] if thinking else []
        blocks = [*head, {"type": "text", "text": text}]
        blocks += [{"type": "tool_use", "id": i, "name": name, "input": value} for i, name, value in made]
        stop = "tool_use" if made else "end_turn"
        counts = {"input_tokens": 1, "output_tokens": 2}
        base = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
        return {**base, "content": blocks, "stop_reason": stop, "usage": counts}
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if thinking:
        message["reasoning_content"] = thinking
    if made:
        message["tool_calls"] = [
            {"id": i, "type": "function", "function": {"name": name, "arguments": compact(value)}}
            for i, name, value in made
        ]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if made else "stop"}
    counts = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    return {"id": "r", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": counts}


def seen(wire: Wire, chunks: Iterable[object]) -> tuple[str, list[tuple[str, str, str]], str]:
    """Text, calls and end as a client puts them together."""
    raw = SHAPES[wire].reply(assemble(chunks, wire=wire))
    calls = [(call.call_id, call.name, call.arguments) for call in SHAPES[wire].calls(raw.message)]
    return SHAPES[wire].text(raw.message), calls, raw.finish


def check_order(events: Iterable[dict[str, Any]]) -> None:
    """Blocks are numbered without gaps; each starts, gets its deltas and stops, one after the other."""
    open_block, number = None, 0
    for event in events:
        kind = event["type"]
        if kind == "content_block_start":
            assert (open_block, event["index"]) == (None, number)
            open_block, number = number, number + 1
        elif kind in ("content_block_delta", "content_block_stop"):
            assert event["index"] == open_block
            open_block = None if kind == "content_block_stop" else open_block
        elif kind != "ping":
            assert open_block is None


def expected(wire: Wire, reply: dict[str, Any]) -> tuple[str, list[tuple[str, str, str]], str]:
    """The same of the whole reply."""
    raw = SHAPES[wire].reply(reply)
    calls: list[tuple[str, str, str]] = []
    for call in SHAPES[wire].calls(raw.message):
        resolved = resolve_arguments(call.arguments, lookup)
        if call.name not in MEMORY_ACTIONS and not resolved.bad:
            text = resolved.text if wire == "openai" else compact(json.loads(resolved.text))
            calls.append((call.call_id, call.name, text))
    none = {"tool_calls": "stop", "tool_use": "end_turn"}
    finish = raw.finish if calls else none.get(raw.finish, raw.finish)
    return resolve_text(SHAPES[wire].text(raw.message), lookup, missing="?").text, calls, finish


@pytest.mark.parametrize("wire", WIRES)
@given(TEXTS, CALLS, st.integers(0, 999), st.booleans())
def test_the_stream_equals_the_whole(wire: Wire, text: str, calls: Any, seed: int, noise: bool) -> None:
    reply = reply_of(wire, text, calls, "hm [[mem:city]]")
    stream = ReplyStream(wire, filters())
    chunks = list(split_reply(reply, wire, Delivery(seed=seed, noise=noise)))
    out = list(stream.through(chunks))
    assert seen(wire, out) == expected(wire, reply)
    assert stream.assembled() == reply
    if wire == "anthropic":
        check_order(out)
    assert "mem_" not in "".join(name for _, name, _ in seen(wire, out)[1])


@pytest.mark.parametrize("wire", WIRES)
@given(TEXTS, CALLS, st.integers(0, 999))
def test_calls_as_they_come_are_the_same_while_they_are_good(wire: Wire, text: str, calls: Any, seed: int) -> None:
    calls = [(name, value) for name, value in calls if "[[mem:nobody]]" not in value.values()]
    reply = reply_of(wire, text, calls)
    out = list(ReplyStream(wire, filters("streamed")).through(split_reply(reply, wire, Delivery(seed=seed))))
    assert seen(wire, out) == expected(wire, reply)


@pytest.mark.parametrize("wire", WIRES)
@given(TEXTS, CALLS, st.integers(0, 999))
def test_the_sdks_objects_stay_what_they_are(wire: Wire, text: str, calls: Any, seed: int) -> None:
    reply = reply_of(wire, text, calls)
    reader: Any
    if wire == "openai":
        reader = pydantic.TypeAdapter(openai.types.chat.ChatCompletionChunk)
    else:
        reader = pydantic.TypeAdapter(anthropic.types.RawMessageStreamEvent)
    objects = [reader.validate_python(chunk) for chunk in split_reply(reply, wire, Delivery(seed=seed))]
    out = list(ReplyStream(wire, filters()).through(objects))
    assert {type(each) for each in out} <= {type(each) for each in objects}
    again = [reader.validate_python(each.model_dump(mode="json", exclude_unset=True)) for each in out]
    assert seen(wire, again) == expected(wire, reply)
    if wire == "openai":
        assert all(hasattr(choice.delta, "content") for each in out for choice in each.choices)


@pytest.mark.parametrize("wire", WIRES)
@given(TEXTS, CALLS, st.integers(0, 60))
def test_of_a_cut_stream_comes_what_is_whole(wire: Wire, text: str, calls: Any, at: int) -> None:
    reply = reply_of(wire, text, calls)
    stream = ReplyStream(wire, filters())
    out = list(stream.through(split_reply(reply, wire, Delivery(cut=at))))
    raw_text = SHAPES[wire].text(SHAPES[wire].reply(stream.assembled()).message)
    said, made, _ = seen(wire, out)
    if raw_text.strip():
        assert said == resolve_text(raw_text, lookup, missing="?").text or not said.strip()
    assert set(made) <= set(expected(wire, reply)[1])


@pytest.mark.parametrize("wire", WIRES)
def test_untouched_chunks_are_passed_on_themselves(wire: Wire) -> None:
    chunks = list(split_reply(reply_of(wire, "Plain words.", thinking="hm"), wire, Delivery(noise=True)))
    out = list(ReplyStream(wire, filters()).through(chunks))
    assert len(out) == len(chunks)
    assert all(a is b for a, b in zip(out, chunks, strict=True))


@pytest.mark.parametrize("wire", WIRES)
def test_of_hidden_calls_nothing_is_looked_up(wire: Wire) -> None:
    asked: list[str] = []

    def arguments(tool: str) -> ArgumentStream:
        asked.append(tool)
        return ArgumentStream(lookup)

    stream = ReplyStream(wire, Filters(lambda: HandleStream(lookup, missing="?"), arguments))
    reply = reply_of(wire, "x", [("mem_read", {"slot": "[[mem:city]]"}), ("look", {"a": 1})])
    assert "mem_read" not in compact(list(stream.through(split_reply(reply, wire))))
    assert asked == ["look"]


@pytest.mark.parametrize("wire", WIRES)
def test_text_flows_while_it_comes(wire: Wire) -> None:
    """Every chunk of plain text is passed on at once; a handle with its last bracket."""
    stream = ReplyStream(wire, filters())
    reply = reply_of(wire, "ab [[mem:city]] c")
    shown = [seen(wire, stream.feed(chunk))[0] for chunk in split_reply(reply, wire, Delivery(longest=1))]
    assert [text for text in shown if text.strip()] == ["a", "b", "Hangzhou", "c"]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("calls", ["whole", "streamed"])
def test_a_bad_call_never_comes_to_its_end(wire: Wire, calls: Literal["whole", "streamed"]) -> None:
    reply = reply_of(wire, "x", [("send", {"to": "[[mem:city]]", "text": "[[mem:nobody]]"}), ("look", {"a": 1})])
    stream = ReplyStream(wire, filters(calls))
    out = list(stream.through(split_reply(reply, wire, Delivery(longest=4))))
    _, made, _ = seen(wire, out)
    good = [each for each in made if each[1] == "look"]
    assert [json.loads(arguments) for _, _, arguments in good] == [{"a": 1}]
    if calls == "whole":
        assert len(made) == 1
    else:
        begun = [arguments for _, name, arguments in made if name == "send"]
        assert not [text for text in begun if text.endswith("}")]


def test_two_choices_are_kept_apart() -> None:
    def chunk(index: int, text: str, finish: str | None = None) -> dict[str, Any]:
        return {"choices": [{"index": index, "delta": {"content": text}, "finish_reason": finish}]}

    parts = [chunk(0, "In [[mem:"), chunk(1, "[[mem:城市"), chunk(0, "city]]", "stop"), chunk(1, "]] [[", "stop")]
    made = assemble(ReplyStream("openai", filters()).through(parts), wire="openai")
    assert [each["message"]["content"] for each in made["choices"]] == ["In Hangzhou", "杭州 [["]
