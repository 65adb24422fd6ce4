"""Trace: one session, turn by turn, from the store alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from offprompt.privacy.keys import SECRET_VALUE
from offprompt.protocols import SlotStore, run
from offprompt.records import (
    Event,
    ListSecrets,
    ListSlots,
    Scope,
    Shown,
    Size,
    Slot,
    SlotHistory,
    SlotQuery,
    Usage,
    as_dict,
    fold_name,
    text_of,
)
from offprompt.service.answer_check import turn_flags
from offprompt.service.policies import is_secret
from offprompt.service.stored_session import Round, StoredSession, StoredTurn
from offprompt.wire.contradiction import Contradiction
from offprompt.wire.hiding import Hidden, Hider

SAID_CHARS: Final = 100
LATE_S: Final = 60.0
"""Uses of slots may be written to the log later than they happened; so long is looked behind a session's end."""

PAGE: Final = 1000
NOT_PRINTED: Final = "(arguments of a refused write are not printed)"


@dataclass(frozen=True, slots=True)
class TracedAction:
    """An action as it was read from the reply; values as handles."""

    name: str
    arguments: Mapping[str, Any]
    where: str


@dataclass(frozen=True, slots=True)
class TracedRefusal:
    """What looked like an action and was not run."""

    name: str
    why: str
    where: str


@dataclass(frozen=True, slots=True)
class TracedCall:
    """A call of the client's own tools, as the model wrote it."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class TracedRound:
    """One request: how it was built, what came back, what was made of it.

    parts      characters and tokens by part; sent: their sum. prefix: tokens that repeat the request before.
    cut        turns that left; stubbed: messages that became stubs after use.
    raw        the reply's text as the model wrote it. receipts: what the model was told of its actions.
    """

    seq: int
    at: float
    parts: Mapping[str, Size]
    sent: Size
    prefix: int
    cut: int
    stubbed: int
    outside: int
    shown: tuple[Shown, ...]
    lapsed: tuple[str, ...]
    said: tuple[str, ...]
    leaked: tuple[str, ...]
    scrubbed: tuple[str, ...]
    unproven: tuple[str, ...]
    outcome: str
    raw: str
    actions: tuple[TracedAction, ...]
    refused: tuple[TracedRefusal, ...]
    calls: tuple[TracedCall, ...]
    receipts: tuple[str, ...]
    out: Size
    usage: Usage
    price: float | None
    currency: str
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TracedTurn:
    """A user turn. user: its words, 100 characters at most. events: what the store did while it lasted."""

    number: int
    user: str
    rounds: tuple[TracedRound, ...]
    events: tuple[Event, ...]
    flags: tuple[Contradiction, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """A session's turns; nothing in it holds the value of a `never` slot.

    extracted  what became of its turns when a language model read them for facts, whenever that was.
    """

    scope: Scope
    model: str
    wire: str
    policy: str
    turns: tuple[TracedTurn, ...]
    extracted: tuple[Event, ...] = ()


class Tracer:
    """Traces one session.

    values   False: values of all slots are handles. True: only those of `never` slots, and what has the form of a key.
    Limit    a value that the store no longer gives out (forgotten, expired, older than the kept versions) is known
             here only if the model wrote it; keys of common forms are masked whatever they are.
    """

    def __init__(self, store: SlotStore, session: StoredSession, *, values: bool = False) -> None:
        self._store, self._session = store, session
        self._stored = [
            (slot, run(store, SlotHistory(slot.scope, slot.name))) for slot in _all_slots(store, session.record.scope)
        ]
        self._slots = {fold_name(slot.name): slot for slot, _ in self._stored}
        self._versions = {fold_name(slot.name): versions for slot, versions in self._stored}
        self._hider = Hider(self._hidden(), secrets_only=values)

    def trace(self, turn: int | None = None) -> Trace:
        """All turns, or one. Cost: one pass over journal, ledger and the events of the time."""
        record = self._session.record
        events = list(_events(self._store, record.scope, record.created_at, record.used_at + LATE_S))
        turns = self._session.turns
        ends = [*(one.rounds[0].entry.at for one in turns[1:]), float("inf")]
        found = tuple(
            self._turn(one, [event for event in events if one.rounds[0].entry.at <= event.at < end])
            for one, end in zip(turns, ends, strict=True)
            if turn is None or one.number == turn
        )
        read = tuple(_extracted(self._store, record.scope))
        return Trace(record.scope, record.model, record.wire, record.policy, found, read)

    def hide(self, text: str) -> str:
        """A text with handles in place of what is not to be read."""
        return SECRET_VALUE.sub("[secret]", self._hider(text))

    def _turn(self, turn: StoredTurn, events: Sequence[Event]) -> TracedTurn:
        user = "" if turn.user is None else self.hide(turn.user.text)
        user = " ".join(user.split())
        return TracedTurn(
            turn.number,
            user if len(user) <= SAID_CHARS else user[: SAID_CHARS - 1] + "…",
            tuple(self._round(one) for one in turn.rounds),
            tuple(self._own(turn, events)),
            tuple(
                Contradiction(flag.slot, flag.fault, self.hide(flag.quote))
                for flag in turn_flags(turn, self._slots, self._versions)
            ),
        )

    def _round(self, one: Round) -> TracedRound:
        entry = one.entry
        return TracedRound(
            entry.seq,
            entry.at,
            entry.parts,
            entry.sent,
            entry.prefix,
            entry.cut,
            entry.stubbed,
            entry.outside,
            entry.shown,
            entry.lapsed,
            entry.said,
            entry.leaked,
            entry.scrubbed,
            entry.unproven,
            "waiting" if one.waiting else entry.outcome,
            self._raw(one),
            tuple(TracedAction(each.name, self._arguments(each.arguments), each.where) for each in one.parsed.actions),
            tuple(TracedRefusal(each.name, self.hide(each.why), each.where) for each in one.parsed.refused),
            tuple(TracedCall(call.name, self.hide(call.arguments)) for call in one.calls),
            tuple(map(self.hide, one.answers)),
            entry.out,
            entry.usage,
            entry.price,
            entry.currency,
            tuple(map(self.hide, entry.warnings)),
        )

    def _raw(self, one: Round) -> str:
        """The reply's text; refused writes in it are left out, since nothing tells where in them the value stands."""
        if one.reply is None:
            return ""
        text = self._session.shape.text(dict(one.reply.message))
        for refused in one.parsed.refused:
            place = _place(refused.where)
            if place is not None and refused.name in ("mem_write", ""):
                at = text.find(refused.raw)
                end = at + place[1] - place[0]
                text = NOT_PRINTED if at < 0 else text[:at] + NOT_PRINTED + text[end:]
        return self.hide(text)

    def _arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return as_dict(self._hider.deep(dict(arguments))) or {}

    def _own(self, turn: StoredTurn, events: Sequence[Event]) -> Iterator[Event]:
        """The events that are this session's: in its scope, of its actions, or the application's own."""
        scope = self._session.record.scope
        names = {fold_name(event.name) for event in events if event.scope == scope}
        for one in turn.rounds:
            names |= {fold_name(shown.name) for shown in one.entry.shown}
            names |= {fold_name(str(action.arguments.get("slot", ""))) for action in one.parsed.actions}
        for event in events:
            ours = event.scope == scope or event.actor.partition(" ")[0] not in ("model", "session")
            if ours or fold_name(event.name) in names:
                yield event

    def _hidden(self) -> Iterator[Hidden]:
        secret_names: set[str] = set()
        for slot, versions in self._stored:
            secret = slot.policy == "never" or any(version.policy == "never" for version in versions)
            if secret:
                secret_names.add(fold_name(slot.name))
            for value in (slot.value, *(version.value for version in versions)):
                if value is not None:
                    yield Hidden(slot.name, value, secret)
        for name, value in run(self._store, ListSecrets(self._session.record.scope.inherited())):
            secret_names.add(fold_name(name))
            if value is not None:
                yield Hidden(name, value, True)  # noqa: FBT003 - a secret
        for one in self._session.rounds:
            for action in one.parsed.actions:
                name, value = str(action.arguments.get("slot", "")), action.arguments.get("value")
                if action.name == "mem_write" and value is not None:
                    secret = fold_name(name) in secret_names or is_secret(name, text_of(value))
                    yield Hidden(name, value, secret)


