"""`offprompt gateway`: memory off the prompt for agents that only change their base URL."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from offprompt.bootstrap import config_file
from offprompt.cli.call import Call, command
from offprompt.cli.doors import STOP_S, Log, Server
from offprompt.config import load_settings, read_file
from offprompt.errors import UnsupportedError
from offprompt.service.offprompt import Offprompt
from offprompt.wire.options import HistoryPolicy

if TYPE_CHECKING:
    from offprompt.gateway.app import Gateway
    from offprompt.gateway.options import GatewayOptions

PORT = 7334
LACKING = "what stands between agents and models is not installed; run: pip install 'offprompt[gateway]'"


@dataclass(frozen=True, slots=True)
class Pointing:
    """The door that agents point their base URL to. host: as it was given."""

    call: Call
    bound: socket.socket
    host: str
    options: GatewayOptions

    @property
    def url(self) -> str:
        """Where it listens."""
        from offprompt.rest.serving import url_of  # noqa: PLC0415 - an extra

        return url_of(self.bound)

    def watching(self, log: Log) -> Callable[[Any], Any]:
        """See Door."""
        from offprompt.gateway.made import ROUTES  # noqa: PLC0415 - an extra
        from offprompt.rest.watching import watching  # noqa: PLC0415

        return watching(log, ROUTES, os.environ, header=b"offprompt-request")

    def app(self, memory: Offprompt) -> Gateway:
        """See Door."""
        from offprompt.gateway.made import gateway_for  # noqa: PLC0415 - an extra

        hosts, user = (self.host, self.bound.getsockname()[0]), self.call.options.user or memory.default_user
        return gateway_for(memory, hosts, self.options, user=user)

    def what_to_change(self) -> str:
        """What agents are to be told."""
        return f"{self.call.say('point your agent here:')} OPENAI_BASE_URL={self.url}/v1  ANTHROPIC_BASE_URL={self.url}"


def options_of(call: Call, **given: Any) -> GatewayOptions:
    """The gateway's options: as given, None for what is not, else as the config file's table `[gateway]` says.

    Raises   UsageError for what does not fit, and without an upstream.
    """
    from offprompt.gateway.options import options_in  # noqa: PLC0415 - an extra
    from offprompt.gateway.upstream import targets  # noqa: PLC0415

    file = Path(call.options.config) if call.options.config else config_file(os.environ)
    load_settings(file=file)  # what is wrong in the file is said before what it lacks
    options = options_in({} if file is None else read_file(file), given, where=str(file))
    targets(options.upstreams)
    return options


def gateway(
    call: Call,
    *,
    upstream: Annotated[
        list[str] | None,
        typer.Option(help="Where the models are: https://…, or 'claude-*=https://…' for some of them."),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on; off the loopback keys are required.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="The port; 0: any that is free.", min=0, max=65535)] = PORT,
    head: Annotated[
        Literal["as-needed", "always"] | None,
        typer.Option(
            help="Our tools and instructions: for users with memory and once something leaves the prompt, or always."
        ),
    ] = None,
    policy: Annotated[
        HistoryPolicy | None,
        typer.Option(help="What leaves the prompt of the history; context_editing: on Anthropic's wire, else auto."),
    ] = None,
    trust_users: Annotated[
        bool | None,
        typer.Option("--trust-users/--no-trust-users", help="Without a key, believe whom a request names as its user."),
    ] = None,
    without_scope: Annotated[
        Literal["refuse", "pass"] | None,
        typer.Option(help="Requests that name no memory: refuse them, or pass them on."),
    ] = None,
    on_trouble: Annotated[
        Literal["pass", "refuse"] | None,
        typer.Option(help="While the memory fails: pass requests on, or refuse them."),
    ] = None,
    deadline: Annotated[float | None, typer.Option(help="Seconds that the memory may take.", min=0.01)] = None,
    workers: Annotated[int, typer.Option(help="Processes that answer.", min=1, max=256)] = 1,
    stop: Annotated[float, typer.Option(help="Seconds for what runs when it is told to stop.", min=0)] = STOP_S,
    log: Annotated[Log, typer.Option(help="A line for each request on stderr.")] = "text",
) -> None:
    """Stand between an agent and its models: the agent's base URL is all that changes.

    --user: whose memory it is where a request shows no key. What is not given here, the table `gateway` of the config
    file says.
    """
    try:
        from offprompt.rest.serving import listen  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as exc:
        raise UnsupportedError(LACKING) from exc
    options = options_of(
        call,
        upstreams=tuple(upstream or ()) or None,
        head=None if head is None else head.replace("-", "_"),
        policy=policy,
        trust_users=trust_users,
        without_scope=without_scope,
        on_trouble=on_trouble,
        deadline_s=deadline,
    )
    pointing = Pointing(call, listen(host, port), host, options)
    raise typer.Exit(Server(call, [pointing], workers, stop, log).run(lambda: say_where(call, pointing)))


def say_where(call: Call, pointing: Pointing) -> None:
    """Where it listens, and what to change."""
    document = {"url": pointing.url, "pid": os.getpid()}
    call.put(document, f"{call.say('listening on')} {pointing.url}\n{pointing.what_to_change()}")


def mount(app: typer.Typer) -> None:
    """Put the command into the program."""
    command(app, "gateway")(gateway)
