"""The application: all endpoints over one opened memory."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec

from offprompt.rest import (
    documents,
    erasures,
    grants,
    health,
    keys,
    known,
    mem,
    mem0,
    memories,
    metrics,
    model,
    scopes,
    sessions,
    slots,
    transfer,
    users,
)
from offprompt.rest.dispatch import Dispatch
from offprompt.rest.endpoint import Answer, Call, Endpoint
from offprompt.rest.guards import Identify
from offprompt.rest.openapi import openapi
from offprompt.rest.versions import tag_of
from offprompt.service.offprompt import Offprompt


@cache
def _document() -> Answer:
    """Made once: it is the same as long as the program runs."""
    whole = openapi(ENDPOINTS)
    return Answer(msgspec.json.encode(whole), version=tag_of(1, whole))


def document(call: Call) -> Answer:
    """The OpenAPI document of this server."""
    del call
    return _document()


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *mem.ENDPOINTS,
    *slots.ENDPOINTS,
    *memories.ENDPOINTS,
    *model.ENDPOINTS,
    *known.ENDPOINTS,
    *scopes.ENDPOINTS,
    *sessions.ENDPOINTS,
    *transfer.ENDPOINTS,
    *documents.ENDPOINTS,
    *users.ENDPOINTS,
    *erasures.ENDPOINTS,
    *grants.ENDPOINTS,
    *keys.ENDPOINTS,
    *mem0.ENDPOINTS,
    *health.ENDPOINTS,
    *metrics.ENDPOINTS,
    Endpoint(
        "GET",
        "/openapi.json",
        "openapi",
        document,
        "This document.",
        "health",
        role=None,
        answer=dict[str, Any],
        is_scoped=False,
        is_versioned=True,
    ),
)
"""Everything that is served, in the order of the documents."""


def make_app(memory: Offprompt, identify: Identify) -> Dispatch:
    """The ASGI application over a memory, which stays the caller's to close."""
    return Dispatch(memory, ENDPOINTS, identify)
