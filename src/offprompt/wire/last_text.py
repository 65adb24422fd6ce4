"""The last text: where a reply is asked for as JSON, a text before a memory call would break it, and is left out."""

from __future__ import annotations

from offprompt.records import as_dict, as_list
from offprompt.wire.shapes import Wire

Chunk = dict[str, object]


class LastText:
    """Holds a reply's chunks from its first text on, until it is known whether another reply follows.

    Then the texts are left out, and what stands behind them is numbered on without them; else all come as they were.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire: Wire = wire
        self._held: list[Chunk] = []
        self._texts: set[int] = set()

    def feed(self, chunk: Chunk) -> list[Chunk]:
        """What of the reply can be told by now."""
        says = self._says(chunk)
        if not says and not self._held:
            return [chunk]
        self._held.append(chunk)
        return []

    def over(self, *, follows: bool) -> list[Chunk]:
        """The rest of the reply; follows: another one does."""
        held, self._held = self._held, []
        bare = [kept for each in held if (kept := self._without(each)) is not None] if follows else held
        self._texts = set()
        return bare

    def _says(self, chunk: Chunk) -> bool:
        """Whether a chunk holds text for the reader, or begins some."""
        if self._wire == "openai":
            return any(_delta(each).get("content") for each in as_list(chunk.get("choices")) or [])
        begun = as_dict(chunk.get("content_block" if self._wire == "anthropic" else "item")) or {}
        at = self._place(chunk)
        if begun.get("type") == ("text" if self._wire == "anthropic" else "message") and at is not None:
            self._texts.add(at)
        return at in self._texts

    def _place(self, chunk: Chunk) -> int | None:
        at = chunk.get("index" if self._wire == "anthropic" else "output_index")
        return at if isinstance(at, int) else None

    def _without(self, chunk: Chunk) -> Chunk | None:
        """The chunk without text, None if nothing else is in it."""
        if self._wire == "openai":
            return _chat_without(chunk)
        at = self._place(chunk)
        if at in self._texts:
            return None
        if at is not None:
            key = "index" if self._wire == "anthropic" else "output_index"
            return {**chunk, key: at - sum(each < at for each in self._texts)}
        response = as_dict(chunk.get("response")) or {}
        items = as_list(response.get("output"))
        if self._wire == "anthropic" or not items:
            return chunk
        kept = [item for item in items if (as_dict(item) or {}).get("type") != "message"]
        return {**chunk, "response": {**response, "output": kept}}


def _delta(choice: object) -> dict[str, object]:
    return as_dict((as_dict(choice) or {}).get("delta")) or {}


def _chat_without(chunk: Chunk) -> Chunk | None:
    choices: list[Chunk] = []
    for each in as_list(chunk.get("choices")) or []:
        choice = as_dict(each) or {}
        delta = {key: value for key, value in _delta(choice).items() if key != "content"}
        if delta or choice.get("finish_reason") is not None:
            choices.append({**{key: value for key, value in choice.items() if key != "logprobs"}, "delta": delta})
    return {**chunk, "choices": choices} if choices or chunk.get("usage") is not None else None
