"""Small work for memory: what a model answers, with and without a schema, however it wraps it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from offprompt import ModelError
from offprompt.models.chat_anthropic import AnthropicChatModel
from offprompt.models.chat_openai import OpenAIChatModel
from offprompt.models.retrying import Retries
from offprompt.records import Completion, Usage
from offprompt.testing.strict import RefusedError, Said
from offprompt.testing.strict_server import StrictServer, Trouble

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
ASK = [{"role": "system", "content": "You extract."}, {"role": "user", "content": "I live in 上海."}]
CITY = {"city": "上海"}


class Script:
    """A stand-in that says what it is told to and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.refuses: list[str] = []
        self.says: Said | str | Mapping[str, Any] = ""

    def __call__(self, **request: Any) -> Said | str | Mapping[str, Any]:
        self.asked.append(request)
        for key in self.refuses:
            if key in str(request):
                raise RefusedError(400, {"error": {"message": f"Unsupported parameter: {key!r} is not supported"}})
        return self.says


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def server(script: Script) -> Iterator[StrictServer]:
    with StrictServer(script) as running:
        yield running
        assert running.faults == []


@pytest.fixture
def chat(server: StrictServer) -> OpenAIChatModel:
    return OpenAIChatModel("small", base_url=f"{server.url}/v1", retries=Retries(2, 0.0), timeout_s=20)


@pytest.fixture
def claude(server: StrictServer) -> AnthropicChatModel:
    return AnthropicChatModel("claude-sonnet-5-5", base_url=server.url, retries=Retries(2, 0.0), timeout_s=20)


