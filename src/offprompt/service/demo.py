"""The demonstration: save a name, change the subject, ask the name; beside it the traditional way."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final, Literal

from offprompt.protocols import Tokenizer
from offprompt.records import Message, as_dict, as_list, compact
from offprompt.service.bound import BoundScope

Language = Literal["en", "zh"]
Create = Callable[..., Mapping[str, Any]]
Where = Literal["none", "said", "shown"]

TURNS_A_SESSION: Final = 25
HIGH_TOKENS: Final = 600
LOW_TOKENS: Final = 300
"""The window, so small that the turn which says the name leaves the prompt while the demonstration lasts."""


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
    """One request: its tokens (of its JSON), how many of them the memory takes, and where the name stood in it.

    memory   traditionally the values; off the prompt tools, instructions, names, receipts, and what was shown.
    name     `said`: only in words of the user or the model; `shown`: a memory put it there; `none`: nowhere.
    """

    tokens: int
    memory: int
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
    """One way of carrying the conversation."""

    turns: tuple[PlayedTurn, ...]

    @property
    def requests(self) -> list[Sent]:
        """All requests in order."""
        return [sent for turn in self.turns for sent in turn.requests]

    @property
    def tokens(self) -> int:
        """Input tokens of all requests."""
        return sum(sent.tokens for sent in self.requests)

    @property
    def memory(self) -> int:
        """How many of them the memory takes."""
        return sum(sent.memory for sent in self.requests)


def play(scope: BoundScope, create: Create, told: Script, tokenizer: Tokenizer) -> Played:
    """The conversation with memory off the prompt; the scope's memory was opened with this small window."""
    for name, value in told.known.items():
        scope.write(name, value)
    turns: list[PlayedTurn] = []
    for number, words in enumerate(told.sessions, 1):
        session = scope.session(f"demo-{number}", model="gpt-4o-mini", system=told.system, policy="window")
        messages: list[Message] = []
        for said in words:
            messages.append({"role": "user", "content": said})
            request = session.prepare(messages)
            requests = [_sent(request, told, tokenizer)]
            reply = session.absorb(create(**request))
            receipts = list(reply.receipts)
            while not reply.done:
                request = session.prepare([*messages, *reply.messages])
                requests.append(_sent(request, told, tokenizer))
                reply = session.absorb(create(**request))
                receipts.extend(reply.receipts)
            messages.extend(reply.messages)
            done = tuple(f"{receipt.action}: {receipt.text}" for receipt in receipts)
            turns.append(PlayedTurn(number, len(turns) + 1, said, reply.text, done, tuple(requests)))
    return Played(tuple(turns))


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
            sent = _sent(request, told, tokenizer)
            turns.append(PlayedTurn(number, len(turns) + 1, said, str(message.get("content")), (), (sent,)))
            if told.name in said:
                known["user_name"] = told.name
    return Played(tuple(turns))


def _sent(request: Mapping[str, Any], told: Script, tokenizer: Tokenizer) -> Sent:
    tokens = memory = 0
    where: Where = "none"
    for part in (*(as_list(request.get("tools")) or []), *(as_list(request.get("messages")) or [])):
        text, role = compact(part), str((as_dict(part) or {}).get("role", "tools"))
        count = tokenizer.count(text)
        tokens += count
        ours = role in ("tools", "system", "tool") or "<memory " in text
        if ours:
            memory += count - (tokenizer.count(told.system) if role == "system" else 0)
        if any(word in text for word in told.name.split()):
            where = "shown" if ours or where == "shown" else "said"
    return Sent(tokens, memory, where)
