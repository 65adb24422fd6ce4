"""What the streams of all wires have in common: why a reply ended early, chunks as plain data."""

from __future__ import annotations

import json
from typing import Any, Final, cast

from offprompt.errors import UnsupportedError, UsageError
from offprompt.records import as_dict

CUT: Final = "cut"
"""Why a reply ended whose stream stopped before its end; stands where the provider's own reason would."""


def plain_chunk(chunk: object) -> dict[str, Any]:
    """A chunk as plain data, as it came: fields that were not sent are not there. Raises as `assemble`."""
    data = as_dict(chunk)
    if data is None:
        dump = getattr(chunk, "model_dump", None)
        if not callable(dump):
            raise UsageError(f"a chunk is a {type(chunk).__name__}; give the client's objects or their dicts")
        data = cast("dict[str, Any]", dump(mode="json", exclude_unset=True, warnings=False))
    if "snapshot" in data or as_dict(data.get("chunk")) is not None:
        kind = data.get("type")
        raise UnsupportedError(
            f"the chunk {kind!r} is an event of the SDK's stream helper; give what create(stream=True) returns"
        )
    return data


def read_object(text: str) -> dict[str, Any] | None:
    """The object that the text is, or None."""
    try:
        return as_dict(json.loads(text))
    except (ValueError, RecursionError):
        return None
