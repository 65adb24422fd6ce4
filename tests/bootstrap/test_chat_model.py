"""Which client, address and key a model's name stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import offprompt
from offprompt import OffpromptError, UsageError
from offprompt.bootstrap.models import PROVIDERS
from offprompt.models.chat_anthropic import AnthropicChatModel
from offprompt.models.chat_ollama import OllamaChatModel
from offprompt.models.chat_openai import OpenAIChatModel
from offprompt.testing.strict_server import StrictServer


@pytest.mark.parametrize(
    ("name", "options", "kind", "model", "where"),
    [
        ("gpt-4o-mini", {}, OpenAIChatModel, "gpt-4o-mini", "OpenAI"),
        ("claude-sonnet-5-5", {}, AnthropicChatModel, "claude-sonnet-5-5", "Anthropic"),
        ("claude-sonnet-5-5", {"base_url": "http://gate/v1"}, OpenAIChatModel, "claude-sonnet-5-5", "http://gate/v1"),
        ("x", {"base_url": "http://gate/v1", "wire": "anthropic"}, AnthropicChatModel, "x", "http://gate"),
        ("deepseek:deepseek-chat", {}, OpenAIChatModel, "deepseek-chat", "https://api.deepseek.com"),
        ("glm:glm-4.6", {}, OpenAIChatModel, "glm-4.6", "https://open.bigmodel.cn/api/paas/v4"),
        ("ollama:qwen3:8b", {}, OllamaChatModel, "qwen3:8b", "http://127.0.0.1:11434"),
        ("qwen3:8b", {"base_url": "http://box:11434/v1"}, OpenAIChatModel, "qwen3:8b", "http://box:11434/v1"),
        ("qwen3:8b", {"base_url": "http://box:11434/v1", "wire": "ollama"}, OllamaChatModel, "qwen3:8b", "box:11434"),
        ("anthropic:claude-opus-5", {"base_url": "https://gate/"}, AnthropicChatModel, "claude-opus-5", "https://gate"),
    ],
)
def test_a_name_stands_for_a_model(name: str, options: dict[str, Any], kind: type, model: str, where: str) -> None:
    made = offprompt.chat_model(name, context_tokens=5, **options)
    assert (type(made), made.name) == (kind, model)
    assert where in vars(made)["_where"]


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("", {}, "has no name"),
        ("deepseek:", {}, "write deepseek:MODEL"),
        ("m", {"wire": "grpc"}, "openai, anthropic or ollama"),
        ("deepseek:m", {"wire": "anthropic"}, "give base_url too"),
        ("m", {"timeout_s": 0}, "above 0"),
        ("m", {"base_url": "127.0.0.1:8080/v1"}, "begins with http:// or https://"),
        ("m", {"base_url": "localhost"}, "begins with http:// or https://"),
        ("m", {"base_url": "http:///v1"}, "begins with http:// or https://"),
    ],
)
def test_what_does_not_fit_is_said(name: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        offprompt.chat_model(name, **options)


def test_a_key_of_the_environment_goes_to_its_own_provider_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in PROVIDERS.values():
        if provider.key:
            monkeypatch.setenv(provider.key, f"key-of-{provider.key}")

    def key(name: str, **options: Any) -> object:
        made: Any = vars(offprompt.chat_model(name, **options))["_endpoint"]
        return made._key

    assert key("gpt-4o-mini") == "key-of-OPENAI_API_KEY"
    assert (
        key("kimi:kimi-k2") == key("kimi:kimi-k2", base_url="https://api.moonshot.ai/v1") == "key-of-MOONSHOT_API_KEY"
    )
    assert key("gpt-4o-mini", base_url="https://api.openai.com/v1") == "key-of-OPENAI_API_KEY"
    for url in ("http://127.0.0.1:8080/v1", "https://api.openai.com.example.org/v1", "https://gate/api.openai.com"):
        assert key("gpt-4o-mini", base_url=url) == key("openai:gpt-4o-mini", base_url=url) == ""
    assert key("gpt-4o-mini", key="mine") == "mine"
    assert key("llamacpp:any") == ""


@pytest.mark.parametrize(
    ("name", "variable"),
    [("gpt-4o-mini", "OPENAI_API_KEY"), ("nowhere:m", "OPENAI_API_KEY"), ("claude-sonnet-5-5", "ANTHROPIC_API_KEY")],
)
def test_without_a_key_nothing_is_sent_to_a_provider_that_wants_one(
    monkeypatch: pytest.MonkeyPatch, name: str, variable: str
) -> None:
    for each in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(each, raising=False)
    said: dict[str, Any] = {"messages": [{"role": "user", "content": "Mine alone."}]}
    model = offprompt.chat_model(name)
    asks: list[Callable[[], object]] = [
        lambda: model.create(said),
        lambda: list(model.stream(said)),
        lambda: model.complete(said["messages"]),
    ]
    for ask in asks:
        with pytest.raises(UsageError, match=f"wants a key: set {variable}, .*base_url"):
            ask()


def test_a_key_is_not_in_what_is_printed() -> None:
    made = offprompt.chat_model("m", base_url="http://127.0.0.1:1/v1", key="sk-very-secret")
    inner = vars(made)["_endpoint"].open()[1]
    assert "sk-very" not in f"{made!r}{inner!r}"


def test_what_is_known_of_the_name_is_the_window_until_the_endpoint_tells() -> None:
    with StrictServer(lambda: "") as server:
        assert offprompt.chat_model("gpt-4o-mini", base_url=f"{server.url}/v1").context_tokens == 128_000
        server.answers["GET /v1/models"] = lambda _: {"data": [{"id": "gpt-4o-mini", "max_model_len": 4096}]}
        assert offprompt.chat_model("gpt-4o-mini", base_url=f"{server.url}/v1").context_tokens == 4096
        assert offprompt.chat_model("gpt-4o-mini", base_url=f"{server.url}/v1", context_tokens=9).context_tokens == 9


def test_no_error_tells_a_password_of_the_address() -> None:
    address = "http://bob:s3cretpw@127.0.0.1:9/v1"
    said: list[str] = []
    for name in ("gpt-4o-mini", "claude-sonnet-5-5", "ollama:qwen3:8b"):
        wire: Any = "ollama" if name.startswith("ollama") else None
        model = offprompt.chat_model(name, base_url=address, key="k", wire=wire, context_tokens=8000, timeout_s=5)
        with pytest.raises(OffpromptError) as raised:
            model.complete([{"role": "user", "content": "hi"}], max_tokens=5)
        said.append(f"{raised.value} {raised.value!r}")
    with offprompt.open(":memory:", embedder="openai:m/8", embedder_url=address) as memory:
        scope = memory.scope(user="a")
        said += [str(scope.remember("a red bicycle")), scope.recall("bicycle").degraded]
    with pytest.raises(UsageError) as refused:
        offprompt.chat_model("gpt-4o-mini", base_url=address.removeprefix("http:"))
    said.append(str(refused.value))
    assert [text for text in said if "s3cretpw" in text] == []
    assert all("127.0.0.1:9" in text for text in said)
