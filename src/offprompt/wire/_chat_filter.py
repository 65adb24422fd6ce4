"""Chunks of OpenAI chat completions on their way to the application."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from offprompt.records import as_dict, as_list
from offprompt.wire._chat_chunks import CallList
from offprompt.wire._filters import Filters, TextStage, like
from offprompt.wire.argument_stream import ArgumentStream
from offprompt.wire.one_answer import joined_logprobs

FOR_CALLS: Final = ("tool_calls", "function_call")


@dataclass(slots=True)
class _Call:
    """What became of a call. shown: its number among those that the application sees."""

    arguments: ArgumentStream | None = None
    out: list[str] = field(default_factory=list[str])
    shown: int | None = None


@dataclass(slots=True)
class _Choice:
    """One choice under way.

    chances   log probabilities of text that is held back. is_old: it calls a function as before there were tools.
    """

    text: TextStage
    calls: CallList = field(default_factory=CallList)
    states: list[_Call] = field(default_factory=list[_Call])
    shown: int = 0
    over: bool = False
    chances: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    is_old: bool = False

    def passed(self, chances: object = None) -> dict[str, Any]:
        """Log probabilities for text that is passed on: those of what was held before it, and its own."""
        own = as_dict(chances)
        if not self.chances:
            return {}
        held, self.chances = self.chances, []
        return {"logprobs": joined_logprobs([*held, *([] if own is None else [own])])}


class ChatFilter:
    """See `reply_stream.ReplyStream`."""

    def __init__(self, filters: Filters) -> None:
        self._filters = filters
        self._choices: dict[int, _Choice] = {}
        self._last: tuple[object, dict[str, Any]] | None = None

    def feed(self, chunk: object, data: dict[str, Any]) -> list[Any]:
        """See `ReplyStream`."""
        items = as_list(data.get("choices"))
        if not items:
            return [chunk]
        self._last = (chunk, data)
        before: list[dict[str, Any]] = []
        kept: list[dict[str, Any]] = []
        same = True
        for item in items:
            given = as_dict(item) or {}
            index = given.get("index")
            at = index if isinstance(index, int) else 0
            choice = self._choices.setdefault(at, _Choice(self._filters.text()))
            changed, extra = self._choice(choice, given)
            same = same and changed is not None and changed == given and not extra
            kept += [] if changed is None else [changed]
            before += [
                {"index": at, "delta": delta, "finish_reason": None, **(choice.passed() if "content" in delta else {})}
                for delta in extra
            ]
        if same:
            return [chunk]
        out = [like(chunk, {**_head(data), "choices": [each]}) for each in before]
        if kept or data.get("usage") is not None:
            out.append(like(chunk, {**data, "choices": kept}))
        return out

    def _choice(self, choice: _Choice, given: dict[str, Any]) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
        """The choice as it is passed on, None if nothing is left of it; deltas to be passed on before it."""
        delta = dict(as_dict(given.get("delta")) or {})
        gone = False
        content = delta.get("content")
        if isinstance(content, str) and content:
            delta["content"] = choice.text.feed(content)
            gone = not delta["content"]
            chances = as_dict(given.get("logprobs"))
            if gone and chances is not None:
                choice.chances.append(chances)
                given = {**given, "logprobs": None}
            elif not gone:
                given = {**given, **choice.passed(chances)}
        calls = as_list(delta.pop("tool_calls", None))
        if calls is not None:
            fragments = [piece for each in calls if (piece := self._fragment(choice, as_dict(each) or {})) is not None]
            gone = gone or not fragments
            if fragments:
                delta["tool_calls"] = fragments
        choice.is_old = choice.is_old or bool(delta.get("function_call"))
        finish = given.get("finish_reason")
        extra = self._end(choice) if finish is not None else []
        if extra:
            # What this chunk says itself comes before what was held back behind it.
            extra = [{key: delta.pop(key)} for key in ("content", "tool_calls") if delta.get(key)] + extra
        if gone and finish is None:
            delta = {key: value for key, value in delta.items() if value or key == "role"}
            if not delta:
                return None, extra
        changed = {**given, "delta": delta}
        if finish in FOR_CALLS and not choice.shown and not choice.is_old:
            changed["finish_reason"] = "stop"
        return changed, extra

    def _fragment(self, choice: _Choice, fragment: Mapping[str, Any]) -> dict[str, Any] | None:
        """A piece of a call as it is passed on."""
        at = choice.calls.locate(fragment)
        while len(choice.states) <= at:
            choice.states.append(_Call())
        call, state = choice.calls.calls[at], choice.states[at]
        piece = call.take(fragment)
        # Names may come in pieces; the first piece of the arguments says that the name is whole.
        if not piece or call.name in self._filters.hidden:
            return None
        if state.arguments is None:
            state.arguments = self._filters.arguments(call.name)
        state.out.append(state.arguments.feed(piece))
        return self._show(choice, at) if self._filters.calls == "streamed" else None

    def _show(self, choice: _Choice, at: int) -> dict[str, Any] | None:
        """What was not passed on yet of a call."""
        call, state = choice.calls.calls[at], choice.states[at]
        text = "".join(state.out)
        state.out.clear()
        if state.shown is None:
            state.shown = choice.shown
            choice.shown += 1
            function = {**call.function, "name": call.name, "arguments": text}
            return {"index": state.shown, "type": "function", **call.fields, "function": function}
        return {"index": state.shown, "function": {"arguments": text}} if text else None

    def _end(self, choice: _Choice) -> list[dict[str, Any]]:
        """The deltas that a finished choice still gives out: held text, whole calls."""
        if choice.over:
            return []
        choice.over = True
        rest = choice.text.finish()
        deltas: list[dict[str, Any]] = [{"content": rest}] if rest else []
        for at, state in enumerate(choice.states):
            call = choice.calls.calls[at]
            if call.name in self._filters.hidden:
                continue
            if state.arguments is not None:
                state.out.append(state.arguments.finish())
                if state.arguments.bad:
                    continue
            piece = self._show(choice, at)
            deltas += [{"tool_calls": [piece]}] if piece is not None else []
        return deltas

    def finish(self) -> list[Any]:
        """See `ReplyStream`."""
        out: list[Any] = []
        for index, choice in sorted(self._choices.items()):
            rest = "" if choice.over else choice.text.finish()
            choice.over = True
            if rest and self._last is not None:
                chunk, data = self._last
                item = {"index": index, "delta": {"content": rest}, "finish_reason": None, **choice.passed()}
                out.append(like(chunk, {**_head(data), "choices": [item]}))
        return out


def _head(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in ("choices", "usage")}
