"""Calls of language models for memory: each in the ledger by its purpose, none over the day's budget."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from offprompt.config import Settings
from offprompt.errors import BackendError, BudgetError, ConflictError, ModelError, OffpromptError, UnsupportedError
from offprompt.protocols import ChatModel, Clock, SessionStore, Tokenizer
from offprompt.records import Cancel, Completion, LedgerEntry, Purpose, Scope, SessionChange, SessionRecord, Size, Usage
from offprompt.service.accounting import close_entry, digester
from offprompt.wire.prices import PriceSheet, sheet_for

SESSIONS: Final = "@models/"
"""How the ids of the sessions begin whose ledgers hold these calls: one for each scope and day."""

DAY_S: Final = 86_400
COMMITS: Final = 50
"""Tries to add to a ledger to which other processes add at the same time."""

FALLBACK: Final[Mapping[Purpose, Purpose]] = {"summarize": "extract"}
"""Whose model does what none is set for."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What models for memory took in a scope on a day.

    tokens   in and out. prices: by currency. calls: by purpose. failed: calls without an answer. refused: a call was
             not made, since the budget was spent.
    """

    day: str
    tokens: int = 0
    prices: Mapping[str, float] = field(default_factory=dict[str, float])
    calls: Mapping[str, int] = field(default_factory=dict[str, int])
    failed: int = 0
    refused: bool = False


@dataclass(frozen=True, slots=True)
class CountedModel:
    """A chat model for one purpose of memory. Thread-safe."""

    purpose: Purpose
    model: ChatModel
    calls: ModelCalls

    @property
    def name(self) -> str:
        """See `ChatModel`."""
        return self.model.name

    @property
    def context_tokens(self) -> int:
        """See `ChatModel`."""
        return self.model.context_tokens

    def complete(
        self,
        scope: Scope,
        messages: Sequence[Mapping[str, str]],
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 1024,
        timeout_s: float | None = None,
        cancel: Cancel | None = None,
    ) -> Completion:
        """One answer, see `ChatModel.complete`; in the scope's ledger before it returns, whatever came.

        Raises   as there; BudgetError, before the call, where the budget of the day is spent.
        """
        self.calls.check(scope, self.purpose)
        call = _Call(self.purpose, self.name, sum((self.calls.size(each["content"]) for each in messages), Size()))
        try:
            answer = self.model.complete(
                messages, schema=schema, max_tokens=max_tokens, timeout_s=timeout_s, cancel=cancel
            )
        except OffpromptError as exc:
            self.calls.note(scope, replace(call, trouble=str(exc)))
            raise
        except Exception as exc:
            # An application's own model may raise anything; its words may be what was sent.
            why = f"the model {self.name!r} raised {type(exc).__name__}, no error of Offprompt's; raise a ModelError"
            self.calls.note(scope, replace(call, trouble=why))
            raise ModelError(why, kind="server") from exc
        outcome = "cut" if answer.finish in ("length", "cut") else "ok"
        out = self.calls.size(answer.text) + self.calls.size(answer.thinking)
        self.calls.note(scope, replace(call, usage=answer.usage, out=out, outcome=outcome))
        return answer


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that was made. trouble: why no answer came."""

    purpose: Purpose
    model: str
    sent: Size
    out: Size = Size()  # noqa: RUF009 - frozen
    usage: Usage = Usage()  # noqa: RUF009 - frozen
    outcome: str = "ok"
    trouble: str = ""

    @property
    def tokens(self) -> int:
        """In and out: as the provider counted them where it did, else as we did; without an answer none."""
        if self.trouble:
            return 0
        read = self.sent.tokens if self.usage.input is None else self.usage.input
        return read + (self.out.tokens if self.usage.output is None else self.usage.output)


