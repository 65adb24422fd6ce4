"""Items of OpenAI's responses as a session's messages, and back."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offprompt.errors import UsageError
from offprompt.records import Message
from offprompt.testing.strict import request_faults
from offprompt.wire.payload import is_silent
from offprompt.wire.responses import OpenAIResponses
from offprompt.wire.shapes import Outgoing, ToolSpec, check_tools

SHAPE = OpenAIResponses()
USER: Message = {"role": "user", "content": "Look"}


def reasoning(number: int = 1) -> Message:
    return {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": f"gAAA{number}"}


def spoken(*texts: str, refusal: str = "") -> Message:
    parts: list[dict[str, Any]] = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    parts += [{"type": "refusal", "refusal": refusal}] if refusal else []
    return {"type": "message", "id": "msg", "status": "completed", "role": "assistant", "content": parts}


def called(call_id: str, name: str = "look", arguments: str = '{"text":"x"}', status: str = "completed") -> Message:
    head = {"type": "function_call", "id": f"fc_{call_id}", "status": status}
    return {**head, "call_id": call_id, "name": name, "arguments": arguments}


def answered(call_id: str, output: Any = "seen") -> Message:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def response(*items: Message, **more: Any) -> dict[str, Any]:
    return {"id": "r", "object": "response", "status": "completed", "output": list(items), **more}


ITEMS = st.sampled_from(
    [
        USER,
        {"role": "developer", "content": "Be brief."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "你好"}]},
        {"role": "assistant", "content": "Hi"},
        spoken("One", "two"),
        reasoning(),
        called("c1"),
        answered("c1"),
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
    ]
)


@given(st.lists(ITEMS, max_size=9))
def test_items_gathered_and_spread_are_the_same_but_for_reasoning_that_led_to_nothing(items: list[Message]) -> None:
    before = copy.deepcopy(items)
    gathered = SHAPE.gather(items)
    kinds = [SHAPE.kind(message) for message in gathered]
    assert all(pair != ("assistant", "assistant") for pair in itertools.pairwise(kinds))
    spread = [item for message in gathered for item in SHAPE.spread(message)]
    models = [SHAPE.kind(item) == "assistant" for item in items]
    kept = [
        item
        for at, item in enumerate(items)
        if item.get("type") != "reasoning"
        or any(
            each.get("type") != "reasoning"
            for each in items[at : next((end for end in range(at, len(items)) if not models[end]), len(items))]
        )
    ]
    assert spread == kept
    assert items == before
    for message in gathered:
        for first, rest in SHAPE.parted(message):
            assert [*first["output"], *rest["output"]] == message["output"]


def test_one_reply_is_one_message_in_the_order_in_which_it_came() -> None:
    raw = SHAPE.reply(response(reasoning(), spoken("Well:"), called("c1"), reasoning(2), called("c2")))
    assert [call.call_id for call in SHAPE.calls(raw.message)] == ["c1", "c2"]
    assert SHAPE.text(raw.message) == "Well:"
    assert SHAPE.has_thinking(raw.message)
    changed = SHAPE.with_arguments(SHAPE.map_text(raw.message, str.upper), {"c2": "{}"})
    items = SHAPE.spread(changed)
    assert [item["type"] for item in items] == ["reasoning", "message", "function_call", "reasoning", "function_call"]
    assert (items[0], items[3]) == (reasoning(), reasoning(2))
    assert (items[1]["content"][0]["text"], items[2]["arguments"], items[4]["arguments"]) == (
        "WELL:",
        '{"text":"x"}',
        "{}",
    )


def test_what_an_application_keeps_of_a_reply_is_known_by_what_it_says() -> None:
    raw = SHAPE.reply(response(reasoning(), spoken("In ", "Ulm.")))
    (kept,) = SHAPE.gather([{"role": "assistant", "content": "In Ulm."}])
    assert SHAPE.signature(raw.message) == SHAPE.signature(kept)
    (bare,) = SHAPE.gather([called("c1", arguments='{ "text": "x" }')])
    assert SHAPE.signature(bare) == SHAPE.signature(SHAPE.reply(response(reasoning(), called("c1"))).message)


def test_empty_fields_are_not_sent_back() -> None:
    raw = SHAPE.reply(response({**reasoning(), "status": None, "content": None}, spoken("Hi")))
    assert SHAPE.spread(raw.message) == [reasoning(), spoken("Hi")]


@pytest.mark.parametrize("items", [(), (reasoning(),), (spoken(""),), (spoken(" \n"), reasoning())])
def test_a_reply_without_words_is_silent(items: tuple[Message, ...]) -> None:
    assert is_silent(SHAPE.reply(response(*items)).message)


def test_refusals_and_hosted_tools_are_not_silent() -> None:
    assert not is_silent(SHAPE.reply(response(spoken(refusal="No."))).message)
    assert not is_silent(SHAPE.reply(response({"type": "web_search_call", "id": "ws"})).message)


def test_a_call_of_the_clients_tools_that_was_cut_off_is_left_out() -> None:
    details = {"incomplete_details": {"reason": "max_output_tokens"}}
    cut = called("c2", arguments='{"text":"x', status="incomplete")
    raw = SHAPE.reply(response(called("c1"), reasoning(), cut, status="incomplete", **details))
    assert raw.finish == "max_output_tokens"
    assert SHAPE.spread(raw.message) == [called("c1")]
    ours = called("m1", "mem_write", '{"slot":"a', "incomplete")
    assert SHAPE.calls(SHAPE.reply(response(ours, status="incomplete", **details)).message), "ours are refused and told"


def test_counts() -> None:
    details = {"cached_tokens": 64, "cache_write_tokens": 8}
    usage = {"input_tokens": 100, "input_tokens_details": details, "output_tokens": 7}
    counted = SHAPE.reply(response(spoken("Hi"), usage=usage)).usage
    assert (counted.input, counted.cached, counted.written, counted.output) == (100, 64, 8, 7)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ({"choices": []}, "pass wire='openai'"),
        ({"role": "assistant", "content": [], "stop_reason": "end_turn"}, "pass wire='anthropic'"),
        (response(status="failed", error={"message": "no power"}), "no power"),
        (response(status="queued"), "responses.retrieve"),
        (response(status="cancelled"), "is cancelled"),
        (response(spoken("Hi"), previous_response_id="resp_1"), "previous_response_id"),
        (response(spoken("Hi"), conversation={"id": "conv_1"}), "conversation"),
        ({"type": "response.output_text.delta", "delta": "x"}, "absorb_stream"),
        ({"role": "assistant", "content": "Hi"}, "responses.create"),
        ({"output": [None]}, "is no item"),
        ({"output": [{"type": "function_call", "call_id": "c"}]}, "names no function"),
    ],
)
def test_other_replies_are_refused_with_the_way_out(reply: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        SHAPE.reply(reply)


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({"type": "item_reference", "id": "msg_1"}, r"messages\[1\] is an item_reference.*pass the item itself"),
        ({"role": "tool", "tool_call_id": "c", "content": "x"}, "function_call_output"),
        ({"role": "assistant", "content": None, "tool_calls": ["c"]}, "wire='openai'"),
        ({"role": "user"}, "no content"),
        ({"role": "user", "content": 5}, "content of type int"),
        ({"role": "judge", "content": "x"}, "role 'judge'"),
        (response(spoken("Hi")), r"\*response.output"),
        ({"type": "function_call", "call_id": "c", "name": "f", "arguments": 5}, "arguments is no text"),
    ],
)
def test_what_is_no_item_is_refused_with_its_place(item: Message, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        SHAPE.gather([USER, item])


def test_results_and_documents() -> None:
    picture = {"type": "input_image", "image_url": "data:,", "detail": "auto"}
    mixed = answered("c1", [{"type": "input_text", "text": "a page"}, picture])
    (result,) = SHAPE.results(mixed)
    assert (result.call_id, result.text, result.plain) == ("c1", "a page", False)
    assert SHAPE.results(answered("c2"))[0].plain
    assert SHAPE.with_results(mixed, {"c1": "stub"}) == answered("c1", "stub")
    assert SHAPE.with_results(mixed, {"c2": "stub"}) is mixed
    shell: Message = {"type": "local_shell_call_output", "call_id": "s1", "output": "secret"}
    assert SHAPE.kind(shell) == "tool"
    assert SHAPE.map_text(shell, lambda _: "hidden")["output"] == "hidden"
    assert not SHAPE.results(shell)[0].plain, "it never becomes a stub"
    streams = {"stdout": "secret", "stderr": "no secret", "outcome": {"type": "exit", "exit_code": 0}}
    ran: Message = {"type": "shell_call_output", "call_id": "s2", "output": [streams]}
    assert SHAPE.text(ran) == "secret\nno secret"
    assert SHAPE.map_text(ran, lambda _: "hidden")["output"] == [{**streams, "stdout": "hidden", "stderr": "hidden"}]
    assert not SHAPE.results(ran)[0].plain, "it never becomes a stub"
    parts = [{"type": "input_text", "text": text} for text in ("a document", "Read this")]
    asked: Message = {"role": "user", "content": [*parts[:1], picture, *parts[1:]]}
    assert SHAPE.documents(asked) == [(0, "a document")]
    assert SHAPE.with_documents(asked, {0: "stub"})["content"][0] == {"type": "input_text", "text": "stub"}


@pytest.mark.parametrize("content", ["Be brief.", [{"type": "input_text", "text": "Be brief."}]])
def test_the_head_stands_behind_the_clients_system_text(content: Any) -> None:
    system, rest = SHAPE.split_system([{"role": "developer", "content": content}, USER], "Be kind.")
    shown = SHAPE.attach("<memory>", USER, "part")
    tool = SHAPE.tool(ToolSpec("mem_read", "Reads.", {"type": "object", "properties": {}}))
    request = SHAPE.request(Outgoing("m", system, "Our head", [tool], [*rest[:-1], *shown]))
    assert request_faults(request, "responses") == []
    assert list(request) == ["model", "input", "tools"]
    texts = [SHAPE.text(item) for item in request["input"]]
    assert [text.split() for text in texts] == [["Be", "kind."], ["Be", "brief.", "Our", "head"], ["<memory>", "Look"]]
    assert request["tools"][0]["strict"] is False, "our arguments are optional"


@pytest.mark.parametrize(
    ("wire", "custom"),
    [("responses", {"type": "custom", "name": "sql"}), ("openai", {"type": "custom", "custom": {"name": "sql"}})],
)
def test_tools_whose_calls_are_not_read_are_refused(wire: str, custom: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"tools\[0\] is a custom tool.*one text parameter"):
        check_tools([custom], wire)
    check_tools([{"type": "custom", "name": "sql", "input_schema": {"type": "object"}}], "anthropic")


def test_tools_of_other_shapes_are_refused() -> None:
    flat = {"type": "function", "name": "look"}
    check_tools([flat, {"type": "web_search"}], "responses")
    for tool, wire, theirs in (
        (flat, "openai", "responses"),
        ({"type": "function", "function": {"name": "look"}}, "responses", "openai"),
        ({"name": "look", "input_schema": {"type": "object"}}, "responses", "anthropic"),
    ):
        with pytest.raises(UsageError, match=f"pass wire='{theirs}'"):
            check_tools([tool], wire)
