"""Fitting: settings that only some models' providers take, for a request to any of them."""

from __future__ import annotations

from dataclasses import replace

from offprompt.gateway.asked import Asked
from offprompt.service.bound import BoundScope
from offprompt.service.parts import Parts
from offprompt.wire.options import HistoryPolicy
from offprompt.wire.profiles import profile_for

NO_LAPSING = "this model takes no messages that lapse, so shown_after_turn=clear_at is as replace for it"
NO_CLEARING = "only Anthropic clears tool results, so the policy context_editing is as auto on this wire"


def fitting(
    parts: Parts, scope: BoundScope, asked: Asked, policy: HistoryPolicy = "auto"
) -> tuple[BoundScope, HistoryPolicy, tuple[str, ...]]:
    """The scope and the policy with which a session for this request opens, and what is otherwise than it was set.

    A gateway stands before several models, and what one of them cannot do is no reason to refuse the request.
    """
    said: list[str] = []
    if parts.settings.shown_after_turn == "clear_at" and not profile_for(asked.model).takes_lapsing(asked.wire):
        kept = replace(parts, settings=replace(parts.settings, shown_after_turn="replace"))
        scope = BoundScope(kept, scope.scope, scope.actor)
        said.append(NO_LAPSING)
    if policy == "context_editing" and asked.wire != "anthropic":
        policy = "auto"
        said.append(NO_CLEARING)
    return scope, policy, tuple(said)
