"""`offprompt trace SESSION`: a session turn by turn, from what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from offprompt.cli.audit_text import flag_line, warning_text
from offprompt.cli.call import Call, command
from offprompt.cli.errors import corrected
from offprompt.cli.render import moment, scope_json
from offprompt.errors import NotFoundError, UsageError
from offprompt.records import Event, Scope, SessionRecord, compact
from offprompt.service.offprompt import Offprompt
from offprompt.service.stored_session import read_session
from offprompt.service.trace import Trace, TracedRound, TracedTurn, Tracer
from offprompt.service.undo import Rewrite, rewrites

MAX_NAMED = 10


def trace(
    call: Call,
    session_id: Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")],
    *,
    turn: Annotated[int | None, typer.Option(min=1, help="Only this turn.")] = None,
    values: Annotated[bool, typer.Option("--values", help="Print values too, but never secrets.")] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Print rewritten messages before and after instead. THIS PRINTS SECRETS.")
    ] = False,
) -> None:
    """A session turn by turn: what the model wrote, what memory did, how the next request was built."""
    with call.memory() as memory:
        parts = memory.parts
        session = read_session(parts.sessions, record_of(call, memory, session_id))
        found = Tracer(parts.slots, session, values=values).trace(turn)
        rewritten = rewrites(session, turn) if undo else ()
    if turn is not None and not found.turns:
        raise NotFoundError(f"session {session_id!r} has no turn {turn}; it has {len(session.turns)}")
    if undo:
        call.put(
            {"scope": scope_json(found.scope), "rewritten": [asdict(one) for one in rewritten]}, undone(call, rewritten)
        )
    else:
        call.put(document(found), text(call, found))


def record_of(call: Call, memory: Offprompt, session_id: str) -> SessionRecord:
    """The session of that id in the scope that is named, or the only one of that id anywhere.

    Raises   NotFoundError if there is none, UsageError if there are several: it names them.
    """
    scope = call.scope_of(memory).scope if call.scoped else None
    fitting = [one for one in memory.parts.sessions.sessions(scope) if one.scope.session == session_id]
    if not fitting:
        raise no_session(call, memory, session_id)
    if len(fitting) > 1:
        user = next((one.scope.user for one in fitting if one.scope.user), "alice")
        scopes = ", ".join(str(one.scope) for one in fitting)
        way = corrected(call.argv, ["--user", user])
        raise UsageError(f"{len(fitting)} sessions are called {session_id!r} ({scopes}); say whose: {way}")
    return fitting[0]


def no_session(call: Call, memory: Offprompt, session_id: str) -> NotFoundError:
    """The error of a session that is not there; it names those of the scope, the most recently used first."""
    scope = call.scope_of(memory).scope.without_session() if call.scoped else None
    where = "" if scope is None or scope.session else f" in scope {scope}"
    there = memory.parts.sessions.sessions(scope if where else None)
    names = list(dict.fromkeys(repr(one.scope.session) for one in there))
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    known = f"there are {', '.join(names[:MAX_NAMED])}{more}" if names else f"there is none in {memory.parts.url}"
    return NotFoundError(f"no session {session_id!r}{where}; {known}; list them: offprompt sessions")


def document(found: Trace) -> dict[str, Any]:
    """A trace as JSON."""
    turns: list[dict[str, Any]] = []
    for turn in found.turns:
        rounds = [asdict(one) | {"sent": asdict(one.sent)} for one in turn.rounds]
        events = [asdict(event) | {"scope": scope_json(event.scope)} for event in turn.events]
        flags = [asdict(flag) for flag in turn.flags]
        turns.append({"turn": turn.number, "user": turn.user, "requests": rounds, "events": events, "flags": flags})
    head = {"scope": scope_json(found.scope), "model": found.model, "wire": found.wire, "policy": found.policy}
    extracted = [asdict(event) | {"scope": scope_json(event.scope)} for event in found.extracted]
    return head | {"turns": turns, "extracted": extracted}


def undone(call: Call, rewritten: Sequence[Rewrite]) -> str:
    """The rewritten messages to be read, as they came and as they are sent."""
    blocks: list[str] = []
    for one in rewritten:
        head = f"{call.say('turn')} {one.turn}  {call.say(one.kind)}, {call.say(one.form)}"
        before, after = (
            [f"  {sign} {line}" for line in told.splitlines()] for sign, told in (("-", one.before), ("+", one.after))
        )
        blocks.append("\n".join([head, *before, *after]))
    return "\n\n".join(blocks) or call.say("no message was rewritten")


def text(call: Call, found: Trace) -> str:
    """A trace to be read."""
    scope: Scope = found.scope
    lines = [f"{call.say('session')} {scope.session} ({scope.without_session()}), {found.model}, {found.policy}"]
    for turn in found.turns:
        lines += ["", f"{call.say('turn')} {turn.number}  {turn.user}"]
        for one in turn.rounds:
            lines += round_lines(call, one)
        lines += turn_end(call, turn)
    if found.extracted:
        lines += ["", call.say("what a language model read"), *(f"  {event_line(event)}" for event in found.extracted)]
    return "\n".join(lines)


def round_lines(call: Call, one: TracedRound) -> list[str]:
    """One request: how it was built, what came back, what was done."""
    parts = ", ".join(f"{name} {size.tokens}" for name, size in one.parts.items() if size.tokens)
    built = f"{one.sent.tokens:,} {call.say('tokens')} ({one.prefix:,} {call.say('as before')}): {parts}"
    lines = [f"  {call.say('request')} {one.seq}  {built}"]
    lines += [f"    {call.say('shown')}: {each.name} ({each.why}, {each.tokens})" for each in one.shown]
    if not one.shown and not one.leaked:
        lines.append(f"    {call.say('no value got in')}")
    warnings = tuple(warning_text(call.lang, each) for each in one.warnings)
    listed = (
        ("sent, but no longer shown", one.lapsed),
        ("said", one.said),
        ("LEAKED", one.leaked),
        ("put back to its handle", one.scrubbed),
        ("warning", warnings),
    )
    lines += [f"    {call.say(label)}: {each}" for label, names in listed for each in names]
    if one.cut:
        lines.append(f"    {call.say('turns that left')}: {one.cut}")
    if one.stubbed:
        lines.append(f"    {call.say('results that became stubs')}: {one.stubbed}")
    if one.usage.cleared_results:
        told = f"{one.usage.cleared_results} ({one.usage.cleared or 0:,} {call.say('tokens')})"
        lines.append(f"    {call.say('results that the provider cleared')}: {told}")
    if one.raw:
        lines.append(f"    {call.say('model')}: {' '.join(one.raw.split())}")
    lines += [f"    {call.say('action')}: {each.name} {compact(dict(each.arguments))}" for each in one.actions]
    lines += [f"    {call.say('refused')}: {each.name} {each.why}" for each in one.refused]
    lines += [f"    {call.say('call')}: {each.name} {each.arguments}" for each in one.calls]
    lines += [f"    {call.say('receipt')}: {each}" for each in one.receipts]
    return lines if one.outcome == "ok" else [*lines, f"    {call.say('outcome')}: {one.outcome}"]


def turn_end(call: Call, turn: TracedTurn) -> list[str]:
    """What the store did in the turn, and what is wrong with its answer."""
    done = [f"  {event_line(event)}" for event in turn.events]
    wrong = [f"  {flag_line(call.lang, flag)}" for flag in turn.flags]
    return [*done, *wrong]


def event_line(event: Event) -> str:
    """An event on one line."""
    version = f" v{event.version}" if event.version else ""
    why = f": {event.why}" if event.why else ""
    return f"{moment(event.at)}  {event.op} {event.name}{version} ({event.actor}, {event.outcome}){why}"


def mount(app: typer.Typer) -> None:
    """Put the command into the program."""
    command(app, "trace")(trace)
