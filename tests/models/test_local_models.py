"""What local servers want said otherwise: the window that they tell, and Ollama's own API."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pytest

import offprompt
from offprompt import ModelError, UsageError
from offprompt.models import windows
from offprompt.models.chat_anthropic import AnthropicChatModel
from offprompt.models.chat_ollama import OllamaChatModel
from offprompt.models.chat_openai import OpenAIChatModel
from offprompt.models.retrying import Retries
from offprompt.testing.strict_server import StrictServer, Trouble
from offprompt.wire.streams import assemble

MODELS = "GET /v1/models"


@pytest.fixture
def server() -> Iterator[StrictServer]:
    with StrictServer(lambda: "never asked") as running:
        yield running


@pytest.mark.parametrize(
    ("answers", "window"),
    [
        ({"GET /props": {"default_generation_settings": {"n_ctx": 8192}}}, 8192),
        ({MODELS: {"data": [{"id": "other", "max_model_len": 1}, {"id": "m", "max_model_len": 32768}]}}, 32768),
        ({MODELS: {"data": [{"id": "path/of/m", "context_length": 65536}]}}, 65536),
        ({MODELS: {"data": [{"id": "a", "context_length": 1}, {"id": "b", "context_length": 2}]}}, 0),
        ({"GET /api/v0/models/m": {"max_context_length": 131072, "loaded_context_length": 4096}}, 4096),
        ({"GET /api/v0/models/m": {"max_context_length": 131072}}, 131072),
        ({"GET /api/ps": {"models": [{"name": "m", "context_length": 16384}]}}, 16384),
        (
            {
                "GET /api/ps": {"models": []},
                "POST /api/show": {
                    "parameters": "stop  x\nnum_ctx    12288",
                    "model_info": {"x.context_length": 99999},
                },
            },
            12288,
        ),
        ({"GET /api/ps": {"models": []}, "POST /api/show": {"model_info": {"x.context_length": 99999}}}, 4096),
        ({"GET /props": {"default_generation_settings": {"n_ctx": "many"}}, MODELS: {"data": "none"}}, 0),
        ({}, 0),
    ],
)
def test_the_window_is_asked_of_the_server(
    server: StrictServer, answers: Mapping[str, Mapping[str, Any]], window: int
) -> None:
    asked: list[str] = []
    for path, answer in answers.items():
        server.answers[path] = lambda _, answer=answer, path=path: (asked.append(path), answer)[1]
    model = OpenAIChatModel("m", base_url=f"{server.url}/v1", context_tokens=777)
    assert model.context_tokens == (window or 777)
    asked.clear()
    assert model.context_tokens == (window or 777)
    assert asked == [], "asked once"


def test_a_provider_is_asked_for_its_models_alone() -> None:
    class Client:
        asked: ClassVar[list[str]] = []

        async def get(self, path: str) -> dict[str, Any]:
            self.asked.append(path)
            return {"data": [{"id": "kimi-k2", "context_length": 262144}, {"id": "other", "context_length": 1}]}

    client: Any = Client()
    assert asyncio.run(windows.of_chat_endpoint(client, "https://api.moonshot.cn/v1", "kimi-k2")) == 262144
    assert asyncio.run(windows.of_chat_endpoint(client, "https://api.moonshot.cn/v1", "unknown")) == 0
    assert client.asked == ["/models", "/models"]


def test_a_server_that_comes_up_later_is_asked_again(server: StrictServer) -> None:
    with StrictServer(lambda: "") as gone:
        url = gone.url
    model = OpenAIChatModel("m", base_url=f"{url}/v1")
    assert model.context_tokens == 0
    model = OpenAIChatModel("m", base_url=f"{server.url}/v1", context_tokens=5, ask_window=False)
    server.answers[MODELS] = lambda _: {"data": [{"id": "m", "max_model_len": 32768}]}
    assert model.context_tokens == 5, "what the caller says is not asked"


def test_anthropic_tells_its_window(server: StrictServer) -> None:
    server.answers["GET /v1/models/claude-sonnet-5-5"] = lambda _: {
        "id": "claude-sonnet-5-5",
        "max_input_tokens": 1_000_000,
    }
    model = AnthropicChatModel("claude-sonnet-5-5", base_url=f"{server.url}/v1", key="k", context_tokens=200_000)
    assert model.context_tokens == 1_000_000


class Ollama:
    """What Ollama's native API answers: whole, and as lines of JSON."""

    def __init__(self, server: StrictServer) -> None:
        self.asked: list[dict[str, Any]] = []
        self.message: dict[str, Any] = {"role": "assistant", "content": "很好"}
        self.reason = "stop"
        server.answers["POST /api/chat"] = self.answer

    def answer(self, body: dict[str, Any]) -> Mapping[str, Any]:
        self.asked.append(body)
        counts = {
            "prompt_eval_count": 11,
            "eval_count": 4,
            "prompt_eval_duration": 2_500_000,
            "eval_duration": 1_000_000,
        }
        return {"model": "qwen3:8b", "message": self.message, "done": True, "done_reason": self.reason, **counts}


