"""Ledger entries: priced, closed, chained by hash."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from typing import Final

import msgspec

from offprompt.records import LedgerEntry, SessionRecord, Size, Usage, canonical
from offprompt.wire.prices import PriceSheet, cached_tokens, price

TRUNCATED_BELOW: Final = 0.6
TRUNCATED_TOKENS: Final = 500
DIGEST_BYTES: Final = 12
LATER_FIELDS: Final = ("stubbed", "scrubbed", "lapsed", "before")
LATER_COUNTS: Final = ("cleared", "cleared_results")
"""Fields of ledgers and of their usage that older ones do not have: hashed only where they say something, so that those
stay valid."""


def digester(key: bytes) -> Callable[[str], str]:
    """Digests keyed by the user's key, so that one says nothing to who does not hold it; 24 hex digits."""

    def digest(text: str) -> str:
        return blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=DIGEST_BYTES).hexdigest()

    return digest


def entry_hash(entry: LedgerEntry, digest: Callable[[str], str]) -> str:
    """The hash of an entry: keyed digest of all its fields but `hash`, the hash before it among them."""
    fields = msgspec.to_builtins(replace(entry, hash=""))
    hashed = {name: value for name, value in fields.items() if value or name not in LATER_FIELDS}
    counts = hashed["usage"].items()
    hashed["usage"] = {name: count for name, count in counts if count is not None or name not in LATER_COUNTS}
    return digest("ledger\n" + canonical(hashed))


def close_entry(
    record: SessionRecord,
    digest: Callable[[str], str],
    *,
    out: Size = Size(),  # noqa: B008 - frozen
    usage: Usage = Usage(),  # noqa: B008 - frozen
    sheet: PriceSheet | None = None,
    outcome: str = "ok",
    warnings: tuple[str, ...] = (),
) -> LedgerEntry:
    """The record's pending entry with its reply, priced, and chained to the session's last entry.

    Price    by the provider's own counts where it gives them, else by ours: the repeated prefix is read from the
             cache in whole steps, the rest is new.
    """
    pending = record.pending
    if pending is None:
        raise RuntimeError("a ledger entry is closed only after a request")
    cost = None
    if sheet is not None:
        total = pending.sent.tokens if usage.input is None else usage.input
        cached = cached_tokens(sheet, min(pending.prefix, total)) if usage.cached is None else min(usage.cached, total)
        output = out.tokens if usage.output is None else usage.output
        cost = price(sheet, cached=cached, new=total - cached, output=output)
    entry = replace(
        pending,
        out=out,
        usage=usage,
        price=cost,
        currency=sheet.currency if sheet is not None else "",
        outcome=outcome,
        warnings=(*pending.warnings, *warnings),
        previous=record.last_hash,
    )
    return replace(entry, hash=entry_hash(entry, digest))


def truncation_warning(entry: LedgerEntry, usage: Usage) -> str:
    """What to say when the provider counted far fewer tokens than were sent: it cut the front without a word."""
    sent = entry.sent.tokens
    if usage.input is None:
        return ""
    # What the provider cleared was asked for.
    read = usage.input + (usage.cleared or 0)
    if read >= TRUNCATED_BELOW * sent or sent - read < TRUNCATED_TOKENS:
        return ""
    return (
        f"the provider counted {usage.input:,} tokens of the {sent:,} sent: it has probably cut the front of the "
        "prompt; raise the server's context size (Ollama: num_ctx) or pass context_tokens to the session"
    )
