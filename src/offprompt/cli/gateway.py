"""`offprompt gateway`: memory off the prompt for agents that only change their base URL."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from offprompt.cli.call import Call, command
from offprompt.cli.errors import report
from offprompt.cli.serve import LACKING, STOP_S, check_shared
from offprompt.errors import OffpromptError, UnsupportedError
from offprompt.records import Identity
from offprompt.service.offprompt import Offprompt

if TYPE_CHECKING:
    from offprompt.gateway.app import Gateway, GatewayOptions

PORT = 7334


@dataclass(frozen=True, slots=True)
class Passing:
    """What is passed on, and how. upstreams: as they were given; users: whether requests without a key name users."""

    call: Call
    bound: socket.socket
    upstreams: tuple[str, ...]
    options: GatewayOptions
    trust_users: bool
    workers: int
    stop_s: float

    def app(self, memory: Offprompt) -> Gateway:
        """The application over an opened memory."""
        from offprompt.gateway.app import Gateway  # noqa: PLC0415 - an extra
        from offprompt.gateway.upstream import Upstreams, targets  # noqa: PLC0415
        from offprompt.gateway.who import KEY, Who  # noqa: PLC0415
        from offprompt.rest.guards import Guard, check_guarded, check_site, is_loopback  # noqa: PLC0415
        from offprompt.service.keys import Keys  # noqa: PLC0415

        host = str(self.bound.getsockname()[0])
        keys = Keys(memory.parts.main, memory.parts.clock)
        is_local = is_loopback(host)
        if not is_local:
            check_guarded(keys, host, has_issuer=False)
        guard = Guard(keys)

        def identify(headers: Mapping[str, str]) -> Identity:
            found = guard("POST", {**headers, "authorization": f"Bearer {headers[KEY]}"}, has_body=True)
            return found if isinstance(found, Identity) else found()

        hosts = frozenset({"localhost", "127.0.0.1", "::1", host})
        return Gateway(
            Who(memory, identify, self._without_key(memory) if is_local else None),
            Upstreams(targets(self.upstreams)),
            self.options,
            (lambda headers: check_site(headers, hosts)) if is_local else None,
        )

    def _without_key(self, memory: Offprompt) -> Identity | None:
        """Who asks on this machine without a key: the user of the command line, or whoever the request names."""
        app, user = memory.parts.settings.app, self.call.options.user or os.environ.get("OFFPROMPT_USER") or None
        if self.trust_users:
            return Identity(app, default_user=user)
        return None if user is None else Identity(app, users=(user,), default_user=user)

    def work(self, parent: int | None, started: Callable[[], None]) -> None:
        """Open the memory, pass on until told to stop, and close it."""
        from offprompt.rest import serving  # noqa: PLC0415 - an extra

        with self.call.memory(create=True) as memory:
            check_shared(memory, self.workers)
            serving.run(self.app(memory), self.bound, stop_s=self.stop_s, parent=parent, on_started=started)

    def work_as_one_of_several(self, parent: int, started: Callable[[], None]) -> int:
        """`work` in a process of its own; its exit code."""
        try:
            self.work(parent, started)
        except OffpromptError as exc:
            return report(exc, self.call.argv)
        return 0


def gateway(
    call: Call,
    *,
    upstream: Annotated[
        list[str], typer.Option(help="Where the models are: https://…, or 'claude-*=https://…' for some of them.")
    ],
    host: Annotated[str, typer.Option(help="The address to listen on; off the loopback keys are required.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="The port; 0: any that is free.", min=0, max=65535)] = PORT,
    head: Annotated[
        Literal["as-needed", "always"],
        typer.Option(
            help="Our tools and instructions: for users with memory and once something leaves the prompt, or always."
        ),
    ] = "as-needed",
    trust_users: Annotated[
        bool, typer.Option("--trust-users", help="Without a key, believe whom a request names as its user.")
    ] = False,
    without_scope: Annotated[
        Literal["refuse", "pass"], typer.Option(help="Requests that name no memory: refuse them, or pass them on.")
    ] = "refuse",
    on_trouble: Annotated[
        Literal["pass", "refuse"], typer.Option(help="While the memory fails: pass requests on, or refuse them.")
    ] = "pass",
    deadline: Annotated[float, typer.Option(help="Seconds that the memory may take.", min=0.01)] = 10.0,
    workers: Annotated[int, typer.Option(help="Processes that answer.", min=1, max=256)] = 1,
    stop: Annotated[float, typer.Option(help="Seconds for what runs when it is told to stop.", min=0)] = STOP_S,
) -> None:
    """Stand between an agent and its models: the agent's base URL is all that changes.

    --user: whose memory it is where a request shows no key.
    """
    try:
        from offprompt.gateway.app import GatewayOptions  # noqa: PLC0415 - an extra
        from offprompt.gateway.upstream import targets  # noqa: PLC0415
        from offprompt.rest.serving import listen, url_of  # noqa: PLC0415
    except ModuleNotFoundError as exc:
        raise UnsupportedError(LACKING.replace("[serve]", "[gateway]")) from exc
    targets(upstream)
    bound = listen(host, port)
    options = GatewayOptions(
        head="always" if head == "always" else "as_needed",
        without_scope=without_scope,
        on_trouble=on_trouble,
        deadline_s=deadline,
    )
    passing = Passing(call, bound, tuple(upstream), options, trust_users, workers, stop)
    url = url_of(bound)
    if workers == 1:
        passing.work(None, lambda: say_where(call, url))
        return
    from offprompt.rest.workers import Workers  # noqa: PLC0415

    every = Workers(passing.work_as_one_of_several, workers, stop_s=stop, on_ready=lambda: say_where(call, url))
    raise typer.Exit(every.run())


def say_where(call: Call, url: str) -> None:
    """Where it listens, and what to change."""
    call.put(
        {"url": url, "pid": os.getpid()},
        f"{call.say('listening on')} {url}\n"
        f"{call.say('point your agent here:')} OPENAI_BASE_URL={url}/v1  ANTHROPIC_BASE_URL={url}",
    )


def mount(app: typer.Typer) -> None:
    """Put the command into the program."""
    command(app, "gateway")(gateway)
