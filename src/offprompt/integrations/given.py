"""The memory that an adapter is given: checked where the adapter is made, and how a model's tools reach it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, get_args

from offprompt.bootstrap.server_door import ServerDoor
from offprompt.client.clients import AsyncClient, Client
from offprompt.client.scopes import BoundScope as ServerScope
from offprompt.errors import ScopeError, UnsupportedError, UsageError
from offprompt.records import Trust
from offprompt.service.bound import BoundScope
from offprompt.service.model_doors import Door, StoreDoor
from offprompt.service.offprompt import Offprompt
from offprompt.service.transcripts import Transcript
from offprompt.wire.options import CAPTURES, Capture

TRUSTS: Final = get_args(Trust)
SHOWN_CHARS: Final = 80
"""Of a value that is none."""


def reached(memory: object, taker: str) -> Offprompt | Client:
    """An opened memory, here or on a server.

    taker    the adapter's name, for errors.
    Raises   UsageError for what is none, and for one that was closed.
    """
    if not isinstance(memory, (Offprompt, Client)):
        raise UsageError(f"{taker}(memory={_shown(memory)}): {_why(memory)}")
    if memory.is_closed:
        raise UsageError(
            f"{taker}(memory=…): the memory of {memory.url} is closed; open it again, and close it when the last run "
            "is over"
        )
    return memory


def opened(memory: object, taker: str) -> Offprompt:
    """A memory that was opened here.

    Raises   as `reached`; UnsupportedError for one that a server keeps.
    """
    found = reached(memory, taker)
    if isinstance(found, Client):
        raise UnsupportedError(
            f"{taker} needs the store itself, and {found.url} is a server; open the file or the database that the "
            "server serves, which both may use at once"
        )
    return found


def checked_scope(scope: object, taker: str) -> BoundScope | ServerScope:
    """A scope of a memory, here or on a server.

    Raises   UsageError for what is none.
    """
    if isinstance(scope, (BoundScope, ServerScope)):
        return scope
    raise UsageError(
        f"{taker}(scope={_shown(scope)}) is no scope of an opened memory; give offprompt.open(…).scope(user='alice')"
    )


def door_of(memory: Offprompt | Client, bound: Any, *, trust: Trust, via: str) -> Door:
    """How a model's tools reach a scope of that memory. via: what events call the model; a server calls it its own.

    Raises   UsageError for another `trust`: it would be taken for the user's own.
    """
    check_choice("trust", trust, TRUSTS)
    if isinstance(memory, Client):
        return ServerDoor(bound, trust=trust)
    return StoreDoor(memory.parts, bound, trust=trust, via=via)


def transcript_of(memory: Offprompt, bound: BoundScope, session_id: str, capture: Capture | None) -> Transcript:
    """A conversation of a scope in a memory that was opened here. capture: None: as the setting says.

    Raises   UsageError for another `capture`; ScopeError for what is no id.
    """
    check_choice("capture", capture, CAPTURES)
    if session_id is None:  # pyright: ignore[reportUnnecessaryComparison]
        raise ScopeError("session_id=None names no conversation; give each its own id, such as 'chat-17'")
    return Transcript(memory, bound, session_id, capture=capture or memory.parts.settings.capture)


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Nothing, if a value is one of those.

    Raises   UsageError naming them.
    """
    if value not in choices:
        raise UsageError(f"{name}={_shown(value)}: it is one of {', '.join(map(str, choices))}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


def _why(value: object) -> str:
    if isinstance(value, (BoundScope, ServerScope)):
        return "that is a scope of a memory; give the memory itself, and say user=…"
    if isinstance(value, AsyncClient):
        return f"an AsyncClient is awaited, which adapters do not; give offprompt.open({value.url!r})"
    if isinstance(value, str):
        return f"that is no opened memory; give what offprompt.open({_shown(value)}) returns"
    return "that is no opened memory; give what offprompt.open(…) returned"
