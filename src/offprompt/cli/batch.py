"""`offprompt batch TASKS.jsonl`: many tasks for a model, each with a memory of its own."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import Progress

from offprompt.cli import streams
from offprompt.cli.asked_model import (
    AskedModel,
    BaseUrl,
    CallsOption,
    Context,
    KeyEnv,
    Name,
    System,
    Temperature,
    Tools,
    Wire,
    is_scripted,
    tools_of,
)
from offprompt.cli.call import Call, command
from offprompt.cli.errors import as_typed
from offprompt.cli.given import file_text
from offprompt.errors import UsageError
from offprompt.service.agent import AgentLimits
from offprompt.service.batch import Batch, TaskResult, read_tasks
from offprompt.service.batch_results import ResultsFile, Summary, summary

SAID_EVERY_S: Final = 10.0
"""How often progress is said where stderr is no terminal."""


def batch(
    call: Call,
    tasks: Annotated[Path, typer.Argument(metavar="TASKS", help="JSONL: a task with id and text on each line.")],
    *,
    out: Annotated[Path, typer.Option(help="The results, a line each.", metavar="FILE")],
    resume: Annotated[bool, typer.Option("--resume", help="Run what has no good result in the file yet.")] = False,
    concurrency: Annotated[int, typer.Option(min=1, help="Tasks at once.")] = 4,
    name: Annotated[
        str | None, typer.Option(help="Of the batch: tasks run as user NAME:ID; the file's unless given.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds for one turn of a task.")] = 600.0,
    rounds: Annotated[int, typer.Option(min=0, help="Replies with tool calls in a turn.")] = 16,
    model: Name = None,
    base_url: BaseUrl = None,
    key_env: KeyEnv = None,
    wire: Wire = None,
    context_tokens: Context = None,
    calls: CallsOption = "native",
    temperature: Temperature = None,
    system: System = "",
    tools: Tools = None,
) -> None:
    """Run tasks, several at once, each in a scope of its own; a task that fails stops no other."""
    given = read_tasks(file_text(tasks, "TASKS").splitlines())
    if not given:
        raise UsageError(f'no task in {str(tasks)!r}; write one a line, such as {{"id": "a", "text": "…"}}')
    asked = AskedModel(model, base_url, key_env, wire, context_tokens, calls)
    chat = asked.made(call, needed=True)
    if is_scripted(chat):
        streams.complain(call.say("SCRIPTED: a script stands in for the language model.") + "\n")
    options: dict[str, Any] = {"temperature": temperature, "tools": tools_of(tools), "instructions": system}
    limits = AgentLimits(rounds=rounds, timeout_s=timeout)
    with call.memory(create=True) as memory, ResultsFile(out, resume=resume) as results:
        runner = Batch(memory, chat, name=name or tasks.stem, concurrency=concurrency, limits=limits, **options)
        left = results.left(given)
        try:
            with _progress(call, len(left)) as progress:
                runner.run(left, lambda result: _take(results, progress, result))
        except KeyboardInterrupt:
            typed = [word for word in call.argv if word != "--resume"]
            streams.complain(f"\n{call.say('interrupted; go on with:')} {as_typed([*typed, '--resume'])}\n")
            streams.complain(_text(call, summary(given, results.lines), out) + "\n")
            raise
        finally:
            chat.close()
        found = summary(given, results.lines)
    call.put({**asdict(found), "out": str(out)}, _text(call, found, out))
    if found.failed:
        raise typer.Exit(1)


def _take(results: ResultsFile, progress: _Said, result: TaskResult) -> None:
    results.add(result)
    progress(result)


class _Said:
    """Progress as it is said."""

    def __init__(self, call: Call, total: int, write: Any) -> None:
        self._call, self._total, self._write = call, total, write
        self._begun, self.done, self._failed = time.monotonic(), 0, 0

    def __call__(self, result: TaskResult) -> None:
        self.done += 1
        self._failed += not result.ok
        seconds = time.monotonic() - self._begun
        self._write(progress_line(self._call, self.done, self._total, self._failed, seconds))


def progress_line(call: Call, done: int, total: int, failed: int, seconds: float) -> str:
    """How far it is: tasks done, failed, their rate, the time that is left at that rate."""
    rate = done / seconds if seconds > 0 else 0.0
    left = (total - done) / rate if rate else 0.0
    parts = [f"{done}/{total}"]
    parts += [f"{failed} {call.say('failed')}"] if failed else []
    return ", ".join([*parts, f"{rate * 60:.1f} {call.say('a minute')}", f"{_span(left)} {call.say('left')}"])


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def _progress(call: Call, total: int) -> Generator[_Said]:
    """A bar on a terminal, else a line now and then."""
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("batch", total=total)
        last = [time.monotonic()]

        def write(text: str) -> None:
            bar.update(task, advance=1, description=text)
            if bar.disable and (said.done == total or time.monotonic() - last[0] >= SAID_EVERY_S):
                last[0] = time.monotonic()
                streams.complain(text + "\n")

        said = _Said(call, total, write)
        yield said


def _text(call: Call, found: Summary, out: Path) -> str:
    """The summary, and failures by kind."""
    counts: list[tuple[str, str]] = [
        (call.say("tasks"), f"{found.tasks:,}"),
        (call.say("done well"), f"{found.ok:,}"),
        (call.say("failed"), f"{found.failed:,}"),
        *((f"  {kind}", f"{count:,}") for kind, count in found.kinds.items()),
    ]
    counts += [(call.say("without a result"), f"{found.waiting:,}")] if found.waiting else []
    counts += [
        (call.say("requests"), f"{found.requests:,}"),
        (call.say("input tokens"), f"{found.tokens_in:,}"),
        (call.say("output tokens"), f"{found.tokens_out:,}"),
        *((f"{call.say('price')}, {currency}", f"{price:,.4f}") for currency, price in found.prices.items()),
    ]
    counts += [(call.say("requests without a price sheet"), f"{found.unpriced:,}")] if found.unpriced else []
    return "\n".join([*(f"{label}: {count}" for label, count in counts), f"{call.say('results')}: {out}"])


def mount(app: typer.Typer) -> None:
    """Put the command into the program."""
    command(app, "batch")(batch)
