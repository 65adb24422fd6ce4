"""Evidence kept: can the model still get at the values that it used later?

Values   the text leaves of a tool call's JSON arguments (the words of a command line) with 6 characters or more, that
         first stood in an earlier tool result: not in the system text, nor in anybody's words before.
Kept     a value is kept by a policy if, in the request that led to the call, it stands in a message that is sent (in
         the stub, where the message is one), or in one of the five best hits of a plain text search over what is not
         sent: messages that left, and the bodies of stubs. The query is the newest user text, the words of the message
         that makes the call, and the tool's name, with the value itself taken out.
         Plain truncation has no search.
Share    kept ÷ all such uses; each use counts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from offprompt.recall.text import TextIndex, terms
from offprompt.records import as_dict, as_list
from offprompt.service.replay.columns import Sent
from offprompt.service.replay.log import STUBBED, Log
from offprompt.service.replay.logged import LoggedCall, LoggedMessage

MIN_VALUE_CHARS: Final = 6
HITS: Final = 5
QUERY_CHARS: Final = 2000


def values_of(call: LoggedCall) -> Iterator[str]:
    """The values in a call's arguments, in order, each once."""
    try:
        parsed: Any = json.loads(call.arguments)
    except (ValueError, RecursionError):
        parsed = call.arguments.split()
    yield from dict.fromkeys(leaf for leaf in _leaves(parsed) if len(leaf) >= MIN_VALUE_CHARS)


def _leaves(value: Any) -> Iterator[str]:
    """The texts in a value, in its order; by a stack, as arguments may be nested deeply."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        else:
            stack += reversed(as_list(item) or list((as_dict(item) or {}).values()))


class Sightings:
    """Where values stand in a log: each text is looked through once for each value."""

    def __init__(self, system: str) -> None:
        self._system = system
        self._seen: dict[str, tuple[int, list[int]]] = {}

    def of(self, value: str, texts: list[str]) -> list[int]:
        """Indexes of the messages that hold the value; -1 in front if the system text does."""
        done, found = self._seen.get(value, (0, [-1] if value in self._system else []))
        found += [at for at in range(done, len(texts)) if value in texts[at]]
        self._seen[value] = (len(texts), found)
        return found


class Terms:
    """The search terms of a log's messages, counted once for all columns."""

    def __init__(self) -> None:
        self._counts: list[Counter[str] | None] = []

    def of(self, at: int, log: Log) -> Counter[str]:
        """The terms of one message."""
        self._counts += [None] * (at + 1 - len(self._counts))
        counts = self._counts[at]
        if counts is None:
            counts = self._counts[at] = terms(log.texts[at])
        return counts


class Kept:
    """What one column keeps: an index over what it does not send, and the count."""

    def __init__(self, *, searches: bool) -> None:
        self.kept = 0
        self._index: TextIndex[int] | None = TextIndex() if searches else None
        self._left = 0
        self._stubs = 0

    def holds(self, value: str, places: list[int], query: str, sent: Sent, log: Log, counts: Terms) -> bool:
        """Whether the value can be had in this request."""
        for at in places:
            if at >= sent.start or at == sent.opener:
                stub = sent.stubs.get(at)
                if stub is None or value in stub:
                    return True
        if self._index is None:
            return False
        self._take_in(self._index, sent, log, counts)
        return any(at in places for at, _ in self._index.search(query, HITS))

    def _take_in(self, index: TextIndex[int], sent: Sent, log: Log, counts: Terms) -> None:
        """Index what is not sent any more, and the bodies of new stubs."""
        for at in range(self._left, sent.start):
            if at not in index:
                index.add(at, counts.of(at, log))
        self._left = max(self._left, sent.start)
        if len(sent.stubs) > self._stubs:
            for at in islice(sent.stubs, self._stubs, None):
                if at < len(log.texts) and at not in index:
                    index.add(at, counts.of(at, log))
            self._stubs = len(sent.stubs)


@dataclass(frozen=True, slots=True)
class Use:
    """A value that a call uses. places: indexes of the messages that hold it. query: what a search for it would say."""

    value: str
    places: list[int]
    query: str


def uses(message: LoggedMessage, log: Log, sightings: Sightings) -> Iterator[Use]:
    """The values that a message's calls use and that first stood in a result of the log before it."""
    for call in message.calls:
        for value in values_of(call):
            places = sightings.of(value, log.texts)
            if not places or places[0] < 0 or log.history.items[places[0]].kind not in STUBBED:
                continue
            words = "" if call.inline else message.text
            query = " ".join([log.newest_user[:QUERY_CHARS], words, call.name]).replace(value, " ")
            yield Use(value, places, query)


class Evidence:
    """The evidence of one conversation's columns."""

    def __init__(self, names: dict[str, bool], system: str) -> None:
        """names: the columns to follow, and whether each can search."""
        self.values = 0
        self.kept = {name: Kept(searches=searches) for name, searches in names.items()}
        self._sightings = Sightings(system)
        self._terms = Terms()

    def follow(self, message: LoggedMessage, sent: dict[str, Sent], log: Log) -> None:
        """Count the values of a message's calls, in the requests that led to it."""
        for use in uses(message, log, self._sightings):
            self.values += 1
            for name, column in self.kept.items():
                column.kept += column.holds(use.value, use.places, use.query, sent[name], log, self._terms)
