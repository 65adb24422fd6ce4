"""Payload of any wire: out of SDK objects, looked at, compared, and made fit to be sent."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from offprompt.errors import UnsupportedError, UsageError
from offprompt.records import Message, as_dict, as_list, canonical

SPEAKING_KEYS: Final = ("tool_calls", "function_call", "refusal", "audio")
MARKS: Final = ("cache_control", "prompt_cache_breakpoint")
"""What clients write beside a part to say where a provider's cache ends; they move them from message to message."""


def plain(value: object, what: str) -> dict[str, Any]:
    """A dict of an SDK object or dict, None values left out of objects.

    Raises   UsageError if it is neither; UnsupportedError for a stream.
    """
    as_is = as_dict(value)
    if as_is is not None:
        return cast("dict[str, Any]", _dumped(as_is))
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return cast("dict[str, Any]", dump(mode="json", exclude_none=True, warnings=False))
    if hasattr(value, "__await__"):
        raise UsageError(f"{what} is a coroutine that nobody awaited; await the call, and use scope.async_session")
    if hasattr(value, "__next__") or hasattr(value, "__anext__") or type(value).__name__.endswith("Stream"):
        raise UnsupportedError(
            f"{what} is a stream and not whole; pass a stream to absorb_stream, or call the model without stream=True"
        )
    raise UsageError(f"{what} is a {type(value).__name__}; give the client's object or its dict")


def given_messages(messages: object, show: object) -> list[dict[str, Any]]:
    """What an application gives to prepare, as plain data.

    Raises   UsageError if the messages are not a list of messages, or `show` is one text.
    """
    if isinstance(show, str):
        raise UsageError(f"show={show!r} is one text; pass a list, such as show=[{show!r}]")
    if isinstance(messages, (str, Mapping)) or not isinstance(messages, Iterable):
        raise UsageError("messages is not a list; pass the whole conversation, such as [{'role': 'user', …}]")
    return [plain(message, f"messages[{at}]") for at, message in enumerate(cast("Iterable[object]", messages))]


def _dumped(value: object) -> object:
    """Payload with SDK objects in it as plain data; the same object where there is none."""
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        changed = {key: _dumped(item) for key, item in members.items()}
        return changed if any(changed[key] is not item for key, item in members.items()) else members
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[object]", value)
        dumped = [_dumped(item) for item in items]
        return (
            dumped if isinstance(value, tuple) or any(a is not b for a, b in zip(dumped, items, strict=True)) else items
        )
    dump = getattr(value, "model_dump", None)
    return dump(mode="json", exclude_none=True, warnings=False) if callable(dump) else value


def comparable(text: str) -> str:
    """Text without what applications change in passing: composition, line ends, hard spaces, space at the ends."""
    return unicodedata.normalize("NFC", text).replace("\r\n", "\n").replace("\u00a0", " ").strip()


def distinct(ids: Sequence[str]) -> list[str]:
    """Call ids, each once and none empty: results must name one call. What is distinct stays."""
    seen: dict[str, None] = {}
    for at, given in enumerate(ids):
        call_id = given or f"call_{at}"
        while call_id in seen:
            call_id = f"{call_id}_{at}"
        seen[call_id] = None
    return list(seen)


def error_text(data: Mapping[str, Any]) -> str:
    """The provider's own words about what went wrong, at most 200 characters."""
    error = data.get("error")
    return str((as_dict(error) or {}).get("message") or error)[:200]


def checked(messages: Sequence[Message]) -> list[Message]:
    """The messages, if each has content, or calls in its place.

    Raises   UsageError naming a message's place and role.
    """
    for at, message in enumerate(messages):
        content = message.get("content")
        if isinstance(content, (str, list)) or message.get("tool_calls") or message.get("role") == "assistant":
            continue
        what = "no content" if content is None else f"content of type {type(content).__name__}"
        raise UsageError(f"messages[{at}] ({message.get('role')!r}) has {what}; content is text or a list of parts")
    return list(messages)


def parts_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The content parts of a message; text content as one part, none for empty text."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [as_dict(part) or {} for part in as_list(content) or []]


def with_parts(message: Message, texts: Mapping[int, str]) -> Message:
    """The message with text parts in place of others, by their place."""
    if not texts:
        return message
    parts = [{"type": "text", "text": texts[at]} if at in texts else part for at, part in enumerate(parts_of(message))]
    return {**message, "content": parts}


def is_silent(message: Message) -> bool:
    """Whether an assistant message holds nothing: models answer so, and no provider takes it back."""
    if any(message.get(key) for key in SPEAKING_KEYS):
        return False
    items = as_list(message.get("output"))
    return all(map(_is_blank, parts_of(message) if items is None else [as_dict(item) or {} for item in items]))


def _is_blank(part: Mapping[str, Any]) -> bool:
    """Whether a part, or an item of a response, holds nothing that a reader would miss."""
    if "role" in part:
        return all(map(_is_blank, parts_of(part)))
    if part.get("type") in ("text", "output_text"):
        return not str(part.get("text", "")).strip()
    return part.get("type") == "reasoning"


def repaired(value: object) -> Any:
    """Payload that can be sent: half characters (lone surrogates) become U+FFFD, NaN and infinity their names."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {key: repaired(item) for key, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [repaired(item) for item in cast("list[object]", value)]
    return value


def loaded(arguments: str) -> Any:
    """A call's arguments as JSON values; text that is no JSON stays text."""
    try:
        return json.loads(arguments, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        return arguments


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is no number that JSON readers know")
    return value


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def number(value: object) -> int | None:
    """A count from a provider, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def loose(value: object) -> Any:
    """Message content for comparing: without cache marks. The same object where there are none."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value)
        bare = {key: loose(item) for key, item in items.items() if key not in MARKS}
        return items if len(bare) == len(items) and all(bare[key] is items[key] for key in bare) else bare
    if isinstance(value, list):
        given = cast("list[Any]", value)
        done = [loose(item) for item in given]
        return given if all(one is other for one, other in zip(done, given, strict=True)) else done
    return value


def marked_like(message: Message, given: Mapping[str, Any]) -> Message:
    """The message with the cache marks of another form of it, in place of its own; parts are counted from the end."""
    bare: Message = loose(message)
    parts = as_list(given.get("content")) or []
    marks = {at - len(parts): mark for at, part in enumerate(parts) if (mark := _marks_in(part))}
    if not marks or not parts_of(bare):
        return bare
    own = parts_of(bare)
    for at, mark in marks.items():
        place = max(at, -len(own))
        own[place] = {**own[place], **mark}
    return {**bare, "content": own}


def _marks_in(value: object) -> dict[str, Any]:
    """The cache marks anywhere in a part."""
    if isinstance(value, list):
        return {key: mark for item in cast("list[object]", value) for key, mark in _marks_in(item).items()}
    part = as_dict(value) or {}
    inner = _marks_in(part["content"]) if "content" in part else {}
    return inner | {key: part[key] for key in MARKS if part.get(key) is not None}


def identity(message: Mapping[str, Any]) -> str:
    """The canonical text of a message for digests; cache marks do not count.

    Raises   UsageError if the message is not JSON, or holds half a character, which cannot be sent.
    """
    try:
        text = canonical(loose(dict(message)))
        text.encode()
    except UnicodeEncodeError as exc:
        raise UsageError(
            f"a message with role {message.get('role')!r} holds half a character (a lone surrogate); pass valid text"
        ) from exc
    except (TypeError, ValueError) as exc:
        raise UsageError(f"a message with role {message.get('role')!r} is not JSON: {exc}; pass plain data") from exc
    return text
