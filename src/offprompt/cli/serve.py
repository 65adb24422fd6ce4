"""`offprompt serve`: the memory over HTTP."""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from offprompt.cli.call import Call, command
from offprompt.cli.doors import STOP_S, Door, Log, Server
from offprompt.cli.errors import quoted
from offprompt.cli.gateway import PORT as GATEWAY_PORT
from offprompt.cli.gateway import Pointing, options_of
from offprompt.errors import UnsupportedError, UsageError
from offprompt.records.places import token_file
from offprompt.service.offprompt import Offprompt

if TYPE_CHECKING:
    from offprompt.rest.dispatch import Dispatch

PORT = 7333
LACKING = "what answers HTTP is not installed; run: pip install 'offprompt[serve]'"


@dataclass(frozen=True, slots=True)
class Rest:
    """The memory's own door.

    host     as it was given. token: that of this machine, "" where others reach the server.
    """

    call: Call
    bound: socket.socket
    host: str
    token: str

    def watching(self, log: Log) -> Callable[[Any], Any]:
        """See Door."""
        from offprompt.rest.app import ENDPOINTS  # noqa: PLC0415 - an extra
        from offprompt.rest.watching import watching  # noqa: PLC0415

        return watching(log, ENDPOINTS, os.environ)

    def app(self, memory: Offprompt) -> Dispatch:
        """See Door."""
        from offprompt.rest.app import make_app  # noqa: PLC0415 - an extra
        from offprompt.rest.guarding import guard_for  # noqa: PLC0415

        hosts = (self.host, self.bound.getsockname()[0])
        return make_app(memory, guard_for(memory, hosts, token=self.token, user=self.call.options.user))


def serve(
    call: Call,
    *,
    host: Annotated[str, typer.Option(help="The address to listen on; off the loopback keys are required.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="The port; 0: any that is free.", min=0, max=65535)] = PORT,
    gateway: Annotated[
        bool, typer.Option("--gateway", help="Also what `offprompt gateway` does, beside it, on a port of its own.")
    ] = False,
    upstream: Annotated[
        list[str] | None, typer.Option(help="With --gateway, where the models are: see `offprompt gateway`.")
    ] = None,
    gateway_port: Annotated[int, typer.Option(help="The gateway's port.", min=0, max=65535)] = GATEWAY_PORT,
    workers: Annotated[int, typer.Option(help="Processes that answer.", min=1, max=256)] = 1,
    stop: Annotated[float, typer.Option(help="Seconds for what runs when it is told to stop.", min=0)] = STOP_S,
    log: Annotated[Log, typer.Option(help="A line for each request on stderr.")] = "text",
) -> None:
    """Answer over HTTP until SIGTERM or Ctrl-C; a second one ends it at once.

    Who asks shows a key, or on this machine the token in the file that is named at the start, which only its user may
    read. --user: whose memory is meant where a request with that token names nobody.
    """
    try:
        from offprompt.rest.serving import listen  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as exc:
        raise UnsupportedError(LACKING) from exc
    if upstream and not gateway:
        raise UsageError("--upstream is the gateway's; add --gateway, or leave it out")
    options = options_of(call, upstreams=tuple(upstream or ()) or None) if gateway else None
    bound = listen(host, port)
    pointing = None if options is None else Pointing(call, listen(host, gateway_port), host, options)
    with token_for(bound) as token:
        doors: list[Door] = [Rest(call, bound, host, token), *([] if pointing is None else [pointing])]
        code = Server(call, doors, workers, stop, log).run(lambda: say_where(call, bound, token, pointing))
    raise typer.Exit(code)


def token_for(bound: socket.socket) -> AbstractContextManager[str]:
    """The token of this machine for a server on the loopback; "" for one that others reach."""
    from offprompt.rest.guards import is_loopback  # noqa: PLC0415 - an extra
    from offprompt.rest.token_file import local_token  # noqa: PLC0415

    host, port = bound.getsockname()[:2]
    return local_token(port) if is_loopback(host) else nullcontext("")


def say_where(call: Call, bound: socket.socket, token: str, pointing: Pointing | None) -> None:
    """Where it listens, where the token of this machine is, and a command that works."""
    from offprompt.rest.serving import url_of  # noqa: PLC0415 - an extra

    url = url_of(bound)
    user = call.options.user or os.environ.get("OFFPROMPT_USER", "")
    whose = "" if user else " -H 'Offprompt-User: alice'"
    sent = quoted('{"slot": "city", "value": "Shanghai"}')
    file = str(token_file(bound.getsockname()[1])) if token else ""
    shown = f"$(cat {shlex.quote(file)})" if token else "$OFFPROMPT_KEY"
    line = (
        f'curl {url}/mem/write -H "Authorization: Bearer {shown}"{whose} '
        f"-H 'Content-Type: application/json' -d {sent}"
    )
    document = {"url": url, "pid": os.getpid(), "token_file": file or None}
    lines = [f"{call.say('listening on')} {url}", f"{call.say('try:')} {line}"]
    if pointing is not None:
        document["gateway"] = pointing.url
        lines.append(pointing.what_to_change())
    call.put(document, "\n".join(lines))


def mount(app: typer.Typer) -> None:
    """Put the command into the program."""
    command(app, "serve")(serve)
