"""Records as JSON text and back; what a session's messages hold comes back as it went in."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

from offprompt.errors import BackendError

T = TypeVar("T")


def encode(record: Any) -> str:
    """A record's JSON text; lone surrogates, which UTF-8 cannot hold, are kept as escapes."""
    plain = msgspec.to_builtins(record)
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    return text if text.isascii() or _is_valid(text) else json.dumps(plain, separators=(",", ":"))


def decode(text: str, kind: type[T], where: str = "") -> T:
    """The record of a JSON text; unknown fields are ignored, missing ones get their defaults.

    where    what is read, for the error, such as `entry 3 of a ledger`.
    Raises   BackendError if the text is not such a record: another hand, or a bad disk, has been there.
    """
    try:
        return msgspec.convert(json.loads(text), kind)
    except (ValueError, msgspec.ValidationError) as exc:
        what = where or f"a stored {kind.__name__}"
        raise BackendError(f"{what} cannot be read: {exc}; restore a backup of the store") from exc


def _is_valid(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
