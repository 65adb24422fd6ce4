"""Records as JSON text and back; what a session's messages hold comes back as it went in."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def encode(record: Any) -> str:
    """A record's JSON text; lone surrogates, which UTF-8 cannot hold, are kept as escapes."""
    plain = msgspec.to_builtins(record)
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    return text if text.isascii() or _is_valid(text) else json.dumps(plain, separators=(",", ":"))


def decode(text: str, kind: type[T]) -> T:
    """The record of a JSON text; unknown fields are ignored, missing ones get their defaults."""
    return msgspec.convert(json.loads(text), kind)


def _is_valid(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
