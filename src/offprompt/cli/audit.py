"""`offprompt audit`: what sessions sent, kept out, showed and cost, from their ledgers."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from offprompt.cli.audit_text import audit_text, broken_line, diagnosis_line
from offprompt.cli.call import Call, command
from offprompt.cli.render import scope_json
from offprompt.cli.trace import no_session
from offprompt.errors import BackendError, NotFoundError
from offprompt.service.audit import Audit, MemoryCalls, SessionAudit, Totals
from offprompt.service.audit import audit as audit_sessions
from offprompt.service.comparison import Comparison

FAULTS = 1


def audit(
    call: Call,
    *,
    verify: Annotated[bool, typer.Option("--verify", help="Recompute the hash of every entry, and the chain.")] = False,
    diagnose: Annotated[bool, typer.Option("--diagnose", help="Say what made tokens go up.")] = False,
) -> None:
    """What sessions sent, kept out, showed and cost: of a scope, or of all. Exit code 1 if a value leaked."""
    with call.memory() as memory:
        scope = call.scope_of(memory).scope if call.scoped else None
        found = audit_sessions(memory.parts, scope, verify=verify, diagnosis=diagnose)
        if not (found.sessions or found.for_memory) and call.options.session is not None:
            raise no_session(call, memory, call.options.session)
        nothing = call.nothing_in(memory)
    if not (found.sessions or found.for_memory) and scope is not None:
        raise NotFoundError(f"no session in scope {scope}; list those of all: offprompt sessions")
    text = audit_text(found, call.lang, diagnosed=diagnose) if found.sessions or found.for_memory else nothing
    call.put(_audit_json(found, call), text)
    if found.broken:
        scope, broken = found.broken[0]
        raise BackendError(
            f"the ledger of {scope} is not as it was written: {broken_line('en', broken)}; "
            f"{len(found.broken)} of {len(found.sessions) + len(found.for_memory)} ledgers are broken; "
            "compare with a backup of the store"
        )
    if found.leaks:
        raise typer.Exit(FAULTS)


def _audit_json(found: Audit, call: Call) -> dict[str, Any]:
    return {
        "leaks": [
            {"scope": scope_json(leak.scope), "request": leak.seq, "turn": leak.turn, "names": list(leak.names)}
            for leak in found.leaks
        ],
        "model_calls_for_memory": sum(found.calls.values()),
        "for_memory": [_for_memory_json(one) for one in found.for_memory],
        "totals": _totals_json(found.totals),
        "sessions": [_session_json(one, call) for one in found.sessions],
    }


def _for_memory_json(one: MemoryCalls) -> dict[str, Any]:
    document = {"scope": scope_json(one.scope), **msgspec.to_builtins(one.spent)}
    if one.verified:
        broken = None if one.broken is None else msgspec.to_builtins(one.broken)
        document["ledger"] = {"entries": one.entries, "whole": one.broken is None, "broken": broken}
    return document


def _session_json(one: SessionAudit, call: Call) -> dict[str, Any]:
    document: dict[str, Any] = {
        "scope": scope_json(one.scope),
        "model": one.model,
        **_totals_json(one.totals),
        "shown": msgspec.to_builtins(one.shown),
        "warnings": [{"text": text, "count": count} for text, count in one.warnings],
        "diagnoses": [
            {
                "cause": each.cause,
                "tokens": each.tokens,
                "numbers": dict(each.numbers),
                "says": diagnosis_line(call.lang, each),
            }
            for each in one.diagnoses
        ],
    }
    if one.verified:
        broken = None if one.broken is None else msgspec.to_builtins(one.broken)
        document["ledger"] = {"entries": one.entries, "whole": one.broken is None, "broken": broken}
    return document


def _totals_json(totals: Totals) -> dict[str, Any]:
    return {
        "turns": totals.turns,
        "requests": totals.requests,
        "unanswered": totals.unanswered,
        "tokens_in": totals.tokens_in,
        "tokens_by_part": dict(totals.parts),
        "tokens_repeated": totals.prefix,
        "share_repeated": round(totals.repeated, 4),
        "tokens_out": totals.tokens_out,
        "bytes_outside": totals.outside,
        "prices": dict(totals.prices),
        "requests_unpriced": totals.unpriced,
        "turns_cut": totals.cuts,
        "messages_stubbed": totals.stubbed,
        "scrubbed": dict(totals.scrubbed),
        "said": sorted(totals.said),
        "unproven": sorted(totals.unproven),
        "requests_without_added_value": totals.clean,
        "requests_with_lapsed_value": totals.lapsed,
        "requests_with_card": totals.carded,
        "requests_with_all_inline": totals.inlined,
        "requests_after_memory_calls": totals.memory_rounds,
        "against_inline": _comparison_json(totals.comparison),
    }


def _comparison_json(one: Comparison) -> dict[str, Any]:
    return msgspec.to_builtins(one) | {"ours_tokens": one.ours_tokens, "saved_tokens": one.saved_tokens}


def mount(app: typer.Typer) -> None:
    """Put the command into the program."""
    command(app, "audit")(audit)
