"""One reply of a model, whole or streamed, between LangChain and a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import add_ai_message_chunks

from offprompt.integrations.langchain.messages import CALLS, KEPT_METADATA, blocks_of, to_wire
from offprompt.records import Message, Reply, as_dict, as_list
from offprompt.wire.openai import BETWEEN
from offprompt.wire.streamed import StreamReader

FINISHES: Final = ("finish_reason", "stop_reason", "done_reason")
"""Where providers' clients say why a reply ended."""

SECRETS: Final = "offprompt_secrets"
"""In `response_metadata` of a reply: the ids of its calls whose secrets are filled in only as they are run."""

Told = Callable[[AIMessage, Reply], Mapping[str, str]]
"""Of a reply as it came and as it was read: the arguments that stand in the conversation for those that a call is run
with, by call id."""


def with_secrets(metadata: Mapping[str, Any], arguments: Mapping[str, str]) -> dict[str, Any]:
    """The metadata of a reply that calls with those arguments."""
    return {**metadata, SECRETS: sorted(arguments)} if arguments else dict(metadata)


def as_reply(message: AIMessage, *, is_cut: bool = False) -> dict[str, Any]:
    """A reply as the session absorbs it; is_cut: its stream broke off."""
    usage, given = message.usage_metadata, message.response_metadata
    finish = next((str(given[key]) for key in FINISHES if given.get(key)), "")
    if is_cut or given.get("status") == "incomplete":
        finish = "length"
    reply: dict[str, Any] = {"choices": [{"message": to_wire(message), "finish_reason": finish}]}
    if usage is not None:
        details = usage.get("input_token_details") or {}
        reply["usage"] = {
            "prompt_tokens": usage["input_tokens"],
            "completion_tokens": usage["output_tokens"],
            "prompt_tokens_details": {
                "cached_tokens": details.get("cache_read"),
                "cache_write_tokens": details.get("cache_creation"),
            },
        }
    return reply


