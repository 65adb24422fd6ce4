"""The replay itself: messages in, sizes and prices of every request out, one column a policy."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from offprompt.protocols import Tokenizer
from offprompt.service.replay.columns import COLUMNS, OURS, Column, Sent
from offprompt.service.replay.evidence import Evidence
from offprompt.service.replay.log import Log, Rules
from offprompt.service.replay.logged import Conversation, LoggedMessage
from offprompt.wire.prices import PriceSheet, cached_tokens, price, request_price


def _ints() -> array[int]:
    return array("q")


def _floats() -> array[float]:
    return array("d")


@dataclass(frozen=True, slots=True)
class Series:
    """One column's requests in order: characters, tokens, those read from the cache, input price."""

    chars: array[int] = field(default_factory=_ints)
    tokens: array[int] = field(default_factory=_ints)
    cached: array[int] = field(default_factory=_ints)
    price: array[float] = field(default_factory=_floats)

    def add(self, sheet: PriceSheet, *, prefix: int, total: int, chars: int) -> None:
        """One more request of `total` tokens, the first `prefix` of which repeat the request before."""
        cached = cached_tokens(sheet, prefix)
        self.chars.append(chars)
        self.tokens.append(total)
        self.cached.append(cached)
        self.price.append(price(sheet, cached=cached, new=total - cached))


@dataclass(slots=True)
class HeadCost:
    """What the head of a live session adds to the requests of a log: tokens, and input price in the sheet's currency.

    everything  beside sending everything. auto: to the requests that the column `auto` sends without it.
    """

    everything_tokens: int = 0
    everything_price: float = 0.0
    auto_tokens: int = 0
    auto_price: float = 0.0


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay computed.

    turns       the turn of each request, counted over all conversations from 1. output: tokens that the model wrote
                in answer to each request.
    values      uses of values first seen in a tool result; kept: how many of them each column keeps.
    """

    rules: Rules
    tokenizer: str
    exact: bool
    conversations: int
    turns: array[int]
    output: array[int]
    columns: dict[str, Series]
    values: int
    kept: dict[str, int]
    head: HeadCost

    @property
    def requests(self) -> int:
        """How many requests there were."""
        return len(self.turns)


def simulate(
    conversations: Iterable[Conversation],
    tokenizer: Tokenizer,
    rules: Rules,
    *,
    chain: bool = False,
    limit: int | None = None,
) -> Replayed:
    """Replay conversations: one request for each assistant message, holding all messages before it.

    chain   all conversations are one, under the first one's system text.
    limit   stop after that many requests.
    Cost    each message's tokens are counted once; O(log n) a request and column, O(n) at a cut. Memory: the largest
            conversation (with `chain`: sums of all, and their texts to 16 million characters), and 28 bytes a request
            and column.
    """
    run = _Run(tokenizer, rules)
    for conversation in conversations:
        if limit is not None and len(run.turns) >= limit:
            break
        if not chain or run.log is None:
            run.begin(conversation.system)
        run.conversations += 1
        for message in conversation.messages:
            if limit is not None and len(run.turns) >= limit:
                break
            run.take(message)
    return run.result()


class _Run:
    """The state of a replay."""

    def __init__(self, tokenizer: Tokenizer, rules: Rules) -> None:
        self.log: Log | None = None
        self.turns = _ints()
        self.conversations = 0
        self._tokenizer = tokenizer
        self._rules = rules
        self._output = _ints()
        self._series = {name: Series() for name in COLUMNS}
        self._columns: dict[str, Column] = {}
        self._evidence: Evidence | None = None
        self._values = 0
        self._kept = dict.fromkeys(COLUMNS, 0)
        self._turns_before = 0
        self._head = HeadCost()

    def begin(self, system: str) -> None:
        """A new conversation: columns and caches begin anew."""
        self._close()
        self.log = Log(system, self._tokenizer, self._rules)
        self._columns = {name: column() for name, column in COLUMNS.items()}
        self._evidence = Evidence({name: name in OURS for name in (*OURS, "truncation")}, system)

    def take(self, message: LoggedMessage) -> None:
        """The next message; an assistant's answers a request that holds all before it."""
        if self.log is None or self._evidence is None:
            return
        if message.kind == "assistant" and self.log.history.items:
            sent = {name: column.request(self.log) for name, column in self._columns.items()}
            for name, request in sent.items():
                self._series[name].add(
                    self._rules.sheet, prefix=request.prefix, total=request.total, chars=request.chars
                )
            self._note_head(self.log.head.tokens, sent["logged"], sent["auto"])
            self.turns.append(self._turns_before + max(self.log.turn, 1))
            if self.log.evidence_open:
                self._evidence.follow(message, sent, self.log)
            self._output.append(self.log.append(message))
        else:
            self.log.append(message)

    def result(self) -> Replayed:
        """All of it."""
        self._close()
        return Replayed(
            rules=self._rules,
            tokenizer=self._tokenizer.name,
            exact=self._tokenizer.exact,
            conversations=self.conversations,
            turns=self.turns,
            output=self._output,
            columns=self._series,
            values=self._values,
            kept=self._kept,
            head=self._head,
        )

    def _note_head(self, tokens: int, logged: Sent, auto: Sent) -> None:
        """What the head would add to a request: all of it new in the first, repeated in the others."""

        def added(sent: Sent) -> float:
            prefix = sent.prefix + tokens if sent.prefix else 0
            with_head = request_price(self._rules.sheet, prefix=prefix, total=sent.total + tokens)
            return with_head - request_price(self._rules.sheet, prefix=sent.prefix, total=sent.total)

        self._head.everything_tokens += tokens
        self._head.everything_price += added(logged)
        if auto.bare:
            self._head.auto_tokens += tokens
            self._head.auto_price += added(auto)

    def _close(self) -> None:
        if self.log is None or self._evidence is None:
            return
        self._turns_before += max(self.log.turn, 1)
        self._values += self._evidence.values
        for name in COLUMNS:
            column = self._evidence.kept.get(name)
            self._kept[name] += self._evidence.values if column is None else column.kept


def turn_ranges(turns: array[int]) -> Iterator[tuple[int, int, int]]:
    """Each turn with the range of its requests: (turn, first, behind the last)."""
    first = 0
    for at in range(1, len(turns) + 1):
        if at == len(turns) or turns[at] != turns[first]:
            yield turns[first], first, at
            first = at
