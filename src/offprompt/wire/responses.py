"""OpenAI responses: items, tools, replies."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final

from offprompt.errors import UsageError
from offprompt.records import MEMORY_ACTIONS, Message, Usage, as_dict, as_list, canonical
from offprompt.wire._chunks import read_object
from offprompt.wire._response_items import (
    OUTPUT,
    check_item,
    field_of,
    is_call,
    is_reasoning,
    kind_of,
    map_item,
    parts_in,
    texts_of,
    unparsed,
    without_nulls,
)
from offprompt.wire._system import parted_system, with_head
from offprompt.wire.payload import comparable, distinct, error_text, loaded, number, plain, repaired
from offprompt.wire.shapes import Call, Kind, Outgoing, Placement, RawReply, Result, TextMap, ToolSpec, Wire

NOTHING_SAID: Final[Message] = {"type": "message", "role": "assistant", "content": ""}
UNFINISHED: Final = ("queued", "in_progress")
STATEFUL: Final = ("previous_response_id", "conversation")


class OpenAIResponses:
    """The shape of `responses`.

    What a model says at once is several items; they are one message here: `{"role": "assistant", "output": [items]}`.
    Every other item is a message as it is.
    """

    name: Wire = "responses"

    def gather(self, messages: Sequence[Message]) -> list[Message]:
        """See `Shape`: the model's items that stand together are one message."""
        gathered: list[Message] = []
        run: list[Message] = []
        for at, item in enumerate(messages):
            check_item(item, at)
            if kind_of(item) != "assistant":
                run = []
                gathered.append(item)
                continue
            if not run:
                gathered.append({"role": "assistant", OUTPUT: run})
            run.append(unparsed(item))
        return gathered

    def spread(self, message: Message) -> list[Message]:
        """See `Shape`: a message's items. Reasoning at their end is left out: what it led to never came."""
        if not _is_gathered(message):
            return [message]
        items = _items(message)
        last = next((at for at in range(len(items) - 1, -1, -1) if not is_reasoning(items[at])), -1)
        return items[: last + 1]

    def parted(self, message: Message) -> Iterator[tuple[Message, Message]]:
        """See `Shape`; reasoning stays with what it led to."""
        items = _items(message)
        for at in range(len(items) - 1, 0, -1):
            if is_reasoning(items[at - 1]):
                continue
            yield {**message, OUTPUT: items[:at]}, {**message, OUTPUT: items[at:]}

    def split_system(self, messages: Sequence[Message], system: str) -> tuple[list[Message], list[Message]]:
        """See `Shape`."""
        return parted_system(messages, system)

    def kind(self, message: Message) -> Kind:
        """See `Shape`."""
        return kind_of(message)

    def text(self, message: Message) -> str:
        """See `Shape`; the texts of one reply stand behind each other, as in `output_text`."""
        if _is_gathered(message):
            return "".join(text for item in _items(message) for text in texts_of(item))
        return "\n".join(texts_of(message))

    def map_text(self, message: Message, change: TextMap) -> Message:
        """See `Shape`."""
        if not _is_gathered(message):
            return map_item(message, change)
        items = _items(message)
        mapped = [map_item(item, change) for item in items]
        return message if mapped == items else {**message, OUTPUT: mapped}

    def has_thinking(self, message: Message) -> bool:
        """See `Shape`."""
        return any(is_reasoning(item) for item in _items(message))

    def calls(self, message: Message) -> list[Call]:
        """See `Shape`."""
        return [
            Call(str(item.get("call_id", "")), str(item.get("name", "")), str(item.get("arguments") or "{}"))
            for item in _items(message)
            if is_call(item)
        ]

    def with_arguments(self, message: Message, arguments: Mapping[str, str]) -> Message:
        """See `Shape`."""
        if not arguments:
            return message
        items: list[Message] = []
        for item in _items(message):
            changed = arguments.get(str(item.get("call_id", ""))) if is_call(item) else None
            items.append(item if changed is None else {**item, "arguments": changed})
        return {**message, OUTPUT: items}

    def results(self, message: Message) -> list[Result]:
        """See `Shape`."""
        if field_of(message) != OUTPUT:
            return []
        only_text = all(part.get("type") == "input_text" for part in parts_in(message))
        known = isinstance(message.get(OUTPUT), (str, list)) and message.get("type") == "function_call_output"
        return [Result(str(message.get("call_id", "")), self.text(message), only_text and known)]

    def with_results(self, message: Message, texts: Mapping[str, str]) -> Message:
        """See `Shape`."""
        changed = texts.get(str(message.get("call_id", ""))) if field_of(message) == OUTPUT else None
        return message if changed is None else {**message, OUTPUT: changed}

    def documents(self, message: Message) -> list[tuple[int, str]]:
        """See `Shape`: every text part but the last, which is the user's."""
        parts = enumerate(parts_in(message))
        texts = [(at, str(part.get("text", ""))) for at, part in parts if part.get("type") == "input_text"]
        return texts[:-1]

    def with_documents(self, message: Message, texts: Mapping[int, str]) -> Message:
        """See `Shape`."""
        if not texts:
            return message
        parts = enumerate(parts_in(message))
        return {**message, "content": [_part(texts[at]) if at in texts else part for at, part in parts]}

    def result_messages(self, results: Sequence[Result], errors: frozenset[str] = frozenset()) -> list[Message]:
        """See `Shape`; this wire has no mark for errors, the text says it."""
        del errors
        return [{"type": "function_call_output", "call_id": each.call_id, OUTPUT: each.text} for each in results]

    def join_results(self, ours: Sequence[Message], message: Message) -> list[Message]:
        """See `Shape`: each result is an item."""
        return [*ours, message]

    def attach(self, text: str, message: Message, placement: Placement) -> list[Message]:
        """See `Shape`."""
        if placement == "message":
            return [{"role": "user", "content": text}, message]
        return [{**message, "content": [_part(text), *parts_in(message)]}]

    def tool(self, spec: ToolSpec) -> Mapping[str, Any]:
        """See `Shape`; on this wire tools are strict unless they say otherwise, and ours have optional arguments."""
        head = {"type": "function", "name": spec.name, "description": spec.description}
        return {**head, "parameters": spec.parameters, "strict": False}

    def request(self, outgoing: Outgoing) -> dict[str, Any]:
        """See `Shape`. The head stands behind the client's last system text; `instructions` stay the client's own."""
        system = with_head(outgoing.system, outgoing.head, "input_text")
        items = [item for message in outgoing.messages for item in self.spread(message)]
        request: dict[str, Any] = {"input": [*system, *items]}
        if outgoing.model:
            request = {"model": outgoing.model, **request}
        if outgoing.tools:
            request["tools"] = list(outgoing.tools)
        return request

    def reply(self, reply: object) -> RawReply:
        """See `Shape`: a response, or its dict.

        Raises   UsageError as there; also for a response that is not finished, or that was made with state that the
                 provider keeps.
        """
        data = plain(reply, "the reply")
        items = _checked(data)
        cut = data.get("status") == "incomplete"
        kept = [unparsed(without_nulls(item)) for item in items if not _is_cut(item, cut=cut)]
        if all(is_reasoning(item) for item in kept):
            kept.append(NOTHING_SAID)
        usage = as_dict(data.get("usage")) or {}
        details = as_dict(usage.get("input_tokens_details")) or {}
        reason = (as_dict(data.get("incomplete_details")) or {}).get("reason") if cut else ""
        return RawReply(
            repaired({"role": "assistant", OUTPUT: _with_ids(kept)}),
            str(reason or data.get("status") or ""),
            Usage(
                number(usage.get("input_tokens")),
                number(details.get("cached_tokens")),
                number(details.get("cache_write_tokens")),
                number(usage.get("output_tokens")),
            ),
        )

    def told(self, messages: Sequence[Message], calls: Container[str], *, last_text: bool = False) -> Message:
        """See `Shape`; the items of one stand behind those of the other."""
        *earlier, last = messages
        items = [item for each in earlier for item in _items(each) if not is_call(item)]
        if last_text:
            items = [item for item in items if item.get("type") != "message"]
        own = [item for item in _items(last) if not is_call(item) or str(item.get("call_id")) in calls]
        return {**last, OUTPUT: [*items, *own]}

    def signature(self, message: Message) -> str:
        """See `Shape`."""
        calls = [[call.call_id, call.name, loaded(call.arguments)] for call in self.calls(message)]
        return canonical(["assistant", comparable(self.text(message)), calls])


