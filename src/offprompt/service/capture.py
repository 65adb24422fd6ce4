"""Capture: turns that are over become memories, and what their user says in them facts and profile."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from offprompt.errors import BackendError, OffpromptError
from offprompt.protocols import apply
from offprompt.records import (
    MAX_MEMORY_CHARS,
    MEMORY_ACTIONS,
    JournalEntry,
    ListMemories,
    Memory,
    MemoryQuery,
    Remembered,
    Reply,
    Scope,
    SessionRecord,
    UpdateMemory,
)
from offprompt.records.scope import bare_of
from offprompt.service.conversation import Conversation
from offprompt.service.extract_background import extract_model
from offprompt.service.memory_search import ID_CHARS
from offprompt.service.rendering import own_words
from offprompt.service.session_kit import SessionKit
from offprompt.service.turn import Turn
from offprompt.wire.actions import parse_actions
from offprompt.wire.contradiction import claims_saved
from offprompt.wire.options import Derive, SessionOptions
from offprompt.wire.thinking import without_thinking

if TYPE_CHECKING:  # NumPy and the rules are loaded with the first turn that is captured
    from offprompt.service.remembering import Said

log = logging.getLogger("offprompt")

PLACES: Final = 2
"""Places of a turn in the order of its session: the user's words, then the model's."""

LATER: Final = "what was said is in the journal, but not yet among the memories; the next call tries again"


@dataclass(frozen=True, slots=True)
class PastTurn:
    """A turn that is over: what the user said, and the reply that ended it.

    tools     what the client's tools answered in it. asked: the reply before: what a short answer answers.
    told      memory was shown in it: the model's answer repeats that, and is not captured. tainted: a tool's output
              stood in it or before it, and the answer may repeat that.
    """

    users: tuple[JournalEntry, ...]
    tools: tuple[JournalEntry, ...]
    reply: JournalEntry
    told: bool
    tainted: bool
    asked: str = ""


def captured_scope(scope: Scope) -> Scope | None:
    """Where a session's turns are remembered: its user's scope, or its own; None for an agent's, which no user owns."""
    return bare_of(scope).without_session() if scope.user or not scope.agent else None


