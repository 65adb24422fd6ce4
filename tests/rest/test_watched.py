"""What an operator learns of requests: their log, numbers and spans."""

from __future__ import annotations

import asyncio
import contextvars
import io
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Generator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import get_current_span

from offprompt.errors import UnsupportedError
from offprompt.records.access import Identity
from offprompt.rest import tracing
from offprompt.rest import watching as watching_module
from offprompt.rest.endpoint import Endpoint
from offprompt.rest.logs import RequestLog, log_to
from offprompt.rest.metrics import Metrics, forget_worker
from offprompt.rest.shared_numbers import FOLDER, shared_numbers
from offprompt.rest.tracing import Tracing
from offprompt.rest.watched import GONE, OTHER, AsgiScope, Message, Receive, Send, Watched, Watcher
from offprompt.rest.watching import watching

ENDPOINTS = (Endpoint("PUT", "/v1/slots/{name}", "write_slot", lambda _: None, "Write.", "slots"),)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
IN_A_TRACE = [(b"traceparent", f"00-{TRACE}-00f067aa0ba902b7-01".encode())]


class Told:
    """An application that answers as it is told, and the messages that it sent."""

    def __init__(self, status: int = 200, *, pieces: tuple[bytes, ...] = (b"{}",), problem: str = "") -> None:
        self.status, self.pieces, self.problem = status, pieces, problem
        self.known: AsgiScope = {}
        self.sent: list[Message] = []

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        scope["offprompt.endpoint"] = "write_slot"
        scope["offprompt.identity"] = Identity(app="shop", key="k1")
        scope["offprompt.problem"] = self.problem
        self.known = scope
        if self.status:
            await send({"type": "http.response.start", "status": self.status, "headers": []})
        for at, piece in enumerate(self.pieces if self.status else ()):
            await send({"type": "http.response.body", "body": piece, "more_body": at + 1 < len(self.pieces)})

    def ask(self, *watchers: Watcher, spans: Tracing | None = None, **request: Any) -> None:
        """Send one request through what watches it."""
        self.ask_through(Watched(self, ENDPOINTS, watchers=watchers, spans=spans), **request)

    def ask_through(self, watched: Watched, *, method: str = "PUT", headers: Any = ()) -> None:
        bodies = iter([(b"abc", True), (b"de", False)])

        async def receive() -> Message:
            body, more = next(bodies)
            return {"type": "http.request", "body": body, "more_body": more}

        async def send(message: Message) -> None:
            self.sent.append(message)

        asyncio.run(watched({"type": "http", "method": method, "headers": headers}, receive, send))


def line_of(told: Told, **options: Any) -> dict[str, Any]:
    out = io.StringIO()
    told.ask(RequestLog("json", out), **options)
    return json.loads(out.getvalue())


def test_a_request_is_one_line_of_what_the_server_knows_about_it() -> None:
    told = Told(201, pieces=(b"abcd", b"ef"))
    line = line_of(told)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert line.pop("ms") >= 0
    assert (
        dict(told.sent[0]["headers"])[b"request-id"].decode() == line.pop("request") == told.known["offprompt.request"]
    )
    assert line == {
        "method": "PUT",
        "route": "/v1/slots/{name}",
        "status": 201,
        "bytes_in": 5,
        "bytes_out": 6,
        "key": "k1",
        "app": "shop",
    }


def test_a_line_of_text_says_the_same() -> None:
    out = io.StringIO()
    Told(404, problem="NotFoundError").ask(RequestLog("text", out))
    pattern = (
        r"\S+Z 404 PUT /v1/slots/\{name\} [\d.]+ ms 5 in 2 out request=\w{16} key=k1 app=shop code=NotFoundError\n"
    )
    assert re.fullmatch(pattern, out.getvalue())


def test_an_answer_that_broke_off_or_was_never_given_is_told_as_such() -> None:
    assert line_of(Told(0))["status"] == GONE
    assert line_of(Told(0))["broken_off"] is True
    told = Told(200, pieces=())
    assert (line_of(told)["status"], line_of(told)["broken_off"]) == (200, True)


def test_a_method_of_nobodys_is_not_repeated() -> None:
    assert line_of(Told(), method="SECRET")["method"] == OTHER


def test_no_request_fails_for_its_log() -> None:
    class Full(io.StringIO):
        def write(self, text: str, /) -> int:
            raise OSError(28, f"no space left for {len(text)} characters")

    told = Told()
    told.ask(RequestLog("json", Full()))
    assert told.sent[0]["status"] == 200


@pytest.fixture
def _kept_logging() -> Generator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    for name in ("offprompt", "uvicorn"):
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.mark.parametrize("kind", ["json", "text", "off"])
@pytest.mark.usefixtures("_kept_logging")
def test_no_message_of_an_error_is_logged(kind: Any) -> None:
    out = io.StringIO()
    log_to(kind, out)
    try:
        try:
            {}["secret one"]
        except KeyError as exc:
            raise ValueError("secret two") from exc
    except ValueError:
        logging.getLogger("offprompt.rest").exception("PUT %s", "write_slot")
    said = out.getvalue()
    assert "secret" not in said
    assert re.search(r"PUT write_slot.*ValueError at test_watched\.py:\d+ \w+ from KeyError at test_watched\.py", said)
    assert said.count("\n") == 1


@pytest.mark.usefixtures("_kept_logging")
def test_what_other_libraries_say_is_logged_before_it_is_filled_in() -> None:
    out = io.StringIO()
    log_to("json", out)
    logging.getLogger("psycopg").warning("cannot roll back: %s", "secret")
    logging.getLogger("redis").warning("a secret")
    first, second = map(json.loads, out.getvalue().splitlines())
    assert first["message"].startswith("cannot roll back: %s (test_watched.py:")
    assert second["message"].startswith("(test_watched.py:")


