"""How a value becomes a slot: policy, schema, life, parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from offprompt.config import Settings
from offprompt.errors import ConflictError, LimitError, NameInvalidError
from offprompt.protocols import Clock, SlotStore, Tokenizer, run
from offprompt.records import (
    DEFAULT,
    MAX_NAME_CHARS,
    EraseSlots,
    ForgetSlot,
    GetSlot,
    Json,
    ListSlots,
    Policy,
    PutSlot,
    Scope,
    Slot,
    SlotLimits,
    SlotOp,
    SlotQuery,
    Source,
    Trust,
    clean_name,
    fold_name,
    text_of,
)
from offprompt.records.basis import consents_of, may_be_used
from offprompt.records.slot import KEEP_ALL
from offprompt.records.values import pieces
from offprompt.service.granting import Grants
from offprompt.service.holding import Holds
from offprompt.service.policies import Chosen, choose_policy, is_profile
from offprompt.service.quotas import Quotas
from offprompt.service.spooling import Spool
from offprompt.service.tombstones import Tombstones
from offprompt.wire.schema import check_schema


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes: source, trust, actor, and the write's own name, by which a replay is known.

    basis    tags of the purpose and consent of what is written; None: those of the slot stay.
    """

    source: Source = "app"
    trust: Trust = "user"
    actor: str = "app"
    op_key: str | None = None
    basis: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Kit:
    """What the services share: one store, one clock, one tokenizer, the settings.

    spool    None: no write is kept. quotas: what an app may store; None: anything. holds: what is not erased.
    stones   who was erased; None: nobody. grants: who finds what spaces and agents hold; None: nobody.
    purposes what slots are read for: others are not found; None: for anything.
    """

    slots: SlotStore
    clock: Clock
    tokenizer: Tokenizer
    settings: Settings
    spool: Spool | None = None
    quotas: Quotas | None = None
    holds: Holds | None = None
    stones: Tombstones | None = None
    grants: Grants | None = None
    purposes: frozenset[str] | None = None

    def usable(self, slot: Slot) -> bool:
        """Whether a slot may be used for what is asked."""
        return self.purposes is None or may_be_used(slot.tags, self.purposes)

    def is_held(self, scope: Scope) -> bool:
        """Whether a scope is under a legal hold: nothing of it goes, versions neither. Cost: a page of notes."""
        return self.holds is not None and any(hold.scope.holds(scope) for hold in self.holds.list(scope.app))

    def check_erasable(self, scope: Scope) -> None:
        """Nothing, if nothing in the scope's subtree is under a legal hold.

        Raises   HeldError.
        """
        if self.holds is not None:
            self.holds.check(scope)

    def erased_at(self, scope: Scope) -> float:
        """When whom a scope is of was last erased; what is older does not come back. 0.0: never."""
        return 0.0 if self.stones is None else self.stones.erased_at(scope)

    def check_consents(self, scope: Scope, tags: Sequence[str]) -> None:
        """Nothing, if no consent among the tags was withdrawn in the scope.

        Raises   ConflictError.
        """
        for name in consents_of(tags) if self.stones is not None else ():
            if self.stones is not None and self.stones.is_withdrawn(scope, name):
                raise ConflictError(
                    f"the consent {name!r} was withdrawn in {scope}, so nothing is stored under it; nothing was "
                    "changed: name one that holds, or none"
                )

    def make_way(self) -> None:
        """Do the writes that wait, before what must not come before them.

        Raises   BackendError if the store does not take them yet.
        """
        if self.spool is not None:
            self.spool.make_way()

    @property
    def limits(self) -> SlotLimits:
        """The limits of a write."""
        own = self.settings
        return SlotLimits(own.max_slots, own.max_value_bytes, own.keep_versions, own.undo_s, own.writes_per_minute)


