"""Ids of what is done at once and can be asked for again: they say themselves what they stand for, under a seal.

Nothing is stored for them, so every process can read them, and erasing leaves none behind.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from typing import Any, Final

from offprompt.protocols import SessionStore
from offprompt.records import Scope, as_dict, compact

SEAL_BYTES: Final = 16


def issue(store: SessionStore, app: str, kind: str, what: dict[str, Any]) -> str:
    """An id for that content of a kind, for one app."""
    text = compact(what).encode()
    return base64.urlsafe_b64encode(_seal(store, app, kind, text) + text).decode().rstrip("=")


def read(store: SessionStore, app: str, kind: str, token: str) -> dict[str, Any] | None:
    """What an id of that kind and app stands for; None if nobody issued it here."""
    try:
        whole = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (ValueError, binascii.Error):
        return None
    seal, text = whole[:SEAL_BYTES], whole[SEAL_BYTES:]
    if not hmac.compare_digest(seal, _seal(store, app, kind, text)):
        return None
    return as_dict(json.loads(text))


def _seal(store: SessionStore, app: str, kind: str, text: bytes) -> bytes:
    """Under the app's own key.

    Source   HMAC, RFC 2104, over SHA-256, cut to 128 bits as section 5 allows.
    """
    key = store.digest_key(Scope(app, shared=True))
    return hmac.digest(key, kind.encode() + b"\0" + text, hashlib.sha256)[:SEAL_BYTES]