def _all_slots(store: SlotStore, scope: Scope) -> list[Slot]:
    """The slots of every scope that this one inherits, also those that another of their name hides from it.

    Of one name the one that the session sees comes last: a live one of the most specific scope.
    """
    scopes = scope.inherited()[::-1]
    queries = [SlotQuery(each, "exact", forgotten=hidden) for hidden in (True, False) for each in scopes]
    return [slot for found in store.batch([ListSlots(query) for query in queries]) for slot in found]


def _events(store: SlotStore, scope: Scope, start: float, end: float) -> Iterator[Event]:
    """The events of exactly the scopes that this one inherits, from start to end, in the log's order."""
    inherited = set(scope.inherited())
    app = Scope(scope.app, shared=True)
    after = _before(store, app, start)
    while page := store.events(scope=app, after=after, limit=PAGE):
        yield from (event for event in page if event.scope in inherited and start <= event.at <= end)
        if all(event.at > end for event in page):
            return
        after = page[-1].seq


def _extracted(store: SlotStore, scope: Scope) -> Iterator[Event]:
    """The events of extraction from exactly this session, in the log's order."""
    after = 0
    while page := store.events(scope=scope, op="extract.", after=after, limit=PAGE):
        yield from (event for event in page if event.scope == scope)
        after = page[-1].seq


def _before(store: SlotStore, app: Scope, start: float) -> int:
    """A number in the log behind which all events from `start` on stand; found by halving, the log is in time order.

    Some events stand later than they happened, none earlier; with a clock that was turned back a few are missed.
    """
    low, high = 0, 1
    while (found := store.events(scope=app, after=high, limit=1)) and found[0].at < start:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        found = store.events(scope=app, after=middle, limit=1)
        low, high = (middle, high) if found and found[0].at < start else (low, middle)
    return low


def _place(where: str) -> tuple[int, int] | None:
    """The characters of `text[17:93]`; None for a native call."""
    if not where.startswith("text["):
        return None
    start, _, end = where[5:-1].partition(":")
    return int(start), int(end)
