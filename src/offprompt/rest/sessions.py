"""Sessions over HTTP: an agent in any language runs its loop, each call answered by whichever worker it meets."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

import msgspec

from offprompt.errors import NotFoundError, UsageError
from offprompt.records import MEMORY_ACTIONS, JournalEntry, LedgerEntry, SessionRecord, as_dict, as_list
from offprompt.rest.cursors import page_of
from offprompt.rest.endpoint import Call, Endpoint, Example, Lines, LinesOf, Method, Pieces
from offprompt.rest.misfits import misfit
from offprompt.rest.problems import RequestError
from offprompt.rest.session_shapes import (
    Absorb,
    Absorbed,
    CallHandles,
    Counts,
    Ended,
    Found,
    Handles,
    JournalPage,
    LedgerPage,
    LookedUp,
    Messages,
    Opened,
    Page,
    Piece,
    Prepare,
    Prepared,
    Resolve,
    SessionShape,
    TraceFind,
)
from offprompt.rest.session_streams import lines_of, pieces_of
from offprompt.service.session import Session
from offprompt.service.stored_session import read_session
from offprompt.service.trace import Trace, Tracer
from offprompt.wire.handles import Looked, Lookup, find_handles, format_handle
from offprompt.wire.profiles import SHAPES
from offprompt.wire.shapes import Wire
from offprompt.wire.streamed import Lookups

TAG: Final = "sessions"
MAX_CONVERSATION_BYTES: Final = 32 * 1024 * 1024
"""Of a prepare or absorb: pictures among the messages are as large as providers take them."""

STREAM_WAIT_S: Final = 600.0
"""A model that thinks may say nothing for so long."""

FIRST_LINE: Final = 'the first line is not JSON; send how the session is opened, such as {"model": "gpt-4o-mini"}'
SESSION: Final = {"id": "s1"}


def opened(call: Call, given: SessionShape) -> Session:
    """The session of the path, as the body says, with what the call before left."""
    session = call.scope.session(
        call.path["id"],
        model=given.model,
        wire=given.wire,
        system=given.system,
        tools=list(given.tools),
        context_tokens=given.context_tokens,
        policy=given.policy,
        mode=given.mode,
        actions=given.actions,
        capture=given.capture,
        derive=given.derive,
        spaces=given.spaces,
        purpose=given.purpose,
        consent=given.consent,
    )
    session.underway = given.underway
    return session


def prepare(call: Call) -> Prepared:
    """Stored before it answers: the messages, how they are sent, the request's ledger entry.

    409 while another call works on the session: then nothing is changed. The same messages once more are answered with
    the same request.
    """
    body: Prepare = call.body
    session = opened(call, body)
    return Prepared(session.prepare(body.messages, show=body.show), session.underway, session.last_entry)


def absorb(call: Call) -> Absorbed:
    """Its memory calls are run and answered, its handles resolved; the same reply once more changes nothing.

    409 if another call sent a newer request since: a reply never stands behind a message that it does not answer.
    """
    body: Absorb = call.body
    session = opened(call, body)
    if not body.looked:
        return Absorbed(session.absorb(body.reply), session.underway, session.last_entry)
    reader = session.stream_reader()
    reply, lookups = reader.absorb(body.reply)
    return Absorbed(reply, session.underway, session.last_entry, looked_up(body.reply, lookups, reader.wire))


def absorb_stream(call: Call) -> Lines:
    """Each chunk is answered as soon as its handles are resolved, without memory calls; the last line is the whole.

    The first line sent is how the session is opened, as for absorb; then come the provider's chunks, a line each, as
    JSON or as the lines of its event stream (`data: …`), which can be passed on unread. A stream that ends early is
    absorbed as cut. A client that does not read while it sends gets the same lines, later.
    """
    lines = lines_of(call.body)
    try:
        given = msgspec.json.decode(next(lines, b""), type=Opened)
    except msgspec.ValidationError as exc:
        raise RequestError(
            HTTPStatus.UNPROCESSABLE_ENTITY, f"the first line does not fit: {misfit(Opened, exc)}"
        ) from exc
    except msgspec.DecodeError as exc:
        raise RequestError(HTTPStatus.BAD_REQUEST, FIRST_LINE) from exc
    return Lines(pieces_of(opened(call, given), lines), is_live=True)


def looked_up(reply: dict[str, Any], lookups: Lookups, wire: Wire) -> LookedUp:
    """How a reply's handles were looked up."""
    shape = SHAPES[wire]
    calls: list[CallHandles] = []
    for each in shape.calls(shape.reply(reply).message):
        if each.name not in MEMORY_ACTIONS:
            lookup = lookups.arguments if lookups.call is None else lookups.call(each.name, each.arguments)
            calls.append(CallHandles(each.name, each.arguments, _found([each.arguments], lookup)))
    return LookedUp(_found(_texts(reply), lookups.text), calls, lookups.missing)


def _found(texts: list[str], lookup: Lookup) -> dict[str, Found]:
    """The handles in texts, in their one spelling, with what they stand for."""
    found: dict[str, Found] = {}
    for text in texts:
        for each in find_handles(text):
            handle = format_handle(each.name, each.pointer)
            if handle not in found:
                found[handle] = _answer(lookup(each.name, each.pointer))
    return found


def _answer(looked: Looked) -> Found:
    return Found(looked.status, looked.value)


def _texts(value: object) -> list[str]:
    """All texts in a reply."""
    if isinstance(value, str):
        return [value]
    items = list((as_dict(value) or {}).values()) or as_list(value) or []
    return [text for item in items for text in _texts(item)]


