"""`offprompt serve`: the memory over HTTP."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from offprompt.cli.call import Call, command
from offprompt.cli.errors import quoted, report
from offprompt.errors import OffpromptError, UnsupportedError, UsageError
from offprompt.records import Identity
from offprompt.service.offprompt import Offprompt

PORT = 7333
STOP_S = 30.0
LACKING = "what answers HTTP is not installed; run: pip install 'offprompt[serve]'"

Log = Literal["json", "text", "off"]


@dataclass(frozen=True, slots=True)
class Served:
    """What is served, and how."""

    call: Call
    bound: socket.socket
    workers: int
    stop_s: float
    log: Log

    def work(self, parent: int | None, started: Callable[[], None]) -> None:
        """Open the memory, answer until told to stop, and close it."""
        from offprompt.rest import serving  # noqa: PLC0415 - an extra
        from offprompt.rest.app import ENDPOINTS, make_app  # noqa: PLC0415
        from offprompt.rest.watching import watching  # noqa: PLC0415

        watched = watching(self.log, ENDPOINTS, os.environ)
        with self.call.memory(create=True) as memory:
            check_shared(memory, self.workers)
            app = make_app(memory, anybody(memory, self.call.options.user))
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

    --user: whose memory is meant where a request on the loopback names nobody.
    """
    try:
        from offprompt.rest.serving import listen, url_of  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as exc:
        raise UnsupportedError(LACKING) from exc
    bound = listen(host, port)
    served = Served(call, bound, workers, stop, log)
    url = url_of(bound)
    if workers == 1:
        served.work(None, lambda: say_where(call, url))
        return
    from offprompt.rest.shared_numbers import shared_numbers  # noqa: PLC0415
    from offprompt.rest.workers import Workers  # noqa: PLC0415

    with shared_numbers():
        from offprompt.rest.metrics import forget_worker  # noqa: PLC0415

        every = Workers(
            served.work_as_one_of_several,
            workers,
            stop_s=stop,
            on_ready=lambda: say_where(call, url),
            on_end=forget_worker,
        )
        code = every.run()
    raise typer.Exit(code)


def check_shared(memory: Offprompt, workers: int) -> None:
    """Nothing, if several processes can work on the store.

    Raises   UsageError for several workers on one that ends with its process.
    """
    if workers > 1 and memory.parts.url == ":memory:":
        raise UsageError(
            f"--workers {workers} on ':memory:': each process would have a memory of its own; "
            "give a file or a server with --url, or leave --workers out"
        )


def say_where(call: Call, url: str) -> None:
    """Where it listens, and a command that works."""
    user = call.options.user or os.environ.get("OFFPROMPT_USER", "")
    whose = "" if user else " -H 'Offprompt-User: alice'"
    sent = quoted('{"slot": "city", "value": "Shanghai"}')
    line = f"curl {url}/mem/write{whose} -H 'Content-Type: application/json' -d {sent}"
    document = {"url": url, "pid": os.getpid()}
    call.put(document, f"{call.say('listening on')} {url}\n{call.say('try:')} {line}")


def anybody(memory: Offprompt, user: str | None) -> Any:
    """Who asks on this machine."""
    who = Identity(
        memory.parts.settings.app,
        roles=frozenset({"read", "write", "admin"}),
        default_user=user or os.environ.get("OFFPROMPT_USER") or None,
    )

    def identify(method: str, headers: Mapping[str, str], *, has_body: bool) -> Identity:
        del method, headers, has_body
        return who

    return identify


def mount(app: typer.Typer) -> None:
    """Put the command into the program."""
    command(app, "serve")(serve)
