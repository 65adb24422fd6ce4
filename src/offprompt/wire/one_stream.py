"""One stream: the chunks of a turn's replies, between which the model asked its memory, as those of one reply."""

from __future__ import annotations

from typing import Any, Final

from offprompt.records import as_dict, as_list
from offprompt.wire.last_text import LastText
from offprompt.wire.one_answer import summed
from offprompt.wire.openai import BETWEEN
from offprompt.wire.shapes import Wire

Chunk = dict[str, Any]
RESPONSE_ENDS: Final = ("response.completed", "response.incomplete", "response.failed")


class OneStream:
    """Feed it each reply's chunks, as the client may see them (`ReplyStream`), and say where a reply ends.

    What says that the reply is over is held until it is known whether another one follows; usages are added up, ids are
    the first reply's, blocks, items and events are numbered on.
    """

    def __init__(self, wire: Wire, *, last_text: bool = False) -> None:
        """last_text   of the texts only the last reply's is told, once it is known to be that: see `LastText`."""
        self._last = LastText(wire) if last_text else None
        self._ready: list[Chunk] = []
        made = {"openai": _Chat, "anthropic": _Messages, "responses": _Responses}
        self._joined = made[wire]()

    def feed(self, chunk: Chunk) -> list[Chunk]:
        """The next chunk of the reply under way; what the client gets now. One that needs no change is itself."""
        ready, self._ready = self._ready, []
        told = [chunk] if self._last is None else self._last.feed(chunk)
        return [*ready, *(out for each in told for out in self._joined.feed(each))]

    def next_reply(self) -> None:
        """The model asked its memory: another reply follows."""
        self._flush(follows=True)
        self._joined.next_reply()

    def _flush(self, *, follows: bool) -> None:
        rest = [] if self._last is None else self._last.over(follows=follows)
        self._ready += [out for each in rest for out in self._joined.feed(each)]

    def end(self) -> list[Chunk]:
        """No other reply follows; what was held."""
        self._flush(follows=False)
        ready, self._ready = self._ready, []
        return [*ready, *self._joined.end()]

    @property
    def last_id(self) -> tuple[str, str] | None:
        """Of responses: the id that was told, and the last reply's, if the provider goes on from another than was told.

        Known behind `end`; None where the provider keeps none.
        """
        return self._joined.last_id if isinstance(self._joined, _Responses) else None


class _Chat:
    """Chunks of chat completions."""

    def __init__(self) -> None:
        self._head: Chunk = {}
        self._replies = 0
        self._said = self._between = False
        self._held: list[Chunk] = []
        self._usages: list[Any] = []
        self._usage: Any = None
        self._calls = self._calls_before = 0

    def feed(self, chunk: Chunk) -> list[Chunk]:
        usage = chunk.get("usage")
        if usage is not None:  # some servers say in each chunk what it is up to now
            self._usage = usage
            chunk = {**chunk, "usage": summed([*self._usages, usage])} if self._usages else chunk
        if not self._head:
            self._head = {key: chunk[key] for key in ("id", "created") if key in chunk}
        choices = [as_dict(each) or {} for each in as_list(chunk.get("choices")) or []]
        if (usage is not None and not choices) or any(each.get("finish_reason") is not None for each in choices):
            self._held.append(chunk)
            return []
        changed = self._on(chunk, choices)
        return [] if changed is None else [changed]

    def _on(self, chunk: Chunk, choices: list[Chunk]) -> Chunk | None:
        """A chunk as one of the first reply's; None if nothing is left of it."""
        delta = as_dict(choices[0].get("delta")) or {} if choices else {}
        for each in as_list(delta.get("tool_calls")) or []:
            at = (as_dict(each) or {}).get("index")
            self._calls = max(self._calls, self._calls_before + (at if isinstance(at, int) else 0) + 1)
        text = delta.get("content")
        if not self._replies:
            self._said = self._said or bool(text)
            return chunk
        own = {key: value for key, value in delta.items() if key != "role" and not (key == "content" and not value)}
        if choices and not own:
            return None
        if text:
            own["content"] = (BETWEEN if self._between and self._said else "") + text
            self._between, self._said = False, True
        if "tool_calls" in own:
            own["tool_calls"] = [self._numbered(each) for each in as_list(own["tool_calls"]) or []]
        first = [{**choices[0], "delta": own}, *choices[1:]] if choices else []
        return {**chunk, **self._head, "choices": first}

    def _numbered(self, call: Any) -> Any:
        own = as_dict(call) or {}
        return {**own, "index": own["index"] + self._calls_before} if isinstance(own.get("index"), int) else call

    def _bare(self, chunk: Chunk, choices: list[Chunk]) -> Chunk:
        """A chunk of which only its end is left."""
        bare: list[Chunk] = [{**each, "delta": {}} for each in choices]
        return {**chunk, **self._head, "choices": bare}

    def next_reply(self) -> None:
        self._replies += 1
        self._between = True
        self._calls_before = self._calls
        self._usages += [] if self._usage is None else [self._usage]
        self._usage = None
        self._held.clear()

    def end(self) -> list[Chunk]:
        out: list[Chunk] = []
        for chunk in self._held:
            choices = [as_dict(each) or {} for each in as_list(chunk.get("choices")) or []]
            out.append((self._on(chunk, choices) if self._replies else chunk) or self._bare(chunk, choices))
        self._held.clear()
        return out


