"""Chat completions, as OpenAI and most others serve them, by the official `openai` client (the extra `openai`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal

from offprompt.models import windows
from offprompt.models.answers import ANSWER, in_words, of_chat
from offprompt.models.chatting import EndpointChat, Sent, split_options
from offprompt.models.clients import Client
from offprompt.models.retrying import Retries
from offprompt.records import Completion

_REASONING: Final = re.compile(r"(?:^|/)(?:gpt-5|o[1-9](?:\b|-))", re.IGNORECASE)
_WAYS: Final[tuple[Literal["json_schema", "json_object", "words"], ...]] = ("json_schema", "json_object", "words")
_SCHEMA_WORDS: Final = ("response_format", "json_schema", "json_object", "schema", "grammar")


class OpenAIChatModel(EndpointChat):
    """A model behind an endpoint for chat completions.

    base_url      with its path, mostly `…/v1`; None: OpenAI's own.
    key           empty: for servers that want none.
    Memory work   a schema goes out as `response_format`; an endpoint that refuses it is asked for a JSON object, then
                  in words alone, and it is remembered. Temperature 0, where the model lets it be set.
    """

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
        base = base_url.rstrip("/") if base_url is not None else None
        super().__init__(
            name,
            partial(Client, "openai", base, key),
            where=f"{name!r} at {base or 'OpenAI'}",
            key=key,
            timeout_s=timeout_s,
            retries=retries,
            context_tokens=context_tokens,
            ask_window=ask_window and base is not None,
        )
        self._base = base or ""
        reasons = _REASONING.search(name) is not None
        self._limit_key = "max_completion_tokens" if reasons else "max_tokens"
        self._temperature = not reasons
        self._way = 0

    def _sent(self, payload: Mapping[str, Any], *, stream: bool) -> Sent:
        body, headers = split_options(payload)
        body = {"model": self.name, **body}
        if stream:
            body = {"stream_options": {"include_usage": True}, **body, "stream": True}
        return "/chat/completions", body, headers

    def _work(self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any] | None, most: int) -> Sent:
        asked = [dict(message) for message in messages]
        body: dict[str, Any] = {"model": self.name, "messages": asked, self._limit_key: most}
        if self._temperature:
            body["temperature"] = 0
        if schema is not None:
            way = _WAYS[self._way]
            if way == "json_schema":
                form = {"name": ANSWER, "schema": dict(schema), "strict": True}
                body["response_format"] = {"type": "json_schema", "json_schema": form}
            else:
                asked.insert(_behind_system(asked), {"role": "system", "content": in_words(schema)})
            if way == "json_object":
                body["response_format"] = {"type": "json_object"}
        return "/chat/completions", body, {}

    def _read(self, reply: Mapping[str, Any], *, schema: bool) -> Completion | None:
        return of_chat(reply, schema=schema)

    def _learns(self, says: str) -> bool:
        told = says.lower()
        if "max_completion_tokens" in told and self._limit_key == "max_tokens":
            self._limit_key = "max_completion_tokens"
        elif "temperature" in told and self._temperature:
            self._temperature = False
        elif any(word in told for word in _SCHEMA_WORDS) and self._way < len(_WAYS) - 1:
            self._way += 1
        else:
            return False
        return True

    async def _window(self, client: Client) -> int:
        return await windows.of_chat_endpoint(client, self._base, self.name)


def _behind_system(messages: Sequence[Mapping[str, Any]]) -> int:
    """The place behind the leading system messages."""
    return next((at for at, each in enumerate(messages) if each.get("role") != "system"), len(messages))
