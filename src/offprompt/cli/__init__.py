"""The command line: parses, calls the service layer, renders. `offprompt --help` lists the commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from offprompt import __version__
from offprompt.cli import audit, care, demo, lists, slots, trace
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
from offprompt.cli.errors import INTERRUPTED, CommandLineError, report
from offprompt.cli.replay import replay
from offprompt.errors import OffpromptError

app = typer.Typer(
    name="offprompt",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:  # noqa: FBT001 - Typer calls it with the flag
    if asked:
        sys.stdout.write(f"offprompt {__version__}\n")
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
command(app, "replay")(replay)
for family in (audit, trace, demo, lists, care):
    family.mount(app)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns its exit code: 0, or that of the error (see docs/errors.md)."""
    words = tuple(sys.argv[1:] if argv is None else argv)
    try:
        code = app(args=list(words), prog_name="offprompt", standalone_mode=False, obj=Call(argv=words))
    except (OffpromptError, CommandLineError) as exc:
        return report(exc, words)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    return code if isinstance(code, int) else 0
