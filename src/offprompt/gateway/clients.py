"""Clients: how those that are known say who their user is and which conversation it is, beside our own headers.

Source   Claude Code: coder/aibridge #241 (`user_…_account_…_session_…`; from 2.1.78 JSON; from 2.1.86 a header too).
         Codex, pi, opencode: router-for-me/CLIProxyAPI #4452, coder/coder #26140. Kilo Code, Copilot: coder/aibridge,
         session.go. LiteLLM: its documentation, "Legacy end-user tracking" and "Session Logs". OpenRouter: "User
         Tracking", `session_id`. Open WebUI: ENABLE_FORWARD_USER_INFO_HEADERS. LibreChat: "Default Parameters".
         OpenAI, Anthropic: the types of their SDKs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from offprompt.gateway.asked import Asked
from offprompt.records import as_dict

USER_HEADERS: Final = ("x-openwebui-user-id", "x-litellm-end-user-id", "x-litellm-customer-id")
CONVERSATION_HEADERS: Final = (
    "x-claude-code-session-id",
    "session-id",  # Codex
    "session_id",  # Codex before, pi
    "x-opencode-session",
    "x-session-affinity",  # opencode with other providers, pi
    "x-session-id",  # OpenRouter
    "x-openwebui-chat-id",
    "x-litellm-session-id",
    "x-kilocode-taskid",
    "x-client-session-id",  # Copilot's command line
)
CONVERSATION_FIELDS: Final = ("session_id", "litellm_session_id")
"""Of bodies. `prompt_cache_key` is none of them: many applications send one key for all of their conversations."""

PLAIN: Final = re.compile(
    r"user_(?P<user>[0-9a-f]{16,})(?:_account_(?P<account>[0-9a-f-]*))?_session_(?P<session>[0-9a-f-]{8,})"
)
"""`metadata.user_id` of Claude Code before 2.1.78: the machine, the account, the conversation."""


def user_of(headers: Mapping[str, str], asked: Asked) -> str | None:
    """Whom a client names as its user: in its header, in `user`, `metadata.user_id` or `safety_identifier`.

    Of a text that is put together the account, without one the machine; a text of another form as it is.
    """
    found = next((value for name in USER_HEADERS if (value := headers.get(name))), None)
    return found or (_parted(named)[0] if (named := _named(asked)) else None)


def conversation_of(headers: Mapping[str, str], asked: Asked) -> str | None:
    """A client's own id of the conversation, None if it sends none."""
    fields = (asked.body.get(name) for name in CONVERSATION_FIELDS)
    given = (*(headers.get(name) for name in CONVERSATION_HEADERS), *fields, _parted(_named(asked))[1])
    return next((value for value in given if isinstance(value, str) and value), None)


def _named(asked: Asked) -> str:
    """What stands in the first standard field that names a user."""
    body = asked.body
    metadata: Mapping[str, Any] = as_dict(body.get("metadata")) or {}
    given = (body.get("user"), metadata.get("user_id"), body.get("safety_identifier"))
    return next((value for value in given if isinstance(value, str) and value), "")


def _parted(named: str) -> tuple[str, str | None]:
    """User and conversation of a name that is put together; the name itself, and None, of any other."""
    if (found := PLAIN.fullmatch(named)) is not None:
        return found["account"] or found["user"], found["session"]
    if named.startswith("{"):
        try:
            parts = as_dict(json.loads(named)) or {}
        except (ValueError, RecursionError):
            parts = {}
        user, session = (parts.get("account_uuid") or parts.get("device_id")), parts.get("session_id")
        if isinstance(user, str) and isinstance(session, str) and user and session:
            return user, session
    return named, None
