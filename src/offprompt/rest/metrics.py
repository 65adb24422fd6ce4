"""Metrics: numbers of all requests, for Prometheus; how many of them there are does not grow with users or names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import Final

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess

from offprompt import __version__
from offprompt.rest.endpoint import Answer, Call, Endpoint
from offprompt.rest.shared_numbers import FOLDER
from offprompt.rest.watched import Seen

MEDIA_TYPE: Final = prometheus_client.CONTENT_TYPE_PLAIN_0_0_4
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
STORE_FAILED: Final = "BackendError"


@dataclass(frozen=True, slots=True)
class _OfRoute:
    """The numbers of one method, route and status: to look them up by their labels takes longer than to count."""

    requests: Counter
    seconds: Histogram
    bytes_in: Counter
    bytes_out: Counter


class Metrics:
    """The numbers of this process, or of all workers of a server if `shared_numbers` was begun before they started.

    Of several workers each writes its own into a file of its own in memory that they share; whoever is asked adds them
    up. One that was killed loses nothing: its file stays, but for what was under way in it (`forget_worker`).
    """

    def __init__(self) -> None:
        self._is_shared = FOLDER in os.environ
        self._registry = own = CollectorRegistry()
        prometheus_client.disable_created_metrics()
        registry = None if self._is_shared else own
        what = ("method", "route")
        self._requests = Counter("offprompt_requests", "Requests answered.", (*what, "status"), registry=registry)
        self._seconds = Histogram(
            "offprompt_request_seconds", "Time of a request.", what, buckets=SECONDS, registry=registry
        )
        self._in_flight = Gauge(
            "offprompt_requests_in_flight", "Requests under way.", registry=registry, multiprocess_mode="livesum"
        )
        self._bytes_in = Counter("offprompt_request_bytes", "Bytes of requests' bodies.", what, registry=registry)
        self._bytes_out = Counter("offprompt_response_bytes", "Bytes of answers' bodies.", what, registry=registry)
        self._problems = Counter(
            "offprompt_problems", "Errors that were answered, by class.", ("code",), registry=registry
        )
        self._store_errors = Counter(
            "offprompt_store_errors", "Requests that a store did not serve.", registry=registry
        )
        self._remembered = Counter(
            "offprompt_gateway_requests",
            "Requests to models, by wire, and whether their memory was on.",
            ("route", "status", "memory"),
            registry=registry,
        )
        self._of_route = cache(self._made)
        Gauge(
            "offprompt_info", "The version that runs.", ("version",), registry=registry, multiprocess_mode="max"
        ).labels(__version__).set(1)

    def begun(self, seen: Seen) -> None:
        """One more is under way."""
        del seen
        self._in_flight.inc()

    def ended(self, seen: Seen) -> None:
        """Count it."""
        self._in_flight.dec()
        own = self._of_route(seen.method, seen.route, seen.status)
        own.requests.inc()
        own.seconds.observe(seen.seconds)
        own.bytes_in.inc(seen.bytes_in)
        own.bytes_out.inc(seen.bytes_out)
        if seen.memory:
            self._remembered.labels(seen.route, str(seen.status), seen.memory).inc()
        if seen.code:
            self._problems.labels(seen.code).inc()
            if seen.code == STORE_FAILED:
                self._store_errors.inc()

    def _made(self, method: str, route: str, status: int) -> _OfRoute:
        what = (method, route)
        return _OfRoute(
            self._requests.labels(*what, str(status)),
            self._seconds.labels(*what),
            self._bytes_in.labels(*what),
            self._bytes_out.labels(*what),
        )

    def text(self) -> bytes:
        """All numbers in Prometheus's text format. Cost: O(numbers × workers)."""
        registry = self._registry
        if self._is_shared:
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)
        return generate_latest(registry)


@cache
def numbers() -> Metrics:
    """Those of this process, whatever it serves."""
    return Metrics()


def forget_worker(pid: int) -> None:
    """What was under way in a worker that ended is no longer so; its totals stay."""
    if FOLDER in os.environ:
        multiprocess.mark_process_dead(pid)  # pyright: ignore[reportUnknownMemberType]


def metrics(call: Call) -> Answer:
    """Of all apps together, without a user, a name or a value in them; so the role `admin` is asked for."""
    del call
    return Answer(numbers().text())


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/metrics",
        "metrics",
        metrics,
        "Numbers for Prometheus.",
        "health",
        role="admin",
        media_type=MEDIA_TYPE,
        is_scoped=False,
    ),
)
