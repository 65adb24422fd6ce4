"""A session as it lies in the store: its requests, each with the reply that came back, by turns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from offprompt.protocols import SessionStore
from offprompt.records import MEMORY_ACTIONS, JournalEntry, LedgerEntry, Parsed, SessionRecord
from offprompt.wire.actions import parse_actions
from offprompt.wire.profiles import SHAPES
from offprompt.wire.shapes import Call, Shape


@dataclass(frozen=True, slots=True)
class Round:
    """One request and what came back.

    reply    None where none was absorbed. parsed: the reply read again. calls: those of the client's own tools.
    answers  our answers to the reply, as the model got them in later turns: receipts, never a body.
    waiting  the request has no ledger entry of its own yet: its reply may still come.
    """

    entry: LedgerEntry
    reply: JournalEntry | None
    parsed: Parsed
    calls: tuple[Call, ...]
    answers: tuple[str, ...]
    waiting: bool = False

    @property
    def reads_only(self) -> bool:
        """Whether the reply asked its memory to be read and nothing else, so that one more request followed for it."""
        names = {action.name for action in self.parsed.actions}
        return bool(names) and names <= {"mem_read", "mem_search"} and not self.calls


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """The requests of one user turn. number: the ledger's. user: the newest user message that they carried."""

    number: int
    user: JournalEntry | None
    rounds: tuple[Round, ...]


@dataclass(frozen=True, slots=True)
class StoredSession:
    """All of one session."""

    record: SessionRecord
    ledger: tuple[LedgerEntry, ...]
    journal: tuple[JournalEntry, ...]
    turns: tuple[StoredTurn, ...]

    @property
    def shape(self) -> Shape:
        """The shape of its messages."""
        return SHAPES[self.record.wire]

    @property
    def rounds(self) -> list[Round]:
        """All requests, in order."""
        return [one for turn in self.turns for one in turn.rounds]


def read_session(store: SessionStore, record: SessionRecord) -> StoredSession:
    """The session of a record; reads journal and ledger whole, O(journal)."""
    ledger, journal = store.ledger(record.scope), store.journal(record.scope)
    by_key = {entry.key: entry for entry in journal}
    entries = [*ledger, *([record.pending] if record.pending is not None else [])]
    replies = _replies(ledger, journal)
    answers = {entry.parent: entry for entry in reversed(journal) if entry.kind == "answer"}
    shape = SHAPES[record.wire]
    rounds = [
        _round(entry, replies.get(entry.seq), answers, shape, waiting=entry is record.pending) for entry in entries
    ]
    turns = tuple(
        StoredTurn(number, _user(found[0].entry.last, by_key), tuple(found))
        for number, group in groupby(rounds, key=lambda one: one.entry.turn)
        if (found := list(group))
    )
    return StoredSession(record, tuple(ledger), tuple(journal), turns)


def _replies(ledger: Sequence[LedgerEntry], journal: Sequence[JournalEntry]) -> dict[int, JournalEntry]:
    """The reply to each answered request, by its number: what stands behind its last message, in order of arrival."""
    behind: dict[str, list[JournalEntry]] = defaultdict(list)
    for entry in journal:
        if entry.kind == "assistant":
            behind[entry.parent].append(entry)
    found: dict[int, JournalEntry] = {}
    for entry in ledger:
        candidates = behind.get(entry.last, [])
        if entry.outcome in ("ok", "cut") and candidates:
            # The same words once more are the same message: the last one then stands for all further replies.
            found[entry.seq] = candidates.pop(0) if len(candidates) > 1 else candidates[0]
    return found


def _round(
    entry: LedgerEntry, reply: JournalEntry | None, answers: dict[str, JournalEntry], shape: Shape, *, waiting: bool
) -> Round:
    if reply is None:
        return Round(entry, None, Parsed(), (), (), waiting)
    message = dict(reply.message)
    calls = tuple(call for call in shape.calls(message) if call.name not in MEMORY_ACTIONS)
    texts: list[str] = []
    key = reply.key
    while (answer := answers.get(key)) is not None:
        for form in answer.settled or (answer.message,):
            results = shape.results(dict(form))
            texts += [result.text for result in results] if results else _lines(shape.text(dict(form)))
        key = answer.key
    return Round(entry, reply, parse_actions(message), calls, tuple(texts), waiting)


def _lines(text: str) -> list[str]:
    """The receipts of actions in text: a line each, under our heading."""
    return [line for line in text.splitlines() if line and line != "[memory]"]


def _user(key: str, by_key: dict[str, JournalEntry]) -> JournalEntry | None:
    while (entry := by_key.get(key)) is not None and entry.kind != "user":
        key = entry.parent
    return entry
