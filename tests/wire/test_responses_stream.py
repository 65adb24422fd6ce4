"""Streamed responses: put together, and as the application sees them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import openai.types.responses
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offprompt.records import MEMORY_ACTIONS, as_dict, compact
from offprompt.testing.strict import Delivery, Said, SaidCall, StrictUpstream
from offprompt.testing.strict_chunks import split_reply
from offprompt.wire.handles import resolve_arguments, resolve_text
from offprompt.wire.reply_stream import ReplyStream
from offprompt.wire.streams import CUT, assemble
from tests.wire.test_handle_stream import TEXTS, lookup
from tests.wire.test_reply_stream import CALLS, filters

EVENTS: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(openai.types.responses.ResponseStreamEvent)


WHOLE = Delivery()


def reply_of(text: str, calls: Iterable[tuple[str, Any]] = (), thinking: str = "") -> dict[str, Any]:
    said = Said(text, tuple(SaidCall(*call, f"c{at}") for at, call in enumerate(calls)), thinking)

    def model(**_: Any) -> Said:
        return said

    return StrictUpstream("responses", model)(model="m", input="hi")


def events_of(reply: dict[str, Any], delivery: Delivery = WHOLE) -> list[dict[str, Any]]:
    return list(split_reply(reply, "responses", delivery))


def shown(events: Iterable[Any]) -> list[dict[str, Any]]:
    """The events as data, checked: numbered without gaps, items too, and each piece belongs to its whole."""
    found = [as_dict(event) or event.model_dump(mode="json", exclude_unset=True) for event in events]
    for event in found:
        EVENTS.validate_python(event)
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    added = [event["output_index"] for event in found if event["type"] == "response.output_item.added"]
    assert added == list(range(len(added)))
    return found


def texts(events: Iterable[dict[str, Any]], kind: str, at: int) -> str:
    return "".join(event["delta"] for event in events if event["type"] == kind and event["output_index"] == at)


@given(TEXTS, CALLS, st.sampled_from(["", "Hm, 想。"]), st.integers(0, 99), st.sampled_from(["whole", "streamed"]))
def test_a_streamed_response_is_the_whole_one(
    text: str, calls: list[tuple[str, Any]], thinking: str, seed: int, how: Any
) -> None:
    reply = reply_of(text, calls, thinking)
    given_events = events_of(reply, Delivery(seed=seed, longest=5))
    stream = ReplyStream("responses", filters(how))
    events = shown(stream.through(given_events))
    assert stream.assembled() == reply
    output = events[-1]["response"]["output"]
    wanted = [
        {**item, "arguments": resolved.text}
        for item in reply["output"]
        if item["type"] == "function_call" and item["name"] not in MEMORY_ACTIONS
        for resolved in [resolve_arguments(item["arguments"], lookup)]
        if not resolved.bad
    ]
    assert [item for item in output if item["type"] == "function_call"] == wanted
    assert [item for item in output if item["type"] == "reasoning"] == reply["output"][: bool(thinking)]
    said = [item for item in output if item["type"] == "message"]
    assert [item["content"][0]["text"] for item in said] == [resolve_text(text, lookup, missing="?").text] * len(said)
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == output
    if how == "streamed":
        return
    for at, item in enumerate(output):
        if item["type"] == "message":
            assert texts(events, "response.output_text.delta", at) == item["content"][0]["text"]
        elif item["type"] == "function_call":
            assert texts(events, "response.function_call_arguments.delta", at) == item["arguments"]


def test_what_needs_no_change_is_passed_on_itself() -> None:
    events = events_of(reply_of("Nothing here.", [("look", {"q": "x"})], "Hm"), Delivery(longest=3))
    out = list(ReplyStream("responses", filters("streamed")).through(events[:9]))
    assert all(any(each is event for event in events) for each in out)


def test_objects_come_as_objects() -> None:
    reply = reply_of("In [[mem:city]].", [("mem_read", {"slot": "a"}), ("look", {"q": "[[mem:city]]"})])
    given_events = [EVENTS.validate_python(event) for event in events_of(reply, Delivery(seed=2, longest=3))]
    events = list(ReplyStream("responses", filters()).through(given_events))
    assert {type(event) for event in events} <= {type(event) for event in given_events}
    whole = events[-1].response
    assert whole.output_text == resolve_text("In [[mem:city]].", lookup, missing="?").text
    assert [item.name for item in whole.output if item.type == "function_call"] == ["look"]
    shown(events)


def without(*kinds: str) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    return lambda events: [event for event in events if event["type"].removeprefix("response.") not in kinds]


def the_last_alone(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return events[-1:]


def unnumbered(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in each.items() if key != "sequence_number"} for each in events]


def with_an_empty_end(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*events[:-1], {**events[-1], "response": {**events[-1]["response"], "output": []}}]


@pytest.mark.parametrize(
    "odd",
    [
        without("output_text.delta", "function_call_arguments.delta"),
        without("output_item.added", "content_part.added"),
        without("output_item.done"),
        without("output_text.done", "content_part.done", "function_call_arguments.done"),
        the_last_alone,
        unnumbered,
    ],
)
def test_servers_that_leave_events_out(odd: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    reply = reply_of("In [[mem:city]].", [("mem_read", {"slot": "a"}), ("look", {"q": "[[mem:city]]"})])
    stream = ReplyStream("responses", filters())
    events = list(stream.through(odd(events_of(reply))))
    assert stream.assembled() == reply
    city = resolve_text("[[mem:city]]", lookup, missing="?").text
    message, call = events[-1]["response"]["output"]
    assert message["content"][0]["text"] == f"In {city}."
    assert json.loads(call["arguments"]) == {"q": city}
    assert texts(events, "response.output_text.delta", 0) == f"In {city}."
    assert "mem_read" not in compact(events)


def test_a_last_event_without_items_is_filled_up() -> None:
    reply = reply_of("Hi", [("look", {"q": "x"})], "Hm")
    assert assemble(with_an_empty_end(events_of(reply)), wire="responses") == reply


@pytest.mark.parametrize("seed", range(4))
def test_a_cut_stream_keeps_what_is_whole(seed: int) -> None:
    reply = reply_of("Well, 你好.", [("look", {"q": "a long text"}), ("mem_write", {"slot": "a", "value": "b"})], "Hm")
    events = events_of(reply, Delivery(seed=seed, longest=3))
    for end in range(len(events)):
        stream = ReplyStream("responses", filters())
        seen = shown(stream.through(events[:end]))
        made = stream.assembled()
        assert made["status"] == "incomplete"
        assert made["incomplete_details"] == {"reason": CUT}
        for item in made["output"]:
            if item["type"] == "message":
                assert reply["output"][1]["content"][0]["text"].startswith(item["content"][0]["text"])
                assert texts(seen, "response.output_text.delta", 1) == item["content"][0]["text"]
            else:
                assert item in reply["output"], "reasoning and calls are whole, or not there"


def test_probabilities_of_words_that_were_not_said_are_left_out() -> None:
    events = events_of(reply_of("You live in [[mem:city]]."))
    for event in events:
        if "logprobs" in event:
            event["logprobs"] = [{"token": "x", "logprob": -0.1, "top_logprobs": []}]
    out = list(ReplyStream("responses", filters()).through(events))
    told = [event for event in out if event.get("logprobs")]
    assert all("[[" not in compact(event) and "Reykj" not in compact(event) for event in told)
    assert [event["type"] for event in out if event.get("logprobs") == []] != []


def test_a_response_at_its_token_limit_shows_no_half_call() -> None:
    reply = reply_of("", [("look", {"q": "x"})])
    reply |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    reply["output"][0] |= {"status": "incomplete", "arguments": '{"q": "x'}
    events = shown(ReplyStream("responses", filters()).through(events_of(reply)))
    assert events[-1]["type"] == "response.incomplete"
    assert events[-1]["response"]["output"] == []
    assert not any("item" in event for event in events)


def test_a_failed_response_is_cut_and_passed_on() -> None:
    events = events_of(reply_of("Hello there"), Delivery(longest=4))[:6]
    failed = {"type": "response.failed", "sequence_number": 6, "response": {"status": "failed", "error": {"code": "x"}}}
    stream = ReplyStream("responses", filters())
    assert list(stream.through([*events, failed]))[-1]["response"]["status"] == "failed"
    assert stream.assembled()["incomplete_details"] == {"reason": CUT}
