"""What a session's history policy sends: which messages, each in which form; decided once, kept in the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from offprompt.config import Settings
from offprompt.records import SessionRecord
from offprompt.service.conversation import Forms, Placed, history_kind, lapsing_frame, sent_messages
from offprompt.service.rendering import StubLimits
from offprompt.service.request_ledger import Sizes
from offprompt.service.turn import Turn
from offprompt.wire.auto import Account, plan_request
from offprompt.wire.history import Bounds, Fixed, History, Item, next_start, place, window_bounds
from offprompt.wire.keeping import Piece, cheaper_to_keep
from offprompt.wire.options import HistoryPolicy, SessionOptions
from offprompt.wire.prices import named_sheet
from offprompt.wire.stubs import gone_line
from offprompt.wire.used import plan_used

AT_ONCE: Final = ("stub_at_once", "stubs+window")
AFTER_USE: Final = ("stub_after_use", "after_use+window")
JOINTS_TOKENS: Final = 16
"""Of the window, for what no part of a request counts: a system message and a note of our own take delimiters, and what
is joined in one message has blank lines between. At most 4 + 4 + 3."""

CUTTING: Final = ("window", "stubs+window", "after_use+window")


@dataclass(frozen=True, slots=True)
class Choice:
    """What one request sends of the history.

    start    index of the oldest placed message that is sent; indices: of all that are. forms: of each.
    kept, stubbed, account   for the record. fresh: places of the messages that become stubs at this request.
    room     tokens that the context still holds. broken: thinking is still sent whose prefix a cut has changed.
    is_active  the policy `auto` has made a change, which the head comes with.
    """

    start: int
    indices: Sequence[int]
    forms: Forms
    kept: Mapping[str, bool]
    stubbed: tuple[str, ...]
    account: Mapping[str, float]
    room: int
    fresh: tuple[int, ...] = ()
    broken: bool = False
    is_active: bool = False


class HistoryChooser:
    """Chooses for one request; used once.

    before   key and form of each message of the last request. turn: of the newest user message, along its branch.
    """

    def __init__(
        self,
        session: Turn,
        record: SessionRecord,
        options: SessionOptions,
        sizes: Sizes,
        before: Sequence[tuple[str, str]],
        turn: int,
    ) -> None:
        self._turn, self._record, self._options, self._sizes = session, record, options, sizes
        self._before, self._forms = before, Forms.of_turn(record, turn)
        self._settings = session.kit.settings
        self._shape = session.model.shape

    def bound(self, placed: Sequence[Placed]) -> int:
        """Index behind the last message with thinking that binds what stands before it; 0: nothing is bound."""
        if not self._turn.model.profile.binds_thinking:
            return 0
        thinking = (
            at + 1
            for at in range(len(placed) - 1, -1, -1)
            if any(self._shape.has_thinking(message) for message in sent_messages(placed[at], self._forms))
        )
        return next(thinking, 0)

    def limits(self, placed: Sequence[Placed]) -> StubLimits:
        """From how many tokens on new results and documents are stubs; what the context cannot hold is one at once."""
        policy, most = self._options.policy, self._settings.stub_tokens
        later = policy in AFTER_USE or policy == "auto"
        if later and self.bound(placed):
            return StubLimits(at_once=most)
        return StubLimits(at_once=most_at_once(policy, most, self._bounds(0)), after_use=most if later else None)

    def choose(self, placed: Sequence[Placed], base: int, *, waiting: int = 0) -> Choice:
        """What this request sends.

        base     tokens before the history, with our head where it is there. waiting: those of a head that comes with
                 the first change.
        """
        floor = self.bound(placed)
        start = next((at for at, each in enumerate(placed) if each.entry.key == self._record.start), 0)
        note = self._turn.kit.tokenizer.count(gone_line(self._turn.language))
        front = base + (note if start else 0)
        kept = self._kept(placed, start, front, bound=floor > 0)
        history = History(self._items(placed, bound=floor > 0))
        bounds = replace(self._bounds(base + waiting), floor=floor)
        fixed = Fixed(base, head=waiting, note=note)
        planned, fresh, account = self._plan(placed, history, start, fixed, bounds)
        # A start just behind its turn's opener leaves out nothing more: no cut.
        if history.indices(planned) != history.indices(start):
            start = planned
        keys = tuple(placed[at].entry.key for at in fresh)
        moved = start > 0 and placed[start].entry.key != self._record.start
        self._forms = replace(self._forms, stubbed=self._forms.stubbed | set(keys))
        stubbed = (*self._record.stubbed, *keys)
        room = bounds.limit - (note if start else 0) - history.tokens(start, stubs=True)
        broken = moved and start < floor
        is_active = account.get("active", 0.0) > 0
        return Choice(
            start, history.indices(start), self._forms, kept, stubbed, account, room, fresh, broken, is_active
        )

    def _kept(self, placed: Sequence[Placed], start: int, front: int, *, bound: bool) -> Mapping[str, bool]:
        """What stays of all that the last turn showed; decided when the next one begins, and never again."""
        was = dict(self._before)
        over = {
            at
            for at, each in enumerate(placed)
            if self._forms.of(each.entry) == "settled"
            and was.get(each.entry.key) == "live"
            and each.entry.key not in self._record.kept
        }
        rule, sheet = self._settings.shown_after_turn, self._turn.model.sheet
        if not over or (rule == "replace" and not bound):
            return self._record.kept
        stays: frozenset[int] = frozenset(over) if bound or rule == "keep" else frozenset()
        if rule == "clear_at" and not bound:
            stays = frozenset(at for at in over if lapsing_frame(placed[at].entry) is not None)
        if rule == "cheaper" and not bound and sheet is not None:
            indices = range(start, len(placed))
            pieces = [self._piece(placed[at], choice=at in over) for at in indices]
            live = zip(indices, pieces, strict=True)
            sent = front + sum(piece.live for at, piece in live if placed[at].entry.key in was)
            found = cheaper_to_keep(pieces, front=front, sent=sent, sheet=sheet, expected=self._record.requests)
            stays = frozenset(indices[each] for each in found)
        kept = {**self._record.kept, **{placed[at].entry.key: at in stays for at in sorted(over)}}
        self._forms = replace(self._forms, kept=frozenset(key for key, each in kept.items() if each))
        return kept

    def _piece(self, placed: Placed, *, choice: bool) -> Piece:
        if not choice:
            return Piece(self._sizes.sent(placed, self._forms).tokens)
        return Piece(self._sizes.of(placed, "live").tokens, self._sizes.of(placed, "settled").tokens)

    def _items(self, placed: Sequence[Placed], *, bound: bool) -> list[Item]:
        """Sizes for the policy: as each message came, as it is sent, and as the stub that it may become."""
        items: list[Item] = []
        later = not bound and self._options.policy in (*AFTER_USE, "auto")
        for each, (number, group) in zip(placed, place(history_kind(each.entry) for each in placed), strict=True):
            entry, form = each.entry, self._forms.of(each.entry)
            sent = self._sizes.sent(each, self._forms).tokens
            whole = sent if entry.live is None and form != "stub" else self._sizes.whole(each).tokens
            # What a turn shows beside a document stays as long as it is shown.
            unseen = entry.settled is None or form == "settled" or self._forms.lapsed(entry)
            free = later and entry.stub is not None and form != "stub" and unseen
            used = self._sizes.of(each, "stub").tokens if free else None
            items.append(Item(max(whole, sent), sent, number, group, history_kind(entry), used))
        return items

    def _plan(
        self, placed: Sequence[Placed], history: History, start: int, fixed: Fixed, bounds: Bounds
    ) -> tuple[int, tuple[int, ...], Mapping[str, float]]:
        """Index of the oldest message to send, places of what becomes a stub, and the policy's account."""
        policy, account = self._options.policy, self._record.account
        sheet = self._turn.model.sheet or named_sheet("default", self._turn.kit.sheets)
        if policy in AFTER_USE:
            used = plan_used(
                history,
                start,
                sent=self._repeated(placed, history.indices(start), fixed.base + (fixed.note if start else 0)),
                requests=self._record.requests,
                sheet=sheet,
                fixed=replace(fixed, head=0),
                bounds=bounds if policy in CUTTING else None,
            )
            return used.start, used.stubbed, account
        if policy in CUTTING:
            return next_start(history, start, bounds, stubs=True), (), account
        if policy != "auto":
            return start, (), account
        known, changed = Account.of(account), self._changed(history.indices(start), placed)
        if fixed.head:
            known = replace(known, head=float(fixed.head))
            if known.active or any(each.entry.bodies or each.entry.kind == "answer" for each in placed):
                # What has left needs the head at once, and then nothing repeats.
                known, changed = replace(known, active=1.0, sent=0.0), None
        elif known.head:
            fixed = replace(fixed, base=fixed.base - int(known.head), head=int(known.head))
        if changed is not None:
            known = known.broken(history, start, changed, fixed)
        plan = plan_request(history, known, start=start, sheet=sheet, bounds=bounds, fixed=fixed)
        return plan.start, plan.stubbed, plan.account.sums()

    def _repeated(self, placed: Sequence[Placed], indices: Sequence[int], front: int) -> int:
        """Tokens of the last request that repeat if nothing changes."""
        if not self._before:
            return 0
        same = indices[: self._same(indices, placed)]
        return front + sum(self._sizes.sent(placed[at], self._forms).tokens for at in same)

    def _same(self, indices: Sequence[int], placed: Sequence[Placed]) -> int:
        """How many leading messages go out as in the last request."""
        now = [(placed[at].entry.key, self._forms.of(placed[at].entry)) for at in indices]
        pairs = enumerate(zip(now, self._before, strict=False))
        return next((at for at, (new, old) in pairs if new != old), min(len(now), len(self._before)))

    def _changed(self, indices: Sequence[int], placed: Sequence[Placed]) -> int | None:
        """Index of the first message that is not as the last request had it there; None if all it had repeats."""
        same = self._same(indices, placed)
        return indices[same] if same < min(len(indices), len(self._before)) else None

    def _bounds(self, base: int) -> Bounds:
        return history_bounds(self._turn.model.context_tokens, self._settings, base)


def most_at_once(policy: HistoryPolicy, most: int, bounds: Bounds) -> int | None:
    """Tokens of a new result or document over which the policy sends no whole one, None: any; most: `stub_tokens`."""
    if policy in AT_ONCE:
        return most
    if policy == "auto":
        return max(most, bounds.high)
    return max(most, bounds.limit) if policy in AFTER_USE else None


def history_bounds(context_tokens: int, settings: Settings, base: int) -> Bounds:
    """The window of a model of that context; base: tokens before the history."""
    bounds = window_bounds(
        context_tokens,
        reserve_tokens=min(settings.output_reserve_tokens, context_tokens // 4),
        head_tokens=base,
        high_cap=settings.window_high_tokens,
        low_cap=settings.window_low_tokens,
    )
    return replace(bounds, limit=max(bounds.limit - JOINTS_TOKENS, 0))
