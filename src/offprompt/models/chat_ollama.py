"""Ollama by its native API, which alone can set the window of a request; payloads and replies are chat completions."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from offprompt.errors import UsageError
from offprompt.models.answers import of_chat
from offprompt.models.chatting import EndpointChat, Sent, split_options
from offprompt.models.clients import Client, StatusError
from offprompt.models.retrying import Retries
from offprompt.models.windows import OLLAMA_DEFAULT
from offprompt.records import Completion, as_dict, as_list, compact

BASE_URL: Final = "http://127.0.0.1:11434"
_OPTIONS: Final[Mapping[str, str]] = {
    "max_tokens": "num_predict",
    "max_completion_tokens": "num_predict",
    "temperature": "temperature",
    "top_p": "top_p",
    "seed": "seed",
    "stop": "stop",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
_OWN: Final = ("keep_alive", "think", "options", "format", "tools")


class OllamaChatModel(EndpointChat):
    """A model that Ollama runs, with a window of our choice.

    context_tokens  sent as `num_ctx` with each request, so that Ollama and Offprompt count on the same window.
    Payload         chat completions' keywords; `options`, `think`, `keep_alive` are Ollama's own. Others are refused.
    Replies         as of chat completions; `timings` holds what prefill and answer took, in ms.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        key: str = "",
        timeout_s: float = 300.0,
        retries: Retries | None = None,
        context_tokens: int = 0,
    ) -> None:
        base = (base_url or BASE_URL).rstrip("/").removesuffix("/v1").removesuffix("/api")
        super().__init__(
            name,
            partial(Client, "openai", base, key),
            where=f"{name!r} at {base}",
            key=key,
            timeout_s=timeout_s,
            retries=retries,
            context_tokens=context_tokens or OLLAMA_DEFAULT,
            ask_window=False,
        )

    def _sent(self, payload: Mapping[str, Any], *, stream: bool) -> Sent:
        body, headers = split_options(payload)
        messages = as_list(body.pop("messages", None)) or []
        native: dict[str, Any] = {"model": body.pop("model", self.name), "messages": _messages(messages)}
        options: dict[str, Any] = {"num_ctx": self.context_tokens}
        for name, value in body.items():
            if name in _OPTIONS:
                options[_OPTIONS[name]] = value
            elif name == "response_format":
                native["format"] = _format(value)
            elif name in _OWN:
                native[name] = value
            elif name not in ("stream", "stream_options", "tool_choice", "parallel_tool_calls"):
                known = ", ".join((*_OPTIONS, *_OWN))
                raise UsageError(f"{name}={value!r}: Ollama's native API has no such option; it has {known}")
        native["options"] = options | (as_dict(native.get("options")) or {})
        return "/api/chat", native | {"stream": stream}, headers

    def _work(self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any] | None, most: int) -> Sent:
        payload: dict[str, Any] = {"messages": list(messages), "max_tokens": most, "temperature": 0}
        if schema is not None:
            payload["format"] = dict(schema)
        return self._sent(payload, stream=False)

    def _read(self, reply: Mapping[str, Any], *, schema: bool) -> Completion | None:
        return of_chat(_completion(reply), schema=schema) if "message" in reply else None

    async def _whole(self, client: Client, payload: Mapping[str, Any]) -> dict[str, Any]:
        return _completion(await client.post(*self._sent(payload, stream=False)))

    async def _chunks(self, client: Client, payload: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        calls = 0
        async for piece in client.stream(*self._sent(payload, stream=True), "lines"):
            if isinstance(piece.get("error"), str):
                raise StatusError(0, {}, piece["error"])
            message = _message(as_dict(piece.get("message")) or {}, calls)
            for call in as_list(message.get("tool_calls")) or ():
                call["index"] = calls
                calls += 1
            done = bool(piece.get("done"))
            finish = _finish(piece, has_calls=calls > 0) if done else None
            head = {"object": "chat.completion.chunk", "model": piece.get("model", self.name)}
            yield {**head, "choices": [{"index": 0, "delta": message, "finish_reason": finish}]}
            if done:
                yield {**head, "choices": [], **_counts(piece)}


def _messages(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """Chat messages in Ollama's shape: text apart from pictures, arguments as objects, results by the tool's name."""
    native: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    for item in messages:
        message = as_dict(item) or {}
        text, pictures = _parts(message.get("content"))
        own: dict[str, Any] = {"role": "system" if message.get("role") == "developer" else message.get("role")}
        own["content"] = text
        if pictures:
            own["images"] = pictures
        if isinstance(message.get("reasoning_content"), str):
            own["thinking"] = message["reasoning_content"]
        calls = [as_dict(call) or {} for call in as_list(message.get("tool_calls")) or ()]
        if calls:
            functions = [as_dict(call.get("function")) or {} for call in calls]
            names |= {str(call.get("id")): str(each.get("name")) for call, each in zip(calls, functions, strict=True)}
            own["tool_calls"] = [
                {"function": {"name": each.get("name"), "arguments": _arguments(each.get("arguments"))}}
                for each in functions
            ]
        if message.get("role") == "tool":
            own["tool_name"] = names.get(str(message.get("tool_call_id")), "")
        native.append(own)
    return native


def _parts(content: object) -> tuple[str, list[str]]:
    """The text and the pictures, as base64, of a message's content."""
    if isinstance(content, str) or content is None:
        return content or "", []
    texts: list[str] = []
    pictures: list[str] = []
    for item in as_list(content) or ():
        part = as_dict(item) or {}
        url = (as_dict(part.get("image_url")) or {}).get("url")
        if isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif isinstance(url, str) and url.startswith("data:"):
            pictures.append(url.partition(",")[2])
        else:
            raise UsageError(f"a part of type {part.get('type')!r}: Ollama takes text, and pictures as data: URLs")
    return "\n\n".join(texts), pictures


def _arguments(text: object) -> Any:
    """A call's arguments as an object; text that is none stays what it is, under a name."""
    try:
        found = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        found = text
    return found if as_dict(found) is not None else {"arguments": found}


def _format(wanted: Any) -> Any:
    """Ollama's `format` for a `response_format`."""
    schema = (as_dict((as_dict(wanted) or {}).get("json_schema")) or {}).get("schema")
    return schema if schema is not None else "json"


def _completion(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Ollama's reply as a chat completion."""
    message = _message(as_dict(reply.get("message")) or {}, 0)
    finish = _finish(reply, has_calls=bool(message.get("tool_calls")))
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"object": "chat.completion", "model": reply.get("model", ""), "choices": [choice], **_counts(reply)}


def _message(native: Mapping[str, Any], calls_before: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": native.get("content") or ""}
    if native.get("thinking"):
        message["reasoning_content"] = native["thinking"]
    calls = [as_dict(call) or {} for call in as_list(native.get("tool_calls")) or ()]
    if calls:
        functions = [as_dict(call.get("function")) or {} for call in calls]
        message["tool_calls"] = [
            {
                "id": f"call_{calls_before + at}",
                "type": "function",
                "function": {"name": each.get("name"), "arguments": compact(each.get("arguments") or {})},
            }
            for at, each in enumerate(functions)
        ]
    return message


def _finish(reply: Mapping[str, Any], *, has_calls: bool) -> str:
    return "length" if reply.get("done_reason") == "length" else "tool_calls" if has_calls else "stop"


def _counts(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Tokens as chat completions count them, and milliseconds as llama.cpp gives them."""
    read, said = reply.get("prompt_eval_count") or 0, reply.get("eval_count") or 0
    took = {"prompt_ms": reply.get("prompt_eval_duration"), "predicted_ms": reply.get("eval_duration")}
    timings = {name: nanoseconds / 1e6 for name, nanoseconds in took.items() if isinstance(nanoseconds, int)}
    usage = {"prompt_tokens": read, "completion_tokens": said, "total_tokens": read + said}
    return {"usage": usage, "timings": {"prompt_n": read, "predicted_n": said, **timings}}
