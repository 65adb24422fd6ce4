"""Watching: who is told of the requests of a server, by its options and the environment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Final, TextIO

from offprompt.errors import UnsupportedError
from offprompt.rest.logs import LogKind, log_to
from offprompt.rest.metrics import numbers
from offprompt.rest.watched import Application, Named, Spans, Watched, Watcher

TRACES_TO: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""OpenTelemetry's own variables: with one of them there are traces, and its library reads all others."""


def watching(
    log: LogKind,
    endpoints: Iterable[Named],
    environ: Mapping[str, str],
    *,
    out: TextIO | None = None,
    header: bytes = b"request-id",
) -> Callable[[Application], Watched]:
    """What is put around an application, in the process that serves it: log, metrics, and traces if they are asked for.

    It sends this process's logging to `out` (None: stderr). header: of answers, with the request's id.
    Raises   UnsupportedError if traces are asked for and OpenTelemetry is not installed.
    """
    spans = _spans(environ)
    lines = log_to(log, out)
    watchers: list[Watcher] = [numbers(), *([] if lines is None else [lines])]
    return lambda application: Watched(application, endpoints, watchers=watchers, spans=spans, header=header)


def _spans(environ: Mapping[str, str]) -> Spans | None:
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or not any(environ.get(name) for name in TRACES_TO):
        return None
    try:
        tracing = import_module("offprompt.rest.tracing")
    except ModuleNotFoundError as exc:
        raise UnsupportedError(
            f"{TRACES_TO[0]} asks for traces, and OpenTelemetry is not installed: pip install 'offprompt[otel]', "
            "or unset the variable"
        ) from exc
    service = environ.get("OTEL_SERVICE_NAME")
    return tracing.exporting(service=service) if service else tracing.exporting()
