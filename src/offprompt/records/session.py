"""Session, journal and bodies: what is kept of a conversation so that any process can go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from offprompt.records.action import Receipt
from offprompt.records.event import Event
from offprompt.records.ledger import LedgerEntry, Shown
from offprompt.records.scope import Scope


@dataclass(frozen=True, slots=True)
class Head:
    """The stable front of every request of a session, built once.

    text         our part of the system text (instructions, directory, card).
    tools        our tool definitions in the wire's shape. instructions, directory, card: the parts of `text`.
    names        slots listed in the directory. carded: slots whose value stands in the card.
    leaked       names whose value stands in `text` outside the card. before: `text` before such values became handles,
                 empty if none did.
    """

    text: str = ""
    tools: tuple[Mapping[str, Any], ...] = ()
    names: tuple[str, ...] = ()
    carded: tuple[str, ...] = ()
    instructions: str = ""
    directory: str = ""
    card: str = ""
    leaked: tuple[str, ...] = ()
    before: str = ""


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """One conversation's state; small: messages are in the journal.

    revision     goes up by one with each commit; compare-and-set.
    head         None until the first request.
    turn         user turns begun. turn_key: journal key of the newest user message.
    base         journal key of the last message given to `prepare` that is not this turn's own; `open`: the last
                 reply asked for memory, so that the turn's own messages go on from there; tail: the last of them.
    start        journal key of the oldest message that is still sent; empty: all are. left: turns that left before it.
    sent_last    journal key of the last message of the last request; with sent_start and sent_turn it says which
                 messages that request held and in which form. sent_head: digest of all that stood before them.
    issued       names and body ids whose handles work here.
    shown        what this turn showed; spent: its tokens. reads: names that this turn read.
    tainted      foreign text (a tool's output) came into this turn: what it writes has trust `tool`.
    pending      the ledger entry of a request without its reply yet.
    account      the history policy's running sums, by name.
    kept         what turns that are over showed, by journal key: whether it stays; decided when its turn ended.
    stubbed      journal keys of the messages that are sent as stubs since the model has seen them whole.
    cleared      tool results, the oldest ones, that the provider cleared of the request answered last.
    captured     journal key of the last reply whose turn is among the memories; empty: none is.
    consents     that what was said in it rests on, each that it was ever opened with.
    nonce        marks the frame of shown values, made once.
    """

    scope: Scope
    model: str = ""
    wire: str = "openai"
    language: str = "en"
    policy: str = "auto"
    created_at: float = 0.0
    used_at: float = 0.0
    revision: int = 0
    head: Head | None = None
    turn: int = 0
    turn_key: str = ""
    base: str = ""
    open: bool = False
    tail: str = ""
    start: str = ""
    left: int = 0
    sent_start: str = ""
    sent_last: str = ""
    sent_turn: int = 0
    sent_head: str = ""
    issued: tuple[str, ...] = ()
    shown: tuple[Shown, ...] = ()
    spent: int = 0
    reads: tuple[str, ...] = ()
    tainted: bool = False
    pending: LedgerEntry | None = None
    requests: int = 0
    last_hash: str = ""
    account: Mapping[str, float] = field(default_factory=dict[str, float])
    nonce: str = ""
    kept: Mapping[str, bool] = field(default_factory=dict[str, bool])
    stubbed: tuple[str, ...] = ()
    cleared: int = 0
    captured: str = ""
    consents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One message of a session as it came, and as it is sent.

    key        keyed digest of the message and of all before it: its place in one branch of the conversation.
    parent     the key before it, empty for the first. seq: order of arrival in the session, set by the store.
    message    as it came in (an assistant's: raw, as the model wrote it). resolved: what the application was given.
    live       the messages sent for it while its turn lasts, None: as it came, empty: none (a reply that said nothing).
               settled: those sent after its turn, None: as live. One incoming message may become several (a shown
               value stands in one of its own).
    kind       `system` `user` `assistant` `tool`, and `answer` for our own results. turn: the user turn it belongs to.
    bodies     ids of the bodies that its stubs stand for. shown: values that stand in its live form, with the reason.
    stub       the messages sent for it once the model has seen it whole, None: it stays. stub_bodies: ids of the bodies
               that the stubs in them stand for.
    leaked     names whose value, or a part of it, is sent in it without having been shown or said.
    receipts   of an assistant's actions, in order, without what was shown: a reply that comes again is not run again.
    """

    key: str
    parent: str
    turn: int
    kind: str
    at: float
    message: Mapping[str, Any]
    resolved: Mapping[str, Any] | None = None
    live: tuple[Mapping[str, Any], ...] | None = None
    settled: tuple[Mapping[str, Any], ...] | None = None
    text: str = ""
    bodies: tuple[str, ...] = ()
    shown: tuple[Shown, ...] = ()
    receipts: tuple[Receipt, ...] = ()
    seq: int = 0
    stub: tuple[Mapping[str, Any], ...] | None = None
    stub_bodies: tuple[str, ...] = ()
    leaked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Body:
    """Anything stored by reference because it is long; lives as long as its session's record.

    body_id  keyed digest of the text, its handle is `[[mem:@ID]]`. chars, bytes: of the text. kind: `tool`, `document`.
    """

    body_id: str
    text: str
    kind: str
    label: str
    at: float
    bytes: int


@dataclass(frozen=True, slots=True)
class SessionChange:
    """One commit of a session: all of it is stored, or none.

    record     the new state; its revision must be the stored one + 1.
    journal    entries to insert; a key that is there already is replaced only where `settled`, `live` or
               `resolved` was None before: what was rendered once never changes.
    """

    record: SessionRecord
    journal: tuple[JournalEntry, ...] = ()
    bodies: tuple[Body, ...] = ()
    ledger: tuple[LedgerEntry, ...] = ()
    events: tuple[Event, ...] = ()
