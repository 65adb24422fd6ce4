"""The demonstration: save a name, change the subject, ask the name; beside it the traditional way."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final, Literal

from offprompt.protocols import Tokenizer
from offprompt.records import Message, as_dict, as_list, compact
from offprompt.service.offprompt import BoundScope

Language = Literal["en", "zh"]
Create = Callable[..., Mapping[str, Any]]
Where = Literal["none", "said", "shown"]

TURNS_A_SESSION: Final = 25
WINDOW: Final = {"window_high_tokens": 600, "window_low_tokens": 300}
"""So small that the turn which says the name leaves the prompt while the demonstration lasts."""


@dataclass(frozen=True, slots=True)
class Script:
    """What the user says in each of the two sessions, the name, and what the memory holds besides.

    Fifty turns: the name is told in the first, asked in the last of each session.
    """

    language: Language
    system: str
    name: str
    sessions: tuple[tuple[str, ...], tuple[str, ...]]
    known: Mapping[str, str]


def script(language: Language) -> Script:
    """The script in that language."""
    tables = tomllib.loads(files("offprompt.service").joinpath("demo.toml").read_text(encoding="utf-8"))
    words = tables[language]
    subjects = [words["subject"].format(topic=topic) for topic in words["topics"]]
    first = (words["tells"], *subjects[: TURNS_A_SESSION - 2], words["asks"])
    second = (*subjects[::-1][: TURNS_A_SESSION - 1], words["asks"])
    return Script(language, words["system"], words["name"], (first, second), words["known"])


@dataclass(frozen=True, slots=True)
class Sent:
    """One request: its tokens (of its JSON), and where the name stood in it."""

    tokens: int
    name: Where


@dataclass(frozen=True, slots=True)
class PlayedTurn:
    """One user turn: what was asked and answered, and the requests that it took."""

    session: int
    number: int
    user: str
    answer: str
    actions: tuple[str, ...]
    requests: tuple[Sent, ...]


@dataclass(frozen=True, slots=True)
class Played:
    """One way of carrying the conversation. `head`: tokens of tools, instructions and names in each request."""

    turns: tuple[PlayedTurn, ...]
    head: int = 0

    @property
    def requests(self) -> list[Sent]:
        """All requests in order."""
        return [sent for turn in self.turns for sent in turn.requests]

    @property
    def tokens(self) -> int:
        """Input tokens of all requests."""
        return sum(sent.tokens for sent in self.requests)


def play(scope: BoundScope, create: Create, told: Script, tokenizer: Tokenizer) -> Played:
    """The conversation with memory off the prompt; the scope's memory was opened with `WINDOW`."""
    for name, value in told.known.items():
        scope.write(name, value)
    turns: list[PlayedTurn] = []
    head = 0
    for number, words in enumerate(told.sessions, 1):
        session = scope.session(f"demo-{number}", model="gpt-4o-mini", system=told.system, policy="window")
        messages: list[Message] = []
        for said in words:
            messages.append({"role": "user", "content": said})
            request = session.prepare(messages)
            requests = [_sent(request, told.name, tokenizer)]
            head = head or _head_tokens(request, told, tokenizer)
            reply = session.absorb(create(**request))
            while not reply.done:
                request = session.prepare([*messages, *reply.messages])
                requests.append(_sent(request, told.name, tokenizer))
                reply = session.absorb(create(**request))
            messages.extend(reply.messages)
            actions = tuple(f"{receipt.action}: {receipt.text}" for receipt in reply.receipts)
            turns.append(PlayedTurn(number, len(turns) + 1, said, reply.text, actions, tuple(requests)))
    return Played(tuple(turns), head)


def play_traditional(create: Create, told: Script, tokenizer: Tokenizer) -> Played:
    """The same conversation with every value pasted into the system prompt of each request, and all of its history."""
    turns: list[PlayedTurn] = []
    known = dict(told.known)
    for number, words in enumerate(told.sessions, 1):
        messages: list[Message] = []
        for said in words:
            messages.append({"role": "user", "content": said})
            pasted = "\n".join([told.system, "", *(f"{name}: {value}" for name, value in known.items())])
            request = {"model": "gpt-4o-mini", "messages": [{"role": "system", "content": pasted}, *messages]}
            choice = as_dict((as_list(create(**request)["choices"]) or [{}])[0]) or {}
            message = as_dict(choice.get("message")) or {}
            messages.append(message)
            sent = _sent(request, told.name, tokenizer)
            turns.append(PlayedTurn(number, len(turns) + 1, said, str(message.get("content")), (), (sent,)))
            if told.name in said:
                known["user_name"] = told.name
    return Played(tuple(turns))


def _sent(request: Mapping[str, Any], name: str, tokenizer: Tokenizer) -> Sent:
    parts = [*(as_list(request.get("tools")) or []), *(as_list(request.get("messages")) or [])]
    texts = [compact(part) for part in parts]
    holding = [text for text in texts if name in text]
    # The user and the model may have said it; all else that holds it was put there by a memory.
    added = [text for text in holding if '"system"' in text[:20] or "<memory " in text or '"tool"' in text[:20]]
    where: Where = "shown" if added else "said" if holding else "none"
    return Sent(sum(tokenizer.count(text) for text in texts), where)


def _head_tokens(request: Mapping[str, Any], told: Script, tokenizer: Tokenizer) -> int:
    messages: Sequence[Any] = as_list(request.get("messages")) or []
    system = str((as_dict(messages[0]) or {}).get("content", ""))
    tools = sum(tokenizer.count(compact(tool)) for tool in as_list(request.get("tools")) or [])
    return tools + tokenizer.count(system) - tokenizer.count(told.system)
