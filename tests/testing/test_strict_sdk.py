"""The providers' real clients against the strict server on loopback, whole and streamed, and streams that break."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import openai.types.chat
import openai.types.responses
import pytest

import offprompt
from offprompt.records import compact
from offprompt.testing.scripted import ScriptedModel
from offprompt.testing.strict import Delivery, Said, SaidCall, StrictUpstream
from offprompt.testing.strict_chunks import StrictWire
from offprompt.testing.strict_server import StrictServer
from offprompt.testing.upstream import Upstream
from offprompt.wire.prices import PriceSheet
from offprompt.wire.profiles import SHAPES
from offprompt.wire.streams import CUT, assemble

WORDS = 'Zwölf 😀 个 "quoted"\n'
SAID = Said(WORDS, (SaidCall("look", {"q": "上海 😀"}, "c0"), SaidCall("send", {}, "c1")), thinking="Hm, 想。")
ODD = Delivery(seed=3, longest=3, noise=True)


def model(**_: Any) -> Said:
    return SAID


@pytest.fixture
def server() -> Iterator[StrictServer]:
    with StrictServer(model, sheet=PriceSheet("s", 1, 1.25, 0.1, 5)) as running:
        running.deliver(ODD)
        yield running
        assert running.faults == []


def of_openai(server: StrictServer) -> openai.OpenAI:
    return openai.OpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0, timeout=20)


def of_anthropic(server: StrictServer) -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key="k", base_url=server.url, max_retries=0, timeout=20)


USER: Any = [{"role": "user", "content": "Look"}]
CALLS: list[tuple[str, Any]] = [("look", {"q": "上海 😀"}), ("send", {})]


def test_chat_completions(server: StrictServer) -> None:
    create = of_openai(server).chat.completions.create
    whole = create(model="m", messages=USER)
    openai.types.chat.ChatCompletion.model_validate(whole.model_dump(), strict=True)
    message = whole.choices[0].message
    assert message.content == WORDS
    made = [call.function for call in message.tool_calls or [] if call.type == "function"]
    assert [(each.name, json.loads(each.arguments)) for each in made] == CALLS
    with create(model="m", messages=USER, stream=True, stream_options={"include_usage": True}) as stream:
        chunks = list(stream)
    for chunk in chunks:
        openai.types.chat.ChatCompletionChunk.model_validate(chunk.model_dump(mode="json"))
    assert len(chunks) > 20
    streamed = assemble(chunks, wire="openai")
    assert streamed["choices"][0]["message"]["tool_calls"] == [
        call.model_dump(exclude_none=True) for call in message.tool_calls or []
    ]
    assert streamed["choices"][0]["message"]["content"] == WORDS
    assert streamed["usage"]["prompt_tokens_details"]["cached_tokens"] == streamed["usage"]["prompt_tokens"]
    onward: Any = [*USER, message, *({"role": "tool", "tool_call_id": f"c{at}", "content": "ok"} for at in range(2))]
    assert create(model="m", messages=onward).choices[0].finish_reason == "tool_calls"


def test_half_a_character_comes_as_it_is() -> None:
    def half(**_: Any) -> str:
        return "half \ud83d of one"

    with StrictServer(half) as running:
        create = of_openai(running).chat.completions.create
        assert create(model="m", messages=USER).choices[0].message.content == half()
        chunks = create(model="m", messages=USER, stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == half()


def test_chat_completions_send_no_counts_unless_asked(server: StrictServer) -> None:
    stream = of_openai(server).chat.completions.create(model="m", messages=USER, stream=True)
    assert all(chunk.usage is None for chunk in stream)


def test_the_chat_helper_reads_the_stream(server: StrictServer) -> None:
    with of_openai(server).chat.completions.stream(model="m", messages=USER) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion()
    assert final.choices[0].message.content == WORDS
    assert len(final.choices[0].message.tool_calls or []) == 2


def test_messages(server: StrictServer) -> None:
    client = of_anthropic(server)
    options: dict[str, Any] = {"model": "m", "max_tokens": 99, "messages": USER, "cache_control": {"type": "ephemeral"}}
    create: Any = client.messages.create
    whole = create(**options)
    assert isinstance(whole, anthropic.types.Message)
    anthropic.types.Message.model_validate(whole.model_dump(), strict=True)
    assert [block.type for block in whole.content] == ["thinking", "text", "tool_use", "tool_use"]
    streamed = assemble(create(**options, stream=True), wire="anthropic")
    assert streamed["content"] == whole.model_dump(mode="json", exclude_none=True)["content"]
    assert streamed["usage"]["cache_read_input_tokens"] > 0
    with client.messages.stream(**options) as helper:
        final = helper.get_final_message()
    assert final.model_dump(exclude={"id", "usage"}) == whole.model_dump(exclude={"id", "usage"})
    results: Any = [{"type": "tool_result", "tool_use_id": f"c{at}", "content": "ok"} for at in range(2)]
    onward: Any = [*USER, {"role": "assistant", "content": whole.content}, {"role": "user", "content": results}]
    tools: Any = [{"name": "look", "input_schema": {"type": "object"}}]
    again = client.messages.create(model="m", max_tokens=99, messages=onward, tools=tools)
    assert again.stop_reason == "tool_use"


def test_responses(server: StrictServer) -> None:
    client = of_openai(server)
    whole = client.responses.create(model="m", input="Look")
    openai.types.responses.Response.model_validate(whole.model_dump(mode="json"))
    assert whole.output_text == WORDS
    assert [item.type for item in whole.output] == ["reasoning", "message", "function_call", "function_call"]
    events = list(client.responses.create(model="m", input="Look", stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == WORDS
    arguments = [event.arguments for event in events if event.type == "response.function_call_arguments.done"]
    assert [json.loads(each) for each in arguments] == [value for _, value in CALLS]
    last = events[-1]
    assert last.type == "response.completed"
    assert last.response.output_text == WORDS
    results: Any = [{"type": "function_call_output", "call_id": f"c{at}", "output": "ok"} for at in range(2)]
    client.responses.create(model="m", input=results, previous_response_id=whole.id)
    client.responses.create(model="m", input=[{"role": "user", "content": "Look"}, *whole.output, *results])  # type: ignore[list-item]


def test_refusals_come_as_the_clients_errors() -> None:
    with StrictServer(model) as running:
        dangling: Any = [{"role": "tool", "tool_call_id": "c1", "content": "x"}]
        with pytest.raises(openai.BadRequestError, match="c1") as of_chat:
            of_openai(running).chat.completions.create(model="m", messages=dangling)
        assert of_chat.value.param == "messages"
        with pytest.raises(openai.BadRequestError, match="Unknown parameter: 'session'"):
            of_openai(running).chat.completions.create(model="m", messages=USER, extra_body={"session": 1}, stream=True)
        with pytest.raises(openai.BadRequestError, match="Unknown parameter"):
            of_openai(running).responses.create(model="m", input="x", extra_body={"session": 1})
        with pytest.raises(anthropic.BadRequestError, match="Extra inputs are not permitted") as of_messages:
            of_anthropic(running).messages.create(model="m", max_tokens=1, messages=USER, extra_body={"n": 1})
        assert of_messages.value.body["error"]["type"] == "invalid_request_error"  # type: ignore[index,call-overload]
        with pytest.raises(openai.NotFoundError, match="no such path"):
            of_openai(running).embeddings.create(model="m", input="x")
        assert len(running.requests) == 5
        assert len(running.faults) == 4


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_a_cut_stream_ends_and_a_stalled_one_breaks_off(server: StrictServer, wire: StrictWire) -> None:
    def chunks() -> Iterator[Any]:
        if wire == "openai":
            yield from of_openai(server).chat.completions.create(model="m", messages=USER, stream=True)
        else:
            yield from of_anthropic(server).messages.create(model="m", max_tokens=9, messages=USER, stream=True)

    server.deliver(Delivery(longest=2, cut=20))
    cut = list(chunks())
    assert len(cut) == 20
    assert SHAPES[wire].reply(assemble(cut, wire=wire)).finish == CUT
    server.deliver(Delivery(longest=2, cut=20, stall=True))
    got: list[Any] = []
    with pytest.raises(Exception, match=r"(?i)incomplete|closed|connection|peer"):
        got.extend(chunk for chunk in chunks())
    server.deliver(Delivery())
    assert SHAPES[wire].reply(assemble(chunks(), wire=wire)).finish != CUT


@pytest.mark.parametrize("wire", ["openai", "responses", "anthropic"])
def test_as_a_plain_callable_it_streams_the_same(wire: StrictWire) -> None:
    upstream = StrictUpstream(wire, model, delivery=ODD)
    body: dict[str, Any] = {"model": "m"}
    body |= {"input": "Look"} if wire == "responses" else {"messages": USER}
    body |= {"max_tokens": 9} if wire == "anthropic" else {}
    whole = upstream(**body)
    one, two = list(upstream(**body, stream=True)), list(upstream(**body, stream=True))
    texts = [compact(chunk).replace("_3", "_2").replace("-3", "-2") for chunk in two]
    assert [compact(chunk) for chunk in one] == texts, "the same seed cuts in the same places"
    if wire == "responses":
        assert one[-1]["response"]["output"][1] == {**whole["output"][1], "id": "msg_2"}
    upstream.delivery = Delivery(cut=2)
    assert len(list(upstream(**body, stream=True))) == 2
    upstream.delivery = Delivery(cut=2, stall=True)
    stream = upstream(**body, stream=True)
    assert [next(stream) for _ in range(2)]
    with pytest.raises(TimeoutError):
        next(stream)


def test_a_script_is_served_in_order_and_ends_with_an_error() -> None:
    with Upstream([{"choices": [{"message": {"role": "assistant", "content": "one"}}]}]) as running:
        create = of_openai(running).chat.completions.create
        reply = create(model="m", messages=USER)
        assert (reply.choices[0].message.content, reply.usage and reply.usage.total_tokens) == ("one", 2)
        with pytest.raises(openai.InternalServerError, match="the script is at its end"):
            create(model="m", messages=USER)
        assert (len(running.requests), running.faults) == (2, [])


def test_a_reply_at_its_token_limit_says_so() -> None:
    def cut_off(**_: Any) -> Said:
        return Said("Half a", finish="length")

    chat = StrictUpstream("openai", cut_off)(model="m", messages=USER)
    assert chat["choices"][0]["finish_reason"] == "length"
    message = StrictUpstream("anthropic", cut_off)(model="m", messages=USER, max_tokens=2)
    assert message["stop_reason"] == "max_tokens"
    response = StrictUpstream("responses", cut_off)(model="m", input="hi")
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    events = list(StrictUpstream("responses", cut_off)(model="m", input="hi", stream=True))
    assert events[-1]["type"] == "response.incomplete"


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_a_session_talks_through_it(wire: Any) -> None:
    upstream = StrictUpstream(wire, ScriptedModel(wire), sheet=PriceSheet("s", 1, 1.25, 0.1, 5), binding=True)
    name = "gpt-4o-mini" if wire == "openai" else "claude-sonnet-5-5"
    session = offprompt.open(":memory:").scope(user="ada").session("s1", model=name, wire=wire)
    messages: list[Any] = []
    for words in ("My name is Ada.", "How are you?", "What is my name?"):
        messages.append({"role": "user", "content": words})
        reply = session.complete(upstream, messages)
        messages += reply.messages
    assert reply.text == "Your name is Ada."
    assert upstream.faults == []
    assert len(upstream.requests) >= 3
