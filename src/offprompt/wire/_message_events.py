"""Events of Anthropic messages put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from offprompt.records import as_dict, as_list
from offprompt.wire._chunks import CUT, read_object

TEXTS: Final = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
"""The field that a delta goes on with; its block has the type of the first two, or `thinking`."""

JSON_DELTA: Final = "input_json_delta"
CALL_BLOCKS: Final = ("tool_use", "server_tool_use", "mcp_tool_use")


@dataclass(slots=True)
class _Block:
    fields: dict[str, Any]
    texts: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    json: list[str] = field(default_factory=list[str])
    stopped: bool = False


class MessageAssembler:
    """See `streams.Assembler`."""

    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, _Block] = {}
        self._newest = -1

    def add(self, chunk: dict[str, Any]) -> None:
        """See `streams.Assembler`."""
        kind = chunk.get("type")
        if kind == "message_start":
            message = as_dict(chunk.get("message")) or {}
            self._head |= {key: value for key, value in message.items() if key not in ("content", "usage")}
            self._use(message)
        elif kind == "content_block_start":
            block = as_dict(chunk.get("content_block")) or {}
            self._newest = place(chunk, self._newest + 1)
            self._blocks[self._newest] = _Block(dict(block))
        elif kind == "content_block_delta":
            self._delta(place(chunk, max(self._newest, 0)), as_dict(chunk.get("delta")) or {})
        elif kind == "content_block_stop":
            block_here = self._blocks.get(place(chunk, self._newest))
            if block_here is not None:
                block_here.stopped = True
        elif kind == "message_delta":
            delta = as_dict(chunk.get("delta")) or {}
            self._head |= {key: value for key, value in delta.items() if value is not None}
            if chunk.get("context_management") is not None:
                self._head["context_management"] = chunk["context_management"]
            self._use(chunk)

    def _use(self, given: Mapping[str, Any]) -> None:
        """Counts of the message's end go before those of its start."""
        usage = as_dict(given.get("usage")) or {}
        self._usage |= {key: value for key, value in usage.items() if value is not None or key not in self._usage}

    def _delta(self, at: int, delta: Mapping[str, Any]) -> None:
        kind = str(delta.get("type"))
        block = self._blocks.get(at)
        if block is None:
            # Some servers leave the start out; a call without one has no name and cannot be run.
            block = _Block({"type": "text" if kind == "text_delta" else "thinking"})
            self._blocks[at] = block
            self._newest = at
        if kind in TEXTS:
            block.texts.setdefault(TEXTS[kind], []).append(str(delta.get(TEXTS[kind]) or ""))
        elif kind == JSON_DELTA:
            block.json.append(str(delta.get("partial_json") or ""))
        elif kind == "citations_delta" and delta.get("citation") is not None:
            block.fields["citations"] = [*(as_list(block.fields.get("citations")) or []), delta["citation"]]

    def assembled(self) -> dict[str, Any]:
        """See `streams.Assembler`."""
        cut = self._head.get("stop_reason") is None
        content: list[dict[str, Any]] = []
        for _, block in sorted(self._blocks.items()):
            whole = {**block.fields, **{key: _text(block, key) for key in block.texts}}
            if cut and not block.stopped and not _may_be_sent(whole):
                continue
            if block.fields.get("type") in CALL_BLOCKS:
                text = "".join(block.json)
                value = read_object(text) if text else _given(block, cut=cut)
                if value is None:
                    continue
                whole["input"] = value
            content.append(whole)
        reply = {"type": "message", "role": "assistant", **self._head, "content": content}
        reply["stop_reason"] = CUT if cut else self._head["stop_reason"]
        if self._usage:
            reply["usage"] = self._usage
        return reply


def place(chunk: Mapping[str, Any], otherwise: int) -> int:
    """The block that an event speaks of."""
    index = chunk.get("index")
    return index if isinstance(index, int) else otherwise


def _may_be_sent(block: Mapping[str, Any]) -> bool:
    """Whether a block that was cut off can be sent back: empty text and unsigned thinking are refused."""
    needed = {"text": "text", "thinking": "signature"}.get(str(block.get("type")))
    return needed is None or bool(str(block.get(needed) or "").strip())


def _text(block: _Block, key: str) -> str:
    return str(block.fields.get(key) or "") + "".join(block.texts[key])


def _given(block: _Block, *, cut: bool) -> dict[str, Any] | None:
    """The input of a call without a piece of one: what its start says, nothing once it is over, else unknown."""
    started = as_dict(block.fields.get("input"))
    return started or ({} if block.stopped or not cut else None)
