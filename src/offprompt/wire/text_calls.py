"""Native calls of chat completions as text, for models that have none: requests on their way out, replies back.

Pure and deterministic: the same message becomes the same bytes in each request, so that the prefix repeats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from offprompt.records import Message, as_dict, as_list, compact
from offprompt.wire._lenient import UnreadableError, read_whole
from offprompt.wire.actions import parse_actions
from offprompt.wire.head import Language, language_of
from offprompt.wire.openai import OpenAIChat

Calls: TypeAlias = Literal["text", "schema"]

TOOLS: Final[Mapping[Calls, Mapping[Language, str]]] = {
    "text": {
        "en": (
            'To use a tool, reply with one JSON object and nothing else: {"name":"TOOL","arguments":{…}}. '
            "Its result is the next message. Without a tool, reply in plain text. Tools:"
        ),
        "zh": (
            '要使用工具时，只回复一个 JSON 对象：{"name":"工具名","arguments":{…}}，下一条消息是它的结果。'
            "不用工具时直接用文字回答。工具："
        ),
    },
    "schema": {
        "en": (
            'Reply with one JSON object: {"answer":"…"}, or to use a tool {"name":"TOOL","arguments":{…}}; '
            "its result is the next message. Tools:"
        ),
        "zh": (
            '只回复一个 JSON 对象：{"answer":"…"}，或使用工具 {"name":"工具名","arguments":{…}}，'
            "下一条消息是它的结果。工具："
        ),
    },
}
RESULT: Final = "[result of {name}]\n{text}"
SHAPE: Final = OpenAIChat()


def text_request(payload: Mapping[str, Any], calls: Calls) -> dict[str, Any]:
    """The payload for a model without calls: tools in the system text, calls and results as text.

    calls   `schema`: replies are asked for under a JSON schema, an answer or one call.
    """
    tools = [as_dict((as_dict(each) or {}).get("function")) or {} for each in as_list(payload.get("tools")) or []]
    request = {key: payload[key] for key in payload if key not in ("tools", "tool_choice", "parallel_tool_calls")}
    messages = [as_dict(each) or {} for each in as_list(payload.get("messages")) or []]
    request["messages"] = _in_text(_with_tools(messages, tools, calls), calls if tools else "text")
    if tools and calls == "schema":
        shape = {"name": "reply", "schema": reply_schema(tools), "strict": True}
        request["response_format"] = {"type": "json_schema", "json_schema": shape}
    return request


def reply_schema(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The JSON schema of a reply: an answer, or a call of one of the tools."""
    answer = _closed({"answer": {"type": "string"}})
    called = [
        _closed({"name": {"const": tool.get("name")}, "arguments": tool.get("parameters") or {"type": "object"}})
        for tool in tools
    ]
    return {"anyOf": [answer, *called]}


def call_reply(reply: Mapping[str, Any], payload: Mapping[str, Any], calls: Calls) -> dict[str, Any]:
    """The reply with the calls in its text as native ones. One that cannot be read is a call all the same, which its
    tool, or the memory, answers with what is wrong.

    payload   with native tools, that led to it.
    """
    tools = [as_dict((as_dict(each) or {}).get("function")) or {} for each in as_list(payload.get("tools")) or []]
    names = [str(tool.get("name")) for tool in tools]
    choices = [as_dict(each) or {} for each in as_list(reply.get("choices")) or []]
    message = as_dict(choices[0].get("message")) if choices else None
    if message is None or not isinstance(message.get("content"), str):
        return dict(reply)
    text, found = _read(str(message["content"]), names, calls)
    if not found:
        changed = {**message, "content": text}
    else:
        place = len(as_list(payload.get("messages")) or [])
        native = [
            {"id": f"call_{place}_{at}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for at, (name, arguments) in enumerate(found)
        ]
        changed = {**message, "content": text.strip() or None, "tool_calls": native}
    finish = choices[0].get("finish_reason")
    choice = {**choices[0], "message": changed, "finish_reason": "tool_calls" if found and finish == "stop" else finish}
    return {**reply, "choices": [choice, *choices[1:]]}


def chunks_of(reply: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A whole reply as the chunks of a stream."""
    head = {**{key: reply[key] for key in reply if key != "usage"}, "object": "chat.completion.chunk"}
    for at, item in enumerate(as_list(reply.get("choices")) or []):
        choice = as_dict(item) or {}
        delta = dict(as_dict(choice.get("message")) or {})
        calls = [as_dict(call) or {} for call in as_list(delta.get("tool_calls")) or []]
        if calls:
            delta["tool_calls"] = [{"index": place, **call} for place, call in enumerate(calls)]
        for part, finish in ((delta, None), ({}, choice.get("finish_reason"))):
            yield {**head, "choices": [{"index": choice.get("index", at), "delta": part, "finish_reason": finish}]}
    if reply.get("usage") is not None:
        yield {**head, "choices": [], "usage": reply["usage"]}


def _read(text: str, names: Sequence[str], calls: Calls) -> tuple[str, list[tuple[str, str]]]:
    """What a reply says beside its calls, and these: name and arguments."""
    if calls == "schema":
        try:
            value = read_whole(text)
        except UnreadableError:
            value = {}
        if isinstance(value.get("answer"), str):
            return value["answer"], []
    parsed = parse_actions(text, names=names)
    found = [(action.name, compact(dict(action.arguments))) for action in parsed.actions]
    found += [(refusal.name, refusal.raw) for refusal in parsed.refused if refusal.name in names]
    return (parsed.text if found else text), found


def _with_tools(messages: list[Message], tools: Sequence[Mapping[str, Any]], calls: Calls) -> list[Message]:
    """The messages with what is to be known of the tools behind the last system text."""
    if not tools:
        return messages
    last = max((at for at, each in enumerate(messages) if SHAPE.kind(each) == "system" and at < 8), default=-1)
    own = SHAPE.text(messages[last]) if last >= 0 else ""
    lines = [TOOLS[calls][language_of(own)], *(compact(dict(tool)) for tool in tools)]
    text = "\n".join(lines)
    if last < 0:
        return [{"role": "system", "content": text}, *messages]
    return [*messages[:last], {**messages[last], "content": f"{own}\n\n{text}"}, *messages[last + 1 :]]


def _in_text(messages: Sequence[Message], calls: Calls) -> list[Message]:
    """The messages without native calls; results that follow each other are one message."""
    out: list[Message] = []
    names: dict[str, str] = {}
    results = False
    for message in messages:
        kind = SHAPE.kind(message)
        if kind == "tool":
            for result in SHAPE.results(message):
                text = RESULT.format(name=names.get(result.call_id, "a tool"), text=result.text)
                if results:
                    out[-1] = {"role": "user", "content": f"{out[-1]['content']}\n\n{text}"}
                else:
                    out.append({"role": "user", "content": text})
                results = True
            continue
        results = False
        out.append(_said(message, names, calls) if kind == "assistant" else message)
    return out


def _said(message: Message, names: dict[str, str], calls: Calls) -> Message:
    """An assistant message as the model would have written it."""
    native, text = SHAPE.calls(message), SHAPE.text(message)
    names |= {call.call_id: call.name for call in native}
    lines = [f'{{"name":{compact(call.name)},"arguments":{call.arguments}}}' for call in native]
    if not native and calls == "schema":
        lines = [compact({"answer": text})]
    elif text:
        lines.insert(0, text)
    return {"role": "assistant", "content": "\n".join(lines)}


def _closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
