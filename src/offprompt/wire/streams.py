"""Streamed replies put together again: the chunks of a wire become the reply that it would have sent whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from offprompt.records import as_dict, as_list
from offprompt.wire._chat_chunks import ChatAssembler
from offprompt.wire._chunks import CUT, plain_chunk
from offprompt.wire._message_events import MessageAssembler
from offprompt.wire._response_events import ResponseAssembler
from offprompt.wire.shapes import Wire

__all__ = ["CUT", "Assembler", "assemble", "assembler_for", "plain_chunk", "spoken"]


class Assembler(Protocol):
    """Puts one reply together."""

    def add(self, chunk: dict[str, Any]) -> None:
        """The next chunk, as plain data; one that is not known changes nothing."""
        ...

    def assembled(self) -> dict[str, Any]:
        """The reply as far as it came, in the shape of the wire's whole replies, for `Session.absorb`."""
        ...


def assembler_for(wire: Wire) -> Assembler:
    """A new assembler for a wire's chunks."""
    if wire == "openai":
        return ChatAssembler()
    return MessageAssembler() if wire == "anthropic" else ResponseAssembler()


def spoken(chunk: object, wire: Wire) -> str:
    """The text that a chunk adds to what the reader sees; empty for all else."""
    data = plain_chunk(chunk)
    if wire == "openai":
        choice = as_dict((as_list(data.get("choices")) or [{}])[0]) or {}
        text = (as_dict(choice.get("delta")) or {}).get("content")
    elif wire == "anthropic":
        text = (as_dict(data.get("delta")) or {}).get("text") if data.get("type") == "content_block_delta" else ""
    else:
        text = data.get("delta") if data.get("type") == "response.output_text.delta" else ""
    return text if isinstance(text, str) else ""


def assemble(chunks: Iterable[object], *, wire: Wire) -> dict[str, Any]:
    """The reply that a whole stream makes; chunks as SDK objects or dicts.

    Cut      a stream without its finish (chat: no `finish_reason`; Anthropic: no `stop_reason`; responses: no event
             `completed` or `incomplete`) is cut. Of a cut reply, calls whose arguments are not a whole JSON object are
             left out; of Anthropic's any such call.
    Odd      chunks without choices, calls without an index, a call's id or name in every chunk, empty pieces are taken.
    Raises   UsageError for a chunk that is neither object nor dict, UnsupportedError for the events of an SDK's helper
             stream (those with a snapshot): give what `create(stream=True)` returns.
    """
    assembler = assembler_for(wire)
    for chunk in chunks:
        assembler.add(plain_chunk(chunk))
    return assembler.assembled()