class ChunkReader:
    """The chunks of one reply on their way: handles resolved, calls of memory hidden; used once.

    Thinking and the like go on at once, in chunks of their own; text and calls as `StreamReader` lets them through.

    reader   of the session. before: the numbers of blocks and calls that earlier replies of the same answer took, and
             whether they said something.
    """

    def __init__(self, reader: StreamReader, told: Told, before: ChunkReader | None = None) -> None:
        self._reader, self._told, self._before = reader, told, before
        self._chunks: list[AIMessageChunk] = []
        self._first = 0 if before is None else before.next_block
        self._first_call = 0 if before is None else before.next_call
        self.next_block, self.next_call = self._first, self._first_call
        self.said = before is not None and before.said
        self._began = self._is_cut = False
        self._arguments: Mapping[str, str] = {}
        self._block: dict[str, Any] | None = None
        absorb = reader.absorb

        def read(_: object) -> Any:
            return absorb(as_reply(self.whole, is_cut=self._is_cut))

        reader.absorb = read

    @property
    def whole(self) -> AIMessageChunk:
        """The reply as the model wrote it, as far as it came."""
        return add_ai_message_chunks(self._chunks[0], *self._chunks[1:])

    @property
    def reply(self) -> Reply:
        """What the session read; there once the reply is finished."""
        return cast("Reply", self._reader.reply)

    def feed(self, message: AIMessage) -> list[AIMessageChunk]:
        """The next chunk, or a whole message of a model that does not stream; what goes on of it."""
        chunk = as_chunk(message)
        self._chunks.append(chunk)
        out = [] if (beside := self._beside(chunk)) is None else [beside]
        delta: dict[str, Any] = {}
        if text := str(chunk.text):
            delta["content"] = text
        if chunk.tool_call_chunks:
            delta["tool_calls"] = [_fragment(cast("Any", each)) for each in chunk.tool_call_chunks]
        return out + self._fed(delta, None) if delta else out

    def finish(self) -> list[AIMessageChunk]:
        """The model is done: the reply is absorbed, and what waited comes."""
        if not self._chunks:
            return []
        out = self._fed({}, "stop")
        rest = self._reader.finish()
        return out + self._shown(rest)

    def broken(self) -> list[AIMessageChunk]:
        """The stream failed: what came is absorbed as cut."""
        self._is_cut = True
        return self._shown(self._reader.finish()) if self._chunks else []

    def last(self) -> AIMessageChunk:
        """Why the model ended and what else it said of the answer."""
        return AIMessageChunk(content="", response_metadata=with_secrets(self.whole.response_metadata, self._arguments))

    def _fed(self, delta: Mapping[str, Any], finish: str | None) -> list[AIMessageChunk]:
        at = len(self._chunks) - 1
        return self._shown(
            self._reader.feed({"at": at, "choices": [{"index": 0, "delta": dict(delta), "finish_reason": finish}]})
        )

    def _shown(self, chunks: Sequence[Any]) -> list[AIMessageChunk]:
        if self._reader.reply is not None and not self._arguments:
            self._arguments = self._told(self.whole, self._reader.reply)
        shown = [self._of(as_dict(each) or {}) for each in chunks]
        return [each for each in shown if each is not None]

    def _of(self, data: Mapping[str, Any]) -> AIMessageChunk | None:
        """A chunk of the wire as LangChain's, None for one that says nothing."""
        choice = as_dict((as_list(data.get("choices")) or [{}])[0]) or {}
        delta = as_dict(choice.get("delta")) or {}
        text, calls = str(delta.get("content") or ""), as_list(delta.get("tool_calls")) or []
        if not text and not calls:
            return None
        if text:
            is_next = self.said and not self._began and self._before is not None
            text = f"{BETWEEN}{text}" if is_next else text
            self.said = self._began = True
        origin = self._chunks[int(data.get("at") or 0)]
        return AIMessageChunk(
            content=self._text(origin, text),
            tool_call_chunks=cast("Any", [self._call(as_dict(call) or {}) for call in calls]),
            response_metadata=_kept(origin),
        )

    def _text(self, origin: AIMessageChunk, text: str) -> Any:
        """The text as the model's client gives it: plain, or in a block with the number of its own."""
        blocks = [self._numbered(each) for each in blocks_of(origin) if each.get("type") == "text"]
        self._block = blocks[0] if blocks else self._block
        return [{**self._block, "text": text}] if text and self._block is not None else text

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        function = as_dict(call.get("function")) or {}
        index = self._first_call + int(call.get("index") or 0)
        self.next_call = max(self.next_call, index + 1)
        call_id = call.get("id")
        arguments = self._arguments.get(str(call_id), function.get("arguments"))
        return {
            "type": "tool_call_chunk",
            "name": function.get("name"),
            "args": arguments,
            "id": call_id,
            "index": index,
        }

    def _beside(self, chunk: AIMessageChunk) -> AIMessageChunk | None:
        """The chunk without its text and calls, and without what is said once at the end; None if that is nothing."""
        blocks = [self._numbered(each) for each in blocks_of(chunk) if each.get("type") not in ("text", *CALLS)]
        kwargs = {key: value for key, value in chunk.additional_kwargs.items() if key not in ("tool_calls", "parsed")}
        if not (blocks or kwargs or chunk.usage_metadata):
            return None
        return AIMessageChunk(
            content=cast("Any", blocks or ("" if isinstance(cast("object", chunk.content), str) else [])),
            additional_kwargs=kwargs,
            usage_metadata=chunk.usage_metadata,
            response_metadata=_kept(chunk),
        )

    def _numbered(self, block: dict[str, Any]) -> dict[str, Any]:
        """A block with a number that no earlier reply's has: LangChain adds up those of one number."""
        index = block.get("index")
        if isinstance(index, int):
            self.next_block = max(self.next_block, self._first + index + 1)
            return {**block, "index": self._first + index}
        return {**block, "index": f"{index}_{self._first_call}"} if index and self._before is not None else block


def as_chunk(message: AIMessage) -> AIMessageChunk:
    """The message itself if it is a piece of a streamed one, else as the only piece."""
    if isinstance(message, AIMessageChunk):
        return message
    wire: Message = to_wire(message)
    calls = [
        {
            "type": "tool_call_chunk",
            "name": call["function"]["name"],
            "args": call["function"]["arguments"],
            "id": call["id"],
            "index": at,
        }
        for at, call in enumerate(wire.get("tool_calls", ()))
    ]
    return AIMessageChunk(
        content=message.content,
        additional_kwargs=message.additional_kwargs,
        usage_metadata=message.usage_metadata,
        response_metadata=message.response_metadata,
        tool_call_chunks=cast("Any", calls),
    )


def _fragment(call: Mapping[str, Any]) -> dict[str, Any]:
    """A piece of a call as the wire has it."""
    function = {"arguments": call.get("args") or ""}
    if call.get("name"):
        function["name"] = call["name"]
    piece: dict[str, Any] = {"index": call.get("index"), "type": "function", "function": function}
    return {**piece, "id": call["id"]} if call.get("id") else piece


def _kept(chunk: AIMessageChunk) -> dict[str, Any]:
    return {key: chunk.response_metadata[key] for key in KEPT_METADATA if key in chunk.response_metadata}