@dataclass(slots=True)
class Capture:
    """Captures one session's turns. Its place is in the session's record, one commit behind what this object knows.

    Idempotent   each message is a memory under the name of its journal key: after a crash between the session's commit
                 and the memories', or in a process that does not know of them, the turn is captured once more.
    Branches     turns that the client left by editing or asking again are archived with the facts derived from them,
                 and come back if it returns to them. Profile slots stay until something else is said.
    Never        system text, documents, receipts, what was shown or recalled, nor the answer to it; tools' results with
                 `capture_tools` only.
    Speaker      the name that the client gives a user's message, redacted.
    Trust        the user's words are the user's in any turn; the model's are a tool's from the first tool's output on.
    """

    kit: SessionKit
    scope: Scope
    options: SessionOptions
    reached: str = ""

    @property
    def what(self) -> str:
        """What is captured."""
        return self.options.capture or self.kit.settings.capture

    @property
    def derive(self) -> Derive:
        """How facts are read in it."""
        return self.options.derive or self.kit.settings.derive

    def check(self) -> None:
        """Nothing, unless a language model is to read turns and none is set: then an UnsupportedError."""
        if self.derive == "model":
            extract_model(self.kit.memories.models)

    def ended(self) -> None:
        """The conversation is over: what a language model has yet to read of it, it reads now."""
        if (target := captured_scope(self.scope)) is not None and self.derive == "model":
            self.kit.memories.background.ended(target)

    def place(self, record: SessionRecord) -> str:
        """The journal key of the last captured reply."""
        return self.reached or record.captured

    def run(self, turn: Turn, record: SessionRecord, conversation: Conversation) -> tuple[Remembered, ...]:
        """What became of the turns that are over and not captured yet; a trouble is among the turn's warnings.

        Trouble of store or embedder raises nothing: a reply that was paid for is worth more than its memory.
        Uses     of what was recalled in the turn are stored with it, or alone where nothing is captured.
        """
        target = captured_scope(self.scope)
        try:
            if self.what == "off" or target is None or not record.tail:
                return ()
            return self._run(turn, record, conversation, target)
        except OffpromptError as exc:
            log.warning("a turn of session %r was not captured: %s", self.scope.session, exc)
            turn.warnings.append(f"{LATER}: {exc}")
            return ()
        finally:
            if not record.open:
                self._store_uses()

    def _store_uses(self) -> None:
        """Store the uses that wait; where the store takes none they wait for the next write, which says why."""
        try:
            self.kit.memories.flush()
        except BackendError as exc:
            log.warning("uses of memories wait in session %r: %s", self.scope.session, exc)

    def _run(
        self, turn: Turn, record: SessionRecord, conversation: Conversation, target: Scope
    ) -> tuple[Remembered, ...]:
        chain, before = conversation.chain(record.tail), self.place(record)
        places = {entry.key: at for at, entry in enumerate(chain)}
        known = conversation.chain(before) if before in conversation.by_key else []
        behind = max((places[entry.key] for entry in known if entry.key in places), default=-1)
        since = _turn_start(chain, behind)
        foreign = any(entry.kind == "tool" for entry in chain[:since])
        past = _turns(chain[since:], conversation, record, foreign=foreign)
        turns = [each for each in past if places[each.reply.key] > behind]
        if not turns:
            return ()
        left = {entry.key for entry in known if entry.key not in places}
        if left:
            self._move(target, left, set(places))
        said = [one for each in turns for one in self._said(turn, each)]
        found = self._store(target, said)
        self.reached = turns[-1].reply.key
        turn.changed()
        return found

    def _said(self, turn: Turn, past: PastTurn) -> Iterator[Said]:
        """The turn's texts: the user's own words as they were given, the model's last ones as it wrote them."""
        from offprompt.service.remembering import Said  # noqa: PLC0415 - loads NumPy and the rules

        rules = self.derive != "none"
        for entry in past.users:
            text = own_words(turn, dict(entry.message)).strip()[:MAX_MEMORY_CHARS]
            name = entry.message.get("name")
            if text:
                yield Said(
                    text,
                    "episode",
                    "user",
                    self.kit.memories.redacted(name) if isinstance(name, str) else "",
                    session=self.scope.session or "",
                    order=PLACES * entry.turn,
                    at=entry.at,
                    op_key=f"capture/{entry.key}",
                    derives=rules,
                    message=entry.key[:ID_CHARS],
                    asked=past.asked,
                )
        if self.kit.settings.capture_tools and self.what == "all":
            yield from self._results(turn, past)
        text = without_thinking(parse_actions(dict(past.reply.message)).text).strip()[:MAX_MEMORY_CHARS]
        if text and self.what == "all" and not past.told:
            yield Said(
                text,
                "episode",
                "assistant",
                session=self.scope.session or "",
                order=PLACES * past.reply.turn + 1,
                at=past.reply.at,
                op_key=f"capture/{past.reply.key}",
                derives=False,
                source="model",
                trust="tool" if past.tainted else "user",
                message=past.reply.key[:ID_CHARS],
            )

    def _results(self, turn: Turn, past: PastTurn) -> Iterator[Said]:
        """The tools' results as the model got them, scrubbed."""
        from offprompt.service.remembering import Said  # noqa: PLC0415 - loads NumPy and the rules

        for entry in past.tools:
            text = "\n".join(turn.model.shape.text(dict(form)) for form in entry.live or (entry.message,))
            if text.strip():
                yield Said(
                    text.strip()[:MAX_MEMORY_CHARS],
                    "episode",
                    "tool",
                    session=self.scope.session or "",
                    order=PLACES * entry.turn + 1,
                    at=entry.at,
                    op_key=f"capture/{entry.key}",
                    derives=False,
                    source="tool",
                    trust="tool",
                    message=entry.key[:ID_CHARS],
                )

    def _store(self, target: Scope, said: Sequence[Said]) -> tuple[Remembered, ...]:
        from offprompt.service.remembering import Marks, Rememberer  # noqa: PLC0415 - loads NumPy and the rules

        if not said:
            return ()
        stored = Rememberer(self.kit.memories.kit, target).store(
            said, Marks(tags=self.kit.basis, source="user", actor=self.kit.actor.via("session"))
        )
        turns = sum(one.role == "user" for one in said)
        if turns and self.derive == "model":
            self.kit.memories.background.said(target, turns)
        return tuple(stored)

    def _move(self, target: Scope, left: set[str], kept: set[str]) -> None:
        """Archive what was captured of messages that the client left, and bring back what it returned to."""
        query = MemoryQuery(target, "exact", states=("live", "archived"), session=self.scope.session or "")
        memories = apply(self.kit.memories.store, ListMemories(query))
        gone, back = ({key[:ID_CHARS] for key in keys} for keys in (left, kept))
        who = self.kit.actor.via("session")
        ops = [
            UpdateMemory(memory.scope, memory.memory_id, archived=memory.state == "live", actor=who)
            for memory in memories
            if _message_of(memory) in (gone if memory.state == "live" else back)
        ]
        if ops:
            self.kit.memories.store.apply(ops)


