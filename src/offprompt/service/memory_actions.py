"""The model's four actions, run against the session's memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from offprompt.errors import BackendError, NotFoundError, OffpromptError, UsageError
from offprompt.records import (
    RULES,
    Action,
    GetSlot,
    JournalEntry,
    Memory,
    Policy,
    Receipt,
    Scope,
    Slot,
    Trust,
    clean_name,
    compact,
    fold_name,
    text_of,
)
from offprompt.records.scope import bare_of
from offprompt.records.slot import RESERVED_PREFIX
from offprompt.service.action_problems import NeedsError, error_name, problem_text
from offprompt.service.asked import MAX_RUN, named, page_of, slot_name
from offprompt.service.grounds import foreign_texts, is_users
from offprompt.service.handle_lookup import HandleLookup
from offprompt.service.heads import shown_value
from offprompt.service.leak_guard import stored_names, stored_text
from offprompt.service.memory_search import ID_CHARS, MemorySearch, is_foreign
from offprompt.service.model_rules import check_forget, check_forget_memory, check_name, is_own, twins_of
from offprompt.service.pages import Pages, outdate
from offprompt.service.policies import is_standing
from offprompt.service.session_kit import date_of
from offprompt.service.slot_writer import SUMMARY, Writer
from offprompt.service.slots import Slots
from offprompt.service.turn import Turn
from offprompt.wire.handles import Resolved, resolve_arguments
from offprompt.wire.head import ShownValue, receipt_text
from offprompt.wire.payload import loaded

RECEIPT_TOKENS: Final = 25
FOREIGN: Final = ("tool", "document")


@dataclass(frozen=True, slots=True)
class MemoryActions:
    """Runs actions; each answers with a receipt, and raises nothing.

    departed   the entries of this conversation that are not in the prompt any more: what a search may find.
    key        the reply's journal key: names its writes, so that a replay changes nothing.
    lookup     of handles in the values that are written.
    """

    turn: Turn
    departed: Sequence[JournalEntry]
    key: str
    lookup: HandleLookup

    def run(self, action: Action, index: int) -> Receipt:
        """One action's receipt; `ok` False when it was not done, and then nothing is changed."""
        runs = {
            "mem_write": self._write,
            "mem_read": self._read,
            "mem_forget": self._forget,
            "mem_search": self._search,
        }
        receipt = self._ran(runs[action.name], action, index)
        if receipt.ok:
            return receipt
        return replace(receipt, text=self.turn.mask(receipt.text), name=self.turn.mask(receipt.name))

    def _ran(self, run: Callable[[Action, int], Receipt], action: Action, index: int) -> Receipt:
        try:
            return run(action, index)
        except BackendError as exc:
            self.turn.warnings.append(f"{action.name}: {exc}")
            return Receipt(action.name, receipt_text("trouble", self.turn.language), ok=False)
        except OffpromptError as exc:
            self.turn.event(f"action.{action.name}", named(action), outcome=error_name(exc))
            return Receipt(action.name, problem_text(exc, named(action), self.turn.language), ok=False)

    @property
    def _pages(self) -> Pages:
        return Pages(self.turn)

    @property
    def _actor(self) -> str:
        return self.turn.kit.actor.via("model")

    def _say(self, kind: str, name: str = "", version: int = 0) -> str:
        return receipt_text(kind, self.turn.language, name=name, version=version)

    def _write(self, action: Action, index: int) -> Receipt:
        name = clean_name(slot_name(action))
        if "value" not in action.arguments:
            raise NeedsError("value")
        resolved = self._resolved(action.arguments["value"])
        if resolved.bad:
            return Receipt("mem_write", self._say("bad_handle", resolved.bad[0].text), ok=False, name=name)
        foreign = any(self.turn.is_foreign(used.name) for used in resolved.used) or self._is_foreign(resolved)
        rests = self.turn.kit.basis or None
        writer = Writer("model", "tool" if foreign else "user", self._actor, f"{self.key}:{index}", rests)
        scope, name = self._target(name, action.arguments.get("scope"), foreign=foreign)
        self._check_name(name, scope, foreign=foreign)
        value = loaded(resolved.text)
        policy = self._no_card(name, text_of(value))
        there = next((each for each in self.turn.stored if (each.name, each.scope) == (name, scope)), None)
        slot = Slots(self.turn.kit.slot_kit, scope).write_as(writer, name, value, policy=policy)
        self._let_go(there, writer)
        self.turn.changed()
        self.turn.asked.renew(slot.name)
        self.turn.issue(slot.name)
        outdate(self.turn, slot.name)
        return Receipt("mem_write", self._say("saved", slot.name, slot.version), name=slot.name, version=slot.version)

    def _no_card(self, name: str, text: str) -> Policy | None:
        """The policy of a standing wish while foreign text stands in the request: it may be the text's wish."""
        short = self.turn.kit.tokenizer.count(text) <= self.turn.kit.settings.when_asked_tokens
        return "when_asked" if is_standing(name) and short and any(foreign_texts(self.turn)) else None

    def _is_foreign(self, resolved: Resolved) -> bool:
        """Whether foreign text led to a write: it came in this turn, or words of the value stand in it."""
        if self.turn.tainted:
            return True
        if resolved.used or not any(foreign_texts(self.turn)):
            return False
        return not is_users(self.turn, self.departed, text_of(loaded(resolved.text)))

    def _resolved(self, value: object) -> Resolved:
        """The value as JSON text with its handles resolved: models write by reference, and imitate what they see."""
        try:
            text = compact(value)
        except (TypeError, ValueError, RecursionError) as exc:
            raise UsageError("the value of mem_write is not JSON; give text or JSON") from exc
        resolved = resolve_arguments(text, self.lookup)
        self.lookup.note(resolved, "value of mem_write")
        return resolved

    def _target(self, name: str, asked: object, *, foreign: bool) -> tuple[Scope, str]:
        """Where a write goes: as asked, else where the slot is, else the user's, else the agent's or session's.

        With the name as the slot there is spelled. What foreign text led to never goes where other users read it; with
        isolation="agent" nothing goes where the user's other agents do.
        """
        own = bare_of(self.turn.scope)
        apart = self.turn.kit.settings.isolation == "agent"
        user = Scope(own.app, user=own.user, agent=own.agent if apart else None) if own.user else own.without_session()
        if asked not in (None, "user", "session"):
            raise NeedsError("scope: user | session")
        folded = fold_name(name)
        there = next((slot for slot in self.turn.stored if fold_name(slot.name) == folded), None)
        scope = own if asked == "session" else user
        if asked is None and there is not None and is_own(there, self.turn.scope):
            scope = there.scope if not apart or user.holds(there.scope) else user
        if foreign and not scope.user:
            scope = own
        return scope, there.name if there is not None and there.scope == scope else name

    def _check_name(self, name: str, scope: Scope, *, foreign: bool) -> None:
        """See `model_rules.check_name`."""
        found: list[Slot | None] = self.turn.kit.slots.batch(
            [GetSlot(each, name) for each in self.turn.scope.inherited()]
        )
        named = [slot for slot in found if slot is not None]
        check_name(named, scope, name, lock_names=self.turn.kit.settings.lock_names, foreign=foreign)

    def _read(self, action: Action, _index: int) -> Receipt:
        name, page = slot_name(action), page_of(action)
        if page is None:
            raise NeedsError("page: 1, 2 …")
        times = self.turn.asked.note(action)
        if times > MAX_RUN:
            return self._answer_now(name)
        again = times > 1
        if name.startswith(RESERVED_PREFIX):
            memory = self._memory(name)
            value = ShownValue(name, stored_text(self.turn, memory.text), memory.role or memory.source, _day(memory))
            return self._pages.show(value, page, foreign=memory.trust == "tool", again=again)
        if name.startswith("@"):
            source, date, text = self._stored_text(name)
            text = stored_text(self.turn, text)
            return self._pages.show(ShownValue(name, text, source, date), page, foreign=source in FOREIGN, again=again)
        if action.arguments.get("part") == SUMMARY:
            name = f"{name}.{SUMMARY}"
        slot = self.turn.slot(name, actor=self._actor)
        if slot is None:
            return Receipt("mem_read", self._say("missing", name), ok=False, name=name)
        if slot.policy == "never":
            self.turn.issue(*([slot.name] if slot.allow else []))
            return Receipt("mem_read", self._say("never", slot.name), ok=False, name=slot.name)
        self.turn.reads[slot.name] = slot.value
        self.turn.issue(slot.name)
        value = shown_value(slot, self.turn.scrubber)
        return self._pages.show(value, page, foreign=slot.trust == "tool", again=again)

    def _memory(self, name: str) -> Memory:
        """The memory of that id.

        Raises   NotFoundError if the session finds none.
        """
        memory = self.turn.memory(name)
        if memory is None:
            raise NotFoundError(f"there is no memory {name!r} in {self.turn.scope}")
        return memory

    def _answer_now(self, name: str) -> Receipt:
        """The receipt of a page that was asked for twice already; once more, and the turn is over."""
        self.turn.event("action.mem_read", name, outcome="LimitError", why="asked for again and again")
        if self.turn.looping:
            self.turn.warnings.append(f"the model asked for {name[:64]!r} again and again; it was stopped there")
        return Receipt("mem_read", self._say("answer", name), ok=False, name=name)

    def _stored_text(self, name: str) -> tuple[str, str, str]:
        """Source, date and text of a body or an earlier message, by the id after the `@`."""
        body = self.turn.bodies.get(name[1:]) or self.turn.kit.sessions.body(self.turn.scope, name[1:])
        if body is not None:
            return body.kind, date_of(body.at), body.text
        for entry in self.departed:
            if len(name) > ID_CHARS // 2 and entry.key.startswith(name[1:]):
                return entry.kind, date_of(entry.at), entry.text
        raise NotFoundError(f"there is nothing stored as {name!r} in this session")

    def _forget(self, action: Action, _index: int) -> Receipt:
        trust: Trust = "tool" if self.turn.tainted else "user"
        folded = fold_name(slot_name(action))
        if folded.startswith(RESERVED_PREFIX):
            return self._forget_memory(self._memory(folded), trust)
        there = next((slot for slot in self.turn.stored if fold_name(slot.name) == folded), None)
        if there is not None:
            check_forget(there, self.turn.scope)
        writer = Writer("model", trust, self._actor)
        name = self.turn.slots.forget(slot_name(action), writer=writer)
        for twin in twins_of(there, self.turn.stored):
            self.turn.slots.forget(twin.name, writer=writer)
            self._let_go(twin, writer)
        self._let_go(there, writer)
        self.turn.changed()
        self.turn.asked.renew(name)
        return Receipt("mem_forget", self._say("forgot", name), name=name)

    def _let_go(self, slot: Slot | None, writer: Writer) -> None:
        """Hide the facts behind a slot that rules filled, and that the model has changed or forgotten."""
        if slot is not None and slot.actor == RULES:
            from offprompt.service.known import forget_behind  # noqa: PLC0415 - loads NumPy and the rules

            forget_behind(self.turn.kit.memories.of(self.turn.scope, self.turn.kit.actor), slot, writer)

    def _forget_memory(self, memory: Memory, trust: Trust) -> Receipt:
        name, own = memory.memory_id, self.turn.scope
        check_forget_memory(memory, own)
        self.turn.kit.memories.of(own, self.turn.kit.actor).forget(name, actor=self._actor, trust=trust)
        return Receipt("mem_forget", self._say("forgot", name), name=name)

    def _search(self, action: Action, _index: int) -> Receipt:
        query = action.arguments.get("query")
        if not isinstance(query, str) or not query.strip():
            raise NeedsError("query")
        lines, names = list[str](), list[str]()
        turn, count = self.turn, self.turn.kit.tokenizer.count
        room = turn.left()
        hits = MemorySearch(self.turn, self.departed).hits(query)
        for name, line in hits:
            tokens = count(line + "\n")
            if tokens > room:
                break
            room -= tokens
            lines.append(line)
            names.append(name)
        if not lines:
            return Receipt("mem_search", self._say("spent", "mem_search") if hits else self._say("none"), ok=False)
        turn.issue(*names)
        turn.show("mem_search", "search", turn.left() - room)
        for name in stored_names(turn, "\n".join(lines)):
            turn.show(name, "in what mem_search found", 0)
        turn.tainted = turn.tainted or any(is_foreign(line) for line in lines)
        listed = len(names)
        while listed > 1 and count(self._say("found", ", ".join(names[:listed]))) > RECEIPT_TOKENS:
            listed -= 1
        return Receipt("mem_search", self._say("found", ", ".join(names[:listed])), shown="\n".join(lines))


def _day(memory: Memory) -> str:
    return date_of(memory.happened_at)
