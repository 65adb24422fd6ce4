"""Values, schemas and texts in the form that every engine can keep."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from offprompt.errors import UsageError
from offprompt.records import Json, compact


def storable(text: str) -> str:
    """The text with lone surrogates replaced, so that every engine can keep it."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def stored_value(name: str, value: Json) -> tuple[str, Json]:
    """The value's text as the limit counts it, and the value as a reader will get it: a copy of its own.

    Raises   UsageError if the value is not JSON.
    """
    try:
        if type(value) is str:
            value.encode()
            return value, value
        encoded = compact(value)
        encoded.encode()
        return (value if isinstance(value, str) else encoded), json.loads(encoded)
    except UnicodeEncodeError as exc:
        raise UsageError(
            f"the value for slot {name!r} holds half a character (a lone surrogate); pass valid text"
        ) from exc
    except (TypeError, ValueError, RecursionError) as exc:
        raise UsageError(
            f"the value for slot {name!r} (a {type(value).__name__}) is not JSON; "
            "pass text, finite numbers, true, false, null, lists, or objects with text keys"
        ) from exc


def own_schema(name: str, schema: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """A copy of the schema.

    Raises   UsageError if it is not JSON.
    """
    if schema is None:
        return None
    try:
        return json.loads(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as exc:
        raise UsageError(f"the schema for slot {name!r} is not JSON; pass a JSON schema as a dict") from exc
