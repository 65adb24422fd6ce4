"""What the calls of a session take and answer."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from offprompt.records import JournalEntry, LedgerEntry, Reply
from offprompt.records.basis import MAX_CHARS
from offprompt.records.scope import MAX_SPACES
from offprompt.rest.cursors import MAX_PAGE
from offprompt.rest.endpoint import Shape
from offprompt.rest.problems import Problem
from offprompt.wire.options import Capture, Derive, HistoryPolicy, Mode, Underway
from offprompt.wire.shapes import Wire

Basis: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_CHARS, pattern=r"\S")]
"""The name of a purpose or a consent."""

SpaceNames: TypeAlias = Annotated[tuple[str, ...], Meta(extra_json_schema={"maxItems": MAX_SPACES})]
"""Names of spaces; what is none is the library's to refuse."""


class SessionShape(Shape, kw_only=True, frozen=True):
    """How a session is opened: the same with each call, for any worker may answer it.

    model           sets tokenizer, price sheet, context size and wire; it is passed on in the request.
    wire            `openai` chat completions, `anthropic` messages, `responses`; null: by the model's name.
    system, tools   the application's own, sent before Offprompt's and never changed.
    context_tokens  of the model; null: what its profile says.
    policy          what leaves the prompt of the history. mode: names and handles, or all values once.
    actions         `tools`: native calls. `text`: JSON in the reply's text.
    capture         which turns become memories. derive: how facts are read in them. null: the server's setting.
    purpose         what it is for: what is stored of it may be used for that, and what may not be is not found in it.
    consent         what it rests on: see `/v1/withdrawals`.
    spaces          in which `mem_search` and the recall of a turn look besides, as far as they are granted.
    underway        what the call before answered under that name, as it came; leave it out in the first call.
    """

    model: str = ""
    wire: Wire | None = None
    system: str = ""
    tools: tuple[dict[str, Any], ...] = ()
    context_tokens: Annotated[int, Meta(ge=1)] | None = None
    policy: HistoryPolicy = "auto"
    mode: Mode = "off_prompt"
    actions: Literal["tools", "text"] = "tools"
    capture: Capture | None = None
    derive: Derive | None = None
    purpose: Basis | None = None
    consent: Basis | None = None
    spaces: SpaceNames = ()
    underway: Underway = Underway()


class Prepare(SessionShape, kw_only=True, frozen=True):
    """The conversation so far, whole, in the provider's own form. show: slots that the model shall see in this turn."""

    messages: list[dict[str, Any]]
    show: tuple[str, ...] = ()


class Absorb(SessionShape, kw_only=True, frozen=True):
    """What the provider answered, as it came.

    looked  answer too how its handles were looked up: for a reader that resolves the chunks of a stream itself.
    """

    reply: dict[str, Any]
    looked: bool = False


class Resolve(SessionShape, kw_only=True, frozen=True):
    """Handles as they stand in the model's text, such as `[[mem:city]]`."""

    handles: Annotated[list[str], Meta(max_length=MAX_PAGE)]


class Opened(SessionShape, kw_only=True, frozen=True):
    """The session that is meant."""


class Prepared(Struct, omit_defaults=True):
    """The next request.

    request   to be sent to the provider as it is: model, messages, tools; for Anthropic system and max_tokens too.
    underway  hand it back with the next call.
    entry     the ledger's entry of a request before that never got its reply.
    """

    request: dict[str, Any]
    underway: Underway
    entry: LedgerEntry | None = None


class Found(Struct, omit_defaults=True):
    """What a handle stands for. status: `ok`, or why there is no value."""

    status: Literal["ok", "not_issued", "not_found", "not_allowed"]
    value: Any = None


class CallHandles(Struct):
    """The handles of one call of the application's tools."""

    name: str
    arguments: str
    handles: dict[str, Found]


class LookedUp(Struct):
    """How a reply's handles were looked up: in its text, in its calls. missing: what stands for a bad one in text."""

    text: dict[str, Found]
    calls: list[CallHandles]
    missing: str


class Absorbed(Struct, omit_defaults=True):
    """What the reply comes to.

    reply     done: false: prepare again, with the messages and `reply.messages` behind them. Else `text` is the answer,
              and `tool_calls` are the application's to run.
    underway  hand it back with the next call. entry: the ledger's entry of the request that this answers.
    """

    reply: Reply
    underway: Underway
    entry: LedgerEntry | None = None
    looked: LookedUp | None = None


class Piece(Struct, omit_defaults=True):
    """One line of a streamed reply: a chunk for the reader, in the provider's own form; behind them the whole, or why
    there is none.
    """

    chunk: Any = None
    absorbed: Absorbed | None = None
    problem: Problem | None = None


class Handles(Struct):
    """What the handles stand for, in their order."""

    handles: list[Found]


class Ended(Struct):
    """The session's id."""

    session: str


class Counts(Struct):
    """How many of each are gone."""

    slots: int
    memories: int
    sessions: int


class Messages(Struct):
    """The conversation so far, as an application holds it."""

    messages: list[dict[str, Any]]


class Page(Shape, kw_only=True, frozen=True):
    """A page of a list. cursor: what the page before says; empty: the first. limit: at most so many."""

    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 100


class LedgerPage(Struct):
    """Entries of the ledger, oldest first. cursor: of the next page, empty on the last."""

    entries: list[LedgerEntry]
    cursor: str = ""


class JournalPage(Struct):
    """Messages in order of arrival. cursor: of the next page, empty on the last."""

    entries: list[JournalEntry]
    cursor: str = ""


class TraceFind(Shape, kw_only=True, frozen=True):
    """turn: only this one. values: those of slots too, but never secrets."""

    turn: Annotated[int, Meta(ge=1)] | None = None
    values: bool = False