class SlotWriter:
    """Writes to exactly one scope."""

    def __init__(self, kit: Kit, scope: Scope) -> None:
        self._kit = kit
        self.scope = scope

    def draft(self, name: str, value: Json, writer: Writer, **options: Any) -> PutSlot:
        """A put of the value as this writer's; options: other fields. Its policy is still to come."""
        return PutSlot(
            self.scope,
            name,
            value,
            "by_handle",
            writer.source,
            writer.trust,
            writer.actor,
            op_key=writer.op_key,
            basis=writer.basis,
            limits=self._kit.limits,
            **options,
        )

    def store(self, put: PutSlot, *, split: bool, schema: Mapping[str, Any] | None, given: Policy | None) -> Slot:
        """The put with policy, schema, life and parts settled, stored in one batch.

        Raises   LimitError, SchemaError, ConflictError, NameInvalidError; then nothing is stored.
        """
        self._kit.check_consents(self.scope, (*(put.basis or ()), *(put.tags or ())))
        text = text_of(put.value)
        limits = self._kit.limits
        size = len(text.encode())
        # Before anything that grows with it: a value of a hundred megabytes is refused at once.
        if size > limits.max_bytes * (limits.max_slots if split else 1):
            raise self._too_long(put.name, text)
        check_no_part(self._kit.slots, self.scope, put.name)
        before, summary = self._there(put.name)
        current = before if before is None or before.forgotten_at is None else None
        rule = schema if schema is not None else current.schema if current is not None else None
        if rule is not None:
            check_schema(put.name, put.value, rule)
        chosen = self._policy(put, text, current, given)
        put = replace(put, policy=chosen.policy, why=chosen.why, schema=schema)
        if put.ttl_s is DEFAULT and current is None and self.scope.session is not None:
            put = replace(put, ttl_s=self._kit.settings.session_ttl_s, sliding=True)
        ops = [put]
        if size > limits.max_bytes:
            ops = self._parts(put, text)
            self._check_free(put.name, [op.name for op in ops[1:]], own=current.parts if current is not None else 0)
        surplus = part_names(put.name, before.parts if before is not None else 0)[len(ops) - 1 :]
        if before is not None and summary is not None:
            # It is of the value that was there, and this one may be a secret.
            surplus.append(summary)
        # What has expired is not told of here, and may be there.
        may_lose = before is None or surplus or before.version >= limits.keep_versions or before.is_temporary
        is_held = may_lose and self._kit.is_held(self.scope)
        if is_held:
            ops = [replace(op, limits=replace(limits, keep_versions=KEEP_ALL)) for op in ops]
        if self._kit.quotas is not None:
            there = 0 if current is None else 1 + current.parts
            more = size - (0 if current is None else current.bytes)
            self._kit.quotas.make_room(self.scope.app, slots=len(ops) - there, size=more)
        erase: list[SlotOp[Any]] = [EraseSlots(self.scope, tuple(surplus))] if surplus else []
        if is_held:  # hidden is what no sweep removes while it is held
            erase = [ForgetSlot(self.scope, name) for name in surplus]
        stored: Slot = self._kit.slots.batch([*erase, *ops])[len(erase)]
        # Of a value in parts the head holds none; of a replay over a hidden slot nothing is told.
        return stored if stored.value == put.value else replace(stored, value=put.value, bytes=size)

    def _there(self, name: str) -> tuple[Slot | None, str | None]:
        """The slot of that name, hidden or not, and the name of its summary, as far as they are there."""
        own = _summary_name(name)
        asked = [GetSlot(self.scope, name, forgotten=None), *(GetSlot(self.scope, one) for one in own)]
        found: list[Slot | None] = self._kit.slots.batch(asked)
        return found[0], own[0] if own and _is_summary(found[1]) else None

    def _parts(self, put: PutSlot, text: str) -> list[PutSlot]:
        limit = self._kit.settings.max_value_bytes
        texts = pieces(text, limit)
        kind = "text" if isinstance(put.value, str) else "json"
        head = replace(put, value=kind, parts=len(texts))
        rest = replace(put, policy="by_handle" if put.policy != "never" else "never", if_version=None, schema=None)
        keys = [None if put.op_key is None else f"{put.op_key}.{part}" for part in range(1, len(texts) + 1)]
        return [
            head,
            *(
                replace(rest, name=clean_name(f"{put.name}.{part}"), value=piece, op_key=keys[part - 1])
                for part, piece in enumerate(texts, 1)
            ),
        ]

    def _check_free(self, name: str, parts: Sequence[str], *, own: int) -> None:
        """Nothing, if no other slot stands where the parts go; `own`: how many are the slot's already."""
        there: list[Slot | None] = self._kit.slots.batch([GetSlot(self.scope, part) for part in parts[own:]])
        taken = next((slot for slot in there if slot is not None), None)
        if taken is not None:
            rule = f"is that of another slot, which a part of {name!r} would replace"
            raise NameInvalidError(taken.name, rule, "forget it first, or split under another name")

    def _policy(self, put: PutSlot, text: str, current: Slot | None, given: Policy | None) -> Chosen:
        settings, tokens = self._kit.settings, self._kit.tokenizer.count(text)

        def card_left() -> int:
            return settings.card_tokens - self._carded(put.name)

        if given is not None:
            self._check_policy(put.name, given, tokens, card_left)
            if put.trust != "user" and given in ("when_asked", "card"):
                return self._untrusted(put.name, tokens, given)
            return Chosen(given, "given")
        is_kept = current is not None and (current.trust == put.trust or current.policy == "never")
        # What a tool's text was given is no wish of the user's: a write that is trusted is chosen for anew.
        if (
            current is not None
            and is_kept
            and (
                current.policy in ("never", "by_handle")
                or (current.policy == "when_asked" and tokens <= settings.when_asked_tokens)
                or (current.policy == "card" and put.trust == "user" and tokens <= card_left())
            )
        ):
            return Chosen(current.policy, "as before")
        return choose_policy(
            put.name,
            text,
            tokens,
            trust=put.trust,
            card_left=card_left,
            asked_tokens=settings.when_asked_tokens,
            default=settings.policy or None,
        )

    def _untrusted(self, name: str, tokens: int, given: Policy) -> Chosen:
        """The policy of untrusted text that was to be shown by itself."""
        if is_profile(name):
            return Chosen("by_handle", "untrusted text may not stand as profile")
        if given == "when_asked":
            return Chosen(given, "given")
        short = tokens <= self._kit.settings.when_asked_tokens
        return Chosen("when_asked" if short else "by_handle", "untrusted text may not stand in the card")

    def _carded(self, but: str) -> int:
        """Tokens of the card's values that this scope would see, without one name's."""
        slots = run(self._kit.slots, ListSlots(SlotQuery(self.scope, "inherit")))
        own = fold_name(but)
        count = self._kit.tokenizer.count
        return sum(
            count(text_of(slot.value)) for slot in slots if slot.policy == "card" and fold_name(slot.name) != own
        )

    def _check_policy(self, name: str, policy: Policy, tokens: int, card_left: Callable[[], int]) -> None:
        settings = self._kit.settings
        if policy == "when_asked" and tokens > settings.when_asked_tokens:
            raise LimitError(
                f"slot {name!r} with policy 'when_asked'",
                used=tokens,
                limit=settings.when_asked_tokens,
                unit="tokens",
                way_out="shorten the value, or write it with policy='by_handle'",
            )
        if policy == "card" and tokens > (left := card_left()):
            raise LimitError(
                f"the card with slot {name!r}",
                used=settings.card_tokens - left + tokens,
                limit=settings.card_tokens,
                unit="tokens",
                way_out="shorten the value, forget another card slot, or use policy='when_asked'",
            )

    def _too_long(self, name: str, text: str) -> LimitError:
        return LimitError(
            f"the value for slot {name!r} ({len(text):,} characters)",
            used=len(text.encode()),
            limit=self._kit.settings.max_value_bytes,
            unit="bytes",
            way_out="shorten it, pass split=True (--split) to spread it over several slots, or raise max_value_bytes",
        )


