"""A turn that the store did not take: what was said in it is spooled, if that is set, and remembered later."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from offprompt.errors import BackendError, OffpromptError
from offprompt.records import MAX_MEMORY_CHARS, Remembered, Reply
from offprompt.service.capture import Capture, captured_scope
from offprompt.service.rendering import words_of
from offprompt.service.spooling import Spool
from offprompt.service.trouble import Known, WithoutMemory

log = logging.getLogger("offprompt")

SPOOLED: Final = "what was said in this turn waits on this machine, and is remembered when the store answers"


def catch_up(spool: Spool | None) -> None:
    """Do the writes that wait, as far as the store takes them; a spool that is broken stops nothing, doctor says it."""
    if spool is None:
        return
    try:
        spool.replay()
    except BackendError as exc:
        log.warning("%s", exc)


def with_spooled(reply: Reply, capture: Capture, without: WithoutMemory, known: Known | None) -> Reply:
    """The reply of a turn that was not recorded, with what of it was spooled.

    What     the user's words, and the answer if nothing was shown in the turn, as capturing takes them. Actions of the
             model are not spooled: it was told that they failed.
    known    the session when the store last answered.
    Raises   nothing: a reply that was paid for is worth more than its memory.
    """
    target, spool = captured_scope(capture.scope), capture.kit.memories.spool
    if target is None or spool is None or not spool.is_on or capture.what == "off":
        return reply
    if not reply.done or reply.tool_calls:
        return reply
    try:
        found = _spooled(reply, capture, without, known)
    except OffpromptError as exc:
        log.warning("a turn of session %r was not spooled: %s", capture.scope.session, exc)
        return reply
    return replace(reply, remembered=found, warnings=(*reply.warnings, SPOOLED)) if found else reply


def _spooled(reply: Reply, capture: Capture, without: WithoutMemory, known: Known | None) -> tuple[Remembered, ...]:
    from offprompt.service.remembering import Marks, Rememberer, Said  # noqa: PLC0415 - loads NumPy and the rules

    kit, scope, now = capture.kit, capture.scope, capture.kit.clock.now()
    words, tainted = _asked(without, capture)
    record = known.record if known is not None else None
    session, said = scope.session or "", list[Said]()
    if words:
        # The key under which the turn would be captured: if it was recorded after all, it is the same memory.
        key = f"capture/{record.turn_key}" if record is not None and without.is_recorded else None
        rules = capture.derive != "none"
        said.append(Said(words, "episode", "user", session=session, at=now, op_key=key, derives=rules))
    if reply.text.strip() and capture.what == "all" and not (record is not None and record.shown):
        text, trust = reply.text.strip()[:MAX_MEMORY_CHARS], "tool" if tainted else "user"
        said.append(
            Said(text, "episode", "assistant", session=session, at=now, derives=False, source="model", trust=trust)
        )
    if not said:
        return ()
    target = captured_scope(scope) or scope
    marks = Marks(tags=kit.basis, source="user", actor=kit.actor.via("session"))
    return tuple(Rememberer(kit.memories.kit, target).store(said, marks))


def _asked(without: WithoutMemory, capture: Capture) -> tuple[str, bool]:
    """The user's newest words, and whether a tool's results stand in the conversation."""
    shape = without.shape
    tainted = any(shape.results(message) for message in without.given)
    for message in reversed(without.given):
        if message.get("role") == "user":
            words = words_of(shape, capture.kit.tokenizer, message).strip()[:MAX_MEMORY_CHARS]
            if words:
                return words, tainted
    return "", tainted
