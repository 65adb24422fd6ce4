"""Tracing: a span for each request, by OpenTelemetry; off unless the environment says where spans go.

The variables are OpenTelemetry's own: `OTEL_EXPORTER_OTLP_ENDPOINT` turns it on, and its SDK reads the others.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode, format_trace_id, use_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from offprompt import __version__
from offprompt.rest.watched import Seen

NAME: Final = "offprompt"


class Tracing:
    """Spans of requests, children of the span that `traceparent` names.

    A span is named by method and route and is current while the request's function runs, so that what that calls and
    is traced itself hangs below it. Its attributes are those of `Seen`; no path, no query, no message of an error.
    """

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer(NAME, __version__)
        self._parent = TraceContextTextMapPropagator().extract

    @contextmanager
    def span(self, headers: Iterable[tuple[bytes, bytes]], seen: Seen) -> Generator[None]:
        """For the time of a request."""
        named = next((value for name, value in headers if name == b"traceparent"), b"")
        parent = self._parent({"traceparent": named.decode("latin-1")})
        span = self._tracer.start_span(seen.method, parent, SpanKind.SERVER)
        seen.trace = format_trace_id(span.get_span_context().trace_id)
        try:
            with use_span(span, record_exception=False, set_status_on_exception=False):
                yield
        finally:
            span.update_name(f"{seen.method} {seen.route}")
            span.set_attributes(_attributes(seen))
            if seen.status >= 500:
                span.set_status(StatusCode.ERROR)
            span.end()

    def close(self) -> None:
        """Hand on what was not handed on yet, for a few seconds at the most."""
        self._provider.shutdown()


def exporting(*, service: str = NAME) -> Tracing:
    """Tracing that sends spans where the environment says, in the background."""
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: service, SERVICE_VERSION: __version__}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(provider)


def _attributes(seen: Seen) -> dict[str, str | int]:
    found: dict[str, str | int] = {
        "http.request.method": seen.method,
        "http.route": seen.route,
        "http.response.status_code": seen.status,
        "http.request.body.size": seen.bytes_in,
        "http.response.body.size": seen.bytes_out,
        "offprompt.request": seen.request,
        "offprompt.key": seen.key,
        "offprompt.app": seen.app,
    }
    if seen.code:
        found["error.type"] = seen.code
    return found