@pytest.fixture
def ollama(server: StrictServer) -> Ollama:
    return Ollama(server)


@pytest.fixture
def model(server: StrictServer) -> OllamaChatModel:
    return OllamaChatModel("qwen3:8b", base_url=f"{server.url}/v1", retries=Retries(1, 0.0), context_tokens=8192)


def test_ollama_gets_the_window_and_options_in_its_own_words(model: OllamaChatModel, ollama: Ollama) -> None:
    payload = {
        "messages": [{"role": "developer", "content": "Be kind."}, {"role": "user", "content": "Hi"}],
        "max_tokens": 50,
        "temperature": 0.2,
        "keep_alive": "5m",
        "tool_choice": "auto",
    }
    reply = model.create(payload)
    assert ollama.asked[-1] == {
        "model": "qwen3:8b",
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}],
        "options": {"num_ctx": 8192, "num_predict": 50, "temperature": 0.2},
        "keep_alive": "5m",
        "stream": False,
    }
    assert reply["choices"][0] == {"index": 0, "message": ollama.message, "finish_reason": "stop"}
    assert reply["usage"] == {"prompt_tokens": 11, "completion_tokens": 4, "total_tokens": 15}
    assert reply["timings"] == {"prompt_n": 11, "predicted_n": 4, "prompt_ms": 2.5, "predicted_ms": 1.0}
    assert model.context_tokens == 8192
    with pytest.raises(UsageError, match="logit_bias"):
        model.create({**payload, "logit_bias": {}})


def test_ollamas_calls_and_thinking_go_both_ways(model: OllamaChatModel, ollama: Ollama) -> None:
    ollama.message = {
        "role": "assistant",
        "content": "",
        "thinking": "Hm.",
        "tool_calls": [{"function": {"name": "look", "arguments": {"q": "上海"}}}],
    }
    reply = model.create({"messages": [{"role": "user", "content": "Look"}]})
    message = reply["choices"][0]["message"]
    assert reply["choices"][0]["finish_reason"] == "tool_calls"
    assert message["reasoning_content"] == "Hm."
    call = message["tool_calls"][0]
    assert call["function"] == {"name": "look", "arguments": '{"q":"上海"}'}
    ollama.message = {"role": "assistant", "content": "done"}
    result = {"role": "tool", "tool_call_id": call["id"], "content": "found"}
    model.create({"messages": [{"role": "user", "content": "Look"}, message, result]})
    assert ollama.asked[-1]["messages"][1:] == [
        {
            "role": "assistant",
            "content": "",
            "thinking": "Hm.",
            "tool_calls": [{"function": {"name": "look", "arguments": {"q": "上海"}}}],
        },
        {"role": "tool", "content": "found", "tool_name": "look"},
    ]


def test_ollama_takes_pictures_as_data_and_a_schema_as_format(model: OllamaChatModel, ollama: Ollama) -> None:
    parts = [
        {"type": "text", "text": "What?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
    ]
    model.create({"messages": [{"role": "user", "content": parts}]})
    assert ollama.asked[-1]["messages"] == [{"role": "user", "content": "What?", "images": ["QUJD"]}]
    elsewhere = [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]
    with pytest.raises(UsageError, match="data: URLs"):
        model.create({"messages": [{"role": "user", "content": elsewhere}]})
    ollama.message = {"role": "assistant", "content": '{"a": 1}'}
    answer = model.complete([{"role": "user", "content": "Q"}], schema={"type": "object"}, max_tokens=7)
    assert (answer.data, answer.usage.input) == ({"a": 1}, 11)
    assert ollama.asked[-1]["format"] == {"type": "object"}
    assert ollama.asked[-1]["options"] == {"num_ctx": 8192, "num_predict": 7, "temperature": 0}
    ollama.reason = "length"
    assert model.complete([{"role": "user", "content": "Q"}], schema={"type": "object"}).finish == "length"


def test_ollamas_lines_are_a_stream_of_chunks(model: OllamaChatModel, server: StrictServer, ollama: Ollama) -> None:
    ollama.message = {"role": "assistant", "content": "很好", "thinking": "Hm."}
    chunks = list(model.stream({"messages": [{"role": "user", "content": "Hi"}]}))
    whole = assemble(chunks, wire="openai")
    assert whole["choices"][0]["message"]["content"] == "很好"
    assert whole["usage"]["prompt_tokens"] == 11
    session = offprompt.open(":memory:").scope(user="ada").session("s", model=model.name, wire=model.wire)
    streamed = session.absorb_stream(model.stream(session.prepare([{"role": "user", "content": "Hi"}])))
    assert list(streamed)
    assert streamed.reply.text == "很好"
    server.answers["POST /api/chat"] = lambda _: {"error": "the model ran out of memory"}
    with pytest.raises(ModelError, match=r"within its reply.*out of memory"):
        list(model.stream({"messages": []}))
    server.troubles = [Trouble(404, says='model "qwen3:8b" not found, try pulling it first')]
    with pytest.raises(UsageError, match="try pulling it"):
        model.create({"messages": []})