class ModelCalls:
    """The chat models of an opened memory, by purpose.

    make     the model that is set for a purpose, None: none is; called once each, at the first call.
    Ledger   of the session `@models/DAY` (UTC) of the scope's user and agent, of the app where it names neither: one
             entry a call, its size under the name of the purpose. `trace` and `audit` read it as any other.
    Budget   the settings budget_tokens and budget_price, for each of these and day. A call that began within it is
             made; calls at the same time may so go over it by what they take.
    Safety   any number of threads and processes.
    """

    def __init__(
        self,
        sessions: SessionStore,
        clock: Clock,
        tokenizer: Tokenizer,
        settings: Settings,
        sheets: Sequence[PriceSheet],
        make: Callable[[Purpose], ChatModel | None],
    ) -> None:
        self._sessions, self._clock, self._tokenizer = sessions, clock, tokenizer
        self._settings, self._sheets, self._make = settings, sheets, make
        self._lock = threading.Lock()
        self._made: dict[Purpose, ChatModel | None] = {}

    def of(self, purpose: Purpose) -> CountedModel | None:
        """The model for a purpose, None: none is set."""
        with self._lock:
            if purpose not in self._made:
                self._made[purpose] = self._make(purpose)
            model = self._made[purpose]
        if model is None:
            other = FALLBACK.get(purpose)
            found = self.of(other) if other is not None else None
            return None if found is None else replace(found, purpose=purpose)
        return CountedModel(purpose, model, self)

    def needed(self, purpose: Purpose) -> CountedModel:
        """The model for a purpose.

        Raises   UnsupportedError if none is set.
        """
        found = self.of(purpose)
        if found is None:
            raise UnsupportedError(
                f"no model is set for the purpose {purpose!r}; add [models.{purpose}] with its model to the config "
                f"file, or open with models={{{purpose!r}: offprompt.chat_model(…)}}"
            )
        return found

    def size(self, text: str) -> Size:
        """Characters and tokens of a text."""
        return Size(len(text), self._tokenizer.count(text))

    def spent(self, scope: Scope) -> Spent:
        """What was spent today where the scope's calls are counted. Cost: one read of the store."""
        place = place_of(scope, self._today())
        return spent_in(self._sessions.load(place) or SessionRecord(place))

    def check(self, scope: Scope, purpose: Purpose) -> None:
        """Nothing, if a call may be made.

        Raises   BudgetError if the budget is spent; the first time on a day it is noted, for `doctor`.
        """
        tokens, price = self._settings.budget_tokens, self._settings.budget_price
        if not (tokens or price):
            return
        spent = self.spent(scope)
        money = {currency: paid for currency, paid in spent.prices.items() if len(currency) == 3}
        if tokens and spent.tokens >= tokens:
            over = (spent.tokens, tokens, "tokens", "budget_tokens")
        elif price and max(money.values(), default=0.0) >= price:
            currency, paid = max(money.items(), key=lambda each: each[1])
            over = (round(paid * MILLIONTHS), round(price * MILLIONTHS), f"millionths of {currency}", "budget_price")
        else:
            return
        if not spent.refused:
            self._commit(scope, {"refused": 1}, None)
        used, limit, unit, setting = over
        raise BudgetError(
            f"the models for memory of {place_of(scope, spent.day).without_session()} today, {spent.day} UTC, "
            f"and no call was made for {purpose!r}",
            used=used,
            limit=limit,
            unit=unit,
            way_out=f"memory goes on without it; raise {setting}, or wait for the next day",
            retry_after_s=DAY_S - self._clock.now() % DAY_S,
        )

    def note(self, scope: Scope, call: _Call) -> None:
        """Put a call into the ledger."""
        sums = {"tokens": call.tokens, f"calls {call.purpose}": 1, "failed": int(bool(call.trouble))}
        self._commit(scope, {name: add for name, add in sums.items() if add}, call)

    def meter(self, scope: Scope, purpose: Purpose) -> Meter:
        """What counts tokens that another client sends, such as an embedder's."""
        return Meter(self, scope, purpose)

    def _today(self) -> str:
        return dt.datetime.fromtimestamp(self._clock.now(), tz=dt.UTC).date().isoformat()

    def _commit(self, scope: Scope, adds: Mapping[str, float], call: _Call | None) -> None:
        """Add to the day's sums, and to its ledger where a call was made."""
        now = self._clock.now()
        place = place_of(scope, self._today())
        for left in reversed(range(COMMITS)):
            before = self._sessions.load(place) or SessionRecord(place, created_at=now)
            account = {name: before.account.get(name, 0) + add for name, add in adds.items()}
            record = replace(before, revision=before.revision + 1, used_at=now, account={**before.account, **account})
            entries: tuple[LedgerEntry, ...] = ()
            if call is not None:
                entry = self._entry(before, call, now)
                entries = (entry,)
                record = replace(record, model=call.model, requests=before.requests + 1, last_hash=entry.hash)
                if entry.price is not None:
                    paid = f"price {entry.currency}"
                    sums = {**record.account, paid: record.account.get(paid, 0.0) + entry.price}
                    record = replace(record, account=sums)
            try:
                self._sessions.commit(SessionChange(record, ledger=entries))
            except ConflictError:
                if not left:
                    raise
            else:
                return

    def _entry(self, before: SessionRecord, call: _Call, now: float) -> LedgerEntry:
        """The call's ledger entry, priced and chained."""
        pending = LedgerEntry(before.requests + 1, now, 0, call.model, parts={call.purpose: call.sent})
        return close_entry(
            replace(before, pending=pending),
            digester(self._sessions.digest_key(before.scope)),
            out=call.out,
            usage=call.usage,
            sheet=None if call.trouble else sheet_for(call.model, self._sheets),
            outcome="no reply" if call.trouble else call.outcome,
            warnings=(call.trouble,) if call.trouble else (),
        )


@dataclass(frozen=True, slots=True)
class Meter:
    """Counts what goes out without a chat model, in a scope's ledger and budget."""

    calls: ModelCalls
    scope: Scope
    purpose: Purpose

    def allow(self) -> None:
        """Nothing, if the budget is not spent.

        Raises   BackendError if it is: what was to be done stays undone, and is done later.
        """
        try:
            self.calls.check(self.scope, self.purpose)
        except BudgetError as exc:
            raise BackendError(str(exc)) from exc

    def count(self, model: str, tokens: int) -> None:
        """So many tokens went out."""
        self.calls.note(self.scope, _Call(self.purpose, model, Size(0, tokens), usage=Usage(tokens, None, None, 0)))


MILLIONTHS: Final = 1_000_000


def place_of(scope: Scope, day: str) -> Scope:
    """Where a scope's calls of a day are counted."""
    return Scope(scope.app, scope.user, scope.agent, f"{SESSIONS}{day}")


def spent_in(record: SessionRecord) -> Spent:
    """The sums of a record that `ModelCalls` keeps."""
    account = record.account
    return Spent(
        (record.scope.session or "").removeprefix(SESSIONS),
        int(account.get("tokens", 0)),
        {name.removeprefix("price "): paid for name, paid in account.items() if name.startswith("price ")},
        {name.removeprefix("calls "): int(count) for name, count in account.items() if name.startswith("calls ")},
        int(account.get("failed", 0)),
        bool(account.get("refused")),
    )
