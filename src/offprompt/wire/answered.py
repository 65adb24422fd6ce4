"""The JSON object in a model's answer, wherever in its text it stands."""

from __future__ import annotations

from typing import Any, Final

from offprompt.wire._lenient import UnreadableError, read_object

TRIES: Final = 8
"""Opening braces at which an object is looked for."""


def read_answer(text: str) -> dict[str, Any] | str:
    """The first object with members in the text, or why there is none, in words for the model too.

    Accepts  prose and fences around it, and near misses as `_lenient.read_object` does. What is cut off is no object.
    Cost     O(n) for JSON.
    """
    at, why = 0, "it holds no JSON object"
    for _ in range(TRIES):
        places = [place for mark in ("{", "｛") if (place := text.find(mark, at)) >= 0]
        if not places:
            break
        try:
            found = read_object(text, min(places))
        except UnreadableError as exc:
            why, at = exc.why, min(places) + 1
            if "cut off" in why:
                break
            continue
        if found.value:
            return found.value
        at = found.end
    return why
