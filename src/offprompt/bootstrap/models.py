"""Chat models by name: which client, which address, which key."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from offprompt.errors import UsageError
from offprompt.models.chat_anthropic import AnthropicChatModel
from offprompt.models.chat_ollama import BASE_URL as OLLAMA
from offprompt.models.chat_ollama import OllamaChatModel
from offprompt.models.chat_openai import OpenAIChatModel
from offprompt.models.retrying import Retries
from offprompt.protocols import ChatModel
from offprompt.wire.profiles import profile_for

Api: TypeAlias = Literal["openai", "anthropic", "ollama"]


@dataclass(frozen=True, slots=True)
class Provider:
    """Where models of a provider or local server are; base_url None: the client's own.

    key   the variable that holds it; it goes to the host of base_url and to `hosts` only.
    """

    api: Api
    base_url: str | None = None
    key: str = ""
    hosts: tuple[str, ...] = ()


PROVIDERS: Final[Mapping[str, Provider]] = {
    "openai": Provider("openai", None, "OPENAI_API_KEY", ("api.openai.com",)),
    "anthropic": Provider("anthropic", None, "ANTHROPIC_API_KEY", ("api.anthropic.com",)),
    "deepseek": Provider("openai", "https://api.deepseek.com", "DEEPSEEK_API_KEY"),
    "qwen": Provider(
        "openai",
        "https://dashscope.aliyuncs.com/compatible-mode/v1",
        "DASHSCOPE_API_KEY",
        ("dashscope-intl.aliyuncs.com",),
    ),
    "glm": Provider("openai", "https://open.bigmodel.cn/api/paas/v4", "ZAI_API_KEY", ("api.z.ai",)),
    "kimi": Provider("openai", "https://api.moonshot.cn/v1", "MOONSHOT_API_KEY", ("api.moonshot.ai",)),
    "ollama": Provider("ollama", OLLAMA),
    "llamacpp": Provider("openai", "http://127.0.0.1:8080/v1"),
    "vllm": Provider("openai", "http://127.0.0.1:8000/v1"),
    "lmstudio": Provider("openai", "http://127.0.0.1:1234/v1"),
}
"""What may stand before a model's name, as in `deepseek:deepseek-chat`; addresses as on the makers' own pages."""


def chat_model(
    name: str,
    *,
    base_url: str | None = None,
    key: str | None = None,
    wire: Api | None = None,
    context_tokens: int | None = None,
    timeout_s: float | None = None,
    retries: int | None = None,
) -> ChatModel:
    """The chat model of that name.

    name       as its provider calls it: `gpt-4o-mini`; or behind a provider's name: `deepseek:deepseek-chat`,
               `ollama:qwen3:8b`. PROVIDERS in `offprompt.bootstrap.models` lists them.
    base_url   with its path, such as `http://127.0.0.1:8080/v1`. None: the provider's, else OpenAI's or Anthropic's.
    key        None: of the variable that the provider names, which goes to that provider's address only.
    wire       `openai`, `anthropic`, `ollama` (its native API, which sets the window). None: the provider's; Claude's
               is anthropic unless base_url is given; else openai.
    context_tokens  the window. None: asked of the endpoint, else what is known of the name. With `ollama` it is set.
    timeout_s  of a call with all its tries; 120, of Ollama 300. retries: tries behind the first, 4.
    Cost       no connection before the first call, or the first look at `context_tokens`.
    Raises     UsageError for what does not fit.
    """
    provider, model = _parted(name)
    claude = profile_for(model).wire == "anthropic" and base_url is None
    known = PROVIDERS[provider or ("anthropic" if claude else "openai")]
    api = wire or known.api
    if api not in ("openai", "anthropic", "ollama"):
        raise UsageError(f"wire={wire!r}: it is openai, anthropic or ollama")
    if base_url is not None and not (base_url.startswith(("http://", "https://")) and _host(base_url)):
        # What stands before @ may hold a password.
        shown = base_url.rpartition("@")[2]
        raise UsageError(f"base_url={shown!r} for {name!r}: it begins with http:// or https:// and the host's name")
    if key is None:
        theirs = base_url is None or _host(base_url) in (_host(known.base_url or ""), *known.hosts)
        key = os.environ.get(known.key, "") if theirs else ""
    options: dict[str, Any] = {"base_url": base_url or known.base_url, "key": key}
    if wire is not None and wire != known.api and base_url is None:
        raise UsageError(f"wire={wire!r} for {name!r}: give base_url too, the address is known for {known.api} only")
    if timeout_s is not None:
        options["timeout_s"] = timeout_s
    if retries is not None:
        options["retries"] = Retries(retries)
    if api == "ollama":
        return OllamaChatModel(model, context_tokens=context_tokens or 0, **options)
    options |= {"context_tokens": context_tokens or profile_for(model).context_tokens}
    options |= {"ask_window": context_tokens is None}
    return AnthropicChatModel(model, **options) if api == "anthropic" else OpenAIChatModel(model, **options)


def _parted(name: str) -> tuple[str, str]:
    """The provider, empty if none is named, and the model."""
    if not isinstance(name, str) or not name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"the model {name!r} has no name; give one such as 'gpt-4o-mini' or 'ollama:qwen3:8b'")
    provider, colon, model = name.partition(":")
    if colon and provider in PROVIDERS:
        if not model:
            raise UsageError(f"{name!r} names a provider and no model; write {provider}:MODEL")
        return provider, model
    return "", name


def _host(url: str) -> str | None:
    return urlsplit(url).hostname