class _Messages:
    """Events of Anthropic messages."""

    def __init__(self) -> None:
        self._replies = 0
        self._before = self._blocks = 0
        self._held: list[Chunk] = []
        self._usages: list[Any] = []
        self._own: Any = None

    def feed(self, chunk: Chunk) -> list[Chunk]:
        kind = chunk.get("type")
        if kind == "message_start":
            self._own = (as_dict(chunk.get("message")) or {}).get("usage")
            return [] if self._replies else [chunk]
        if kind in ("message_delta", "message_stop"):
            self._held.append(chunk)
            return []
        index = chunk.get("index")
        if not isinstance(index, int):
            return [chunk]
        self._blocks = max(self._blocks, self._before + index + 1)
        return [{**chunk, "index": index + self._before}] if self._before else [chunk]

    def next_reply(self) -> None:
        self._replies += 1
        self._before = self._blocks
        self._count()
        self._held.clear()

    def _count(self) -> None:
        """Note what the reply under way cost: what its end says counts more than what its beginning said."""
        ends = [as_dict(each.get("usage")) or {} for each in self._held if each.get("type") == "message_delta"]
        self._usages.append({**(as_dict(self._own) or {}), **(ends[-1] if ends else {})})

    def end(self) -> list[Chunk]:
        if not self._replies:
            return self._held
        self._count()
        total = summed(self._usages)
        return [{**each, "usage": total} if each.get("type") == "message_delta" else each for each in self._held]


class _Responses:
    """Events of OpenAI's responses."""

    def __init__(self) -> None:
        self._replies = 0
        self._before = self._items = 0
        self._sequence: int | None = None
        self._head: Chunk = {}
        self._held: list[Chunk] = []
        self._done: list[Any] = []
        self._usages: list[Any] = []

    def feed(self, chunk: Chunk) -> list[Chunk]:
        kind, response = str(chunk.get("type")), as_dict(chunk.get("response"))
        if kind in RESPONSE_ENDS:
            self._held.append(chunk)
            return []
        if response is not None:
            if self._replies:
                return []
            self._head = {key: response[key] for key in ("id", "created_at") if key in response}
        index = chunk.get("output_index")
        if isinstance(index, int):
            self._items = max(self._items, self._before + index + 1)
            if self._before:
                chunk = {**chunk, "output_index": index + self._before}
        return [self._numbered(chunk)]

    def _numbered(self, chunk: Chunk) -> Chunk:
        given = chunk.get("sequence_number")
        if not isinstance(given, int):
            return chunk
        self._sequence = given if self._sequence is None else self._sequence + 1
        return chunk if self._sequence == given else {**chunk, "sequence_number": self._sequence}

    @property
    def last_id(self) -> tuple[str, str] | None:
        ends = [as_dict(each.get("response")) or {} for each in self._held]
        told, last = self._head.get("id"), ends[-1].get("id") if ends else None
        if not isinstance(told, str) or not isinstance(last, str) or told == last or ends[-1].get("store") is False:
            return None
        return told, last

    def _take(self) -> None:
        """Note what the reply under way said and cost."""
        for each in self._held:
            response = as_dict(each.get("response")) or {}
            self._done += as_list(response.get("output")) or []
            self._usages.append(response.get("usage"))

    def next_reply(self) -> None:
        self._replies += 1
        self._before = self._items
        self._take()
        self._held.clear()

    def end(self) -> list[Chunk]:
        self._take()
        out: list[Chunk] = []
        for each in self._held:
            if self._replies:
                response = as_dict(each.get("response")) or {}
                whole = {**response, **self._head, "output": self._done, "usage": summed(self._usages)}
                each = {**each, "response": whole}  # noqa: PLW2901
            out.append(self._numbered(each))
        return out
