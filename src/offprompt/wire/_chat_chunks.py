"""Chunks of OpenAI chat completions put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from offprompt.records import as_dict, as_list, compact
from offprompt.wire._chunks import CUT, read_object

OWN: Final = ("choices", "usage", "object")


@dataclass(slots=True)
class CallParts:
    """A call under way: its fields, its name and the pieces of its arguments."""

    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    name: str = ""
    function: dict[str, Any] = field(default_factory=dict[str, Any])
    arguments: list[str] = field(default_factory=list[str])

    def take(self, fragment: Mapping[str, Any]) -> str:
        """Take a fragment in; returns its piece of the arguments."""
        self.fields |= {
            key: value for key, value in fragment.items() if value is not None and key not in ("index", "function")
        }
        function = as_dict(fragment.get("function")) or {}
        self.function |= {
            key: value for key, value in function.items() if value is not None and key not in ("name", "arguments")
        }
        name = function.get("name")
        # Some servers repeat the name in every chunk, others send it in pieces before the arguments.
        if isinstance(name, str) and name != self.name and not self.arguments:
            self.name += name
        arguments = function.get("arguments")
        piece = arguments if isinstance(arguments, str) else "" if arguments is None else compact(arguments)
        if piece:
            self.arguments.append(piece)
        return piece

    def whole(self) -> dict[str, Any]:
        """The call in the wire's shape."""
        function = {**self.function, "name": self.name, "arguments": "".join(self.arguments)}
        return {"type": "function", **self.fields, "function": function}


@dataclass(slots=True)
class CallList:
    """The calls of one choice, in order; says to which one a fragment belongs."""

    calls: list[CallParts] = field(default_factory=list[CallParts])
    by_index: dict[int, int] = field(default_factory=dict[int, int])

    def locate(self, fragment: Mapping[str, Any]) -> int:
        """The place of a fragment's call; a new one for a new index, or for an id that is not the call's own.

        Without an index an id says which call it is, and without either it is the last one.
        """
        index, call_id = fragment.get("index"), fragment.get("id")
        if isinstance(index, int):
            at = self.by_index.get(index)
        else:
            named = [at for at, call in enumerate(self.calls) if call_id and call.fields.get("id") == call_id]
            at = named[0] if named else None if call_id or not self.calls else len(self.calls) - 1
        known = self.calls[at].fields.get("id") if at is not None else None
        if at is None or (call_id and known and known != call_id):
            self.calls.append(CallParts())
            at = len(self.calls) - 1
        if isinstance(index, int):
            self.by_index[index] = at
        return at


@dataclass(slots=True)
class _Choice:
    message: dict[str, Any] = field(default_factory=dict[str, Any])
    calls: CallList = field(default_factory=CallList)
    rest: dict[str, Any] = field(default_factory=dict[str, Any])
    finish: str | None = None


class ChatAssembler:
    """See `streams.Assembler`."""

    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._usage: Any = None
        self._choices: dict[int, _Choice] = {}

    def add(self, chunk: dict[str, Any]) -> None:
        """See `streams.Assembler`."""
        self._head |= {key: value for key, value in chunk.items() if key not in OWN and value is not None}
        if chunk.get("usage") is not None:
            self._usage = chunk["usage"]
        for item in as_list(chunk.get("choices")) or []:
            choice = as_dict(item) or {}
            index = choice.get("index")
            self._add(self._choices.setdefault(index if isinstance(index, int) else 0, _Choice()), choice)

    def _add(self, choice: _Choice, given: Mapping[str, Any]) -> None:
        if given.get("finish_reason") is not None:
            choice.finish = str(given["finish_reason"])
        choice.rest |= {
            key: value
            for key, value in given.items()
            if key not in ("delta", "index", "finish_reason") and value is not None
        }
        delta = as_dict(given.get("delta")) or {}
        for item in as_list(delta.get("tool_calls")) or []:
            fragment = as_dict(item) or {}
            choice.calls.calls[choice.calls.locate(fragment)].take(fragment)
        for key, value in delta.items():
            if key != "tool_calls" and value is not None:
                before = None if key == "role" else choice.message.get(key)
                choice.message[key] = _joined(before, value)

    def assembled(self) -> dict[str, Any]:
        """See `streams.Assembler`."""
        choices = sorted(self._choices.items()) or [(0, _Choice())]
        items = [_whole(index, choice) for index, choice in choices]
        reply: dict[str, Any] = {**self._head, "object": "chat.completion", "choices": items}
        if self._usage is not None:
            reply["usage"] = self._usage
        return reply


def _whole(index: int, choice: _Choice) -> dict[str, Any]:
    calls = [call.whole() for call in choice.calls.calls]
    if choice.finish is None:
        calls = [call for call in calls if read_object(call["function"]["arguments"]) is not None]
    message: dict[str, Any] = {"role": "assistant", "content": None, **choice.message}
    if calls:
        message["tool_calls"] = calls
    elif message["content"] is None:
        message["content"] = ""
    return {"index": index, **choice.rest, "message": message, "finish_reason": choice.finish or CUT}


def _joined(before: Any, value: Any) -> Any:
    """Two pieces of one field: texts and lists are joined, objects merged, of anything else the newer one counts."""
    if isinstance(before, str) and isinstance(value, str):
        return before + value
    one, two = as_list(before), as_list(value)
    if one is not None and two is not None:
        return one + two
    old, new = as_dict(before), as_dict(value)
    if old is not None and new is not None:
        return {**old, **{key: _joined(old.get(key), item) for key, item in new.items() if item is not None}}
    return value
