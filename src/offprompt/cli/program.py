"""The program: its commands, its global options, and how one command line is run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from offprompt import __version__
from offprompt.cli import (
    INTERRUPTED,
    audit,
    batch,
    bench,
    care,
    chat,
    consolidate,
    copying,
    demo,
    erasing,
    gateway,
    grants,
    ingest,
    init,
    keyring,
    keys,
    known,
    lists,
    mcp,
    memories,
    serve,
    slots,
    streams,
    trace,
    worker,
)
from offprompt.cli.call import (
    Agent,
    App,
    AsJson,
    Call,
    Config,
    Lang,
    Options,
    Session,
    Shared,
    Url,
    User,
    command,
)
from offprompt.cli.errors import PIPE_CLOSED, CommandLineError, report
from offprompt.cli.replay import replay
from offprompt.errors import BackendError, OffpromptError

app = typer.Typer(
    name="offprompt",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:  # noqa: FBT001 - Typer calls it with the flag
    if asked:
        streams.answer(f"offprompt {__version__}\n")
        raise typer.Exit


@app.callback()
def options(
    ctx: typer.Context,
    *,
    url: Url = None,
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    app: App = None,
    shared: Shared = False,
    json: AsJson = False,
    lang: Lang = None,
    config: Config = None,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="The version.")] = False,
) -> None:
    """Memory for LLM agents that stays off the prompt."""
    del version
    ctx.obj = replace(ctx.obj, options=Options(url, user, agent, session, app, shared, json, lang, config))


slots.mount(app)
memories.mount(app)
command(app, "replay")(replay)
for family in (
    gateway,
    chat,
    batch,
    audit,
    trace,
    demo,
    lists,
    care,
    known,
    erasing,
    grants,
    ingest,
    copying,
    consolidate,
    worker,
    serve,
    keys,
    keyring,
    bench,
    mcp,
    init,
):
    family.mount(app)


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns its exit code."""
    words = tuple(sys.argv[1:] if argv is None else argv)
    streams.make_ready()
    try:
        code = app(args=list(words), prog_name="offprompt", standalone_mode=False, obj=Call(argv=words))
        sys.stdout.flush()
    except (OffpromptError, CommandLineError) as exc:
        return report(exc, words)
    except typer.Abort:
        return INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # Whoever read us has left. Typer and Rich say so by leaving, when it was the help that was read.
        streams.discard(sys.stdout)
        return PIPE_CLOSED
    except OSError as exc:
        streams.discard(sys.stdout)
        return report(BackendError(f"the system refused: {exc}; nothing more was done"), words)
    return code if isinstance(code, int) else 0
