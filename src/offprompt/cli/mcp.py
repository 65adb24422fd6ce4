"""`offprompt mcp`: a scope's memory as tools for any program that speaks MCP."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from offprompt.cli.call import Call, command
from offprompt.cli.doors import Log
from offprompt.cli.serve import token_for
from offprompt.errors import UnsupportedError
from offprompt.mcp.snippets import PATH, PORT, WHERE, Host, snippet
from offprompt.records import Role, Trust
from offprompt.records.places import token_file
from offprompt.service.offprompt import Offprompt

if TYPE_CHECKING:
    from offprompt.mcp.server import MemoryServer
    from offprompt.service.model_doors import Door
    from offprompt.service.model_memory import ModelMemory

LACKING = "the MCP SDK is not installed; run: pip install 'offprompt[mcp]'"


def mcp(
    call: Call,
    *,
    untrusted: Annotated[
        bool, typer.Option("--untrusted", help="What is written has the trust of a tool's output.")
    ] = False,
    over_http: Annotated[bool, typer.Option("--http", help="Listen on an address instead of stdin, for many.")] = False,
    host: Annotated[str, typer.Option(help="The address to listen on; off the loopback keys are required.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="The port; 0: any that is free.", min=0, max=65535)] = PORT,
    log: Annotated[Log, typer.Option(help="A line for each request over HTTP, on stderr.")] = "text",
    print_config: Annotated[
        Host | None, typer.Option("--print-config", help="Print the settings of a host instead, and end.")
    ] = None,
) -> None:
    """Serve a scope's memory to a model over MCP: on stdin and stdout, until stdin ends, or with --http on an address.

    The scope is what the options name, over HTTP what the key and the headers of a request name; never what the model
    does. Needs the extra `mcp`, with --http `serve` too.
    """
    trust: Trust = "tool" if untrusted else "user"
    if print_config is not None:
        text = snippet(print_config, own_command(), mcp_words(call, untrusted=untrusted))
        call.put({"host": print_config, "where": WHERE[print_config], "text": text}, text)
        return
    if over_http:
        _serve(call, (host, port), log, trust)
        return
    with call.memory(create=True) as memory:
        server = _server(call, memory, trust)
        # Stdin is read in a thread, which no interrupt ends: it ends the process, and all that was answered is stored.
        before = signal.signal(signal.SIGINT, signal.SIG_DFL)
        try:
            asyncio.run(server.over_stdio())
        finally:
            signal.signal(signal.SIGINT, before)


def _server(call: Call, memory: Offprompt, trust: Trust) -> MemoryServer:
    """The server of one scope.

    Raises   ScopeError if nothing says whose memory it is; UnsupportedError without the extra.
    """
    try:
        from offprompt.mcp.server import MemoryServer  # noqa: PLC0415 - an extra, and a second to load
    except ImportError as exc:
        raise UnsupportedError(LACKING) from exc
    from offprompt.service.model_memory import ModelMemory  # noqa: PLC0415 - loads NumPy

    door = door_of(call, memory, trust)
    own = ModelMemory(door)

    def memory_for(request: Any, role: Role) -> ModelMemory:
        del request, role
        return own

    return MemoryServer(memory_for, door.tokenizer, call.options.lang or door.language)


def door_of(call: Call, memory: Offprompt, trust: Trust, *, via: str = "mcp") -> Door:
    """The scope that the options name, in a store or on a server. via: what events call who asks."""
    bound = call.scope_of(memory)
    if isinstance(memory, Offprompt):  # pyright: ignore[reportUnnecessaryIsInstance] - a Client has its face
        from offprompt.service.model_doors import StoreDoor  # noqa: PLC0415 - loads NumPy

        return StoreDoor(memory.parts, bound, trust=trust, via=via)
    from offprompt.bootstrap.server_door import ServerDoor  # noqa: PLC0415 - loads NumPy

    return ServerDoor(bound, trust=trust)


def _serve(call: Call, address: tuple[str, int], log: Log, trust: Trust) -> None:
    """Answer over HTTP until SIGTERM or Ctrl-C.

    Raises   UnsupportedError without the extras; UsageError off the loopback without a key.
    """
    try:
        from offprompt.mcp.http import ENDPOINTS, McpApp  # noqa: PLC0415 - extras
        from offprompt.rest.guarding import guard_for  # noqa: PLC0415
        from offprompt.rest.serving import listen, run, url_of  # noqa: PLC0415
        from offprompt.rest.watching import watching  # noqa: PLC0415
    except ImportError as exc:
        raise UnsupportedError("serving MCP over HTTP needs more; run: pip install 'offprompt[mcp,serve]'") from exc
    watched = watching(log, ENDPOINTS.values(), os.environ)
    bound = listen(*address)
    with token_for(bound) as token, call.memory(create=True) as memory:
        identify = guard_for(memory, (address[0], bound.getsockname()[0]), token=token, user=call.options.user)
        app = McpApp(memory, identify, trust=trust)
        run(app, bound, around=watched, on_started=lambda: _say_where(call, url_of(bound), token))


def _say_where(call: Call, url: str, token: str) -> None:
    """Where it listens, and where the token of this machine is."""
    file = str(token_file(int(url.rpartition(":")[2]))) if token else ""
    document = {"url": f"{url}{PATH}", "pid": os.getpid(), **({"token_file": file} if file else {})}
    lines = [f"{call.say('listening on')} {url}{PATH}", *([f"{call.say('token:')} {file}"] if file else [])]
    call.put(document, "\n".join(lines))


def mcp_words(call: Call, *, untrusted: bool = False) -> list[str]:
    """The arguments of the command with which a host starts the server that this call describes."""
    return ["mcp", *own_words(call), *["--untrusted"] * untrusted]


def own_words(call: Call) -> list[str]:
    """The options of this call that say which memory; a host starts programs in a folder of its own."""
    own = call.options
    url = own.url if own.url is None or ":" in own.url or " " in own.url else str(Path(own.url).absolute())
    config = None if own.config is None else str(Path(own.config).absolute())
    given = {"url": url, "config": config, "app": own.app, "user": own.user, "agent": own.agent, "session": own.session}
    words = [word for name, value in given.items() if value is not None for word in (f"--{name}", value)]
    return words + ["--shared"] * own.shared


def own_command() -> str:
    """The program with its folder, since hosts look elsewhere; `offprompt` where it is not beside its Python."""
    beside = Path(sys.executable).with_name("offprompt")
    return str(beside) if beside.exists() else "offprompt"


def mount(app: typer.Typer) -> None:
    """Put the command into the program."""
    command(app, "mcp")(mcp)
