"""Anthropic's system messages of one turn: sent in all requests, shown until a user message stands behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from offprompt.records import Message

BETA: Final = "mid-conversation-system-clear-at-2026-08-21"
UNTIL: Final = "next_user_message"


def lapsing(text: str) -> Message:
    """A system message that the provider shows to the model until the next message of role `user`, results among them.

    Stands   behind a message of role `user`, before the assistant or at the end.
    Cost     the provider counts its tokens in the requests that show it, never from its cache; a cache mark in it is
             refused. Lapsed it must be sent on unchanged, and costs nothing.
    Source   Anthropic's page on system messages in mid-conversation.
    """
    return {"role": "system", "content": text, "clear_at": UNTIL}


def lapses(message: Mapping[str, Any]) -> bool:
    """Whether it is such a message."""
    return message.get("role") == "system" and message.get("clear_at") == UNTIL
