"""Whole replies taken apart into the chunks that a provider would stream, at odd places if wanted."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from offprompt.records import as_dict, as_list, compact
from offprompt.testing.strict_events import response_events

StrictWire: TypeAlias = Literal["openai", "responses", "anthropic"]
EDITED: Final = "context_management"
"""What Anthropic says at a reply's end that it cleared of the request."""

CHAT_TEXTS: Final = ("reasoning_content", "content", "refusal")


@dataclass(frozen=True, slots=True)
class Delivery:
    """How a reply is streamed.

    seed     of the places where texts are cut; the same seed gives the same chunks.
    longest  characters of a piece at most; pieces have any length from 1 on, now and then none.
    cut      after so many chunks the stream ends, as a lost connection does; None: it is whole.
    stall    at `cut` a TimeoutError comes instead of an end, as from a client that waited in vain.
    noise    chunks that mean nothing stand between the others: empty choices, pings.
    """

    seed: int = 0
    longest: int = 12
    cut: int | None = None
    stall: bool = False
    noise: bool = False


def split_reply(
    reply: Mapping[str, Any], wire: StrictWire, delivery: Delivery = Delivery(), *, usage: bool = True
) -> Iterator[dict[str, Any]]:
    """The chunks of a reply; put together they are the reply again.

    usage   chat completions send their counts in a last chunk only if asked to.
    """
    if wire == "openai":
        chunks = _chat(reply, delivery, usage=usage)
    elif wire == "anthropic":
        chunks = _messages(reply, delivery)
    else:
        chunks = response_events(reply, lambda text: pieces(text, chance_of(delivery), delivery.longest))
    for at, chunk in enumerate(chunks):
        if delivery.cut is not None and at >= delivery.cut:
            if delivery.stall:
                raise TimeoutError("the provider sent nothing more")
            return
        yield chunk


def chance_of(delivery: Delivery) -> random.Random:
    """The seeded chance of one reply."""
    return random.Random(delivery.seed)  # noqa: S311 - places where tests cut texts


def pieces(text: str, chance: random.Random, longest: int) -> list[str]:
    """The text in pieces of random length, joined the same again."""
    result: list[str] = []
    at = 0
    while at < len(text):
        size = chance.choice((0, *range(1, longest + 1)))
        result.append(text[at : at + size])
        at += size
    return result


def _chat(reply: Mapping[str, Any], delivery: Delivery, *, usage: bool) -> Iterator[dict[str, Any]]:
    chance = chance_of(delivery)
    head = {key: value for key, value in reply.items() if key not in ("choices", "usage", "object")}
    head["object"] = "chat.completion.chunk"

    def chunk(index: int, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": index, "delta": delta, "finish_reason": finish}]}

    for at, item in enumerate(as_list(reply.get("choices")) or []):
        choice = as_dict(item) or {}
        index = choice.get("index", at)
        message = as_dict(choice.get("message")) or {}
        content = message.get("content")
        yield chunk(index, {"role": "assistant", "content": None if content is None else ""})
        if delivery.noise:
            yield {**head, "choices": []}
        for key in CHAT_TEXTS:
            if isinstance(message.get(key), str):
                for piece in pieces(message[key], chance, delivery.longest):
                    yield chunk(index, {key: piece})
        for place, each in enumerate(as_list(message.get("tool_calls")) or []):
            call = as_dict(each) or {}
            function = as_dict(call.get("function")) or {}
            start = {**call, "index": place, "function": {**function, "arguments": ""}}
            yield chunk(index, {"tool_calls": [start]})
            for piece in pieces(str(function.get("arguments", "")), chance, delivery.longest):
                yield chunk(index, {"tool_calls": [{"index": place, "function": {"arguments": piece}}]})
        yield chunk(index, {}, str(choice.get("finish_reason") or "stop"))
    if usage and reply.get("usage") is not None:
        yield {**head, "choices": [], "usage": reply["usage"]}


def _messages(reply: Mapping[str, Any], delivery: Delivery) -> Iterator[dict[str, Any]]:
    chance = chance_of(delivery)
    counts = as_dict(reply.get("usage")) or {}
    begun = {key: value for key, value in reply.items() if key != EDITED}
    start: dict[str, Any] = {**begun, "content": [], "stop_reason": None, "stop_sequence": None}
    yield {"type": "message_start", "message": {**start, "usage": {**counts, "output_tokens": 1}}}
    for at, item in enumerate(as_list(reply.get("content")) or []):
        if delivery.noise:
            yield {"type": "ping"}
        block = as_dict(item) or {}
        opening, deltas = _deltas(block, chance, delivery.longest)
        yield {"type": "content_block_start", "index": at, "content_block": opening}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": at, "delta": delta}
        yield {"type": "content_block_stop", "index": at}
    delta = {"stop_reason": reply.get("stop_reason") or "end_turn", "stop_sequence": reply.get("stop_sequence")}
    end = {"type": "message_delta", "delta": delta, "usage": {"output_tokens": counts.get("output_tokens", 1)}}
    yield {**end, EDITED: reply[EDITED]} if reply.get(EDITED) is not None else end
    yield {"type": "message_stop"}


def _deltas(block: dict[str, Any], chance: random.Random, longest: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A block's start and the deltas that fill it."""
    kind = block.get("type")
    if kind == "text":
        texts = pieces(str(block.get("text", "")), chance, longest)
        return {**block, "text": ""}, [{"type": "text_delta", "text": text} for text in texts]
    if kind == "thinking":
        thoughts = pieces(str(block.get("thinking", "")), chance, longest)
        deltas: list[dict[str, Any]] = [{"type": "thinking_delta", "thinking": text} for text in thoughts]
        deltas.append({"type": "signature_delta", "signature": block.get("signature", "")})
        return {**block, "thinking": "", "signature": ""}, deltas
    if kind == "tool_use":
        value = as_dict(block.get("input"))
        parts = ["", *pieces(compact(value) if value else "", chance, longest)]
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in parts]
    return block, []
