"""`offprompt serve`: the memory over HTTP."""

from __future__ import annotations

import os
import shlex
import socket
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from offprompt.cli.call import Call, command
from offprompt.cli.errors import quoted, report
from offprompt.errors import OffpromptError, UnsupportedError, UsageError
from offprompt.records.places import token_file
from offprompt.service.offprompt import Offprompt

PORT = 7333
STOP_S = 30.0
LACKING = "what answers HTTP is not installed; run: pip install 'offprompt[serve]'"

Log = Literal["json", "text", "off"]


@dataclass(frozen=True, slots=True)
class Served:
    """What is served, and how.

    host     as it was given. token: that of this machine, "" where others reach the server.
    """

    call: Call
    bound: socket.socket
    host: str
    token: str
    workers: int
    stop_s: float
    log: Log

    def work(self, parent: int | None, started: Callable[[], None]) -> None:
        """Open the memory, answer until told to stop, and close it."""
        from offprompt.rest import serving  # noqa: PLC0415 - an extra
        from offprompt.rest.app import ENDPOINTS, make_app  # noqa: PLC0415
        from offprompt.rest.guarding import guard_for  # noqa: PLC0415
        from offprompt.rest.watching import watching  # noqa: PLC0415

        watched = watching(self.log, ENDPOINTS, os.environ)
        with self.call.memory(create=True) as memory:
            check_shared(memory, self.workers)
            hosts = (self.host, self.bound.getsockname()[0])
            # It takes a third of a second once; the first request need not wait for it.
            threading.Thread(target=memory.parts.tokenizer.count, args=("",), daemon=True).start()
            app = make_app(memory, guard_for(memory, hosts, token=self.token, user=self.call.options.user))
            serving.run(app, self.bound, around=watched, stop_s=self.stop_s, parent=parent, on_started=started)

    def work_as_one_of_several(self, parent: int, started: Callable[[], None]) -> int:
        """`work` in a process of its own; its exit code."""
        try:
            self.work(parent, started)
        except OffpromptError as exc:
            return report(exc, self.call.argv)
        return 0


def serve(
    call: Call,
    *,
    host: Annotated[str, typer.Option(help="The address to listen on; off the loopback keys are required.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="The port; 0: any that is free.", min=0, max=65535)] = PORT,
    workers: Annotated[int, typer.Option(help="Processes that answer.", min=1, max=256)] = 1,
    stop: Annotated[float, typer.Option(help="Seconds for what runs when it is told to stop.", min=0)] = STOP_S,
    log: Annotated[Log, typer.Option(help="A line for each request on stderr.")] = "text",
) -> None:
    """Answer over HTTP until SIGTERM or Ctrl-C; a second one ends it at once.

    Who asks shows a key, or on this machine the token in the file that is named at the start, which only its user may
    read. --user: whose memory is meant where a request with that token names nobody.
    """
    try:
        from offprompt.rest.serving import listen, url_of  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as exc:
        raise UnsupportedError(LACKING) from exc
    bound = listen(host, port)
    with token_for(bound) as token:
        code = run(Served(call, bound, host, token, workers, stop, log), lambda: say_where(call, url_of(bound), token))
    raise typer.Exit(code)


def token_for(bound: socket.socket) -> AbstractContextManager[str]:
    """The token of this machine for a server on the loopback; "" for one that others reach."""
    from offprompt.rest.guards import is_loopback  # noqa: PLC0415 - an extra
    from offprompt.rest.token_file import local_token  # noqa: PLC0415

    host, port = bound.getsockname()[:2]
    return local_token(port) if is_loopback(host) else nullcontext("")


def run(served: Served, on_ready: Callable[[], None]) -> int:
    """Serve in this process, or in several; the exit code."""
    if served.workers == 1:
        served.work(None, on_ready)
        return 0
    from offprompt.rest.logs import log_to  # noqa: PLC0415
    from offprompt.rest.shared_numbers import shared_numbers  # noqa: PLC0415
    from offprompt.rest.workers import Workers  # noqa: PLC0415

    log_to(served.log)
    with shared_numbers():
        from offprompt.rest.metrics import forget_worker  # noqa: PLC0415

        every = Workers(
            served.work_as_one_of_several,
            served.workers,
            stop_s=served.stop_s,
            on_ready=on_ready,
            on_end=forget_worker,
        )
        return every.run()


def check_shared(memory: Offprompt, workers: int) -> None:
    """Nothing, if several processes can work on the store.

    Raises   UsageError for several workers on one that ends with its process.
    """
    if workers > 1 and ":memory:" in memory.parts.url:
        raise UsageError(
            f"--workers {workers} on ':memory:': each process would have a memory of its own; "
            "give a file or a server with --url, or leave --workers out"
        )


def say_where(call: Call, url: str, token: str) -> None:
    """Where it listens, where the token of this machine is, and a command that works."""
    user = call.options.user or os.environ.get("OFFPROMPT_USER", "")
    whose = "" if user else " -H 'Offprompt-User: alice'"
    sent = quoted('{"slot": "city", "value": "Shanghai"}')
    file = str(token_file(int(url.rpartition(":")[2]))) if token else ""
    shown = f"$(cat {shlex.quote(file)})" if token else "$OFFPROMPT_KEY"
    line = (
        f'curl {url}/mem/write -H "Authorization: Bearer {shown}"{whose} '
        f"-H 'Content-Type: application/json' -d {sent}"
    )
    document = {"url": url, "pid": os.getpid(), "token_file": file or None}
    call.put(document, f"{call.say('listening on')} {url}\n{call.say('try:')} {line}")


def mount(app: typer.Typer) -> None:
    """Put the command into the program."""
    command(app, "serve")(serve)
