"""CuttingModel: a stand-in behind a small window, which is cut from the front without a word, as local servers do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from offprompt.records import Message, as_dict, as_list, compact
from offprompt.testing.strict import Model
from offprompt.testing.strict_replies import reply_from
from offprompt.wire.openai import OpenAIChat

SHAPE = OpenAIChat()


@dataclass
class CuttingModel:
    """Says what `model` says to what is left of a request of chat completions.

    context_tokens   of the window. reserve_tokens: kept free for the answer, so that so much less is read.
    count            tokens of a text. A message takes 4 more, as chat templates do.
    Keeps            `sent`: tokens of each request as it came; `read`: those that were left of it, which is what the
                     reply's usage says. The system text stays, the oldest messages go; of the last one its front goes.
    """

    model: Model
    context_tokens: int
    reserve_tokens: int
    count: Callable[[str], int]
    sent: list[int] = field(default_factory=list[int])
    read: list[int] = field(default_factory=list[int])

    def __call__(self, **request: Any) -> Mapping[str, Any]:
        """The reply in the wire's shape, with what was read as its usage."""
        messages = [as_dict(each) or {} for each in as_list(request.get("messages")) or []]
        fixed = sum(self.count(compact(tool)) for tool in as_list(request.get("tools")) or [])
        self.sent.append(fixed + sum(map(self._tokens, messages)))
        room = self.context_tokens - self.reserve_tokens - fixed
        system = [each for each in messages if SHAPE.kind(each) == "system"]
        rest = [each for each in messages if SHAPE.kind(each) != "system"]
        while len(rest) > 1 and sum(map(self._tokens, [*system, *rest])) > room:
            del rest[0]
        while rest and SHAPE.kind(rest[0]) == "tool":
            del rest[0]
        left = [*system, *rest]
        over = sum(map(self._tokens, left)) - room
        if over > 0 and rest:
            text = SHAPE.text(rest[0])
            share = max(len(text) - len(text) * over // max(self.count(text), 1), 0)
            left[len(system)] = {**rest[0], "content": text[len(text) - share :]}
        self.read.append(min(fixed + sum(map(self._tokens, left)), self.context_tokens - self.reserve_tokens))
        said = self.model(**{**request, "messages": left})
        reply = dict(reply_from(said, "openai", len(self.sent), sign=str))
        out = max(1, self.count(compact(reply["choices"])))
        usage = {"prompt_tokens": self.read[-1], "completion_tokens": out, "total_tokens": self.read[-1] + out}
        return {**reply, "usage": usage}

    def _tokens(self, message: Message) -> int:
        calls = [part for call in SHAPE.calls(message) for part in (call.name, call.arguments)]
        return 4 + sum(self.count(text) for text in (SHAPE.text(message), *calls) if text)
