"""A language model that reads turns as a test says."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from offprompt.errors import ModelError
from offprompt.records import Cancel, Completion, Scope, Usage

Given: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """What the model was given: turns and known facts by number."""

    messages: Sequence[Mapping[str, str]]
    schema: Mapping[str, Any]

    @property
    def lines(self) -> list[Given]:
        return [json.loads(line) for line in self.messages[1]["content"].splitlines()]

    @property
    def turns(self) -> list[Given]:
        return [line for line in self.lines if "turn" in line]

    @property
    def known(self) -> list[Given]:
        return [line for line in self.lines if "known" in line]

    def turn(self, words: str) -> int:
        """The number of the turn that holds these words."""
        return next(line["turn"] for line in self.turns if words in line["text"])

    def fact(self, words: str) -> int:
        """The number of the fact that holds these words."""
        return next(line["known"] for line in self.known if words in line["text"])


Answer: TypeAlias = "Callable[[Request], Any] | dict[str, Any] | str | Exception | Completion"


def decision(action: str, turn: int = 0, quote: str = "", text: str = "", **fields: Any) -> dict[str, Any]:
    """One decision with all its members."""
    own = {"memory": 0, "speaker": "user", "about": "user", "category": "", "date": "", **fields}
    return {"action": action, "turns": [turn] if turn else [], "quote": quote, "text": text, **own}


def answer(*decisions: dict[str, Any]) -> dict[str, Any]:
    return {"decisions": list(decisions)}


def nothing(request: Request) -> dict[str, Any]:
    """Nothing to remember in any turn."""
    return answer(decision("NONE", turns=[line["turn"] for line in request.turns]))


def trouble(kind: Any = "rate_limit") -> ModelError:
    return ModelError("the endpoint at 127.0.0.1 had enough", kind=kind, tries=3, status=429)


@dataclass(slots=True)
class FakeReader:
    """Gives the answers in their order, the last one again and again."""

    answers: list[Answer] = field(default_factory=list[Answer])
    requests: list[Request] = field(default_factory=list[Request])
    name: str = "fake-1"
    context_tokens: int = 8192

    def complete(
        self,
        scope: Scope,
        messages: Sequence[Mapping[str, str]],
        *,
        schema: Mapping[str, Any],
        max_tokens: int,
        cancel: Cancel | None = None,
    ) -> Completion:
        del scope, max_tokens, cancel
        request = Request(messages, schema)
        self.requests.append(request)
        given = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        made = given(request) if callable(given) else given
        if isinstance(made, Exception):
            raise made
        if isinstance(made, Completion):
            return made
        usage = Usage(input=100, output=10)
        return (
            Completion(made, usage=usage) if isinstance(made, str) else Completion(json.dumps(made), made, usage=usage)
        )
