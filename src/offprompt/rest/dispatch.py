"""Dispatch: one request from its bytes to its answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from offprompt.errors import OffpromptError
from offprompt.records.access import Identity
from offprompt.rest.answering import IS_STREAM, Reply, Send, problem_reply, refused, rendered, send_reply
from offprompt.rest.endpoint import Call, Endpoint
from offprompt.rest.guards import Identify
from offprompt.rest.lanes import Lanes
from offprompt.rest.once import Once
from offprompt.rest.problems import MEDIA_TYPE, RequestError, unexpected
from offprompt.rest.reading import (
    BodyReader,
    QueryReader,
    Receive,
    StreamReader,
    check_heads,
    read_body,
    read_headers,
)
from offprompt.rest.router import Router
from offprompt.service.access import check_role
from offprompt.service.offprompt import Offprompt
from offprompt.service.quick import quick_store

AsgiScope: TypeAlias = MutableMapping[str, Any]

THREADS: Final = 32
STREAMS: Final = 8
"""Bodies that are read while they come, at a time: each of them holds a thread for as long as its client sends."""
CONDITIONS: Final = (b"if-match", b"if-none-match")
PROBLEM_TYPE: Final = "offprompt.problem_type"
LOG: Final = logging.getLogger("offprompt.rest")
NOBODY: Final = Identity(roles=frozenset())
"""Who asks where no key is asked for."""


class Dispatch:
    """The ASGI application. memory: the store it serves. identify: who asks.

    running      requests that are not answered to the end yet.
    is_draining  no more are taken: `/health` alone is answered.
    """

    def __init__(self, memory: Offprompt, endpoints: Sequence[Endpoint], identify: Identify) -> None:
        self._memory, self._identify = memory, identify
        self.endpoints = tuple(endpoints)
        self._router = Router(endpoints)
        self._once = Once(memory.parts.coordinator)
        self._queries = {each.name: QueryReader(each.query) for each in endpoints if each.query is not None}
        self._bodies = {
            each.name: BodyReader(each.body) for each in endpoints if each.body is not None and not each.is_stream
        }
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="offprompt-rest")
        self._streams = ThreadPoolExecutor(STREAMS, thread_name_prefix="offprompt-stream")
        self._lanes = Lanes(quick_store(memory.parts), self._threads)
        self._streaming = 0
        self.running = 0
        self.is_draining = False

    def drain(self) -> None:
        """Take no more requests."""
        self.is_draining = True

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer one request; anything else that the server asks for is refused."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        self.running += 1
        try:
            reply = await self._replied(scope, receive)
            if self.is_draining:
                reply = replace(reply, headers={**reply.headers, "connection": "close"})
            scope["offprompt.problem"] = reply.code
            threads = self._streams if scope.get(IS_STREAM) else self._threads
            await send_reply(send, reply, scope, threads)
        except Exception:  # behind the first piece of a stream there is no status to say it with
            LOG.exception("%s %s", scope["method"], scope.get("offprompt.endpoint", "?"))
        finally:
            self.running -= 1
            self._streaming -= scope.get(IS_STREAM, 0)

    async def _replied(self, scope: AsgiScope, receive: Receive) -> Reply:
        try:
            return await self._answered(scope, receive)
        except OffpromptError as exc:
            is_conditional = any(name in CONDITIONS for name, _ in scope["headers"])
            media_type = scope.get(PROBLEM_TYPE, MEDIA_TYPE)
            return refused(exc, is_conditional=is_conditional, media_type=media_type)
        except Exception:
            LOG.exception("%s %s", scope["method"], scope.get("offprompt.endpoint", "?"))
            return problem_reply(unexpected(), {"content-type": scope.get(PROBLEM_TYPE, MEDIA_TYPE)})

    async def _answered(self, scope: AsgiScope, receive: Receive) -> Reply:
        method: str = scope["method"]
        raw_path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        if method == "OPTIONS":
            return Reply(HTTPStatus.NO_CONTENT, {"allow": ", ".join(self._router.methods(raw_path))}, b"")
        endpoint, path = self._router.find(method, raw_path)
        scope["offprompt.endpoint"], scope[PROBLEM_TYPE] = endpoint.name, endpoint.problem_type
        if self.is_draining and endpoint.name != "health":
            raise RequestError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "the server is stopping; ask again soon, or another one",
                {"retry-after": "1"},
            )
        headers = read_headers(scope["headers"])
        identity = NOBODY
        if endpoint.role is not None:
            asked = self._identify(method, headers, has_body=endpoint.body is not None)
            identity = asked if isinstance(asked, Identity) else await self._lanes.waited(asked)
            scope["offprompt.identity"] = identity
            check_role(identity, endpoint.role)
        check_heads(endpoint, headers)
        call = Call(self._memory, identity, endpoint, headers, path)
        if endpoint.query is not None:
            call.query = self._queries[endpoint.name].read(scope["query_string"])
        elif scope["query_string"]:
            raise RequestError(HTTPStatus.BAD_REQUEST, f"{endpoint.path} takes no query; leave it out")
        if endpoint.is_stream:
            self._begin_stream(scope)
            call.body = StreamReader(receive, asyncio.get_running_loop()).read(endpoint.body)
            return await self._lanes.waited(lambda: rendered(call, endpoint.run(call)), threads=self._streams)
        body = b""
        if endpoint.body is not None:
            body = await read_body(receive, headers, max_bytes=endpoint.max_bytes)
        target = b"%b?%b" % (raw_path.encode("latin-1"), scope["query_string"])
        return await self._run(endpoint, lambda: self._done(call, target, body))

    async def _run(self, endpoint: Endpoint, work: Callable[[], Reply]) -> Reply:
        """Run it where it belongs."""
        if endpoint.runs == "here":
            return work()
        if endpoint.runs == "waited":
            return await self._lanes.waited(work)
        return await (self._lanes.changed(work) if endpoint.is_change else self._lanes.read(work))

    def _done(self, call: Call, target: bytes, body: bytes) -> Reply:
        """Run the endpoint's function, once for an Idempotency-Key."""
        endpoint = call.endpoint
        if endpoint.body is not None:
            call.body = self._bodies[endpoint.name].read(body)
        return self._once.reply(call, target, body, lambda: rendered(call, endpoint.run(call)))

    def _begin_stream(self, scope: AsgiScope) -> None:
        if self._streaming >= STREAMS:
            raise RequestError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"{STREAMS} streams are read at a time, and so many are; send it again soon",
                {"retry-after": "1"},
            )
        self._streaming += 1
        scope[IS_STREAM] = 1

    async def _live(self, receive: Receive, send: Send) -> None:
        """Start and end with the server. Threads that are still at work then are left to the process's end."""
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        for threads in (self._threads, self._streams):
            threads.shutdown(wait=False, cancel_futures=True)
        await send({"type": "lifespan.shutdown.complete"})
