"""Told: what the answer's headers say of a request, and how an error is said on each wire."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

from offprompt.errors import OffpromptError
from offprompt.gateway.asked import THREADED, ThreadedError
from offprompt.gateway.exchange import Begun, Exchange
from offprompt.gateway.upstream import plain_headers
from offprompt.records import compact
from offprompt.rest.problems import problem_of
from offprompt.wire.prices import PriceSheet, sheet_for
from offprompt.wire.shapes import Wire

ERROR_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


def told(exchange: Exchange, session_id: str, sheets: Sequence[PriceSheet]) -> dict[str, str]:
    """What the ledger says of a request, as headers.

    Streamed   they go before the reply, so they say what was known before it, of the first request.
    Whole      of all requests that the reply took, and what only the reply says: tokens from the cache, the price.
    """
    cause = exchange.trouble or exchange.session.underway.cause
    said = {"offprompt-memory": f"off; {cause}" if cause else "on", "offprompt-session": session_id.replace("%", "%25")}
    if exchange.hints:
        said["offprompt-hint"] = "; ".join(exchange.hints)
    entry = exchange.noted
    if entry is None:
        return said
    said["offprompt-entry"] = str(entry.seq)
    said["offprompt-tokens-before"] = str(entry.before)
    closed = exchange.entries or [entry]
    said["offprompt-tokens"] = str(sum(each.sent.tokens for each in closed))
    said["offprompt-shown"] = str(sum(shown.tokens for each in closed for shown in each.shown))
    said["offprompt-leaked"] = str(len({name for each in closed for name in each.leaked}))
    cached = [each.usage.cached for each in exchange.entries if each.usage.cached is not None]
    if cached:
        said["offprompt-cached"] = str(sum(cached))
    prices = [each.price for each in exchange.entries if each.price is not None]
    sheet = sheet_for(entry.model, sheets)
    if prices and sheet is not None:
        said["offprompt-price"] = f"{sum(prices):.9f} {sheet.currency}; {sheet.name}"
    return said


def refused(error: OffpromptError, wire: Wire | None) -> Begun:
    """An error as the wire's clients read errors."""
    problem, headers = problem_of(error)
    kind = ERROR_TYPES.get(problem.status, "api_error")
    inner: dict[str, Any] = {"type": kind, "message": problem.detail, "code": problem.code}
    if isinstance(error, ThreadedError):
        inner["details"] = THREADED
    body = compact({"type": "error", "error": inner} if wire == "anthropic" else {"error": {**inner, "param": None}})
    content = body.encode()
    given = {"content-type": "application/json", "content-length": str(len(content)), "offprompt-memory": "refused"}
    return Begun(problem.status, plain_headers({**given, **headers}), _once(content))


async def _once(content: bytes) -> AsyncGenerator[bytes]:
    yield content
