"""Unremembered: bodies of requests that go to the upstream without memory, and the ids by which they go on there."""

from __future__ import annotations

import hashlib
import logging
from contextlib import suppress
from typing import Any, Final

from offprompt.errors import BackendError, ConflictError, OffpromptError
from offprompt.gateway.asked import Asked
from offprompt.gateway.events import json_bytes, read_json
from offprompt.gateway.fitting import fitting
from offprompt.protocols import Coordinator
from offprompt.records import compact
from offprompt.service.offprompt import Offprompt

LOG: Final = logging.getLogger("offprompt.gateway")
KEPT_S: Final = 30 * 24 * 3600.0
"""Seconds for which an id stands for another one; OpenAI keeps responses as long."""

ASKED_S: Final = 1.0
CHAINED: Final = "previous_response_id"


def bounded(memory: Offprompt, asked: Asked) -> bytes | None:
    """What goes out while memory is not there, if not all that the client sent may: see `Session.bounded`."""
    nobody = memory.scope(agent="unremembered")  # of which nothing is read, and nothing is stored
    tools = asked.tools or None
    try:
        nobody, _, _ = fitting(memory.parts, nobody, asked)
        session = nobody.session("bounded", model=asked.model, wire=asked.wire, system=asked.system, tools=tools)
        request = session.bounded(asked.messages)
    except OffpromptError:
        return None  # the provider says what is wrong with it
    return None if request is None else json_bytes(asked.outgoing(request)[0])


class ResponseIds:
    """Which response of the provider an id stands for that a client was given, in all processes of a store.

    A stream tells the first reply's id before it is known that others follow; what the provider knows by it ends with
    calls whose results it never gets. The last reply's is the one to go on from.
    Source   OpenAI, "Conversation state": a response is kept 30 days, unless `store` is false.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def keep(self, upstream: str, given: str, last: str) -> None:
        """Let `given`, which a client has, stand for `last`. A store that fails loses that, and nothing else."""
        key = _key(upstream, given)
        try:
            if self._coordinator.once(key, CHAINED, seconds=ASKED_S) is None:
                self._coordinator.finish(key, CHAINED, last, ttl_s=KEPT_S)
        except (BackendError, ConflictError) as exc:
            LOG.warning("a response's id is not kept, and a request that goes on from it will fail: %s", exc)

    def body(self, upstream: str, raw: bytes) -> bytes | None:
        """The body that goes on from the response that its id stands for; None: it goes as it came."""
        with suppress(ValueError, BackendError, ConflictError):
            body: dict[str, Any] = read_json(raw) or {}
            given = body.get(CHAINED)
            if isinstance(given, str) and (last := self._last(_key(upstream, given))) is not None:
                return json_bytes({**body, CHAINED: last})
        return None

    def _last(self, key: str) -> str | None:
        found = self._coordinator.once(key, CHAINED, seconds=ASKED_S)
        if found is None:
            self._coordinator.finish(key, CHAINED, None, ttl_s=ASKED_S)
        return found


def _key(upstream: str, given: str) -> str:
    return f"response/{hashlib.sha256(compact([upstream, given]).encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