def test_numbers_count_by_route_and_status() -> None:
    numbers = Metrics()
    Told(201).ask(numbers)
    Told(503, problem="BackendError").ask(numbers)
    Told(404, problem="NotFoundError").ask(numbers)
    lines = numbers.text().decode().splitlines()
    what = 'method="PUT",route="/v1/slots/{name}"'
    assert f'offprompt_requests_total{{{what},status="201"}} 1.0' in lines
    assert f'offprompt_request_seconds_bucket{{le="+Inf",{what}}} 3.0' in lines
    assert f"offprompt_request_bytes_total{{{what}}} 15.0" in lines
    assert f"offprompt_response_bytes_total{{{what}}} 6.0" in lines
    assert 'offprompt_problems_total{code="NotFoundError"} 1.0' in lines
    assert "offprompt_store_errors_total 1.0" in lines
    assert "offprompt_requests_in_flight 0.0" in lines


def test_numbers_say_how_many_are_under_way() -> None:
    numbers = Metrics()

    class Asking(Told):
        async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
            assert b"offprompt_requests_in_flight 1.0" in numbers.text()
            await super().__call__(scope, receive, send)

    Asking().ask(numbers)


WORKER = """
import os, sys
from offprompt.rest.metrics import numbers
from offprompt.rest.watched import Seen
for _ in range(int(sys.argv[1])):
    seen = Seen("id", "GET", "/health", 200)
    numbers().begun(seen)
    numbers().ended(seen)
numbers().begun(Seen("id", "GET"))
print(os.getpid(), flush=True)
sys.stdin.read()
if sys.argv[2:]:
    print(numbers().text().decode())
"""


def test_numbers_of_several_workers_are_added_up_and_those_of_a_killed_one_stay() -> None:
    def worker(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", WORKER, *arguments]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    with shared_numbers():
        with worker("3") as killed, worker("4", "asked") as asked:
            assert killed.stdout is not None
            assert asked.stdout is not None
            pid = int(killed.stdout.readline())
            asked.stdout.readline()
            killed.kill()
            killed.wait()
            forget_worker(pid)
            said, _ = asked.communicate()
        folder = os.environ[FOLDER]
    assert 'offprompt_requests_total{method="GET",route="/health",status="200"} 7.0' in said
    assert "offprompt_requests_in_flight 1.0" in said
    assert not os.path.exists(folder)  # noqa: PTH110
    assert FOLDER not in os.environ


def spans_of(told: Told, **options: Any) -> tuple[ReadableSpan, ...]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    told.ask(spans=Tracing(provider), **options)
    provider.shutdown()
    return exporter.get_finished_spans()


def test_a_request_is_a_span_below_the_one_that_its_client_names() -> None:
    (span,) = spans_of(Told(201), headers=IN_A_TRACE)
    assert (span.name, span.kind.name, span.status.status_code.name) == ("PUT /v1/slots/{name}", "SERVER", "UNSET")
    assert span.parent is not None
    assert (f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, "00f067aa0ba902b7")
    attributes = dict(span.attributes or {})
    assert len(str(attributes.pop("offprompt.request"))) == 16
    assert attributes == {
        "http.request.method": "PUT",
        "http.route": "/v1/slots/{name}",
        "http.response.status_code": 201,
        "http.request.body.size": 5,
        "http.response.body.size": 2,
        "offprompt.key": "k1",
        "offprompt.app": "shop",
    }


def test_a_failure_is_one_in_its_span_too_and_a_refusal_is_none() -> None:
    (failed,) = spans_of(Told(503, problem="BackendError"))
    assert (failed.status.status_code.name, dict(failed.attributes or {})["error.type"]) == ("ERROR", "BackendError")
    (refused,) = spans_of(Told(404, problem="NotFoundError"))
    assert refused.status.status_code.name == "UNSET"
    assert failed.events == refused.events == ()


def test_what_runs_in_a_request_is_below_its_span_in_a_thread_too() -> None:
    class Deep(Told):
        async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
            context = contextvars.copy_context()
            self.trace = await asyncio.to_thread(context.run, lambda: get_current_span().get_span_context().trace_id)
            await super().__call__(scope, receive, send)

    told = Deep()
    spans_of(told, headers=IN_A_TRACE)
    assert f"{told.trace:032x}" == TRACE


def test_a_traceparent_that_is_none_begins_a_trace_of_its_own() -> None:
    (span,) = spans_of(Told(), headers=[(b"traceparent", b"00-secret-01")])
    assert span.parent is None


def test_the_log_names_the_trace() -> None:
    out, provider = io.StringIO(), TracerProvider()
    Told().ask(RequestLog("json", out), spans=Tracing(provider), headers=IN_A_TRACE)
    assert json.loads(out.getvalue())["trace"] == TRACE
    provider.shutdown()


@pytest.mark.usefixtures("_kept_logging")
@pytest.mark.parametrize(
    ("environ", "is_traced"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, True),
    ],
    ids=["nothing", "off", "on"],
)
def test_there_are_traces_only_where_the_environment_says_where_to(environ: dict[str, str], is_traced: bool) -> None:
    def exporting() -> Tracing:
        return Tracing(TracerProvider())

    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tracing, "exporting", exporting)
        around = watching("json", ENDPOINTS, environ, out=out)
    told = Told()
    told.ask_through(around(told))
    assert ("trace" in json.loads(out.getvalue())) is is_traced


@pytest.mark.usefixtures("_kept_logging")
def test_traces_without_their_library_are_an_error_that_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(watching_module, "import_module", missing)
    with pytest.raises(UnsupportedError, match=r"pip install 'offprompt\[otel\]'"):
        watching("off", ENDPOINTS, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"})
