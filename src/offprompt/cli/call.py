"""One call of the command line: its global options, the memory it works on, and how it answers."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import wraps
from typing import Annotated, Any, Literal, get_type_hints

import typer

from offprompt.bootstrap import open as open_memory
from offprompt.cli import streams
from offprompt.cli.errors import corrected
from offprompt.cli.words import say
from offprompt.errors import ScopeError
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt

SCOPE, PANEL = "Whose memory", "Everywhere"

Url = Annotated[
    str | None,
    typer.Option(
        help="The store: a file, a URL, a server's http://…, or `memories=URL slots=URL vectors=URL`.",
        rich_help_panel=PANEL,
    ),
]
User = Annotated[str | None, typer.Option(help="A user's memory.", rich_help_panel=SCOPE)]
Agent = Annotated[str | None, typer.Option(help="An agent's memory.", rich_help_panel=SCOPE)]
Session = Annotated[str | None, typer.Option(help="A session's memory.", rich_help_panel=SCOPE)]
App = Annotated[str | None, typer.Option(help="The tenant.", rich_help_panel=SCOPE)]
Shared = Annotated[bool, typer.Option("--shared", help="What everyone may read.", rich_help_panel=SCOPE)]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.", rich_help_panel=PANEL)]
Lang = Annotated[Literal["en", "zh"] | None, typer.Option(help="Language of messages.", rich_help_panel=PANEL)]
Config = Annotated[str | None, typer.Option(help="A TOML file of settings.", rich_help_panel=PANEL)]


@dataclass(frozen=True, slots=True)
class Options:
    """The options that every command takes, before its name or after it."""

    url: Url = None
    user: User = None
    agent: Agent = None
    session: Session = None
    app: App = None
    shared: Shared = False
    json: AsJson = False
    lang: Lang = None
    config: Config = None


OPTION_NAMES = tuple(item.name for item in fields(Options))


@dataclass(frozen=True, slots=True)
class Call:
    """What a command gets: options, the words of the command line, and the ways to answer."""

    options: Options = Options()
    argv: tuple[str, ...] = ()

    @property
    def lang(self) -> Literal["en", "zh"]:
        """The language of messages: `--lang`, else OFFPROMPT_LANGUAGE, else what the locale says."""
        return self.options.lang or language_of(os.environ)

    def say(self, text: str) -> str:
        """A label or sentence in the call's language."""
        return say(self.lang, text)

    def put(self, document: Any, text: str) -> None:
        """Answer: the document with `--json`, else the text."""
        if self.options.json:
            text = json.dumps(document, ensure_ascii=not streams.is_unicode(sys.stdout))
        streams.answer(text.rstrip("\n") + "\n")

    def nothing_in(self, memory: Offprompt) -> str:
        """The answer of a list without entries: it says in which store there are none."""
        return f"{self.say('nothing here')}: {memory.url}"

    @contextmanager
    def memory(self, *, create: bool = False) -> Generator[Offprompt]:
        """The memory that the options name, closed afterwards.

        Raises   NotFoundError if there is none yet and `create` is not set.
        """
        own = self.options
        with open_memory(own.url, config=own.config, app=own.app, create=create) as memory:
            yield memory

    @contextmanager
    def scope(self, *, create: bool = False) -> Generator[BoundScope]:
        """The scope that the options name; a write may `create` the store.

        Raises   ScopeError with the corrected command if they name none and there is no default.
        """
        with self.memory(create=create) as memory:
            yield self.scope_of(memory)

    def scope_of(self, memory: Offprompt) -> BoundScope:
        """The options' scope in an opened memory; ScopeError as in `scope`."""
        own = self.options
        try:
            return memory.scope(user=own.user, agent=own.agent, session=own.session, app=own.app, shared=own.shared)
        except ScopeError as exc:
            if own.shared or any(value is not None for value in (own.user, own.agent, own.session)):
                raise
            lacking = say(self.lang, "no scope: say whose memory it is, for example:")
            raise ScopeError(f"{lacking} {corrected(self.argv, ['--user', 'alice'])}") from exc

    @property
    def scoped(self) -> bool:
        """Whether the options name a scope."""
        own = self.options
        return own.shared or any(value is not None for value in (own.user, own.agent, own.session))


def language_of(environ: Mapping[str, str]) -> Literal["en", "zh"]:
    """The language that the environment asks for; English unless it is Chinese."""
    order = ("OFFPROMPT_LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
    asked = next((value for name in order if (value := environ.get(name))), "")
    return "zh" if asked.lower().startswith("zh") else "en"


def command(app: typer.Typer, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Registers a function as a command: its first parameter is the Call, the global options are added behind."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        own = [
            parameter.replace(annotation=hints[parameter.name])
            for parameter in list(inspect.signature(function).parameters.values())[1:]
        ]
        context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        keyword = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        signature = inspect.Signature([*keyword, *option_parameters(), context])

        @wraps(function)
        def run(ctx: typer.Context, **given: Any) -> None:
            call = merged(ctx.obj, {option: given.pop(option) for option in OPTION_NAMES})
            function(call, **given)

        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in signature.parameters.values()}
        del run.__wrapped__
        app.command(name)(run)
        return function

    return register


def option_parameters() -> list[inspect.Parameter]:
    """The global options as parameters of a command."""
    hints = get_type_hints(Options, include_extras=True)
    return [
        inspect.Parameter(item.name, inspect.Parameter.KEYWORD_ONLY, default=item.default, annotation=hints[item.name])
        for item in fields(Options)
    ]


def merged(before: Call, given: dict[str, Any]) -> Call:
    """The call with options given behind the command's name; they win over those before it."""
    said = {key: value for key, value in given.items() if value is not None and value is not False}
    return replace(before, options=replace(before.options, **said))