def resolve(call: Call) -> Handles:
    """Only handles that this session gave out stand for something, and those of `never` slots do not."""
    body: Resolve = call.body
    lookup = opened(call, body).stream_reader().before.text
    found: list[Found] = []
    for text in body.handles:
        handles = find_handles(text)
        if len(handles) != 1:
            raise UsageError(f"{text[:80]!r} is not one handle; send such as [[mem:city]]")
        found.append(_answer(lookup(handles[0].name, handles[0].pointer)))
    return Handles(found)


def end(call: Call) -> Ended:
    """With `derive: "model"` its turns are read now, in the background; it can be gone on with all the same."""
    opened(call, call.body).end()
    return Ended(call.path["id"])


def stored(call: Call) -> Session:
    """The session of the path as it is in the store; new if there is none."""
    session = call.scope.session(call.path["id"])
    found = session.record
    if found is None:
        return session
    return call.scope.session(call.path["id"], model=found.model, wire=SHAPES[found.wire].name)


def record(call: Call) -> SessionRecord:
    """Its record as stored."""
    found = call.scope.session(call.path["id"]).record
    if found is None:
        name = call.path["id"]
        raise NotFoundError(f"no session {name!r} in this scope; it is there from its first prepare on", name=name)
    return found


def messages(call: Call) -> Messages:
    """For `prepare`, with what comes next; of a session that is not there, none."""
    return Messages(stored(call).messages())


def journal(call: Call) -> JournalPage:
    """Also the messages that left the prompt."""
    return JournalPage(*page_of(stored(call).journal(), _place, cursor=call.query.cursor, limit=call.query.limit))


def ledger(call: Call) -> LedgerPage:
    """The newest request joins it when its reply is absorbed."""
    return LedgerPage(*page_of(stored(call).ledger(), _place, cursor=call.query.cursor, limit=call.query.limit))


def _place(entry: JournalEntry | LedgerEntry) -> tuple[str]:
    return (f"{entry.seq:012}",)


def trace(call: Call) -> Trace:
    """What the model wrote, what memory did, how each request was built; values are handles unless asked for."""
    parts = call.memory.parts
    found = Tracer(parts.slots, read_session(parts.sessions, record(call)), values=call.query.values).trace(
        call.query.turn
    )
    if call.query.turn is not None and not found.turns:
        raise NotFoundError(f"session {call.path['id']!r} has no turn {call.query.turn}; leave it out for all")
    return found


def remove(call: Call) -> Counts:
    """Messages, bodies and ledger, and the slots of its own scope; memories stay, which are its owner's. No undo."""
    return Counts(**call.scope.narrow(session=call.path["id"]).clear())


def _endpoint(method: Method, path: str, run: Callable[[Call], object], summary: str, **given: Any) -> Endpoint:
    """What is asked once more is answered from the session itself: no answer is kept for that."""
    name = f"session_{run.__name__}"
    return Endpoint(method, f"/v1/sessions/{{id}}{path}", name, run, summary, TAG, is_secret=True, **given)


ASKED: Final = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Hello"}]}
SAID: Final = {"choices": [{"message": {"role": "assistant", "content": "Hello!"}, "finish_reason": "stop"}]}
STREAMED: Final = """{"model": "gpt-4o-mini"}
data: {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hel"}}]}
data: {"choices": [{"index": 0, "delta": {"content": "lo!"}, "finish_reason": "stop"}]}
data: [DONE]
"""
AFTER: Final = Example(path=SESSION, before=("session_prepare", "session_absorb"))

ENDPOINTS: Final = (
    _endpoint(
        "POST",
        "/prepare",
        prepare,
        "Prepare the next request to the model.",
        role="write",
        body=Prepare,
        max_bytes=MAX_CONVERSATION_BYTES,
        answer=Prepared,
        example=Example(body=ASKED, path=SESSION),
    ),
    _endpoint(
        "POST",
        "/absorb",
        absorb,
        "Read the model's reply.",
        role="write",
        body=Absorb,
        max_bytes=MAX_CONVERSATION_BYTES,
        answer=Absorbed,
        example=Example(
            body={"model": "gpt-4o-mini", "reply": SAID, "underway": {"asked": 1}},
            path=SESSION,
            before=("session_prepare",),
        ),
    ),
    _endpoint(
        "POST",
        "/absorb-stream",
        absorb_stream,
        "Read the model's reply while it comes.",
        role="write",
        body=Pieces(STREAM_WAIT_S),
        answer=LinesOf(Piece),
        example=Example(content=STREAMED, path=SESSION, before=("session_prepare",)),
    ),
    _endpoint(
        "POST",
        "/resolve",
        resolve,
        "Look handles up.",
        role="write",
        body=Resolve,
        answer=Handles,
        example=Example(
            body={"model": "gpt-4o-mini", "handles": ["[[mem:city]]"]}, path=SESSION, before=("session_prepare",)
        ),
    ),
    _endpoint(
        "POST",
        "/end",
        end,
        "Say that the conversation is over.",
        role="write",
        body=Opened,
        answer=Ended,
        example=Example(body={"model": "gpt-4o-mini"}, path=SESSION, before=("session_prepare",)),
    ),
    _endpoint("GET", "", record, "The session's record.", answer=SessionRecord, example=AFTER),
    _endpoint("DELETE", "", remove, "Remove a session whole.", role="admin", answer=Counts, example=AFTER),
    _endpoint("GET", "/messages", messages, "The conversation so far.", answer=Messages, example=AFTER),
    _endpoint("GET", "/journal", journal, "All messages of a session.", query=Page, answer=JournalPage, example=AFTER),
    _endpoint("GET", "/ledger", ledger, "What each request cost.", query=Page, answer=LedgerPage, example=AFTER),
    _endpoint("GET", "/trace", trace, "A session turn by turn.", query=TraceFind, answer=Trace, example=AFTER),
)