def _is_gathered(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "assistant" and OUTPUT in message


def _items(message: Mapping[str, Any]) -> list[Message]:
    """The items of a message; an item that is not gathered is its own."""
    items = as_list(message.get(OUTPUT)) if _is_gathered(message) else [message]
    return [as_dict(item) or {} for item in items or []]


def _part(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _is_cut(item: Mapping[str, Any], *, cut: bool) -> bool:
    """Whether a call of the client's tools was cut off: it must not be run, and has no answer. Ours are refused."""
    if not is_call(item) or item.get("name") in MEMORY_ACTIONS:
        return False
    return item.get("status") == "incomplete" or (cut and read_object(str(item.get("arguments"))) is None)


def _checked(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The items of a response; raises for what is none, so that it is not half understood."""
    if "choices" in data or data.get("tool_calls"):
        raise UsageError("the reply is a chat completion, and the session's wire is responses; pass wire='openai'")
    if "stop_reason" in data:
        raise UsageError(
            "the reply is an Anthropic message, and the session's wire is responses; pass wire='anthropic'"
        )
    status = data.get("status")
    if data.get("error") or status == "failed":
        raise UsageError(f"the provider sent an error, not a reply: {error_text(data)}")
    if status in UNFINISHED or status == "cancelled":
        raise UsageError(f"the response is {status}; give the one that responses.retrieve returns once it is completed")
    for key in STATEFUL:
        if data.get(key):
            raise UsageError(
                f"the response was made with {key}: the provider put what it keeps before what the session sent; leave "
                "it out, prepare gives the whole conversation each time"
            )
    items = as_list(data.get(OUTPUT))
    if items is None:
        event = str(data.get("type", "")).startswith("response.")
        way_out = "pass its stream to absorb_stream" if event else "give what responses.create returned"
        raise UsageError(f"the reply holds no output items{' but a streamed piece' if event else ''}; {way_out}")
    found: list[dict[str, Any]] = []
    for at, each in enumerate(items):
        item = as_dict(each)
        if item is None or not (item.get("type") or item.get("role")):
            raise UsageError(f"output[{at}] of the reply is no item; give the provider's reply as it came")
        if is_call(item) and not (isinstance(item.get("name"), str) and item["name"]):
            raise UsageError(f"output[{at}] of the reply names no function; give the provider's reply as it came")
        found.append(item)
    return found


def _with_ids(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items with an id of its own for each call."""
    called = [at for at, item in enumerate(items) if is_call(item)]
    for at, call_id in zip(called, distinct([str(items[at].get("call_id") or "") for at in called]), strict=True):
        if items[at].get("call_id") != call_id:
            items[at] = {**items[at], "call_id": call_id}
    return items
