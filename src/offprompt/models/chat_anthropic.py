"""Messages as Anthropic serves them, by the official `anthropic` client (the extra `anthropic`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from offprompt.models.answers import ANSWER, of_message
from offprompt.models.chatting import EndpointChat, Sent, split_options
from offprompt.models.clients import Client
from offprompt.models.retrying import Retries
from offprompt.models.windows import number_in
from offprompt.records import Completion, ModelWire, as_list

MAX_TOKENS: Final = 4096
"""Of a reply, where the payload does not say: this wire wants a number."""


class AnthropicChatModel(EndpointChat):
    """A model behind Anthropic's API, or one that speaks it.

    base_url      without `/v1`; None: Anthropic's own.
    Memory work   a schema goes out as the one tool that must be called: models of every age take it.
    """

    wire: ModelWire = "anthropic"

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        key: str = "",
        timeout_s: float = 120.0,
        retries: Retries | None = None,
        context_tokens: int = 0,
        ask_window: bool = True,
    ) -> None:
        base = base_url.rstrip("/").removesuffix("/v1") if base_url is not None else None
        super().__init__(
            name,
            partial(Client, "anthropic", base, key),
            where=f"{name!r} at {base or 'Anthropic'}",
            key=key,
            timeout_s=timeout_s,
            retries=retries,
            context_tokens=context_tokens,
            ask_window=ask_window,
        )

    def _sent(self, payload: Mapping[str, Any], *, stream: bool) -> Sent:
        body, headers = split_options(payload)
        betas = [str(each) for each in as_list(body.pop("betas", None)) or ()]
        if betas:
            headers["anthropic-beta"] = ",".join(betas)
        body = {"model": self.name, "max_tokens": MAX_TOKENS, **body}
        return f"/v1/messages{'?beta=true' if betas else ''}", body | ({"stream": True} if stream else {}), headers

    def _work(self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any] | None, most: int) -> Sent:
        system = "\n\n".join(each["content"] for each in messages if each["role"] == "system")
        talk = [dict(each) for each in messages if each["role"] != "system"]
        body: dict[str, Any] = {"model": self.name, "max_tokens": most, "messages": talk}
        if system:
            body["system"] = system
        if schema is not None:
            body["tools"] = [{"name": ANSWER, "description": "Give the answer.", "input_schema": dict(schema)}]
            body["tool_choice"] = {"type": "tool", "name": ANSWER}
        return "/v1/messages", body, {}

    def _read(self, reply: Mapping[str, Any], *, schema: bool) -> Completion | None:
        return of_message(reply, schema=schema)

    async def _window(self, client: Client) -> int:
        return number_in(await client.get(f"/v1/models/{quote(self.name, safe='')}"), "max_input_tokens")
