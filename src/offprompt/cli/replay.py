"""`offprompt replay FILE…`: what logged conversations would have cost under each history policy."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from offprompt.bootstrap import config_file, price_sheets
from offprompt.cli import streams
from offprompt.cli.call import Call
from offprompt.cli.render import table
from offprompt.config import Settings, load_settings
from offprompt.errors import UsageError
from offprompt.models.tokenizers import tokenizer_for
from offprompt.records.imported import Problem
from offprompt.service.replay.formats import SHAPES
from offprompt.service.replay.log import Rules
from offprompt.service.replay.logged import Conversation
from offprompt.service.replay.picture import write_picture
from offprompt.service.replay.readers import OnBytes, read_conversations
from offprompt.service.replay.report import advice, document, head_line, overflow, summary, table_cells
from offprompt.service.replay.simulate import Replayed, simulate
from offprompt.wire.prices import PriceSheet, named_sheet, sheet_for

MANY_PROBLEMS = 20


def replay(
    call: Call,
    files: Annotated[list[Path], typer.Argument(help="Logs of conversations.", metavar="FILE…")],
    *,
    chain: Annotated[bool, typer.Option("--chain", help="Join all sessions under the first system prompt.")] = False,
    prices: Annotated[str | None, typer.Option(help="A price sheet or a model that one is for.")] = None,
    model: Annotated[str, typer.Option(help="The model: how tokens are counted, and its prices.")] = "",
    requests: Annotated[int | None, typer.Option(min=1, help="Stop after this many requests.")] = None,
    memory_tokens: Annotated[
        int, typer.Option(min=0, help="Tokens of memory rewritten each turn in that column.")
    ] = 1000,
    context_tokens: Annotated[int | None, typer.Option(min=1000, help="The model's context.")] = None,
    stub_tokens: Annotated[int | None, typer.Option(min=1, help="Results above this become stubs.")] = None,
    high: Annotated[int | None, typer.Option(min=1, help="History tokens above which the window cuts.")] = None,
    low: Annotated[int | None, typer.Option(min=0, help="History tokens that a cut leaves.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Where to draw prompt sizes: .svg, or .png.")] = None,
    no_picture: Annotated[bool, typer.Option("--no-picture", help="Draw nothing.")] = False,
) -> None:
    """Compute, without a model, what the requests of logged conversations cost under each policy."""
    settings, sheets = _settings(
        call, {"stub_tokens": stub_tokens, "window_high_tokens": high, "window_low_tokens": low}
    )
    if settings.window_low_tokens > settings.window_high_tokens:
        raise UsageError(
            f"--low {settings.window_low_tokens} is above --high {settings.window_high_tokens}; a cut leaves less"
        )
    sheet = _sheet(prices, model, sheets)
    rules = Rules(
        sheet=sheet,
        context_tokens=context_tokens or sheet.context_tokens or settings.context_tokens,
        reserve_tokens=settings.output_reserve_tokens,
        high_tokens=settings.window_high_tokens,
        low_tokens=settings.window_low_tokens,
        stub_tokens=settings.stub_tokens,
        memory_tokens=memory_tokens,
    )
    source = _Source(files)
    with source.open() as conversations:
        replayed = simulate(conversations, tokenizer_for(model), rules, chain=chain, limit=requests)
    if not replayed.requests:
        raise UsageError(
            f"no request to replay in {', '.join(map(str, files))}: {source.first_problem()}; expected {SHAPES}, "
            "with at least one assistant message behind another message"
        )
    source.say_alone()
    drawn = None if no_picture else picture or Path(f"{files[0].stem or 'log'}.replay.svg")
    if drawn is not None:
        write_picture(replayed, drawn, call.lang)
    _answer(call, replayed, source, drawn)


def _answer(call: Call, replayed: Replayed, source: _Source, drawn: Path | None) -> None:
    names = [str(file) for file in source.files]
    body = document(replayed, names, source.problems, call.lang) | {"picture": None if drawn is None else str(drawn)}
    heads, rows = table_cells(replayed, call.lang)
    lines = [sentence(replayed, call.lang) for sentence in (summary, head_line, overflow, advice)]
    if drawn is not None:
        lines.append(f"{'图' if call.lang == 'zh' else 'picture'}: {drawn}")
    call.put(body, "\n".join([table(heads, rows), "", *(line for line in lines if line)]))


def _settings(call: Call, given: dict[str, int | None]) -> tuple[Settings, tuple[PriceSheet, ...]]:
    file = Path(call.options.config) if call.options.config else config_file(os.environ)
    settings = load_settings(given, environ=os.environ, file=file)
    return settings, price_sheets(settings)


def _sheet(prices: str | None, model: str, sheets: Sequence[PriceSheet]) -> PriceSheet:
    """The sheet that is named, else the model's, else the common one."""
    if prices is not None:
        return named_sheet(prices, sheets)
    return (sheet_for(model, sheets) if model else None) or named_sheet("default", sheets)


class _Source:
    """The files, read one after the other, with a progress bar on a terminal; what went wrong on the way."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = files
        self.problems: list[Problem] = []
        for file in files:
            if not file.is_file():
                raise UsageError(f"{str(file)!r} is not a file; name the log files themselves")

    @contextmanager
    def open(self) -> Generator[Iterator[Conversation]]:
        """The conversations; problems go to stderr as they come, the first twenty, but one alone: see `say_alone`."""
        total = sum(file.stat().st_size for file in self.files)
        with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
            task = progress.add_task("replay", total=total)
            yield self._all(lambda read: progress.advance(task, read))
        if len(self.problems) > MANY_PROBLEMS:
            streams.complain(f"… {len(self.problems) - MANY_PROBLEMS} more\n")

    def first_problem(self) -> str:
        """The first thing that went wrong."""
        return str(self.problems[0]) if self.problems else "no conversation in it"

    def say_alone(self) -> None:
        """Say a problem that stayed the only one: of a log in which nothing can be read it is the error itself."""
        if len(self.problems) == 1:
            self._say(self.problems[0])

    def _all(self, advance: OnBytes) -> Iterator[Conversation]:
        for file in self.files:
            yield from read_conversations(file, self._note, advance)

    def _note(self, problem: Problem) -> None:
        self.problems.append(problem)
        if len(self.problems) == 2:
            self._say(self.problems[0])
        if 2 <= len(self.problems) <= MANY_PROBLEMS:
            self._say(problem)

    def _say(self, problem: Problem) -> None:
        streams.complain(f"{problem}\n")
