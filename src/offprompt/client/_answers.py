"""What a server answers, as the library's own records and errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, Final, TypeVar, cast

import msgspec

from offprompt.errors import BackendError, NotFoundError, OffpromptError, UnsupportedError, UsageError
from offprompt.records import Scope, Slot, SlotVersion
from offprompt.records.json import as_dict, as_list
from offprompt.records.slot import Place

T = TypeVar("T")

HINTS: Final[Mapping[str, Any]] = {
    "name": "",
    "path": "",
    "form": "",
    "where": "",
    "used": 0,
    "limit": 0,
    "unit": "",
    "retry_after_s": None,
    "kind": "server",
    "tries": 1,
}
"""Fields of errors, and what they are where a problem does not carry them."""

MAX_SHOWN: Final = 120


def error_of(problem: Mapping[str, Any]) -> OffpromptError:
    """The error that a problem names, as the library would have raised it."""
    code, detail = str(problem.get("code", "")), str(problem.get("detail") or problem.get("title") or "")
    kind = _classes().get(code)
    if kind is None:
        kind = _kind_of(int(problem.get("status", 500)))
        detail = detail or f"the server answered {problem.get('status')}"
    if issubclass(kind, NotFoundError):
        return kind(detail, name=str(problem.get("name", "")), alike=tuple(problem.get("alike", ())))
    error: OffpromptError = kind.__new__(kind)
    error.args = (detail,)
    vars(error).update({name: problem.get(name, empty) for name, empty in HINTS.items()})
    vars(error)["status"] = 0  # a ModelError's own, which is the model's endpoint's
    return error


@cache
def _classes() -> dict[str, type[OffpromptError]]:
    """The classes of `offprompt.errors` by name."""
    found, kinds = dict[str, type[OffpromptError]](), [OffpromptError]
    while kinds:
        kind = kinds.pop()
        if kind.__module__ == OffpromptError.__module__:
            found[kind.__name__] = kind
            kinds += kind.__subclasses__()
    return found


def strange(status: int, media: str, body: bytes, url: str) -> OffpromptError:
    """What answered is no server of Offprompt, or something stands between."""
    text = " ".join(body[:MAX_SHOWN].decode("utf-8", "replace").split())
    return _kind_of(status)(
        f"{url} answered {status} with {media or 'no content type'} and not as Offprompt does ({text!r}); "
        "check the URL, and what stands between: a proxy, another program on that port"
    )


def _kind_of(status: int) -> type[OffpromptError]:
    if status == 404:
        return UnsupportedError
    return UsageError if 400 <= status < 500 else BackendError


def encoded(body: object) -> bytes:
    """A body as JSON.

    Raises   UsageError if it is not JSON; the message says which member, never what it holds.
    """
    try:
        return _text(body)
    except (TypeError, ValueError, RecursionError):
        faults = {name: fault for name, value in (as_dict(body) or {}).items() if (fault := _fault(value))}
        what, why = next(iter(faults.items()), ("what was given", _fault(body)))
    raise UsageError(f"{what} is not JSON: {why}; give text, numbers, lists, and objects with text keys")


def _text(value: object) -> bytes:
    _check_keys(value)
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def _fault(value: object) -> str:
    """Why a value is not JSON; empty if it is."""
    try:
        _text(value)
    except RecursionError:
        return "it is nested too deeply"
    except (TypeError, ValueError) as exc:
        return str(exc).split(":")[0]
    return ""


def _check_keys(value: object) -> None:
    """Nothing, if all keys are text: others would become text, and so another object."""
    table = as_dict(value)
    if table is not None and not all(isinstance(key, str) for key in cast("dict[object, Any]", table)):
        raise TypeError("a key that is not text")
    for item in table.values() if table is not None else as_list(value) or ():
        _check_keys(item)


def record_of(document: Any, kind: type[T]) -> T:
    """A record of its document.

    Raises   BackendError if it is not one.
    """
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as exc:
        raise _unreadable(kind, exc) from exc


def records_of(documents: Sequence[Any], kind: type[T]) -> list[T]:
    """`record_of` of each."""
    return [record_of(one, kind) for one in documents]


def slot_of(document: Any) -> Slot:
    """A slot of its document; its value may be any JSON.

    Raises   BackendError if it is not one.
    """
    return _with_value(
        document,
        Slot,
        scope=lambda given: msgspec.convert(given, Scope),
        tags=tuple,
        recent=tuple,
        allow=lambda given: msgspec.convert(given, tuple[Place, ...]),
    )


def slot_version_of(document: Any) -> SlotVersion:
    """A version of a slot, likewise."""
    return _with_value(document, SlotVersion)


def _with_value(document: Any, kind: type[T], **made: Callable[[Any], Any]) -> T:
    table = as_dict(document)
    known = {item.name for item in fields(kind)}  # pyright: ignore[reportArgumentType] - a dataclass
    try:
        given = {name: made.get(name, _same)(value) for name, value in (table or {}).items() if name in known}
        return kind(**given)
    except (TypeError, msgspec.ValidationError) as exc:
        raise _unreadable(kind, exc) from None


def _same(value: Any) -> Any:
    return value


def _unreadable(kind: type[Any], exc: Exception) -> BackendError:
    why = str(exc).partition(" - ")[0] if isinstance(exc, msgspec.ValidationError) else "members are missing"
    return BackendError(
        f"the server's answer is no {kind.__name__}: {why}; server and client may be of different versions"
    )
