"""Odd things in replies: log probabilities, characters in halves, functions as they were called before tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from offprompt.records import as_dict
from tests.gateway.between import Between
from tests.gateway.echo import Heard

ASKED: dict[str, Any] = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Where do I live?"}]}
READS = {"id": "m1", "type": "function", "function": {"name": "mem_read", "arguments": '{"slot":"city"}'}}
JSON_ASKED: dict[str, Any] = {"response_format": {"type": "json_object"}}


def whole(message: dict[str, Any], **choice: Any) -> list[bytes]:
    made = {"role": "assistant", "content": None, **message}
    reply = json.dumps(
        {"id": "c", "choices": [{"index": 0, "message": made, "finish_reason": "stop", **choice}]}
    ).encode()
    return [b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(reply) + reply]


def streamed(*choices: dict[str, Any], step: int = 1 << 20) -> list[bytes]:
    """A stream of these choices, in pieces of `step` bytes."""
    made = [{"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, **each}]} for each in choices]
    body = b"".join(b"data: %s\n\n" % json.dumps(each, ensure_ascii=each["x"]).encode() for each in _marked(made))
    body += b"data: [DONE]\n\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    return [head, *(body[at : at + step] for at in range(0, len(body), step))]


def _marked(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Halves of characters can only be escaped; the rest goes as UTF-8."""
    return [
        {**each, "x": any("\ud800" <= char <= "\udfff" for char in json.dumps(each, ensure_ascii=False))}
        for each in chunks
    ]


def one_after_the_other(*answers: list[bytes]) -> Callable[[Heard], list[bytes]]:
    left = list(answers)
    return lambda _: left.pop(0)


def asked(between: Between, **more: Any) -> bytes:
    between.memory.scope(user="alice").write("city", "Ulm")
    return between.ask("POST", "/v1/chat/completions", [], json.dumps({**ASKED, **more}).encode())[2]


def deltas(body: bytes) -> list[dict[str, Any]]:
    lines = [line[6:] for line in body.decode().split("\n") if line.startswith("data: {")]
    return [choice for line in lines for choice in json.loads(line)["choices"]]


def said(token: str) -> dict[str, Any]:
    return {"content": [{"token": token, "logprob": -0.5, "bytes": None, "top_logprobs": []}], "refusal": None}


@pytest.mark.parametrize(("more", "tokens"), [({}, ["I look.", "Ulm."]), (JSON_ASKED, ["Ulm."])], ids=["text", "json"])
def test_log_probabilities_stand_beside_the_texts_that_are_told(
    more: dict[str, Any], tokens: list[str], streams: bool
) -> None:
    if streams:
        call = {**READS, "index": 0}
        first = streamed(
            {"delta": {"role": "assistant", "content": "I look."}, "logprobs": said("I look.")},
            {"delta": {"tool_calls": [call]}},
            {"delta": {}, "finish_reason": "tool_calls"},
        )
        then = streamed(
            {"delta": {"role": "assistant", "content": "Ulm."}, "logprobs": said("Ulm.")},
            {"delta": {}, "finish_reason": "stop"},
        )
    else:
        first = whole(
            {"content": "I look.", "tool_calls": [READS]}, logprobs=said("I look."), finish_reason="tool_calls"
        )
        then = whole({"content": "Ulm."}, logprobs=said("Ulm."))
    with Between(one_after_the_other(first, then)) as between:
        body = asked(between, stream=streams, **more)
    choices = deltas(body) if streams else json.loads(body)["choices"]
    lists = [choice["logprobs"]["content"] for choice in choices if choice.get("logprobs")]
    assert [each["token"] for found in lists for each in found] == tokens
    texts = [(as_dict(choice.get("delta") or choice.get("message")) or {}).get("content") for choice in choices]
    assert "".join(str(text or "") for text in texts) == "\n\n".join(tokens)


@pytest.mark.parametrize("step", [1, 5, 1 << 20])
def test_halves_of_characters_are_whole_behind_a_change(step: int) -> None:
    first = streamed(
        {"delta": {"role": "assistant", "tool_calls": [{**READS, "index": 0}]}},
        {"delta": {}, "finish_reason": "tool_calls"},
        step=step,
    )
    halves = [{"delta": {"content": text}} for text in ("在 [[mem:ci", "ty]] 上海 ", "\ud83d", "\ude00", " 👍", "!")]
    then = streamed(*halves, {"delta": {}, "finish_reason": "stop"}, step=step)
    with Between(one_after_the_other(first, then)) as between:
        body = asked(between, stream=True)
    texts = [choice["delta"].get("content") or "" for choice in deltas(body)]
    assert "".join(texts).encode("utf-16", "surrogatepass").decode("utf-16") == "在 Ulm 上海 😀 👍!"
    assert b"finish_reason" in body


FUNCTION = {"name": "look", "arguments": '{"text":"a"}'}


def test_a_request_with_functions_is_the_bytes_that_came() -> None:
    with Between(lambda _: whole({"function_call": FUNCTION}, finish_reason="function_call")) as between:
        given = json.dumps({**ASKED, "functions": [{"name": "look", "parameters": {}}]}, indent=1).encode()
        answer = between.ask("POST", "/v1/chat/completions", [], given)
        assert between.upstream.heard[0].body == given
    assert json.loads(answer[2])["choices"][0]["message"]["function_call"] == FUNCTION
    assert dict(answer[1])["offprompt-memory"].startswith("off; functions is set")


def test_a_reply_that_calls_a_function_goes_on_as_it_came(streams: bool) -> None:
    answer = (
        streamed(
            {"delta": {"role": "assistant", "content": None, "function_call": FUNCTION}},
            {"delta": {}, "finish_reason": "function_call"},
        )
        if streams
        else whole({"function_call": FUNCTION}, finish_reason="function_call")
    )
    with Between(lambda _: answer) as between:
        body = asked(between, stream=streams)
    assert b"".join(answer).endswith(body)
    assert b'"finish_reason": "function_call"' in body