def chat_reply(message: Mapping[str, Any], finish: str = "stop", **usage: Any) -> dict[str, Any]:
    return {
        "choices": [{"message": {"role": "assistant", **message}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10, **usage},
    }


@pytest.mark.parametrize(
    ("message", "text", "thinking", "data"),
    [
        ({"content": '{"city": "上海"}'}, '{"city": "上海"}', "", CITY),
        ({"content": '```json\n{"city": "上海"}\n```'}, '```json\n{"city": "上海"}\n```', "", CITY),
        ({"content": '<think>Hm, {"city": 1}</think>\n{"city": "上海"}'}, '{"city": "上海"}', 'Hm, {"city": 1}', CITY),
        ({"content": 'Hm.\n</think>\n\n{"city": "上海"}'}, '{"city": "上海"}', "Hm.", CITY),
        ({"content": '{"city": "上海"}', "reasoning_content": "Hm."}, '{"city": "上海"}', "Hm.", CITY),
        ({"content": '{"city": "上海"}', "reasoning": "Hm."}, '{"city": "上海"}', "Hm.", CITY),
        ({"content": "", "reasoning_content": '{"city": "上海"}'}, "", '{"city": "上海"}', None),
        ({"content": None, "reasoning_content": "Hm."}, "", "Hm.", None),
        ({"content": "<think>I never come to an end"}, "", "I never come to an end", None),
        ({"content": "Sure! The city is 上海."}, "Sure! The city is 上海.", "", None),
        ({"content": '{"city": "上海"'}, '{"city": "上海"', "", None),
        ({"content": '{"city": NaN}'}, '{"city": NaN}', "", None),
        ({"content": "[" * 5000}, "[" * 5000, "", None),
        (
            {"content": [{"type": "text", "text": '{"city": '}, {"type": "text", "text": '"上海"}'}]},
            '{"city": "上海"}',
            "",
            CITY,
        ),
    ],
)
def test_an_answer_is_what_stands_behind_the_thinking(
    chat: OpenAIChatModel, script: Script, message: Mapping[str, Any], text: str, thinking: str, data: Any
) -> None:
    script.says = chat_reply(message)
    answer = chat.complete(ASK, schema=SCHEMA)
    assert answer == Completion(text, data, "stop", Usage(7, None, None, 3), thinking)
    assert chat.complete(ASK).data is None, "without a schema there is text only"


def test_an_answer_that_was_cut_has_no_data(chat: OpenAIChatModel, claude: AnthropicChatModel, script: Script) -> None:
    script.says = chat_reply({"content": '{"city": "上海"}'}, "length")
    cut = chat.complete(ASK, schema=SCHEMA, max_tokens=5)
    assert (cut.finish, cut.data, cut.text) == ("length", None, '{"city": "上海"}')
    assert script.asked[-1]["max_tokens"] == 5
    script.says = {
        "content": [{"type": "tool_use", "id": "t", "name": "answer", "input": CITY}],
        "stop_reason": "max_tokens",
    }
    assert claude.complete(ASK, schema=SCHEMA).data is None


def test_refusals_and_filters_are_no_answers(chat: OpenAIChatModel, script: Script) -> None:
    script.says = chat_reply({"content": '{"city": "上海"}'}, "content_filter")
    assert chat.complete(ASK, schema=SCHEMA).finish == "refused"
    script.says = chat_reply({"content": None, "refusal": "No."})
    assert chat.complete(ASK, schema=SCHEMA) == Completion("", None, "refused", Usage(7, None, None, 3))


def test_cached_tokens_are_counted_as_each_provider_says_them(chat: OpenAIChatModel, script: Script) -> None:
    ways: list[dict[str, Any]] = [
        {"prompt_tokens_details": {"cached_tokens": 5}},
        {"prompt_cache_hit_tokens": 5},
        {"cached_tokens": 5},
    ]
    for said in ways:
        script.says = chat_reply({"content": "x"}, **said)
        assert chat.complete(ASK).usage == Usage(7, 5, None, 3)


def test_a_schema_goes_out_as_the_endpoint_takes_it_and_that_is_remembered(
    chat: OpenAIChatModel, script: Script
) -> None:
    script.says = chat_reply({"content": '{"city": "上海"}'})
    assert chat.complete(ASK, schema=SCHEMA).data == CITY
    form = script.asked[-1]["response_format"]
    assert form == {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
    assert script.asked[-1]["messages"] == ASK
    script.refuses = ["json_schema"]
    assert chat.complete(ASK, schema=SCHEMA).data == CITY
    assert script.asked[-1]["response_format"] == {"type": "json_object"}
    assert "additionalProperties" in script.asked[-1]["messages"][1]["content"]
    assert [each["role"] for each in script.asked[-1]["messages"]] == ["system", "system", "user"]
    script.refuses = ["response_format"]
    assert chat.complete(ASK, schema=SCHEMA).data == CITY
    before = len(script.asked)
    assert chat.complete(ASK, schema=SCHEMA).data == CITY
    assert len(script.asked) == before + 1
    assert "response_format" not in script.asked[-1]


def test_models_that_refuse_a_temperature_or_call_the_limit_otherwise_are_asked_so(
    chat: OpenAIChatModel, script: Script, server: StrictServer
) -> None:
    script.says = chat_reply({"content": "x"})
    server.troubles = [
        Trouble(400, says="Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        Trouble(400, says="Unsupported value: 'temperature' does not support 0 with this model."),
    ]
    chat.complete(ASK, max_tokens=9)
    assert {key: script.asked[-1].get(key) for key in ("max_tokens", "max_completion_tokens", "temperature")} == {
        "max_tokens": None,
        "max_completion_tokens": 9,
        "temperature": None,
    }
    assert len(server.requests) == 3


def test_a_refusal_that_teaches_nothing_is_an_error_at_once(chat: OpenAIChatModel, server: StrictServer) -> None:
    server.troubles = [Trouble(400, says="response_format: no")] * 2 + [Trouble(400, says="schema: never")]
    with pytest.raises(ValueError, match="schema: never"):
        chat.complete(ASK, schema=SCHEMA)
    assert len(server.requests) == 3


def test_on_anthropics_wire_a_schema_is_the_tool_that_must_be_called(
    claude: AnthropicChatModel, script: Script
) -> None:
    script.says = {
        "content": [{"type": "tool_use", "id": "t", "name": "answer", "input": CITY}],
        "stop_reason": "tool_use",
    }
    answer = claude.complete(ASK, schema=SCHEMA, max_tokens=50)
    assert (answer.data, answer.text, answer.finish) == (CITY, '{"city":"上海"}', "stop")
    asked = script.asked[-1]
    assert (asked["system"], asked["messages"], asked["max_tokens"]) == ("You extract.", ASK[1:], 50)
    assert asked["tool_choice"] == {"type": "tool", "name": "answer"}
    assert asked["tools"][0]["input_schema"] == SCHEMA
    script.says = {"content": [{"type": "text", "text": '{"city": "上海"}'}], "stop_reason": "end_turn"}
    assert claude.complete(ASK, schema=SCHEMA).data == CITY, "some that speak its wire answer in text"


def test_an_object_that_is_no_reply_is_an_error(
    chat: OpenAIChatModel, claude: AnthropicChatModel, server: StrictServer
) -> None:
    server.answers["POST /v1/chat/completions"] = lambda _: {"object": "list", "data": []}
    server.answers["POST /v1/messages"] = lambda _: {"object": "list", "data": []}
    for model in (chat, claude):
        with pytest.raises(ModelError, match="no reply but an object with data, object") as caught:
            model.complete(ASK)
        assert caught.value.kind == "reply"
