"""JSON as it goes over the wire and into stores: types, canonical text, typed views."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

if TYPE_CHECKING:
    Json: TypeAlias = "str | int | float | bool | Sequence[Json] | Mapping[str, Json] | None"
else:  # a type that goes on without end is one that readers of annotations at run time cannot resolve
    Json: TypeAlias = Any
"""What a slot holds: text, or any JSON value."""

Message: TypeAlias = dict[str, Any]
"""One message of a conversation in its wire's own shape; the caller's payload, never changed in place."""


def canonical(value: object) -> str:
    """The one JSON text of a value: keys sorted, no spaces, characters unescaped, NaN refused.

    Raises   TypeError or ValueError if the value is not JSON.
    Source   the idea of RFC 8785, without its number rules: Python's shortest float text is used.
    """
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def compact(value: object) -> str:
    """JSON text in the value's own key order, no spaces: what we put on the wire."""
    return _COMPACT.encode(value)


_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def as_dict(value: object) -> dict[str, Any] | None:
    """The value as a string-keyed dict, or None if it is not a dict."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def as_list(value: object) -> list[Any] | None:
    """The value as a list, or None if it is not a list or tuple."""
    if isinstance(value, list):
        return cast("list[Any]", value)
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else None


def text_of(value: Json) -> str:
    """A slot's value as text: itself if it is text, else its compact JSON."""
    return value if isinstance(value, str) else compact(value)