def false_claim(reply: Reply, record: SessionRecord, conversation: Conversation) -> str:
    """A warning where an answer says that it saved something, and its turn wrote and remembered nothing; else empty."""
    said = claims_saved(reply.text) if reply.done and not reply.tool_calls and not reply.remembered else ""
    turn = conversation.after(record.turn_key, record.tail) if said else []
    wrote = any(receipt.action == "mem_write" and receipt.ok for entry in turn for receipt in entry.receipts)
    if not said or wrote:
        return ""
    return f"the answer says {said!r}, and nothing was saved in this turn; write a slot, or set capture"


def _message_of(memory: Memory) -> str:
    """The journal key, as far as it is kept, of the message that a memory was made of."""
    return str(memory.metadata.get("message", ""))


def _turn_start(chain: Sequence[JournalEntry], at: int) -> int:
    """The place of the user's words of the turn in which a place lies, or which begins behind it."""
    while at > 0 and not (chain[at].kind == "user" and chain[at - 1].kind != "user"):
        at -= 1
    return max(at, 0)


def _turns(
    chain: Sequence[JournalEntry], conversation: Conversation, record: SessionRecord, *, foreign: bool
) -> Iterator[PastTurn]:
    """The turns of a branch, or of its end, that are over and whose last reply was absorbed here, in order.

    foreign   a tool's output stands before them.
    """
    groups: list[list[JournalEntry]] = []
    for entry in chain:
        if entry.kind == "user" and (not groups or groups[-1][-1].kind != "user"):
            groups.append([])
        if groups:
            groups[-1].append(entry)
    shape = conversation.shape
    for at, group in enumerate(groups):
        reply = next((entry for entry in reversed(group) if entry.kind == "assistant"), None)
        foreign = foreign or any(entry.kind == "tool" for entry in group)
        if reply is None or reply.key != conversation.reply_key(reply.parent, dict(reply.message)):
            continue
        waits = any(call.name not in MEMORY_ACTIONS for call in shape.calls(dict(reply.message)))
        if at == len(groups) - 1 and (record.open or waits):
            continue
        users = tuple(entry for entry in group if entry.kind == "user")
        told = any(entry.shown for entry in group)
        asked = next((entry.text for entry in reversed(groups[at - 1]) if entry.kind == "assistant"), "") if at else ""
        tools = tuple(entry for entry in group if entry.kind == "tool")
        yield PastTurn(users, tools, reply, told, foreign, asked)
