"""A conversation that a framework keeps: its items as they came, in a session's journal, from which they come again."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeVar

from offprompt.errors import ConflictError, OffpromptError, UsageError
from offprompt.records import (
    MAX_MEMORY_CHARS,
    Body,
    JournalEntry,
    Remembered,
    SessionChange,
    SessionRecord,
    as_dict,
    as_list,
    canonical,
    compact,
)
from offprompt.service.accounting import digester
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt

T = TypeVar("T")

log = logging.getLogger("offprompt")

Kind = Literal["user", "assistant", "tool", "system"]

POLICY: Final = "transcript"
"""The history policy of such a session: all is kept, and sent by whoever keeps it."""

WORDS: Final = frozenset(
    {"content", "text", "summary", "refusal", "arguments", "args", "input", "output", "tool_calls"}
)
"""Members of an item that hold what was said; ids, signatures and what is encrypted stand under others."""

BODY_CHARS: Final = 12
"""Of a body's id."""

TRIES: Final = 16
"""How often a change is made anew, because another process was faster."""


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a framework's conversation.

    value       as the framework gave it: JSON. text: what was said, for whoever reads the journal.
    remembered  whether the text may become a memory: not the answer to what memory showed.
    """

    kind: Kind
    value: Any
    text: str = ""
    remembered: bool = True


class Transcript:
    """The items of one conversation of a scope, oldest first; any process goes on with them.

    memory    an opened memory. bound: whose conversation. session_id: its id, which no session of Offprompt's own has.
    capture   what the user and the model say becomes memories of the scope: `all`, `user`, `off`. Never what the model
              says in a turn in which a tool answered: those may be the tool's words, or the memory's own.
    Redacted  before it is stored: what comes again has marks in place of card numbers and keys, see docs/turn.md.
    Lives     as a session's journal: `session_idle_s` after its last use it may be swept.
    Raises    UsageError for an id that is another conversation's; ConflictError if others were faster each time.
    Cost      each call reads the journal once, O(its items).
    """

    def __init__(
        self, memory: Offprompt, bound: BoundScope, session_id: str, *, capture: Literal["all", "user", "off"] = "all"
    ) -> None:
        self._parts, self._bound = memory.parts, bound.narrow(session=session_id)
        self._scope, self._capture = self._bound.scope, capture
        self._store = memory.parts.sessions
        self._keyed: Callable[[str], str] | None = None

    def items(self, limit: int | None = None) -> list[Any]:
        """The items; the newest `limit` of them."""
        chain = [entry.message["item"] for entry in self._chain(self._record())]
        return chain if limit is None else chain[max(0, len(chain) - limit) :]

    def add(self, items: Sequence[Item]) -> None:
        """Store further items behind the others, all or none; then remember what was said."""
        if items:
            self._remember(self._change(lambda record: self._behind(record, items)))

    def pop(self) -> Any | None:
        """Take the newest item away, and what was remembered of it; None if there is none."""
        last = self._change(self._without_last)
        self._forget(last)
        return last[0].message["item"] if last else None

    def set(self, items: Sequence[Item]) -> None:
        """Make these the items, all or none. Those that it begins with already stay, and are not remembered again."""
        added, dropped = self._change(lambda record: self._instead(record, items))
        self._forget(dropped)
        self._remember(added)

    def clear(self) -> None:
        """Erase the conversation; what was remembered of it stays."""
        self._store.drop_sessions(scope=self._scope)

    def keep(self, text: str, label: str) -> str:
        """Keep a tool's long result beside the items; the id of its body. The same text has the same id.

        label    what it is called: the tool's name.
        """
        text = self._redacted(text) if self._is_redacted("tool") else text
        body_id = self._digest(f"body\n{text}")[:BODY_CHARS]
        if self.body(body_id) is None:
            size = len(text.encode())
            self._change(
                lambda now: (SessionChange(now, bodies=(Body(body_id, text, "tool", label, now.used_at, size),)), None)
            )
        return body_id

    def body(self, body_id: str) -> Body | None:
        """What was kept under that id in this conversation, or None."""
        return self._store.body(self._scope, body_id)

    def _record(self) -> SessionRecord:
        now = self._parts.clock.now()
        record = self._store.load(self._scope)
        if record is None:
            return SessionRecord(self._scope, policy=POLICY, created_at=now, used_at=now)
        if record.policy != POLICY:
            raise UsageError(
                f"the session id {self._scope.session!r} is that of a session of Offprompt's own; choose another one"
            )
        return replace(record, used_at=now)

    def _chain(self, record: SessionRecord) -> list[JournalEntry]:
        entries = {entry.key: entry for entry in self._store.journal(self._scope)} if record.tail else {}
        found: list[JournalEntry] = []
        key = record.tail
        while (entry := entries.get(key)) is not None:
            found.append(entry)
            key = entry.parent
        return found[::-1]

    def _change(self, change: Callable[[SessionRecord], tuple[SessionChange, T]]) -> T:
        """Commit a change of the record as it is now; one that changes nothing is not stored."""
        for tried in range(TRIES):
            record = self._record()
            made, result = change(record)
            if made == SessionChange(record):
                return result
            try:
                self._store.commit(replace(made, record=replace(made.record, revision=record.revision + 1)))
            except ConflictError:
                if tried == TRIES - 1:
                    raise
                continue
            return result
        raise AssertionError("the last try returns or raises")

    def _behind(self, record: SessionRecord, items: Sequence[Item]) -> tuple[SessionChange, list[JournalEntry]]:
        entries: list[JournalEntry] = []
        tail, turn = record.tail, record.turn
        for number, item in enumerate(items):
            turn += item.kind == "user"
            value = self._clean(item)
            # Not what was said alone: the same words once more, after they were taken away, are another item.
            key = self._digest(f"{tail}\n{record.revision}\n{number}\n{canonical(value)}")
            text = self._redacted(item.text) if self._is_redacted(item.kind) else item.text
            message = {
                "role": item.kind,
                "content": text,
                "item": value,
                **({} if item.remembered else {"quiet": True}),
            }
            entries.append(JournalEntry(key, tail, turn, item.kind, record.used_at, message, text=text))
            tail = key
        return SessionChange(replace(record, tail=tail, turn=turn), tuple(entries)), entries

    def _without_last(self, record: SessionRecord) -> tuple[SessionChange, list[JournalEntry]]:
        last = self._chain(record)[-1:]
        return SessionChange(replace(record, tail=last[0].parent) if last else record), last

    def _instead(
        self, record: SessionRecord, items: Sequence[Item]
    ) -> tuple[SessionChange, tuple[list[JournalEntry], list[JournalEntry]]]:
        chain, same = self._chain(record), 0
        while same < min(len(chain), len(items)) and chain[same].message["item"] == self._clean(items[same]):
            same += 1
        tail = chain[same - 1].key if same else ""
        change, added = self._behind(replace(record, tail=tail), items[same:])
        return change, (added, chain[same:])

    def _digest(self, text: str) -> str:
        if self._keyed is None:
            self._keyed = digester(self._store.digest_key(self._scope))
        return self._keyed(text)

    def _remember(self, entries: Sequence[JournalEntry]) -> list[Remembered]:
        """Remember what was said; what the memories do not take stays in the journal, and the log says so."""
        kinds = {"all": ("user", "assistant"), "user": ("user",), "off": ()}[self._capture]
        done: list[Remembered] = []
        said = [entry for entry in entries if entry.kind in kinds and entry.text.strip() and not self._is_quiet(entry)]
        for entry in said:
            turn = {"role": entry.kind, "content": entry.text[:MAX_MEMORY_CHARS]}
            try:
                done += self._bound.remember(turn, idempotency_key=f"transcript {entry.key}")
            except OffpromptError as exc:
                log.warning("an item of session %r was not remembered: %s", self._scope.session, exc)
        return done

    def _is_quiet(self, entry: JournalEntry) -> bool:
        """Whether it is not to be remembered: it was marked, or a model says it in a turn in which a tool answered."""
        if entry.message.get("quiet"):
            return True
        if entry.kind != "assistant":
            return False
        entries = {each.key: each for each in self._store.journal(self._scope)}
        before = entries.get(entry.parent)
        while before is not None and before.turn == entry.turn:
            if before.kind == "tool":
                return True
            before = entries.get(before.parent)
        return False

    def _forget(self, entries: Sequence[JournalEntry]) -> None:
        # Remembered once more under its key, each names the memory that it became.
        for memory in self._remember(entries):
            if memory.kind == "episode":
                self._bound.forget(memory.name)

    def _is_redacted(self, kind: Kind) -> bool:
        redact = self._parts.settings.redact
        return redact == "all" or (redact != "off" and kind != "tool")

    def _redacted(self, text: str) -> str:
        return self._parts.memories.redacted(text)

    def _clean(self, item: Item) -> Any:
        return cleaned(item.value, self._redacted) if self._is_redacted(item.kind) else item.value


def cleaned(value: Any, redact: Callable[[str], str], *, words: bool = False) -> Any:
    """An item with marks in what was said; JSON in a text stays JSON.

    words    whether this value stands under a member that holds words.
    """
    if (members := as_dict(value)) is not None:
        return {name: cleaned(each, redact, words=words or name in WORDS) for name, each in members.items()}
    if (listed := as_list(value)) is not None:
        return [cleaned(each, redact, words=words) for each in listed]
    if not words:
        return value
    if isinstance(value, str):
        return _clean_json(value, redact)
    if isinstance(value, int) and not isinstance(value, bool):
        return value if (clean := redact(str(value))) == str(value) else clean
    return value


def _clean_json(text: str, redact: Callable[[str], str]) -> str:
    if not text.lstrip().startswith(("{", "[")):
        return redact(text)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return redact(text)
    clean = cleaned(value, redact, words=True)
    return text if clean == value else compact(clean)
