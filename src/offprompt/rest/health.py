"""Whether the server is alive, and whether it can do its work."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from offprompt import __version__
from offprompt.protocols import run
from offprompt.records import GetSlot, Scope
from offprompt.rest.endpoint import Call, Endpoint

TAG: Final = "health"


class Health(Struct):
    """The process answers."""

    status: Literal["ok"]
    version: str


class Ready(Struct):
    """The store answers too."""

    status: Literal["ready"]


ALIVE: Final = Health("ok", __version__)


def health(call: Call) -> Health:
    """Says nothing of the store: a process that answers need not be started again."""
    del call
    return ALIVE


def ready(call: Call) -> Ready:
    """503 if the store of memories or that of slots does not answer: then send requests elsewhere."""
    parts = call.memory.parts
    parts.main.note("ready")
    if parts.slots is not parts.main:
        run(parts.slots, GetSlot(Scope(parts.settings.app, shared=True), "ready"))
    return Ready("ready")


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/health",
        "health",
        health,
        "Whether the process is alive.",
        TAG,
        role=None,
        answer=Health,
        is_scoped=False,
        runs="here",
    ),
    Endpoint(
        "GET", "/ready", "ready", ready, "Whether it can do its work.", TAG, role=None, answer=Ready, is_scoped=False
    ),
)