def part_names(name: str, parts: int) -> list[str]:
    """The names of a split slot's parts."""
    return [f"{name}.{part}" for part in range(1, parts + 1)]


SUMMARY: Final = "summary"
"""The tag of a slot that holds the summary of another, and the end of its name: `NAME.summary`."""


def summary_names(store: SlotStore, scope: Scope, name: str, *, hidden: bool = False) -> list[str]:
    """The name of the slot's summary, if there is one; it goes, and comes back, with its slot."""
    return [own for own in _summary_name(name) if _is_summary(run(store, GetSlot(scope, own, forgotten=hidden)))]


def _summary_name(name: str) -> list[str]:
    own = f"{name}.{SUMMARY}"
    return [own] if len(own) <= MAX_NAME_CHARS else []


def _is_summary(slot: Slot | None) -> bool:
    return slot is not None and slot.source == "model" and SUMMARY in slot.tags


def find_hidden(store: SlotStore, scope: Scope, name: str) -> Slot | None:
    """The slot of that name that is hidden in exactly that scope, without its value, or None."""
    return run(store, GetSlot(scope, name, forgotten=True))


def check_no_part(store: SlotStore, scope: Scope, name: str, *, hidden: bool = False) -> None:
    """Nothing, unless the name is that of a split slot's part; hidden: of one that is hidden.

    Raises   NameInvalidError: parts change with their slot only.
    """
    numbered = re.fullmatch(r"(.+)\.([1-9][0-9]{0,2})", name, re.ASCII)
    if numbered is None:
        return
    whole = run(store, GetSlot(scope, numbered[1], forgotten=hidden))
    if whole is not None and whole.parts >= int(numbered[2]):
        raise NameInvalidError(name, f"is a part of the split slot {whole.name!r}", f"change {whole.name!r} as a whole")
