"""Anthropic's system messages of one turn, as the API refuses them and as the model reads them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from offprompt.records import as_dict, as_list
from offprompt.testing.strict_rules import Fault
from offprompt.wire.lapsing import BETA, lapses

FIELD: Final = "clear_at"


def as_read(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The request as the model reads it: without the system messages that a later message of role `user` let lapse.

    Source   the description of the field in Anthropic's Python client, and its page on system messages in
             mid-conversation: what has lapsed counts no tokens.
    """
    messages = [as_dict(each) or {} for each in as_list(body.get("messages")) or []]
    newest = max((at for at, message in enumerate(messages) if message.get("role") == "user"), default=-1)
    kept = [message for at, message in enumerate(messages) if at > newest or not lapses(message)]
    return body if len(kept) == len(messages) else {**body, "messages": kept}


def lapsing_faults(message: Mapping[str, Any], at: str, betas: Collection[str]) -> list[Fault]:
    """Why the API would refuse the message's `clear_at`, beside its value; empty if it would not.

    at      where the message stands. betas: that the request's header names.
    Rule    the field is a beta's; what lapses is never cached, so that a cache mark in it is refused.
    """
    if message.get("role") != "system" or FIELD not in message:
        return []
    faults = [] if BETA in betas else [Fault(f"{at}.{FIELD}: Extra inputs are not permitted", f"{at}.{FIELD}")]
    if lapses(message):
        for place, item in enumerate(as_list(message.get("content")) or []):
            if (as_dict(item) or {}).get("cache_control") is not None:
                where = f"{at}.content.{place}.cache_control"
                faults.append(Fault(f"{where}: a message with `{FIELD}` is not cached", where))
    return faults
