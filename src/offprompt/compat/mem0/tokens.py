"""Ids of what is done at once and can be asked for again: they say themselves what they stand for, under a seal.

Nothing is stored for them, so every process can read them, and erasing leaves none behind. They are for whoever is of
the same users and agents: for others they are as if nobody had issued them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from typing import Any, Final

from offprompt.compat.mem0.reach import Reach
from offprompt.records import Scope, as_dict, compact

SEAL_BYTES: Final = 16


def issue(reach: Reach, kind: str, what: dict[str, Any]) -> str:
    """An id for that content of a kind."""
    text = compact(what).encode()
    return base64.urlsafe_b64encode(_seal(reach, kind, text) + text).decode().rstrip("=")


def read(reach: Reach, kind: str, token: str) -> dict[str, Any] | None:
    """What an id of that kind stands for; None if nobody issued it here to one of the same users and agents."""
    try:
        whole = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (ValueError, binascii.Error):
        return None
    seal, text = whole[:SEAL_BYTES], whole[SEAL_BYTES:]
    if not hmac.compare_digest(seal, _seal(reach, kind, text)):
        return None
    return as_dict(json.loads(text))


def _seal(reach: Reach, kind: str, text: bytes) -> bytes:
    """Under the app's own key; over whose it is, and the content.

    Source   HMAC, RFC 2104, over SHA-256, cut to 128 bits as section 5 allows.
    """
    asks = reach.identity
    key = reach.memory.parts.sessions.digest_key(Scope(asks.app, shared=True))
    whose = {name: None if ids is None else sorted(ids) for name, ids in (("u", asks.users), ("a", asks.agents))}
    return hmac.digest(key, compact([kind, whose]).encode() + b"\0" + text, hashlib.sha256)[:SEAL_BYTES]
